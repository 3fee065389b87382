"""When a consumer group's offset counts as copied everywhere, and which master is asked for it.

All that is small in a history of offsets: times without a disturbance, elections, fail-overs. It is
looked up by bisection, since there may be millions of offsets.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from itertools import accumulate
from typing import NamedTuple

from maxq.checkers.evidence.observations import NEVER
from maxq.checkers.evidence.quiescence import Interval
from maxq.histories.observed import COPIED_NS


class FailOver(NamedTuple):
    """Between two indices a broker set got another master."""

    set: str
    at: int
    until: int


class Masters(NamedTuple):
    """What controllers said of a set's master, in the order of the answers: when each answer was
    asked for, and when it came; and the address that it names, empty if none."""

    begun: tuple[int, ...]
    at: tuple[int, ...]
    address: tuple[str, ...]

    def may_be(self, broker: str, begun: int, at: int) -> bool:
        """Whether a broker may have been the master between two indices: an answer of that time
        says so, or the last one before, or the first one after."""
        first = max(bisect_left(self.at, begun) - 1, 0)
        end = bisect_right(self.begun, at) + 1
        return broker in self.address[first:end]


class Circumstances(NamedTuple):
    """When nothing happened; when an election may have taken place; which sets got another master;
    who has which address; and until which operation anything is judged."""

    spans: tuple[Interval, ...]
    elections: tuple[Interval, ...]
    fail_overs: tuple[FailOver, ...]
    sets: dict[str, str]  # by address of a broker
    until: int
    masters: dict[str, Masters] = {}  # by set


class Copied(NamedTuple):
    """An offset that every replica had by a time (ns); nothing happened until an index."""

    at_ns: int
    until: int


class Latest:
    """Of spans of indices: the highest end of those that begin before an index."""

    def __init__(self, spans: Iterable[tuple[int, int]]) -> None:
        ordered = sorted(spans)
        self.at = [at for at, _ in ordered]
        self.until = list(accumulate((until for _, until in ordered), max))

    def before(self, index: int) -> int:
        """That end; -NEVER if there is none."""
        n = bisect_left(self.at, index)
        return self.until[n - 1] if n else -NEVER


class Earliest:
    """Of spans of indices: the lowest end of those that begin at an index or later."""

    def __init__(self, spans: Iterable[tuple[int, int]]) -> None:
        ordered = sorted(spans)
        self.at = [at for at, _ in ordered]
        self.until = list(accumulate((until for _, until in reversed(ordered)), min))[::-1]

    def since(self, index: int) -> int:
        """That end; NEVER if there is none."""
        n = bisect_left(self.at, index)
        return self.until[n] if n < len(self.until) else NEVER


class Quiet:
    """The times in which offsets are copied, in order: those that are long enough. `since` is
    the first index from which on no election came before such a time."""

    def __init__(self, known: Circumstances) -> None:
        elections = Latest((e.at, e.until) for e in known.elections)
        spans = [s for s in known.spans if s.at_ns + COPIED_NS < s.until_ns]
        self.at_ns = [s.at_ns for s in spans]
        self.until_ns = [s.until_ns for s in spans]
        self.until = [s.until for s in spans]
        self.since = [elections.before(s.at) for s in spans]
        self._ends_ns = list(accumulate(self.until_ns, max))
        self._least = list(accumulate(reversed(self.since), min))[::-1]

    def copied(self, begun: int, time: int) -> Copied | None:
        """When an offset was copied everywhere; None: that is unknown.

        Args:
            begun: index of the invocation of its commit.
            time: of the commit's completion, ns.
        """
        n = bisect_right(self._ends_ns, time + COPIED_NS)
        while n < len(self.until) and self._least[n] <= begun:
            at_ns = max(self.at_ns[n], time) + COPIED_NS
            if at_ns < self.until_ns[n] and self.since[n] <= begun:
                return Copied(at_ns, self.until[n])
            n += 1
        return None


class Moves:
    """The fail-overs of the broker set that took a note."""

    def __init__(self, known: Circumstances) -> None:
        self._sets, self._masters = known.sets, known.masters
        names = {*known.sets.values()}
        self._only = names.pop() if len(names) == 1 else None
        spans: dict[str | None, list[tuple[int, int]]] = {
            name: [] for name in (None, *known.sets.values())
        }
        for f in known.fail_overs:
            spans.setdefault(f.set, []).append((f.at, f.until))
        self.latest = {name: Latest(of) for name, of in spans.items()}
        self.earliest = {name: Earliest(of) for name, of in spans.items()}

    def may_be_master(self, broker: object, begun: int, at: int) -> bool:
        """Whether who answered between two indices may have been the master of its set."""
        masters = self.masters_of(broker)
        return masters is None or masters.may_be(str(broker), begun, at)

    def masters_of(self, broker: object) -> Masters | None:
        """What is known of the masters of a broker's set; None of a broker that nobody named."""
        return self._masters.get(self._sets.get(str(broker), ""))

    def home(self, broker: object) -> str | None:
        """The broker set of who took a note; None where it is unknown."""
        return self._sets.get(str(broker), self._only)
