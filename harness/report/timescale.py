"""The time axis that all plots of a report share.

Plots are drawn `WIDTH` units wide and stretched to their place, so that one drawing serves every
window, and a zoom is a change of the view. Times are ns of the history's clock.
"""

from collections.abc import Iterable

import msgspec
import numpy as np
import numpy.typing as npt

from maxq.histories.columns.timings import LAST_NS, Ints

WIDTH = 10_000  # units
TICKS_MAX = 12
NS_MIN, NS_MAX = 1_000_000, LAST_NS  # the shortest and the longest run that is drawn


class TimeScale(msgspec.Struct, frozen=True, kw_only=True):
    """From ns to units."""

    start_ns: int
    end_ns: int

    @property
    def length_ns(self) -> int:
        return self.end_ns - self.start_ns

    def at(self, time_ns: int) -> float:
        """Units from the left, within the plot."""
        inside = min(max(time_ns, self.start_ns), self.end_ns) - self.start_ns
        return round(inside * WIDTH / self.length_ns, 1)

    def all_at(self, times_ns: Ints) -> npt.NDArray[np.float64]:
        """The same of many."""
        inside = np.clip(times_ns, self.start_ns, self.end_ns) - self.start_ns
        return np.round(inside.astype(np.float64) * WIDTH / self.length_ns, 1)

    def ticks(self) -> list[tuple[float, str]]:
        """Round times with their places."""
        step_ns = nice_step(self.length_ns / TICKS_MAX)
        first = -(-self.start_ns // step_ns)
        count = self.end_ns // step_ns - first + 1
        return [
            (self.at(n * step_ns), seconds(n * step_ns, step_ns))
            for n in range(first, first + count)
        ]


def timescale(first_ns: int, last_ns: int) -> TimeScale:
    """The scale of a history: from its first known time to its last, and a little more."""
    end = max(last_ns + (last_ns - first_ns) // 100, first_ns + NS_MIN)
    return TimeScale(start_ns=first_ns, end_ns=end)


def nice_step(least_ns: float) -> int:
    """The smallest of 1, 2, 5, 10, … ns that is not less."""
    step = 1
    for factor in _factors():
        step = factor
        if factor >= least_ns:
            break
    return step


def _factors() -> Iterable[int]:
    power = 1
    while power <= NS_MAX:
        yield from (power, 2 * power, 5 * power)
        power *= 10


def seconds(time_ns: int, step_ns: int = 1_000_000) -> str:
    """A time for people, as exact as the step needs."""
    digits = next((d for d in range(9) if step_ns * 10**d % 1_000_000_000 == 0), 9)
    return f"{time_ns / 1e9:.{digits}f} s"


def duration(length_ns: float) -> str:
    """A length of time for people, in the unit that suits it."""
    if length_ns < 0:
        return "unknown"
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if length_ns >= size:
            value = length_ns / size
            return f"{value:.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"
    return f"{length_ns:.0f} ns"
