"""Shrinking a run of real machines: its schedule with fewer faults, by repeated real runs.

On real machines the same schedule meets other moments, so a failure comes back in some of its runs
only. A schedule without some faults replaces the one with them as soon as one of a few runs shows
the anomaly; one that never does in so many runs is taken not to. So a smaller schedule may be
missed, and what is found is shown to fail, at the stated rate. Clients' load stays as it is. What
each run showed is a line of a journal, so that a shrinking that was cut off goes on.
"""

import time
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import msgspec

from maxq.harness.experiments.journal import append, resumed
from maxq.harness.experiments.shrink import digest_of
from maxq.harness.run.replay import NotRepeated, Rate
from maxq.harness.schedule import reductions
from maxq.harness.schedule.format import Schedule

EACH = 3  # runs of a schedule until it is taken not to show the anomaly
PERFORMED = "performed.jsonl"  # the journal
BUDGET = 30  # runs in all, but for those of the rate

Perform = Callable[[Schedule], Collection[str]]


class Performed(msgspec.Struct, frozen=True):
    """A line of the journal: what a run of a schedule showed, and where it was."""

    digest: str
    environment: str
    found: tuple[str, ...]


class Journaled:
    """Performs schedules, but for the runs that a journal has: what these showed is given once
    more, each once, in their order.

    Args:
        journal: its path.
        environment: where runs are performed.
        perform: performs one.
    """

    def __init__(self, journal: Path, environment: str, perform: Perform) -> None:
        self._journal = journal
        self._environment = environment
        self._perform = perform
        self._before: dict[str, deque[tuple[str, ...]]] = defaultdict(deque)
        for line in resumed(journal, Performed):
            if line.environment == environment:
                self._before[line.digest].append(line.found)

    def __call__(self, script: Schedule) -> Collection[str]:
        digest = digest_of(script)
        if self._before[digest]:
            return self._before[digest].popleft()
        found = tuple(self._perform(script))
        append(self._journal, Performed(digest, self._environment, found))
        return found


class Smaller(msgspec.Struct, frozen=True, kw_only=True):
    """What a shrinking came to. `whole`: nothing is left that could go, as far as runs showed."""

    script: Schedule
    before: int  # faults
    after: int
    runs: int
    seconds: float
    rate: Rate
    whole: bool


class Shrinking:
    """Shrinks one schedule.

    Args:
        signature: what it must show.
        perform: performs a schedule, and gives the signatures of its anomalies.
        budget: runs in all.
        each: runs of one schedule.
        say: progress, a line each.
    """

    def __init__(
        self,
        signature: str,
        perform: Perform,
        *,
        budget: int = BUDGET,
        each: int = EACH,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.runs = 0
        self.best: Schedule | None = None  # the smallest so far
        self._signature = signature
        self._perform = perform
        self.budget, self._each, self._say = budget, each, say

    def shrink(self, script: Schedule) -> Smaller:
        """Make it smaller, as far as the budget goes.

        Raises:
            NotRepeated: none of its runs shows the anomaly.
        """
        begun = time.monotonic()
        if not self._shows(script):
            raise NotRepeated(f"{self.runs} runs of the schedule do not show {self._signature}")
        self.best = script
        best, found = script, True
        while found and self._left:
            found = False
            for smaller in reductions.fewer_faults(best):
                if self._shows(smaller):
                    self.best = best = smaller
                    found = True
                    break
        hits = sum(self._signature in self._perform(best) for _ in range(self._each))
        return Smaller(
            script=best,
            before=reductions.size_of(script)[0],
            after=reductions.size_of(best)[0],
            runs=self.runs + self._each,
            seconds=round(time.monotonic() - begun, 1),
            rate=Rate(hits, self._each),
            whole=self._left > 0,
        )

    def line(self) -> str:
        """How far it has come."""
        size = "none" if self.best is None else f"{reductions.size_of(self.best)[0]} faults"
        return f"best so far: {size}"

    @property
    def _left(self) -> int:
        return self.budget - self.runs

    def _shows(self, script: Schedule) -> bool:
        """Whether one of its runs shows the anomaly; no as well where no run is left."""
        for _ in range(min(self._each, self._left)):
            self.runs += 1
            shown = self._signature in self._perform(script)
            faults = reductions.size_of(script)[0]
            self._say(
                f"run {self.runs} of at most {self.budget}: {faults} faults, "
                f"{self._signature} {'shown' if shown else 'not shown'}"
            )
            if shown:
                return True
        return False


def report_of(found: Smaller, signature: str) -> Iterator[str]:
    """What came of it, in lines."""
    yield (
        f"{signature}: {found.before} faults became {found.after}, by {found.runs} real runs in "
        f"{found.seconds} s."
    )
    if not found.whole:
        yield "The budget is used up: a larger --budget may leave fewer."
    yield f"Shown by {found.rate} runs of what is left."
