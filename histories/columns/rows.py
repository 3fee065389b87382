"""Rows of an events table as arrays, piece by piece, each completion with its invocation.

A piece is some rows of a history in order. What joins pieces is `Open`: invocations that are under
way where one ends and the next begins, as many as there are clients. A row becomes an `Op` only
where one is asked for.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from maxq.histories.aliases import current_f
from maxq.histories.columns.ext_texts import Texts, encoded
from maxq.histories.columns.scan import Ints, Mask, order_of
from maxq.histories.op import HistoryError, Op
from maxq.histories.tables import Values, op_of_row
from maxq.histories.text import TYPES, decode_value

INVOKE, OK, FAIL, INFO = range(4)  # as in `maxq.histories.text.TYPES`
Codes = npt.NDArray[np.int16]
Kinds = npt.NDArray[np.int8]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Columns:
    """Columns of a piece. `process` is 0 where `client` is false; `f` counts in `names`, which are
    those of this piece."""

    index: Ints
    time: Ints
    type: Kinds
    client: Mask
    process: Ints
    f: Codes
    names: tuple[str, ...]

    @classmethod
    def of(cls, batch: pa.RecordBatch) -> "Columns":
        """Those of a batch.

        Raises:
            HistoryError: a row is no operation.
        """
        index, time = _numbers(batch, "index"), _numbers(batch, "time")
        kind = _kinds(batch["type"])
        client = _mask(batch["process"].is_valid())
        named = _mask(batch["process_name"].is_valid())
        odd = (time < -1) | (kind < 0) | (index == np.iinfo(np.int64).min) | ~(client | named)
        for at in np.flatnonzero(odd):
            op_of_row(batch.slice(int(at), 1).to_pylist()[0])  # says what is wrong
        process = batch["process"].fill_null(0).to_numpy()
        f, names = _codes(batch["f"], client)
        return cls(index, time, kind, client, process, f, names)

    def of_kinds(self, kinds: Iterable[str]) -> Mask:
        """Which rows are of some kinds."""
        wanted = set(kinds)
        chosen = np.array([name in wanted for name in self.names] or [False], np.bool_)
        found: Mask = chosen[self.f]
        return found


@dataclass(frozen=True, slots=True)
class Open:
    """Invocations of clients that are under way; of each its process, index, time (ns), kind and
    the text of its value."""

    process: Ints
    index: Ints
    time: Ints
    f: tuple[str, ...] = ()
    value: tuple[str | None, ...] = ()


_NONE = np.zeros(0, np.int64)
NOTHING_OPEN = Open(_NONE, _NONE, _NONE)


def paired(kind: Kinds, client: Mask, process: Ints) -> tuple[Ints, Mask]:
    """The position of each operation's other half, -1 where there is none; as
    `maxq.histories.history.partners` has it for clients. And whether its process did no more."""
    pair = np.full(len(kind), -1, np.int64)
    at = np.flatnonzero(client)
    at = order_of(process) if len(at) == len(kind) else at[order_of(process[at])]
    who, asks = process[at], kind[at] == INVOKE
    first, second = at[:-1], at[1:]
    same = who[1:] == who[:-1]
    last = client.copy()
    last[first[same]] = False
    both = same & asks[:-1] & ~asks[1:]
    one, other = first[both], second[both]
    pair[one] = other
    pair[other] = one
    return pair, last


def among(some: Ints, ascending: Ints) -> Mask:
    """Which of some numbers are in a long list in order, without sorting that."""
    at = np.searchsorted(ascending, some)
    inside = at < len(ascending)
    inside[inside] = ascending[at[inside]] == some[inside]
    return inside


class Rows:
    """One piece of a history: the operations of clients and all others, by row.

    `begun` is the index of a completion's invocation, -1 where it has none, `begun_ns` its time.
    `open`: an invocation that never completed.

    Args:
        batch: its rows.
        before: the invocations under way where it begins, of those that complete in it.
        never: the indices of invocations that never complete, in order.
    """

    def __init__(self, batch: pa.RecordBatch, before: Open, never: Ints) -> None:
        self._batch = batch
        self._before = before
        self.columns = c = Columns.of(batch)
        self.index, self.time, self.type = c.index, c.time, c.type
        self.client, self.process, self.f, self.names = c.client, c.process, c.f, c.names
        # The invocations under way count as rows before the first.
        self._ahead = ahead = len(before.process)
        pair, _ = paired(
            np.concatenate([np.full(ahead, INVOKE, np.int8), c.type]),
            np.concatenate([np.ones(ahead, np.bool_), c.client]),
            np.concatenate([before.process, c.process]),
        )
        self._pair = pair[ahead:]
        done = (self._pair >= 0) & (c.type != INVOKE)
        at = np.where(done, self._pair, 0)
        if not len(c.index):
            at = at[:0]
        self.begun = np.where(done, np.concatenate([before.index, c.index])[at], -1)
        self.begun_ns = np.where(done, np.concatenate([before.time, c.time])[at], -1)
        self.open = c.client & (c.type == INVOKE) & (self._pair < 0)
        alone = np.flatnonzero(self.open)
        self.open[alone] = among(c.index[alone], never)
        self._once: dict[Any, Any] = {}

    def __len__(self) -> int:
        return len(self._batch)

    def once(self, found: Callable[["Rows"], T]) -> T:
        """What a function finds in this batch; several who ask have one answer."""
        if found not in self._once:
            self._once[found] = found(self)
        answer: T = self._once[found]
        return answer

    def value(self, row: int) -> bytes | None:
        """The text of one row's value."""
        return text_at(self._batch["value"], row)

    def values(self, chosen: Ints) -> pa.StringArray:
        """The texts of some rows' values."""
        found: pa.StringArray = taken(self._batch["value"], chosen)
        return found

    def begun_values(self, chosen: Ints) -> pa.StringArray:
        """The texts of the values of some completions' invocations; null where there is none."""
        every = self.once(_values_from_ahead)
        at = np.where(self.type[chosen] == INVOKE, -1, self._pair[chosen])
        found: pa.StringArray = every.take(pa.array(at, mask=at < 0))
        return found

    def exts(self, chosen: Ints) -> pa.StringArray:
        """The texts of what else was recorded of some rows."""
        found: pa.StringArray = taken(self._batch["ext"], chosen)
        return found

    def errors(self, chosen: Ints) -> tuple[list[Any], Ints]:
        """The different errors of some rows, and which of them each row has; -1: none.

        Raises:
            HistoryError: a text is no JSON.
        """
        words, code = _coded(taken(self._batch["error"], chosen))
        return [decode_value(word) for word in words], code

    def is_of(self, chosen: Ints, *names: str) -> Mask:
        """Which of some rows are of these kinds."""
        return self.of(names)[chosen]

    def of(self, names: Iterable[str]) -> Mask:
        """Which rows are of these kinds."""
        these = frozenset(names)
        if these not in self._once:
            self._once[these] = self.columns.of_kinds(these)
        found: Mask = self._once[these]
        return found

    def ext_has(self, chosen: Ints, name: str) -> Mask:
        """Which of some rows may hold a key of that name beside their values."""
        return self.beside().have(name)[chosen] if len(chosen) else np.zeros(0, np.bool_)

    def beside(self) -> Texts:
        """The different texts of what else was recorded, but for ``byte``."""
        return self.once(_beside)

    def events(
        self, rows: Sequence[int] | Ints, *, bare: bool = False
    ) -> Iterator[tuple[int, Op, Op | None]]:
        """Some rows as operations, each with the invocation of a completion, of which index, time
        and value are known. If they are `bare`, their own values are left out (None).

        Raises:
            HistoryError: a row is no operation.
        """
        chosen = np.asarray(rows, np.int64)
        batch = self._batch.drop_columns(["value"]) if bare else self._batch
        values = Values()
        for at, op in zip(chosen.tolist(), values.ops_of(taken(batch, chosen)), strict=True):
            begun = None
            pair = int(self._pair[at])
            if pair >= 0 and op.type != "invoke":
                begun = Op(
                    "invoke", op.process, op.f, values.of(self._value_from_ahead(pair)),
                    None, int(self.begun[at]), int(self.begun_ns[at]),
                )  # fmt: skip
            yield at, op, begun

    def _value_from_ahead(self, position: int) -> str | None:
        if position < self._ahead:
            return self._before.value[position]
        found: str | None = self._batch["value"][position - self._ahead].as_py()
        return found

    def values_from_ahead(self) -> Any:
        """The texts of all values, those of the invocations under way before the first row."""
        own = self._batch["value"]
        before = pa.array(self._before.value, own.type)
        return pa.concat_arrays([before, own]) if self._ahead else own


