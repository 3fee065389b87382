"""The Arrow table of a history: `events`, lossless, a row an event.

It is what ``history.parquet`` of a run folder holds, and what Spark reads. Rows are in order of
`index`. Times are nanoseconds since the start of the run. Nullable columns say so; a null is
"unknown", never zero.
"""

import pyarrow as pa

SCHEMA_VERSION = "1"
_META: dict[bytes | str, bytes | str] = {"maxq.schema": SCHEMA_VERSION}


_FIELDS = (
    pa.field("run_id", pa.string(), nullable=False),
    pa.field("index", pa.int64(), nullable=False),
    pa.field("time", pa.int64(), nullable=False),  # -1: unknown
    pa.field("type", pa.string(), nullable=False),
    pa.field("process", pa.int64()),  # null for what is not a client
    pa.field("process_name", pa.string()),  # set where `process` is null
    pa.field("f", pa.string(), nullable=False),
    pa.field("value", pa.string()),  # the JSON text of the journal
    pa.field("error", pa.string()),
    pa.field("ext", pa.string()),
    pa.field("pair", pa.int64(), nullable=False),  # the other half's index; -1: none
)
EVENTS = pa.schema(_FIELDS, metadata=_META)
