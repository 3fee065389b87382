"""How much the verdicts of many runs could have called: a sample of the valid ones is asked.

In a sampled run wrong answers are planted for a tenth of a second each
(`maxq.checkers.power.power`), and counted by claim. A claim of which less than a tenth is called,
in all sampled runs together, was kept, and that says little.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path

from maxq.checkers.core.titles import titled
from maxq.checkers.power.power import WEAK, power_of
from maxq.harness.run.judging import checkers_of, context_of
from maxq.harness.run.stored_run import options_of
from maxq.harness.schedule.options import Options
from maxq.histories.history import History
from maxq.histories.op import HistoryError
from maxq.histories.store import open_run

EVERY = 25  # of so many seeds one is asked, if it is valid
EACH_S = 0.1  # for one wrong answer
Called = dict[str, tuple[int, int]]  # by claim: how many wrong answers were called, of how many


def is_asked(seed: int) -> bool:
    """Whether a seed is one of the sample."""
    return seed % EVERY == 0


def called_in(history: History, options: Options) -> Called:
    """How many wrong answers of each claim were called, of how many that were tried."""
    found: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    checkers, context = checkers_of(options), context_of(options)
    for power in power_of(history, checkers, context, clock=time.process_time, each_s=EACH_S):
        found[power.claim][0] += power.called
        found[power.claim][1] += power.tried
    return {claim: (called, tried) for claim, (called, tried) in found.items()}


def called_in_run(path: Path) -> Called:
    """The same, of a stored run; none where it cannot be read."""
    try:
        run = open_run(path)
    except (OSError, HistoryError):
        return {}
    return called_in(run.history, options_of(run))


class Powers:
    """What a sample of runs came to."""

    def __init__(self) -> None:
        self.runs = 0
        self._called: Counter[str] = Counter()
        self._tried: Counter[str] = Counter()

    def add(self, called: Mapping[str, tuple[int, int]]) -> None:
        """Count one run; an empty one was not asked."""
        self.runs += bool(called)
        for claim, (found, tried) in called.items():
            self._called[claim] += found
            self._tried[claim] += tried

    def line(self) -> str:
        """For people; empty where no run was asked."""
        if not self.runs:
            return ""
        runs = f"{self.runs} valid run{'' if self.runs == 1 else 's'}"
        weak = [
            f"{titled([claim])}: {f'{self._called[claim]} of {tried:,}' if tried else 'no place'}"
            for claim, tried in sorted(self._tried.items())
            if self._called[claim] < WEAK * tried or not tried
        ]
        if not weak:
            return (
                f"power: of the wrong answers planted in {runs} a tenth or more was called, of "
                "each claim"
            )
        return (
            f"power: of the wrong answers planted in {runs} less than a tenth was called of these, "
            f"so that they were kept says little: {'; '.join(weak)}"
        )
