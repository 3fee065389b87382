"""From operations to the Arrow table `EVENTS` and back; the messages of an operation.

The table is lossless, a row an event: what ``history.parquet`` of a run folder holds, and what
Spark reads. Rows are in order of `index`. Times are nanoseconds since the start of the run.
Nullable columns say so; a null is "unknown", never zero.

Source: docs/spec/history-format.md 9.4 and 12.1.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from maxq.histories.history import History
from maxq.histories.observed import REPLICA_LOG, ReplicaLog, decoded
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


class Element(msgspec.Struct, frozen=True, gc=False):
    """One message that an operation sent, polled, or read from a replica's store."""

    kind: str  # sent, polled, replica
    key: int
    offset: int | None
    value: Any


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


def elements_of(done: Op, begun: Op | None = None) -> Iterator[Element]:
    """The messages that a `send`, `poll`, `txn` or `replica-log` names, in order.

    Args:
        done: the completion, or the invocation of an open operation.
        begun: its invocation, whose value stands in where the completion has none.

    Raises:
        HistoryError: the value has not the shape of docs/spec/history-format.md 12.1 (W9).
    """
    if done.f == REPLICA_LOG and done.is_client and done.type == "ok":
        for record in decoded(done, ReplicaLog).records:
            yield Element("replica", *record)
    if done.f not in ("send", "poll", "txn") or not done.is_client:
        return
    value = done.value
    if value is None and begun is not None:
        value = begun.value
    if type(value) is not list and type(value) is not tuple:
        raise HistoryError(f"value of {done.index} is no vector: {value!r:.100}")
    for micro in value:
        match micro:
            case ["send", int(key), [int() | None as offset, int() | str() as sent]]:
                yield Element("sent", key, offset, sent)
            case ["send", int(key), sent] if type(sent) is int or type(sent) is str:
                yield Element("sent", key, None, sent)
            case ["poll", dict(polled)]:
                yield from _polled(done, polled)
            case ["poll"] | ["poll", *_] if done.type != "ok":
                pass  # nothing was learnt; a second member is a hint of the invocation
            case _:
                raise HistoryError(f"value of {done.index} holds {micro!r:.100}")


def _polled(done: Op, polled: dict[Any, Any]) -> Iterator[Element]:
    # In an invocation a map is a hint at best: nothing has been read.
    if done.type == "invoke":
        return
    for key, messages in polled.items():
        if type(key) is not int or type(messages) is not list:
            raise HistoryError(f"value of {done.index} holds {key!r}: {messages!r:.100}")
        for message in messages:
            match message:
                case [int() | None as offset, int() | str() as value]:
                    yield Element("polled", key, offset, value)
                case _:
                    raise HistoryError(f"value of {done.index} holds {message!r:.100}")


def node_of(ext: dict[str, Any]) -> str | None:
    """Who answered, as the client noted it."""
    node = ext.get("node", ext.get("broker"))
    return None if node is None else str(node)


def epoch_of(ext: dict[str, Any]) -> int | None:
    """The master epoch of who answered."""
    epoch = ext.get("epoch")
    return epoch if type(epoch) is int else None


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
