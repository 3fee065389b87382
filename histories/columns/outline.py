"""What is held of a whole history that is read piece by piece: what joins the pieces.

Each piece says by itself (`Edges`) which invocations it leaves open, which processes begin in it
with a completion, and whether the rules of well-formedness hold within. `Outline` puts these
together in order, so that each piece can then be read alone, by anyone (`rows_of`). It grows with
pieces and clients, not with operations.
"""

from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from maxq.histories.columns.rows import (
    INFO,
    INVOKE,
    NOTHING_OPEN,
    OK,
    Codes,
    Columns,
    Kinds,
    Open,
    Rows,
    paired,
    taken,
)
from maxq.histories.columns.scan import Ints, Mask
from maxq.histories.history import (
    NEVER_REASSIGNED,
    Breach,
    OrderRules,
    ProcessRules,
    Reassigned,
)
from maxq.histories.observed import ASSIGNMENTS
from maxq.histories.op import Op
from maxq.histories.text import TYPES

PROCESSES_MAX = 1 << 26  # numbers of processes of which a byte is held
# Reads a history: the batches with these numbers, in order; None: all of them.
Reading = Callable[[Collection[int] | None], Iterator[pa.RecordBatch]]


class Heads(NamedTuple):
    """The first operation of each process in a piece; `f` counts in `names`. Processes are as many
    as there were unknown outcomes."""

    process: Ints
    type: Kinds
    f: Codes
    names: tuple[str, ...]

    def each(self) -> Iterator[tuple[int, int, str]]:
        """Process, type and kind of each."""
        for process, kind, f in zip(*(a.tolist() for a in self[:3]), strict=True):
            yield process, kind, self.names[f]


@dataclass(frozen=True, slots=True)
class Assigned:
    """The completions of assignments in a piece, by process and index; and whether the process did
    nothing before them in this piece."""

    process: Ints
    index: Ints
    first: Mask


class Edges(NamedTuple):
    """What one piece says of itself. `first` and `last` are indices, -1 where it has no row; `low`
    and `high` its lowest and highest known times. `open` are the last operations of processes that
    are invocations; `overtaken` other invocations without a completion; `retired` are processes
    whose last completion is unknown. `sound`: no rule is broken within."""

    rows: int
    first: int
    last: int
    low_ns: int
    high_ns: int
    heads: Heads
    open: Open
    overtaken: list[int]
    retired: Ints
    assigned: Assigned
    totals: Counter[tuple[str, str]]
    sound: bool


def edges_of(batch: pa.RecordBatch, c: Columns) -> Edges:
    """Look at one piece.

    Args:
        batch: its rows.
        c: their columns.
    """
    pair, last = paired(c.type, c.client, c.process)
    asks = c.type == INVOKE
    head = _heads(c)
    alone = np.flatnonzero(asks & c.client & (pair < 0))
    ends = alone[last[alone]]
    known = c.time if not len(c.time) or c.time.min() >= 0 else c.time[c.time != -1]
    return Edges(
        rows=len(c.index),
        first=int(c.index[0]) if len(c.index) else -1,
        last=int(c.index[-1]) if len(c.index) else -1,
        low_ns=int(known[0]) if len(known) else -1,
        high_ns=int(known.max(initial=-1)),
        heads=Heads(c.process[head], c.type[head], c.f[head], c.names),
        open=_open(c, batch, ends),
        overtaken=c.index[alone[~last[alone]]].tolist(),
        retired=np.unique(c.process[c.client & (c.type == INFO)]),
        assigned=_assigned(c, pair, head),
        totals=_totals(c),
        sound=_sound(c, known, pair, last, head),
    )


def _heads(c: Columns) -> Mask:
    """The first operation of each process."""
    at = np.flatnonzero(c.client)
    _, first = np.unique(c.process[at], return_index=True)
    found = np.zeros(len(c.index), np.bool_)
    found[at[first]] = True
    return found


def _assigned(c: Columns, pair: Ints, head: Mask) -> Assigned:
    done = c.client & ((c.type == OK) | (c.type == INFO)) & c.of_kinds(ASSIGNMENTS)
    at = np.flatnonzero(done)
    first = head[np.where(pair[at] >= 0, pair[at], at)]
    return Assigned(c.process[at], c.index[at], first)


def _open(c: Columns, batch: pa.RecordBatch, at: Ints) -> Open:
    values = taken(batch["value"], at).to_pylist()
    names = (c.names[f] for f in c.f[at].tolist())
    return Open(c.process[at], c.index[at], c.time[at], tuple(names), tuple(values))


