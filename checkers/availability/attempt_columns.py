"""What sends to each queue came to in some windows, by arrays.

Each completion of a send is an element, also one that only the decoder can read: what it says is a
few numbers, no matter who read it. So no key is left to its rows
but one that is no number of 64 bits.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from maxq.checkers.availability.send_columns import keys_begun
from maxq.checkers.core.columnar import Arrays, Dealing
from maxq.checkers.core.keyed import Event
from maxq.histories.columns.beside import beside
from maxq.histories.columns.rows import INVOKE, OK, Rows
from maxq.histories.columns.scan import Ints, Mask, distinct

if TYPE_CHECKING:
    from maxq.checkers.availability.lost_masters import Attempt, Lost

ANOTHER, NOBODY = -1, -2  # instead of the number of a set: one that is not asked for; not ok
_NUMBERS = np.iinfo(np.int64)
_NO_ROWS = np.zeros(0, np.int64)


class Span(NamedTuple):
    """Since when (ns) a send must have been begun, and before which index be over."""

    since_ns: int
    until: int

    def holds(self, a: Arrays) -> Mask:
        """Which of some sends are in it."""
        inside: Mask = (a["begun_ns"] >= self.since_ns) & (a["at"] < self.until)
        return inside


def elements(
    rows: Rows,
    chosen: Ints,
    spans: Collection[Span],
    sets: Sequence[str],
    decode: Callable[[Event], Iterable[tuple[int, "Attempt"]]],
) -> Dealing:
    """The sends of a batch that completed, an element each: those that were ok, and others if they
    are in a span.

    Args:
        rows: a batch.
        chosen: sends, by row.
        spans: where an attempt counts.
        sets: the broker sets that are asked for.
        decode: what the decoder reads out of an event.
    """
    done = chosen[(rows.type[chosen] != INVOKE) & (rows.begun[chosen] >= 0)]
    key, plain = keys_begun(rows, done)
    kept = (rows.type[done] == OK) | in_any(spans, rows.begun_ns[done], rows.index[done])
    row, ok = done[plain & kept], rows.type[done[plain & kept]] == OK
    set_number, routed = _beside(rows, row, ok, sets)
    arrays = {
        "at": rows.index[row], "begun": rows.begun[row], "begun_ns": rows.begun_ns[row],
        "ok": ok, "routed": routed, "set": set_number,
    }  # fmt: skip
    odd, unsure = _decoded(rows, done[~plain & kept], sets, decode)
    key, row = np.append(key[plain & kept], odd.key), np.append(row, odd.row)
    order = np.argsort(row, kind="stable")
    joined = {name: np.append(own, odd.arrays[name])[order] for name, own in arrays.items()}
    return Dealing(key[order], row[order], joined, _NO_ROWS, unsure)


def in_any(spans: Collection[Span], begun_ns: Ints, at: Ints) -> Mask:
    """Which sends are in one of some spans, however many those are."""
    if not spans:
        return np.zeros(len(at), np.bool_)
    since_ns, until = np.array(sorted(spans), np.int64).T
    latest = np.maximum.accumulate(until)  # of those that began by then
    begun_by = np.searchsorted(since_ns, begun_ns, "right")
    inside: Mask = (begun_by > 0) & (at < latest[begun_by - 1])
    return inside


def _beside(rows: Rows, row: Ints, ok: Mask, sets: Sequence[str]) -> tuple[Ints, Mask]:
    """Which set answered each, and whether its client follows routes."""
    said, code = beside(rows, row)
    number = np.array([_number(ext.get("node"), sets) for ext in said], np.int64)[code]
    routed = np.array([not ext.get("pinned") for ext in said], np.bool_)[code]
    return np.where(ok, number, NOBODY), routed


def _number(name: object, sets: Sequence[str]) -> int:
    return sets.index(str(name)) if str(name) in sets else ANOTHER


def _decoded(
    rows: Rows,
    odd: Ints,
    sets: Sequence[str],
    decode: Callable[[Event], Iterable[tuple[int, "Attempt"]]],
) -> tuple[Dealing, frozenset[int]]:
    """The elements of rows that only the decoder can read, and the keys that are no numbers of 64
    bits."""
    found: list[tuple[int, ...]] = []
    unsure: set[int] = set()
    for at, op, begun in rows.events(odd):
        for key, a in decode(Event(op, begun, bool(rows.open[at]))):
            if not _NUMBERS.min <= key <= _NUMBERS.max:
                unsure.add(key)
                continue
            number = _number(a.set, sets) if a.ok else NOBODY
            found.append((key, at, a.at, a.begun, a.begun_ns, a.ok, a.routed, number))
    columns = np.array(found, np.int64).reshape(len(found), 8).T
    names = ("at", "begun", "begun_ns", "ok", "routed", "set")
    arrays = dict(zip(names, columns[2:], strict=True))
    arrays.update({name: arrays[name].astype(np.bool_) for name in ("ok", "routed")})
    return Dealing(columns[0], columns[1], arrays, odd), frozenset(unsure)


def only_set(a: Arrays) -> int:
    """The set that answered all ok sends of a queue; ANOTHER if it is none of those that are asked
    for, or if they are several or none."""
    numbers = distinct(a["set"][a["ok"]])
    return int(numbers[0]) if len(numbers) == 1 else ANOTHER


class Part:
    """The sends of one queue, from which those of many spans are taken."""

    def __init__(self, arrays: Arrays) -> None:
        self._arrays = arrays
        self._latest_ns = np.maximum.accumulate(arrays["begun_ns"])

    def of(self, span: Span) -> Arrays:
        """Those in a span."""
        # Before `first` none was begun late enough: elements are in order of their ends.
        first = int(np.searchsorted(self._latest_ns, span.since_ns))
        end = int(np.searchsorted(self._arrays["at"], span.until))
        near = {name: column[first:end] for name, column in self._arrays.items()}
        inside = span.holds(near)
        return {name: column[inside] for name, column in near.items()}

    def led(self, lost: "Lost") -> int:
        """How many were acknowledged just before a master was lost."""
        until, since_ns = lost.before
        return int(self.of(Span(since_ns, until))["ok"].sum())
