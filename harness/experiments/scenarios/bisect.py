"""Between which two releases a scenario begins to be bad, or ends: by halving.

One bad trial makes a release bad; how many clean ones make it good follows from how often the bad
end is bad. Trials are those of the scenario
(`maxq.harness.experiments.scenarios.scenario`), and kept.
"""

import math
from collections.abc import Callable, Sequence

import msgspec

from maxq.harness.experiments.scenarios.scenario import SHOWN_MIN, TRIALS_MAX, Tally, Trials
from maxq.harness.targets.rocketmq.releases import MISSING, Version, parse

WRONG_STEP = 0.05


def clean_needed(bad_end: Tally) -> int:
    """How many clean trials call a release good and are wrong in at most one of twenty.

    The rate of the bad end is taken as (k + ½) / (n + 1), Jeffreys' estimate, so that no number of
    trials makes it certain.
    """
    rate = (bad_end.bad + 0.5) / (bad_end.trials + 1)
    return max(1, math.ceil(math.log(WRONG_STEP) / math.log(1 - rate)))


def between(good: str, bad: str) -> list[str]:
    """The targets from one to the other, both included, in the order from good to bad.

    Raises:
        ValueError: they are no two releases with one back end.
    """
    first, last = parse(good), parse(bad)
    if first.back_end != last.back_end or first.release == last.release:
        raise ValueError("a bisection needs two releases with the same back end")
    order = list(MISSING)
    a, b = order.index(first.release), order.index(last.release)
    step = 1 if a < b else -1
    releases = [order[n] for n in range(a, b + step, step)]
    return [str(Version(release, first.back_end)) for release in releases]


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a bisection: neighbours, of which one is good and the other bad. `open` says why
    it came to no end."""

    good: str = ""
    bad: str = ""
    needed: int = 0
    open: str = ""


class Bisection:
    """A bisection that goes on.

    Args:
        trials: of the scenario.
        targets: from a good one to a bad one, in order.
    """

    def __init__(self, trials: Trials, targets: Sequence[str]) -> None:
        self.judged = 0  # targets
        self.most = 2 + math.ceil(math.log2(max(1, len(targets) - 1)))
        self.at_work = targets[-1]
        self._trials = trials
        self._targets = targets

    def so_far(self) -> str:
        """Which target is at work, and what its trials came to."""
        tally = self._trials.tally(self.at_work)
        seen = f", bad in {tally.bad} of {tally.trials}" if tally.trials else ""
        return f"now: {self.at_work}{seen}"

    def find(self, say: Callable[[str], None]) -> Found:
        """Find where it begins; `say` is called with a line for each step."""
        targets = self._targets
        end = self._more(targets[-1], lambda t: t.bad >= SHOWN_MIN or t.trials >= TRIALS_MAX)
        if not end.bad:
            return Found(open=f"{targets[-1]} is not bad: {end}")
        needed = clean_needed(end)
        say(f"{targets[-1]} is bad in {end}: {needed} clean trials call a release good")
        low, high, middle = -1, len(targets) - 1, 0
        while high - low > 1:
            target = targets[middle]
            tally = self._more(target, lambda t: t.bad > 0 or t.trials >= needed)
            if not tally.bad and tally.trials < needed:
                return Found(open=f"{target} does not come up", needed=needed)
            say(f"{target}: {'bad' if tally.bad else 'good'} ({tally})")
            if middle == 0 and tally.bad:
                return Found(open=f"{target} is bad as well", needed=needed)
            low, high = (low, middle) if tally.bad else (middle, high)
            middle = (low + high) // 2
        return Found(good=targets[low], bad=targets[high], needed=needed)

    def _more(self, target: str, enough: Callable[[Tally], bool]) -> Tally:
        self.at_work = target
        tally = self._trials.more(target, enough)
        self.judged += 1
        return tally
