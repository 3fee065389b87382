"""The three Arrow tables of a history: events, operations, elements.

`events` is lossless, a row an event. `operations` joins each invocation with its completion.
`elements` has a row a message that an operation sent, polled or read from a replica's store. The
last two derive from the first.

`events` is what ``history.parquet`` holds, and all that Spark checkers read; local ones read the
operations of `histories.history.History`, which come back from it whole. The other two are for
analyses in a notebook or a data frame: no checker reads them.

Rows are in order of `index`, `inv_index` and (`op_index`, position). Times are nanoseconds since
the start of the run. Nullable columns say so; a null is "unknown", never zero.
"""

from typing import Any

import pyarrow as pa

SCHEMA_VERSION = "1"
_META: dict[bytes | str, bytes | str] = {"maxq.schema": SCHEMA_VERSION}
_NAME = pa.dictionary(pa.int32(), pa.string())


def _table(*fields: "pa.Field[Any]") -> pa.Schema:
    return pa.schema(fields, metadata=_META)


EVENTS = _table(
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

OPERATIONS = _table(
    pa.field("run", _NAME, nullable=False),
    pa.field("key_id", pa.int32()),  # null where an operation touches no key or several
    pa.field("f", _NAME, nullable=False),
    pa.field("type", _NAME, nullable=False),  # of the completion; "info" while open
    pa.field("process", pa.int32()),  # null for the nemesis
    pa.field("inv_index", pa.int64(), nullable=False),
    pa.field("ret_index", pa.int64()),  # null while open
    pa.field("inv_time", pa.int64(), nullable=False),
    pa.field("ret_time", pa.int64()),
    pa.field("value", pa.int64()),  # dense code; see `elements`
    pa.field("offset", pa.int64()),
    pa.field("epoch", pa.int32()),
    pa.field("node", _NAME),
    pa.field("error", _NAME),
)

ELEMENTS = _table(
    pa.field("run", _NAME, nullable=False),
    pa.field("op_index", pa.int64(), nullable=False),  # of the completion, or of an open send
    pa.field("kind", _NAME, nullable=False),  # sent, polled, replica
    pa.field("key_id", pa.int32(), nullable=False),
    pa.field("offset", pa.int64()),
    # The message's own number. A payload that is not ours has none: its bytes are coded as
    # -1, -2, … and listed in the metadata key `maxq.values`, so no row is dropped.
    pa.field("value", pa.int64(), nullable=False),
    pa.field("epoch", pa.int32()),
    pa.field("node", _NAME),
)
