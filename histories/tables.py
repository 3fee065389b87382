"""From operations to the Arrow table `EVENTS` and back.

The table is lossless, a row an event: what ``history.parquet`` of a run folder holds, and what
Spark reads. Rows are in order of `index`. Times are nanoseconds since the start of the run.
Nullable columns say so; a null is "unknown", never zero.

Source: docs/spec/history-format.md 9.4 and 12.1.
"""

from collections.abc import Iterator, Sequence
from sys import intern
from typing import Any

import pyarrow as pa

from maxq.histories.aliases import current_f
from maxq.histories.history import History
from maxq.histories.op import HistoryError, Op
from maxq.histories.text import Grown, checked, decode_value, encode_value

SCHEMA_VERSION = "1"
KNOWN_MAX = 4096  # texts whose values are remembered
LONG = 512  # characters; of longer texts the last ones are remembered
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
    return next(events_tables(ops, run_id=run_id, rows=max(1, len(ops))))


def events_tables(ops: Sequence[Op], *, run_id: str, rows: int) -> Iterator[pa.Table]:
    """The same so many rows at a time; one table at least."""
    history = History(ops)
    for begin in range(0, max(1, len(history.ops)), rows):
        yield _table_of(history, history.ops[begin : begin + rows], run_id)


def _table_of(history: History, ops: Sequence[Op], run_id: str) -> pa.Table:
    columns: dict[str, list[Any]] = {name: [] for name in EVENTS.names}
    for op in ops:
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
    values = Values()
    return tuple(op for batch in table.to_batches() for op in values.ops_of(batch))


def _text(value: Any) -> str | None:
    return None if value is None else encode_value(value).decode()


class Values:
    """Decodes the texts of rows; equal texts short after each other give one value.

    Observers get the same answer most of the time, so that most of what they say is decoded once,
    and held once. What grows from one answer to the next is held once too.
    """

    def __init__(self) -> None:
        self._known: dict[str, Any] = {}
        self._grown = Grown()

    def of(self, text: str | None) -> Any:
        """The value of a text; None of none.

        Raises:
            HistoryError: the text is no value.
        """
        if text is None:
            return None
        if len(text) > LONG:
            return self._grown.value(text)
        if text not in self._known:
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()
            self._known[text] = _named_once(decode_value(text))
        return self._known[text]

    def ops_of(self, batch: pa.RecordBatch) -> list[Op]:
        """The operations of rows of an events table; columns that are missing count as null.

        Raises:
            HistoryError: a row is none.
        """
        names = batch.schema.names
        columns = (_cells(batch[name]) if name in names else [None] * len(batch) for name in _READ)
        return [self.op(*cells) for cells in zip(*columns, strict=True)]

    def op(
        self, index: Any, time: Any, kind: Any, process: Any, name: Any, f: Any, value: Any,
        error: Any, ext: Any,
    ) -> Op:  # fmt: skip
        """The operation of the cells of a row, in the order of `_READ`.

        Raises:
            HistoryError: it is none.
        """
        who = process if process is not None else name
        beside = None if ext is None else decode_value(ext)
        checked(index, time, kind, who, f)
        return Op(kind, who, current_f(f, who), self.of(value), self.of(error), index, time,
                  beside or None)  # fmt: skip


def _named_once(value: Any) -> Any:
    """A value whose parts share their names, as in ``[["append", 1, 2], ["r", 1, null]]``: these
    take a sixth of a long history."""
    for part in value if type(value) is list else ():
        if type(part) is list and part and type(part[0]) is str:
            part[0] = intern(part[0])
    return value


def _cells(column: "pa.Array[Any]") -> list[Any]:
    """The cells of a column; of a coded one each text is made once."""
    if not isinstance(column, pa.DictionaryArray):
        return column.to_pylist()
    texts = [*column.dictionary.to_pylist(), None]
    codes: list[Any] = column.indices.fill_null(len(texts) - 1).to_pylist()
    return [texts[code] for code in codes]


_READ = ("index", "time", "type", "process", "process_name", "f", "value", "error", "ext")


def op_of_row(row: dict[str, Any]) -> Op:
    """The operation of one row of an events table.

    Raises:
        HistoryError: it is none.
    """
    return Values().op(*(row.get(name) for name in _READ))
