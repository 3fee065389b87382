"""What a read of a register may have seen, for those who take calls out of its history.

A write can be what a call saw if it began before the call was over, and no other write lies wholly
between the two. A read whose value nobody can have written at that time keeps one write of it, so
that it is seen for what it is: stale, not invented.

Source: docs/spec/checkers.md 8.5.
"""

from collections.abc import Iterable

import numpy as np

from maxq.checkers.linearizability.calls import FAILED, OK, OPEN, Calls, Ints
from maxq.checkers.linearizability.exact.registers import BEFORE, CAS, READ, WRITE
from maxq.checkers.linearizability.ties import Ties, alone


class _Sources:
    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._reads, self._swaps = calls.of(READ), calls.of(CAS)
        writes = np.flatnonzero(calls.of(WRITE, CAS))
        written = np.where(self._swaps, calls.other, calls.argument)[writes]
        order = np.lexsort((calls.begun[writes], written))
        self._writes, self._written = writes[order], written[order]
        sure = writes[calls.outcome[writes] == OK]
        by_end = sure[np.argsort(calls.ended[sure], kind="stable")]
        self._ends = calls.ended[by_end]
        self._latest = np.maximum.accumulate(calls.begun[by_end])

    def needs(self, at: int) -> Iterable[int]:
        """The writes that a call may have seen; of those that it cannot, one."""
        calls, failed = self._calls, self._calls.outcome[at] == FAILED
        swap = bool(self._swaps[at])
        if not swap and (not self._reads[at] or calls.outcome[at] == OPEN or failed):
            return ()
        value = calls.argument[at] if swap else calls.result[at]
        if swap and failed:  # it shows that something else was there
            return list(map(int, self._possible(at, self._writes)))
        first, last = np.searchsorted(self._written, (value, value + 1))
        of_value = self._writes[first:last]
        of_value = of_value[of_value != at]
        found = self._possible(at, of_value)
        if len(found) or not len(of_value):
            return list(map(int, found))
        return (self._explaining(at, of_value),)

    def _possible(self, at: int, writes: Ints) -> Ints:
        calls = self._calls
        there = int(np.searchsorted(self._ends, calls.begun[at]))
        between = self._latest[there - 1] if there else BEFORE
        fits = (calls.begun[writes] < calls.ended[at]) & (calls.ended[writes] > between)
        fits &= (calls.outcome[writes] != FAILED) & (writes != at)
        found: Ints = writes[fits]
        return found

    def _explaining(self, at: int, writes: Ints) -> int:
        """The last of some writes that began before a call was over, or else the first."""
        calls = self._calls
        sure = writes[calls.outcome[writes] != FAILED]
        writes = sure if len(sure) else writes
        early = writes[calls.begun[writes] < calls.ended[at]]
        return int(early[-1] if len(early) else writes[0])


def ties(calls: Calls) -> Ties:
    """The ties of the calls on one register, of kinds read, write and cas."""
    return alone(calls.size, _Sources(calls).needs)
