"""When one and the same master led a broker set, as far as controllers reported.

What is lost, or given another message, while one master leads and no power is lost is lost by no
fail-over, so no setting excuses it (S16). Between two answers with different master epochs
there was an election, at an unknown moment; so it may have been before the first answer
and after the last one. A set that no controller reported is never known to be at rest.
Who answers as a deposed master, isolated or late, is not the one that leads: addresses show it.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise

import msgspec

from maxq.checkers.evidence.observations import NEVER, Number, SetSighting, set_sightings
from maxq.histories.history import History
from maxq.histories.op import HistoryError

Window = tuple[int, int]  # indices, both ends included


class Unrest(msgspec.Struct, frozen=True):
    """By broker set: the windows in which it may have got another master, or lost power; and where
    its masters were, each with the indices between which controllers reported it."""

    windows: dict[str, tuple[Window, ...]] = {}
    masters: dict[str, tuple[tuple[int, int, str], ...]] = {}

    def led_by(self, broker_set: str, low: int, high: int) -> frozenset[str]:
        """The addresses of the one master that surely led a set from one index to another; none
        where there may have been two."""
        windows = self.windows.get(broker_set, ((-1, NEVER),))
        after = bisect_right(windows, (high, NEVER))
        if any(end >= low for _, end in windows[:after]):
            return frozenset()
        masters = self.masters.get(broker_set, ())
        return frozenset(a for first, last, a in masters if first <= high and last >= low)


NO_UNREST = Unrest()


def unrest_of(history: History) -> Unrest:
    """The windows of a history; of no set where an observer's value cannot be read, which the
    checker that judges it will say."""
    try:
        reported = set_sightings(history)
    except HistoryError:
        return NO_UNREST
    dark = list(_losses_of_power(history))
    windows = {name: tuple(sorted([*_elections(seen), *dark])) for name, seen in reported.items()}
    masters = {name: tuple(_addresses(seen)) for name, seen in reported.items()}
    return Unrest(windows, masters)


def _elections(seen: Sequence[SetSighting]) -> Iterator[Window]:
    by_end = sorted(seen, key=_end)
    yield -1, by_end[0].begun
    yield by_end[-1].at, NEVER
    for before, after in pairwise(by_end):
        if before.epoch != after.epoch:
            yield min(before.begun, after.begun), after.at


def _addresses(seen: Sequence[SetSighting]) -> Iterator[tuple[int, int, str]]:
    """Each master's addresses: from the first answer that named one to the last, in a row."""
    reigns: dict[tuple[Number, str], list[int]] = defaultdict(list)
    for s in seen:
        if s.view.master is not None:
            reigns[s.epoch, s.view.master_address] += [s.begun, s.at]
    for (_, address), indices in sorted(reigns.items()):
        yield min(indices), max(indices), address


def _end(s: SetSighting) -> int:
    return s.at


def _losses_of_power(history: History) -> Iterator[Window]:
    for op in history.nemesis:
        if history.kinds.loses_unsynced(op.f):
            other = history.completion(op)
            if other is None or other.index > op.index:
                yield op.index, NEVER if other is None else other.index
