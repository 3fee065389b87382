"""From operations to the three Arrow tables of `histories.schema`, and from events back.

`events` is the only one from which a history can be had again; the other two are for analyses by
hand. All are built here, in one pass each, from a history already paired.

How a message's number becomes the column `value`: a payload of ours is an integer from 0 to 2^63-1
and stands for itself. Anything else (``"corrupt:…"``, a number out of range) is coded -1, -2, … in
order of first appearance; the metadata key ``maxq.values`` lists what the codes stand for.

Source: docs/spec/history-format.md 9.4 and 12.1.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from histories.history import History
from histories.observed import REPLICA_LOG, ReplicaLog, decoded
from histories.op import HistoryError, Op
from histories.schema import ELEMENTS, EVENTS, OPERATIONS
from histories.text import decode_value, encode_value, op_of_fields

VALUES_KEY = "maxq.values"
_INT64_MAX = (1 << 63) - 1


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


def operations_table(history: History, *, run: str) -> pa.Table:
    """A row a logical operation: invocation joined with completion, nemesis included."""
    codes = _Codes()
    columns: dict[str, list[Any]] = {name: [] for name in OPERATIONS.names}
    for begun, ended in _joined(history):
        done = ended if ended is not None else begun
        elements = list(elements_of(done, begun))
        keys = {e.key for e in elements}
        only = elements[0] if len(elements) == 1 else None
        epoch, node = _origin(done)
        row = (
            run,
            next(iter(keys)) if len(keys) == 1 else None,
            begun.f,
            ended.type if ended is not None else "info",
            begun.process if begun.is_client else None,
            begun.index,
            None if ended is None else ended.index,
            begun.time,
            None if ended is None else ended.time,
            None if only is None else codes.code(only.value),
            None if only is None else only.offset,
            epoch,
            node,
            _text(done.error),
        )
        for column, cell in zip(columns.values(), row, strict=True):
            column.append(cell)
    return _with_values(columns, OPERATIONS, codes)


def elements_table(history: History, *, run: str) -> pa.Table:
    """A row a message sent or polled, in order of operation and position in it."""
    codes = _Codes()
    columns: dict[str, list[Any]] = {name: [] for name in ELEMENTS.names}
    for begun, ended in _joined(history):
        if not begun.is_client:
            continue
        done = ended if ended is not None else begun
        epoch, node = _origin(done)
        for e in elements_of(done, begun):
            value = codes.code(e.value)
            row = (run, done.index, e.kind, e.key, e.offset, value, epoch, node)
            for column, cell in zip(columns.values(), row, strict=True):
                column.append(cell)
    # Rows are in order of op_index, and operations complete in another order than they begin.
    return _with_values(columns, ELEMENTS, codes).sort_by("op_index")


def values_of(table: pa.Table) -> tuple[Any, ...]:
    """What the codes -1, -2, … of a table stand for, in that order."""
    metadata = table.schema.metadata or {}
    return tuple(decode_value(metadata.get(VALUES_KEY.encode(), b"[]")))


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
            case ["send", int(key), [int() | None as offset, sent]]:
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
                case [int() | None as offset, value]:
                    yield Element("polled", key, offset, value)
                case _:
                    raise HistoryError(f"value of {done.index} holds {message!r:.100}")


def _origin(done: Op) -> tuple[int | None, str | None]:
    """The epoch and the node that a completion speaks of."""
    if done.f == REPLICA_LOG and done.is_client and done.type == "ok":
        log = decoded(done, ReplicaLog)
        return log.epoch, log.node
    ext = done.ext or {}
    return epoch_of(ext), node_of(ext)


def node_of(ext: dict[str, Any]) -> str | None:
    """Who answered, as the client noted it."""
    node = ext.get("node", ext.get("broker"))
    return None if node is None else str(node)


def epoch_of(ext: dict[str, Any]) -> int | None:
    """The master epoch of who answered."""
    epoch = ext.get("epoch")
    return epoch if type(epoch) is int else None


class _Codes:
    """Codes for payloads that are not ours."""

    def __init__(self) -> None:
        self.values: list[bytes] = []
        self._codes: dict[bytes, int] = {}

    def code(self, value: Any) -> int:
        if type(value) is int and 0 <= value <= _INT64_MAX:
            return value
        text = encode_value(value)
        code = self._codes.get(text)
        if code is None:
            self.values.append(text)
            code = self._codes[text] = -len(self.values)
        return code


def _joined(history: History) -> Iterator[tuple[Op, Op | None]]:
    """Each logical operation once, in order of invocation."""
    for op in history.ops:
        other = history.completion(op)
        if other is None or op.index < other.index:
            yield op, other


def _with_values(columns: dict[str, list[Any]], schema: pa.Schema, codes: _Codes) -> pa.Table:
    table = pa.Table.from_pydict(columns, schema=schema)
    listed = b"[" + b",".join(codes.values) + b"]"
    metadata: dict[bytes, bytes] = {**(schema.metadata or {}), VALUES_KEY.encode(): listed}
    return table.replace_schema_metadata(metadata)


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