def _values_from_ahead(rows: Rows) -> Any:
    return rows.values_from_ahead()


def _beside(rows: Rows) -> Texts:
    return encoded(rows.exts(np.arange(len(rows))))


def _numbers(batch: pa.RecordBatch, name: str) -> Ints:
    column = batch[name]
    if column.null_count:
        raise HistoryError("index and time must be integers: None")
    return np.asarray(column.to_numpy(), np.int64)


def _codes(column: Any, client: Mask) -> tuple[Codes, tuple[str, ...]]:
    """Numbers of names, and the names; those of old versions are today's."""
    if column.null_count:
        raise HistoryError("f is not a name: None")
    words, local = _coded(column)
    names: dict[str, int] = {}
    ours, theirs = (
        np.array([names.setdefault(current_f(w, who), len(names)) for w in words] or [0], np.int16)
        for who in (0, "")
    )
    return np.asarray(np.where(client, ours[local], theirs[local]), np.int16), tuple(names)


def _coded(column: Any) -> tuple[list[str], Ints]:
    """Texts, and which of them each row has; -1: none."""
    encoded = column.dictionary_encode()
    return encoded.dictionary.to_pylist(), encoded.indices.fill_null(-1).to_numpy().astype(np.int64)


def _kinds(column: Any) -> npt.NDArray[np.int8]:
    words, local = _coded(column)
    kinds = [TYPES.index(word) if word in TYPES else -1 for word in words]
    return np.array([*kinds, -1], np.int8)[local]


def taken(column: Any, rows: Ints) -> Any:
    """Some rows of an array, or of a batch."""
    if len(rows) == len(column):  # in order, so all of them
        return column
    return column.take(pa.array(rows, pa.int64()))


def text_at(column: Any, row: int) -> bytes | None:
    """One text of an array."""
    found: bytes | None = column[row].as_buffer().to_pybytes() if column[row].is_valid else None
    return found


def _mask(column: Any) -> Mask:
    return np.asarray(column.to_numpy(zero_copy_only=False), np.bool_)
