"""Durability by arrays: what is wrong with few messages of a key, the places of all being known.

Findings are made by the functions that judge rows (`log_key`, `log_order`). They are given only the
messages in doubt, with what arrays know of all others: where each is in the log, how far readers
went, which confirmed ends matter. What is left to rows is which broker answered the operations that
findings rest on (`excuses`).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, overload

import numpy as np

from maxq.checkers.core.columnar import Unsure
from maxq.checkers.core.groups import chosen
from maxq.checkers.evidence.log import End, KeyLog, LogFacts, Read, ReadingRun, Sent, Value
from maxq.checkers.evidence.log_key import (
    Finding,
    Order,
    Passed,
    Reach,
    judge_placed,
    widest_first,
)
from maxq.checkers.messages.arrays.log_runs import Runs
from maxq.checkers.messages.arrays.log_table import Clean, InOrder, Log
from maxq.checkers.messages.excuses import rests_on
from maxq.checkers.messages.log_order import external, internal
from maxq.histories.columns.rows import OK
from maxq.histories.columns.scan import Ints, distinct, order_of
from maxq.histories.text import TYPES

_FAR = np.iinfo(np.int64).max
_FEW = 64  # ends that are looked at at first
_NONE = np.zeros(0, np.int64)


class Suspect(NamedTuple):
    """What arrays found of a key: findings on messages, those on the order of processes; for each
    the operations that it rests on beside its own; how many acknowledged messages nobody read that
    are not lost; and the counts of `Clean`."""

    findings: list[Finding]
    orders: list[Finding]
    rests: list[Sequence[int]]
    unseen: int
    clean: Clean


def suspected(
    log: Log, order: InOrder, key: tuple[int, int], known: LogFacts, clean: Clean
) -> Unsure:
    """What is wrong with one key.

    Args:
        log: of several keys.
        order: how processes read, and sent.
        key: its position among them, and its name.
        known: of the whole history.
        clean: the counts of the key.
    """
    own = _Key(log, *key, known)
    judged = judge_placed(own.in_doubt(), own.proven(), own.order, own.reach())
    orders = list(own.out_of_order(order))
    found = [*judged.findings, *orders]
    rests = [rests_on(finding, own.order, own.reached) for finding in found]
    ops = {at for f, more in zip(found, rests, strict=True) for at in (*f.ops, *more)}
    lost = len(own.unread_in_doubt) - judged.unseen
    suspect = Suspect(judged.findings, orders, rests, clean.unseen - lost, clean)
    return Unsure(tuple(sorted(ops)), suspect)


class _Key:
    """The arrays of one key: its `sent`, its `read`, its confirmed `ends`, in order. Values are
    numbered as they ascend."""

    def __init__(self, log: Log, at: int, name: int, known: LogFacts) -> None:
        self._name, self._known, self._runs = name, known, log.runs
        sends, reads, ends = (_part(a["key"], at) for a in (log.sent, log.read, log.ends))
        values = _part(log.key, at)
        self._first_send, self._first_read = sends.start, reads.start
        self._sent, self._read = chosen(log.sent, sends), chosen(log.read, reads)
        self._ends = chosen(log.ends, ends)
        self._committed = log.committed[sends]
        self._sender = log.number[sends] - values.start
        self._writer = log.writer[reads] - values.start
        self._ok = log.ok[reads]
        self._values, self._offset = log.values[values], log.offset[values]
        self._dense, self._seen = log.dense[values], log.last_seen[values] >= 0
        self._doubted = log.doubted[values]
        self._run, self._run_of_end = self._read["run"], self._ends["run"]
        self._place = self._dense[self._writer]
        doubted = self._doubted[self._sender]
        self.unread_in_doubt = np.flatnonzero(
            doubted & ~self._seen[self._sender] & (self._sent["type"] == OK)
        )
        self.order = self._ordered()
        self._readers = _Readers(self._run, self._place, self._read["at"], self._ok)

    def _ordered(self) -> Order:
        shown = np.full(len(self._values), -1, np.int64)
        shown[self._writer[::-1]] = self._read["at"][::-1]
        sent = self._committed & (self._sent["offset"] >= 0)
        shown[self._sender[sent]] = self._sent["at"][sent]
        held = np.flatnonzero(self._dense >= 0)
        held = held[np.argsort(self._dense[held])]
        offsets, values, by = (_Numbers(a[held]) for a in (self._offset, self._values, shown))
        place = _Places(self._values, self._dense)
        return Order(offsets, values, place, place, place, by)

    def proven(self) -> frozenset[int]:
        """The operations of unknown outcome that are known to have happened, of those in doubt."""
        happened = self._committed & (self._sent["type"] != OK) & self._doubted[self._sender]
        return frozenset(self._sent["at"][happened].tolist())

    def in_doubt(self) -> KeyLog:
        """What is said of the messages in doubt."""
        log = KeyLog(self._name, self._known.elected)
        which = np.flatnonzero(self._doubted[self._sender])
        sent = (self._sent[name][which].tolist() for name in ("value", "offset", "at", "type"))
        for value, offset, at, kind, begun in zip(
            *sent, self._sent["begun"][which].tolist(), strict=True
        ):
            log.sent.append(Sent(value, offset if offset >= 0 else None, at, TYPES[kind], begun))
        which = np.flatnonzero(self._doubted[self._writer])
        numbers = _Numbering()
        read = (self._read[name][which].tolist() for name in ("value", "offset", "at"))
        more = self._ok[which].tolist(), self._run[which].tolist()
        for value, offset, at, ok, run in zip(*read, *more, strict=True):
            log.read.append(Read(value, offset, at, ok, numbers[run]))
        for at in self._ends_that_matter().tolist():
            end, by, begun = (int(self._ends[name][at]) for name in ("value", "at", "begun"))
            log.ends.append(End(end, by, begun, numbers[int(self._run_of_end[at])]))
        log.runs = [
            ReadingRun(-1, bool(self._runs.from_start[run]), int(self._runs.seek[run]))
            for run in numbers
        ]
        self._numbers = numbers
        return log

    def _ends_that_matter(self) -> Ints:
        """Of each message in doubt the ends that may show that it is gone: the one that began last
        of those at or before it, and the first that was asked for after it was acknowledged by a
        reader that would have met it; and the last one of each complete re-read."""
        ends, found = self._ends, [_NONE]
        if not len(ends["at"]):
            return _NONE
        by_end = np.lexsort((ends["begun"], ends["value"]))
        latest = _latest(ends["begun"][by_end])
        below = np.searchsorted(ends["value"][by_end], self._offset[self._doubted], "right") - 1
        found.append(by_end[latest[distinct(below[below >= 0])]])
        found.append(self._ends_of_rereads())
        starts = self._start_of(self._run_of_end)
        for send in self.unread_in_doubt.tolist():
            found.append(self._first_end_after(send, starts))
        return distinct(np.concatenate(found))

    def _first_end_after(self, send: int, starts: Ints) -> Ints:
        """The first end that a reader asked for when a message was acknowledged, if it would have
        met it; if there is one."""
        at, offset = (int(self._sent[name][send]) for name in ("at", "offset"))
        begin, width = int(np.searchsorted(self._ends["at"], at, "right")), _FEW
        while begin < len(starts):
            start = starts[begin : begin + width]
            meets = (start < 0) | ((start <= offset) & (offset >= 0))
            found = np.flatnonzero(meets & (self._ends["begun"][begin : begin + width] > at))
            if len(found):
                return begin + found[:1]
            begin, width = begin + width, 2 * width
        return _NONE

    def _ends_of_rereads(self) -> Ints:
        seek = self._runs.seek[self._run_of_end]
        sought = np.flatnonzero(seek >= 0)
        sought = sought[np.lexsort((self._ends["at"][sought], seek[sought]))]
        reign = np.searchsorted(np.array(self._known.elected, np.int64), seek[sought], "right")
        found: Ints = sought[np.flatnonzero(np.diff(reign, append=_FAR))]
        return found

    def _start_of(self, runs: Ints) -> Ints:
        """The offset at which runs of reading began: -1 for the start of the log, a very high one
        for those that read nothing."""
        first = self._readers.first_of(runs)
        offsets = np.append(self._read["offset"], _FAR)
        return np.where(self._runs.from_start[runs], -1, offsets[first])

    def reach(self) -> Reach:
        """How far readers went."""
        numbers = np.array([*self._numbers], np.int64)
        starts = self._start_of(numbers).tolist()
        begun = {at: start for at, start in enumerate(starts) if start != _FAR}
        return Reach(widest_first(self._readers.passed(self._runs)), begun)

    def reached(self, reader: int, place: int) -> Sequence[int] | None:
        """As `excuses.Reached`."""
        for at, run in (
            (self._read["at"], self._run), (self._ends["at"], self._run_of_end)
        ):  # fmt: skip
            first = int(np.searchsorted(at, reader))
            if first < len(at) and at[first] == reader:
                return self._readers.reached(int(run[first]), place)
        return None

    def out_of_order(self, order: InOrder) -> Iterator[Finding]:
        """What is wrong with the order of processes; in order of the history."""
        polls = self._pairs("poll", self._read, order.polls, self._first_read)
        sends = self._pairs("send", self._sent, order.sends, self._first_send)
        for _, found in sorted((*polls, *sends), key=lambda pair: pair[0]):
            yield from found

    def _pairs(
        self, kind: str, a: Mapping[str, Any], pairs: tuple[Ints, Ints], begin: int
    ) -> Iterator[tuple[tuple[bool, int, bool, int], Iterator[Finding]]]:
        first, second = (each - begin for each in pairs)
        mine = (second >= 0) & (second < len(a["at"]))
        for one, two in zip(first[mine].tolist(), second[mine].tolist(), strict=True):
            (old, old_op), (value, at) = ((int(a["value"][n]), int(a["at"][n])) for n in (one, two))
            found = (
                internal(kind, at, self._name, self.order, (old, value))
                if old_op == at else
                external(kind, at, self._name, self.order, (old, old_op), value)
            )  # fmt: skip
            last = kind == "send" and bool(a["open"][two])
            yield (last, at, kind == "send", two), found


class _Readers:
    """The ok reads of a key by run: how far each had come."""

    def __init__(self, run: Ints, place: Ints, at: Ints, ok: Any) -> None:
        reads = np.flatnonzero(ok)
        self._by_run = reads[order_of(run[reads])]
        self._run = run[self._by_run]
        self._place, self._at = place[self._by_run], at[self._by_run]
        self._count = len(run)
        self._known: dict[int, tuple[int, Ints]] = {}

    def first_of(self, runs: Ints) -> Ints:
        """The first read of each run, the number of reads where there is none."""
        at = np.searchsorted(self._run, runs)
        inside = np.minimum(at, max(0, len(self._run) - 1))
        if not len(self._run):
            return np.full(len(runs), self._count, np.int64)
        found: Ints = np.where(self._run[inside] == runs, self._by_run[inside], self._count)
        return found

    def passed(self, runs: Runs) -> Iterator[Passed]:
        """From where to where each run went."""
        heads = np.flatnonzero(np.diff(self._run, prepend=-1))
        if not len(heads):
            return
        low = np.minimum.reduceat(self._place, heads)
        high = np.maximum.reduceat(self._place, heads)
        there = self._place == np.repeat(high, np.diff(heads, append=len(self._run)))
        first = np.flatnonzero(there)
        first = first[np.searchsorted(first, heads)]
        low = np.where(runs.from_start[self._run[heads]], -1, low)
        yield from map(Passed, low.tolist(), high.tolist(), self._at[first].tolist())

    def reached(self, run: int, place: int) -> Sequence[int]:
        """The operation of a run that first came to a place or beyond it, if one did."""
        begin, furthest = self._furthest(run)
        first = int(np.searchsorted(furthest, place))
        return (int(self._at[begin + first]),) if first < len(furthest) else ()

    def _furthest(self, run: int) -> tuple[int, Ints]:
        if run not in self._known:
            begin, end = np.searchsorted(self._run, [run, run + 1]).tolist()
            self._known[run] = begin, np.maximum.accumulate(self._place[begin:end])
        return self._known[run]


class _Numbering(dict[int, int]):
    """Numbers what it is asked for from 0 on, in order."""

    def __missing__(self, run: int) -> int:
        self[run] = number = len(self)
        return number


class _Numbers(Sequence[int]):
    """An array as a sequence of Python's own numbers."""

    def __init__(self, array: Ints) -> None:
        self._array = array

    def __len__(self) -> int:
        return len(self._array)

    @overload
    def __getitem__(self, at: int) -> int: ...
    @overload
    def __getitem__(self, at: slice) -> list[int]: ...
    def __getitem__(self, at: int | slice) -> int | list[int]:
        found = self._array[at]
        return found.tolist() if isinstance(at, slice) else int(found)


class _Places(Mapping[Value, int]):
    """Where each value is, of ascending ones; -1: nowhere."""

    def __init__(self, values: Ints, places: Ints) -> None:
        self._values, self._places = values, places

    def __getitem__(self, value: Value) -> int:
        at = int(np.searchsorted(self._values, value)) if isinstance(value, int) else len(self)
        if at == len(self._values) or self._values[at] != value or self._places[at] < 0:
            raise KeyError(value)
        return int(self._places[at])

    def __iter__(self) -> Iterator[Value]:
        return iter(self._values[self._places >= 0].tolist())

    def __len__(self) -> int:
        return int((self._places >= 0).sum())


def _part(key: Ints, of: int) -> slice:
    """Where the elements of a key are; keys ascend."""
    begin, end = np.searchsorted(key, [of, of + 1]).tolist()
    return slice(begin, end)


def _latest(begun: Ints) -> Ints:
    """Of each element which one up to it is the greatest."""
    greatest = np.maximum.accumulate(begun)
    new = np.append(True, greatest[1:] > greatest[:-1])
    found: Ints = np.maximum.accumulate(np.where(new, np.arange(len(begun)), 0))
    return found
