"""From operations to the Arrow table `EVENTS` and back.

The table is lossless, a row an event: what ``history.parquet`` of a run folder holds, and what
Spark reads. Rows are in order of `index`. Times are nanoseconds since the start of the run.
Nullable columns say so; a null is "unknown", never zero.

Source: docs/spec/history-format.md 9.4 and 12.1.
"""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from maxq.histories.history import History
from maxq.histories.op import HistoryError, Op
from maxq.histories.text import decode_value, encode_value, op_of_fields

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


def events_table(ops: Sequence[Op], *, run_id: str) -> pa.Table:
    """A row an event, lossless."""
    history = History(ops)
    columns: dict[str, list[Any]] = {name: [] for name in EVENTS.names}
    for op in history.ops:
        client = type(op.process) is int
        row = (
            run_id,
            op.index,
            op.time,
            op.type,
            op.process if client else None,
            None if client else op.process,
            op.f,
            _text(op.value),
            _text(op.error),
            _text(op.ext or None),
            history.pair_index(op),
        )
        for column, cell in zip(columns.values(), row, strict=True):
            column.append(cell)
    return pa.Table.from_pydict(columns, schema=EVENTS)


def ops_from_events(table: pa.Table) -> tuple[Op, ...]:
    """The operations of an events table.

    Raises:
        HistoryError: a column is missing, or a row is no operation.
    """
    missing = set(EVENTS.names) - set(table.column_names)
    if missing:
        raise HistoryError(f"not an events table: no column {sorted(missing)}")
    ops: list[Op] = []
    for batch in table.to_batches():
        for row in batch.to_pylist():
            ops.append(op_of_row(row))
    return tuple(ops)


def _text(value: Any) -> str | None:
    return None if value is None else encode_value(value).decode()


def op_of_row(row: dict[str, Any]) -> Op:
    """The operation of one row of an events table.

    Raises:
        HistoryError: it is none.
    """
    process = row["process"] if row["process"] is not None else row["process_name"]
    ext = {} if row["ext"] is None else decode_value(row["ext"])
    op = op_of_fields(
        {
            "index": row["index"],
            "time": row["time"],
            "type": row["type"],
            "process": process,
            "f": row["f"],
            "value": None,
        }
    )
    value = None if row["value"] is None else decode_value(row["value"])
    error = None if row["error"] is None else decode_value(row["error"])
    return Op(op.type, op.process, op.f, value, error, op.index, op.time, ext or None)
