"""What happened to each element of a set that is read again and again: a read at a time.

An element is known from the end of its add, or of the first read that shows it. It is lost if a
read that began after that lacks it, and none that began later has it again; stale if one lacks it
for a time. Of each element three moments are kept, whatever the number of reads, so reads can be
given one after the other and forgotten.

Source: docs/spec/checkers.md 8.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from maxq.checkers.linearizability.calls import NEVER, Ints, Mask

FAR = np.iinfo(np.int32).max
Moments = npt.NDArray[Any]  # of whole numbers that are as small as they may be


class Fate(NamedTuple):
    """An element, a read that shows it (-1: none), and the last that lacks it."""

    element: int
    shown: int
    absent: int


class Elements:
    """Takes adds, and then reads in the order in which they began; both are known by number."""

    def __init__(self, begun: Ints, ended: Ints) -> None:
        """Take the adds, ascending by their begins; `ended` is NEVER where none is known."""
        count = len(begun)
        furthest = int(max(begun.max(initial=0), ended[ended < NEVER].max(initial=0)))
        self._begun = begun
        # Half the bytes are read in half the time.
        self._known: Moments = (
            np.minimum(ended, FAR).astype(np.int32) if furthest < FAR else ended.copy()
        )
        self._shown: Moments = np.full(count, -1, np.int32)  # since when it has been there
        self._absent: Moments = np.full(count, -1, np.int32)
        self._present, self._there = np.zeros((2, count), bool)
        self._reads: list[int] = []  # when each began
        self._latest = -1  # when the last of them ended

    def read(self, begun: int, ended: int, shown: Ints) -> bool:
        """Take a read of some elements; whether it shows each of them once."""
        number = len(self._reads)
        self._reads.append(begun)
        self._there[:] = False
        self._there[shown] = True
        once = int(np.count_nonzero(self._there)) == len(shown)
        # Elements whose adds began after the read was over are no concern of it.
        end = int(np.searchsorted(self._begun, ended))
        there, present, known = self._there[:end], self._present[:end], self._known[:end]
        new = np.flatnonzero(there & ~present)
        self._shown[new] = number
        # What was there before is known since a read before, unless this one was over earlier.
        seen = new if ended > self._latest else np.flatnonzero(there)
        known[seen] = np.minimum(known[seen], ended)
        present[:] = there
        np.copyto(self._absent[:end], number, where=~there)
        self._latest = max(self._latest, ended)
        return once

    def lost(self) -> Fate | None:
        """The first element that was known and is gone."""
        return self._first(~self._present)

    def stale(self) -> Fate | None:
        """The first element that a read lacks after it was known, and that came back."""
        return self._first(self._present)

    def stable(self) -> Mask:
        """Which elements are in the last read that may show them."""
        return self._present

    def _first(self, some: Mask) -> Fate | None:
        """The first of some elements whose last read without them began after they were known."""
        begins = np.array([*self._reads, -1], np.int64)
        found = np.flatnonzero(some & (begins[self._absent] > self._known))
        if not len(found):
            return None
        one = int(found[0])
        return Fate(one, int(self._shown[one]), int(self._absent[one]))