def _totals(c: Columns) -> Counter[tuple[str, str]]:
    both = c.f[c.client].astype(np.int64) * len(TYPES) + c.type[c.client]
    counts = np.bincount(both, minlength=len(c.names) * len(TYPES))
    return Counter({
        (c.names[at // len(TYPES)], TYPES[at % len(TYPES)]): int(counts[at])
        for at in np.flatnonzero(counts)
    })  # fmt: skip


def _sound(c: Columns, known: Ints, pair: Ints, last: Mask, head: Mask) -> bool:
    """Whether no rule is broken within, and nothing is to be warned of."""
    index = c.index
    if (index[:1] < 0).any() or (index[1:] <= index[:-1]).any() or (known[1:] < known[:-1]).any():
        return False  # W1, W8
    if (c.type[~c.client] != INFO).any():
        return False  # W7
    done = c.client & (c.type != INVOKE)
    inner = done & ~head
    if (pair[inner] < 0).any() or (c.f[inner] != c.f[pair[inner]]).any():
        return False  # W4, W5
    ends = c.client & (((c.type == INVOKE) & (pair < 0)) | (c.type == INFO))
    return not (ends & ~last).any()  # W3, W6


class Outline:
    """What joins the pieces of a history.

    `before` are the invocations under way where each piece begins, of those that complete in it;
    `never` the indices of those that never complete, in order. `bounds` are the first and last
    index of each piece, shape (pieces, 2); `rows` is how many there are in all. `reassigned` are
    the assignments before which a process may have had something to forget, `assignments` how many
    operations of assignments each piece has.
    """

    def __init__(self, pieces: Iterable[Edges]) -> None:
        self.before: list[Open] = []
        self.totals: Counter[tuple[str, str]] = Counter()
        self.sound = True
        self.rows = 0
        self._open: dict[int, tuple[int, int, str, str | None]] = {}
        self._retired = _Seen()
        self._overtaken: list[int] = []
        self._assigned: list[tuple[Ints, Ints]] = []
        self._seen = _Seen()
        self.assignments: list[int] = []
        self._index = self._high_ns = -1
        bounds: list[tuple[int, int]] = []
        for piece in pieces:
            bounds.append((piece.first, piece.last))
            self._take(piece)
        self.reassigned = _reassigned(self._assigned)
        self.bounds = np.array(bounds, np.int64).reshape(-1, 2)
        self.never = np.array(
            sorted([*self._overtaken, *(index for index, *_ in self._open.values())]), np.int64
        )
        # What only joins pieces grows with the history, and has done its work.
        del self._open, self._overtaken, self._assigned, self._seen, self._retired

    def _take(self, piece: Edges) -> None:
        self.rows += piece.rows
        self.totals += piece.totals
        self._overtaken += piece.overtaken
        follows = not piece.rows or piece.first > self._index
        later = piece.low_ns < 0 or piece.low_ns >= self._high_ns
        self.sound &= piece.sound and follows and later
        self._index = max(self._index, piece.last)
        self._high_ns = max(self._high_ns, piece.high_ns)
        self.before.append(self._joined(piece.heads))
        self._retired.add(piece.retired)
        a = piece.assigned
        knew = ~a.first | self._seen.has(a.process)
        self._assigned.append((a.process[knew], a.index[knew]))
        self._seen.add(piece.heads.process)
        self.assignments.append(sum(n for (f, _), n in piece.totals.items() if f in ASSIGNMENTS))
        o = piece.open
        each = zip(o.index.tolist(), o.time.tolist(), o.f, o.value, strict=True)
        self._open.update(zip(o.process.tolist(), each, strict=True))

    def _joined(self, heads: Heads) -> Open:
        """The invocations under way that complete in a piece with these first operations."""
        found = []
        self.sound &= not self._retired.has(heads.process).any()
        for process, kind, f in heads.each():
            begun = self._open.pop(process, None)
            if kind == INVOKE and begun is not None:
                self._overtaken.append(begun[0])
            if kind != INVOKE and begun is not None:
                found.append((process, *begun))
            right = begun is None if kind == INVOKE else begun is not None and begun[2] == f
            self.sound &= right
        if not found:
            return NOTHING_OPEN
        begun_by, index, time, names, values = zip(*found, strict=True)
        return Open(_ints(begun_by), _ints(index), _ints(time), names, values)

    def pieces_with_assignments(self, near: int, most: int) -> list[int]:
        """The pieces that hold the last assignments before an index, and the first behind it."""
        counts, found = np.array(self.assignments, np.int64), set[int]()
        behind = int(np.searchsorted(self.bounds[:, 1], near))  # the piece that holds the index
        for side in (range(behind, -1, -1), range(behind, len(counts))):
            seen = 0
            for number in (n for n in side if n < len(counts) and counts[n]):
                found.add(number)
                seen += int(counts[number]) if number != behind else 0
                if seen >= most:
                    break
        return sorted(found)

    def pieces_of(self, indices: Collection[int]) -> list[int]:
        """The pieces that may hold operations with some indices."""
        wanted = np.array(sorted(indices), np.int64)
        low, high = (np.searchsorted(wanted, self.bounds[:, n] + n) for n in (0, 1))
        if self.sound:
            return np.flatnonzero(high > low).tolist()
        return [*range(len(self.bounds))]

    def never_in(self, pieces: Sequence[int]) -> Ints:
        """Of `never` what these pieces may hold."""
        if not self.sound or not len(pieces):
            return self.never
        low, high = self.bounds[min(pieces), 0], self.bounds[max(pieces), 1]
        return self.never[np.searchsorted(self.never, low) : np.searchsorted(self.never, high + 1)]


class _Seen:
    """Processes that were seen; of all but very high numbers a byte each."""

    def __init__(self) -> None:
        self._known = np.zeros(0, np.bool_)
        self._odd: set[int] = set()

    def has(self, processes: Ints) -> Mask:
        """Which of some were seen."""
        inside = (processes >= 0) & (processes < len(self._known))
        found = np.zeros(len(processes), np.bool_)
        found[inside] = self._known[processes[inside]]
        if self._odd:
            found |= np.isin(processes, np.array(sorted(self._odd), np.int64))
        return found

    def add(self, processes: Ints) -> None:
        """These are seen."""
        even = (processes >= 0) & (processes < PROCESSES_MAX)
        self._odd.update(processes[~even].tolist())
        low = processes[even]
        more = int(low.max(initial=-1)) + 1 - len(self._known)
        if more > 0:
            self._known = np.append(self._known, np.zeros(2 * more, np.bool_))
        self._known[low] = True


def _reassigned(parts: Sequence[tuple[Ints, Ints]]) -> Reassigned:
    if not any(len(process) for process, _ in parts):
        return NEVER_REASSIGNED
    who, when = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.lexsort((when, who))
    process, index = array("q"), array("q")
    process.frombytes(who[order].tobytes())
    index.frombytes(when[order].tobytes())
    return Reassigned(process, index)


def _ints(numbers: Sequence[int]) -> Ints:
    return np.array(numbers, np.int64)


def outline_of(batches: Iterable[pa.RecordBatch]) -> Outline:
    """That of a history.

    Raises:
        HistoryError: a row is no operation.
    """
    return Outline(edges_of(batch, Columns.of(batch)) for batch in batches)


def rows_of(
    reading: Reading, outline: Outline, pieces: Collection[int] | None = None
) -> Iterator[Rows]:
    """The pieces of a history with these numbers, in order; None: all of them."""
    numbers = range(len(outline.before)) if pieces is None else sorted(pieces)
    for number, batch in zip(numbers, reading(pieces), strict=True):
        yield Rows(batch, outline.before[number], outline.never)


def batches_of(table: pa.Table, rows: int = 65_536) -> Reading:
    """Reads a table that is in memory."""
    return reading_of(table.to_batches(max_chunksize=rows))


def reading_of(batches: Sequence[pa.RecordBatch]) -> Reading:
    """Reads batches that are in memory."""
    return lambda pieces: iter(
        batches if pieces is None else [batches[number] for number in sorted(pieces)]
    )


def breaches_of(reading: Reading, outline: Outline) -> list[Breach]:
    """Every breach of W1 to W8, in order of the history, as `maxq.histories.history.wellformed` has
    it."""
    if outline.sound:
        return []
    order, processes = OrderRules(), ProcessRules()
    found: list[Breach] = []
    for op in _bare_ops(reading(None)):
        found += order.step(op)
        found += processes.step(op)
    return found


def _bare_ops(batches: Iterable[pa.RecordBatch]) -> Iterator[Op]:
    """The operations of a history without what they say."""
    for batch in batches:
        c = Columns.of(batch)
        names: list[Any] = batch["process_name"].to_pylist()
        who = (
            n if p is None else p for p, n in zip(batch["process"].to_pylist(), names, strict=True)
        )
        rows = zip(
            c.type.tolist(), who, c.f.tolist(), c.index.tolist(), c.time.tolist(), strict=True
        )
        for kind, process, f, index, time in rows:
            of_kind: Any = TYPES[kind]
            yield Op(of_kind, process, c.names[f], None, None, index, time)
