"""Rows of an events table as arrays: whole columns of a history, and its operations batch by batch.

`Outline` is what is held of every row: enough to pair invocations with completions and to look for
breaches of the rules of well-formedness, 32 bytes a row. `Rows` is one batch, with its texts. A row
becomes an `Op` only where one is asked for.
"""

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from maxq.histories.aliases import current_f
from maxq.histories.columns.ext_texts import Texts, encoded
from maxq.histories.columns.scan import Ints, Mask, distinct, order_of
from maxq.histories.columns.timings import LAST_NS, OUTCOMES, Timings, by_kind
from maxq.histories.history import NEVER_REASSIGNED, Reassigned
from maxq.histories.observed import ACQUIRE, ASSIGNMENTS, NOT_GRANTED, RENEW
from maxq.histories.op import HistoryError, Op
from maxq.histories.tables import Values, op_of_row
from maxq.histories.text import TYPES, decode_value

INVOKE, OK, FAIL, INFO = range(4)  # as in `maxq.histories.text.TYPES`
Codes = npt.NDArray[np.int16]
PIECE = 1 << 20  # rows that are looked at together
Batches = Iterable[pa.RecordBatch]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Outline:
    """Columns of a whole history, by position.

    `process` is 0 where `client` is false. `f` counts in `names`. `pair` is the position of the
    other half of an operation of a client, -1 where there is none. `last` are operations of clients
    after which their process did nothing. `refused` are completions that
    `maxq.histories.observed.refused` knows.
    """

    index: Ints
    time: Ints
    type: npt.NDArray[np.int8]
    client: Mask
    process: Ints
    f: Codes
    names: tuple[str, ...]
    pair: Ints
    last: Mask
    refused: Mask

    def codes(self, kinds: Iterable[str]) -> Codes:
        """The numbers of some kinds of operations."""
        wanted = set(kinds)
        return np.array([n for n, name in enumerate(self.names) if name in wanted], np.int16)

    @property
    def totals(self) -> Counter[tuple[str, str]]:
        """How many operations of clients there are, by `f` and type."""
        both = self.f[self.client].astype(np.int64) * len(TYPES) + self.type[self.client]
        counts = np.bincount(both, minlength=len(self.names) * len(TYPES))
        return Counter({
            (self.names[at // len(TYPES)], TYPES[at % len(TYPES)]): int(counts[at])
            for at in np.flatnonzero(counts)
        })  # fmt: skip


class OutlineMaker:
    """Takes the batches of a history in order."""

    def __init__(self) -> None:
        self._parts: list[tuple[Any, ...]] = []
        self._names: dict[str, int] = {}

    def take(self, batch: pa.RecordBatch) -> tuple[Mask, Codes]:
        """Take the next batch; returns which of its rows are of clients, and what they are.

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
        f = self._codes(batch["f"], client)
        refused = self._refused(batch["error"], kind, f)
        self._parts.append((index, time, kind, client, process, f, refused))
        return client, f

    def names(self) -> tuple[str, ...]:
        """What codes stand for, so far."""
        return tuple(self._names)

    def done(self) -> Outline:
        """The whole."""
        empty = (*(np.zeros(0, t) for t in (np.int64, np.int64, np.int8, np.bool_, np.int64,
                                            np.int16, np.bool_)),)  # fmt: skip
        columns = [np.concatenate(column) for column in zip(*(self._parts or [empty]), strict=True)]
        self._parts.clear()
        index, time, kind, client, process, f, refused = columns
        pair, last = paired(kind, client, process)
        names = tuple(self._names)
        return Outline(index, time, kind, client, process, f, names, pair, last, refused)

    def _codes(self, column: Any, client: Mask) -> Codes:
        """Numbers of names; those of old versions are today's."""
        if column.null_count:
            raise HistoryError("f is not a name: None")
        words, local = _coded(column)
        ours = np.array([self._number(current_f(w, 0)) for w in words] or [0], np.int16)
        theirs = np.array([self._number(current_f(w, "")) for w in words] or [0], np.int16)
        return np.asarray(np.where(client, ours[local], theirs[local]), np.int16)

    def _refused(self, errors: Any, kind: npt.NDArray[np.int8], f: Codes) -> Mask:
        """Which rows are requests for a lock that another client has."""
        asked = [number for name, number in self._names.items() if name in (ACQUIRE, RENEW)]
        found: Mask = (kind == FAIL) & np.isin(f, asked)
        at = np.flatnonzero(found)
        words, local = _coded(taken(errors, at))
        said = distinct(local[local >= 0])
        such = np.array([decode_value(words[n]) == NOT_GRANTED for n in said.tolist()], np.bool_)
        found[at] = np.isin(local, said[such])
        return found

    def _number(self, name: str) -> int:
        return self._names.setdefault(name, len(self._names))


def timings(outline: Outline) -> Timings:
    """How long the operations of a history took, as `timings_of` has it of one in memory."""
    at = np.flatnonzero(outline.client)
    kind, pair = outline.type[at].astype(np.int64), outline.pair[at]
    outcome = np.array([-1, *(OUTCOMES.index(o) for o in ("ok", "fail", "info"))])[kind]
    outcome[outline.refused[at]] = OUTCOMES.index("refused")
    there = np.where((pair >= 0) & (kind != INVOKE), pair, 0)
    known = (pair >= 0) & (kind != INVOKE) & (outline.index[there] < outline.index[at])
    begun = np.where(known, outline.time[there], -1)
    times = outline.time[(outline.time >= 0) & (outline.time <= LAST_NS)]
    return Timings(
        kinds=by_kind(
            outline.names, outline.f[at].astype(np.int64), outcome, outline.time[at], begun
        ),
        operations=len(outline.index),
        first_ns=int(times.min()) if len(times) else 0,
        last_ns=int(times.max()) if len(times) else 0,
    )


def reassigned(outline: Outline) -> Reassigned:
    """The assignments of a history after which a process may have had something to forget."""
    done = outline.client & ((outline.type == OK) | (outline.type == INFO))
    at = np.flatnonzero(done & np.isin(outline.f, outline.codes(ASSIGNMENTS)))
    if not len(at):
        return NEVER_REASSIGNED
    begun = np.where(outline.pair[at] >= 0, outline.pair[at], at)
    at = at[_first_of_process(outline, at) < begun]
    at = at[np.lexsort((at, outline.process[at]))]
    process, index = array("q"), array("q")
    process.frombytes(outline.process[at].tobytes())
    index.frombytes(outline.index[at].tobytes())
    return Reassigned(process, index)


def _first_of_process(outline: Outline, at: Ints) -> Ints:
    """The position of the first operation of the processes of some; -1 where it is not known."""
    who = outline.process[at]
    low, span = int(who.min()), int(who.max()) - int(who.min()) + 1
    if span > 8 * len(outline.index) + PIECE:  # numbers far apart
        return np.full(len(at), -1, np.int64)
    first = np.full(span, -1, np.int64)
    for end in range(len(outline.index), 0, -PIECE):  # of equal ones the last to be put down stays
        begin = max(0, end - PIECE)
        number = outline.process[begin:end] - low
        there = np.flatnonzero(outline.client[begin:end] & (number >= 0) & (number < span))[::-1]
        first[number[there]] = there + begin
    found: Ints = first[who - low]
    return found


def paired(kind: npt.NDArray[np.int8], client: Mask, process: Ints) -> tuple[Ints, Mask]:
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


class Rows:
    """One batch of a history: the operations of clients and all others, by row.

    `begun` is the index of a completion's invocation, -1 where it has none, `begun_ns` its time.
    `open`: an invocation that never completed; `last`: its process did no more.
    """

    def __init__(
        self, batch: pa.RecordBatch, outline: Outline, base: int, before: Mapping[int, str | None]
    ) -> None:
        span = slice(base, base + len(batch))
        self._batch = batch
        self._outline = outline
        self._base = base
        self._before = before  # values of invocations of earlier batches, by position
        self.index = outline.index[span]
        self.time = outline.time[span]
        self.type = outline.type[span]
        self.client = outline.client[span]
        self.process = outline.process[span]
        self.f = outline.f[span]
        pair = outline.pair[span]
        self._pair = pair
        done = (pair >= 0) & (self.type != INVOKE)
        at = np.where(done, pair, 0)
        self.begun = np.where(done, outline.index[at], -1) if len(outline.index) else pair
        self.begun_ns = np.where(done, outline.time[at], -1) if len(outline.time) else pair
        self.open = self.client & (self.type == INVOKE) & (pair < 0)
        self.last = outline.last[span]
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

    def invocations(self, chosen: Ints) -> Ints:
        """The rows of some completions' invocations; -1 where it is not in this batch."""
        there = self._pair[chosen] - self._base
        return np.where((self.type[chosen] != INVOKE) & (there >= 0), there, -1)

    def is_of(self, chosen: Ints, *names: str) -> Mask:
        """Which of some rows are of these kinds."""
        return self.of(names)[chosen]

    def of(self, names: Iterable[str]) -> Mask:
        """Which rows are of these kinds."""
        these = frozenset(names)
        if these not in self._once:
            wanted = np.zeros(len(self._outline.names) + 1, np.bool_)
            wanted[self._outline.codes(these)] = True
            self._once[these] = wanted[self.f]
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
            if self.begun[at] >= 0 or (pair >= 0 and op.type != "invoke"):
                begun = Op(
                    "invoke", op.process, op.f, values.of(self._begun_value(pair)),
                    None, int(self.begun[at]), int(self.begun_ns[at]),
                )  # fmt: skip
            yield at, op, begun

    def _begun_value(self, position: int) -> str | None:
        if position < self._base:
            return self._before[position]
        found: str | None = self._batch["value"][position - self._base].as_py()
        return found

    def unfinished(self) -> dict[int, str | None]:
        """The values of invocations that complete in a later batch."""
        end = self._base + len(self)
        later = np.flatnonzero((self.type == INVOKE) & (self._pair >= end)) + self._base
        return {int(at): self._begun_value(int(at)) for at in later}


def _beside(rows: Rows) -> Texts:
    return encoded(rows.exts(np.arange(len(rows))))


def rows_of(batches: Batches, outline: Outline) -> Iterator[Rows]:
    """The batches of a history, once its outline is known."""
    base, before = 0, dict[int, str | None]()
    for batch in batches:
        rows = Rows(batch, outline, base, before)
        yield rows
        base += len(batch)
        before = {at: v for at, v in before.items() if outline.pair[at] >= base}
        before |= rows.unfinished()


def batches_of(table: pa.Table, rows: int = 65_536) -> Callable[[], Iterator[pa.RecordBatch]]:
    """The batches of a table that is in memory, as often as they are wanted."""
    return lambda: iter(table.to_batches(max_chunksize=rows))


def _numbers(batch: pa.RecordBatch, name: str) -> Ints:
    column = batch[name]
    if column.null_count:
        raise HistoryError("index and time must be integers: None")
    return np.asarray(column.to_numpy(), np.int64)


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
