"""Latency and rate of what clients did, small enough to draw and honest about it.

Times are ns. A completion's latency counts from its invocation. Of the points that fall into one
cell of a fine grid one is drawn, so an outlier is never lost and a page stays small; how many were
drawn of how many is said. Quantiles and rates count every operation.
"""

from math import log10

import msgspec
import numpy as np
import numpy.typing as npt

from maxq.harness.report.timescale import WIDTH, TimeScale, nice_step
from maxq.histories.columns.timings import OUTCOMES, Ints, Outcome, Timing

Floats = npt.NDArray[np.float64]
CELL = 10  # units wide; of the height that a plot has, one in `ROWS`
ROWS = 60
FLOOR_NS = 10_000  # what is faster is drawn at the bottom
WINDOWS = 120  # of time, for rates and quantiles; never shorter than a second
QUANTILES_NEED = 5  # ok operations in a window, for its quantiles to mean anything


def quantile(ascending: Ints, share: float) -> int | None:
    """The value that this share is not above; None of nothing."""
    if not len(ascending):
        return None
    return int(ascending[min(len(ascending) - 1, int(share * len(ascending)))])


class LogScale(msgspec.Struct, frozen=True):
    """Latency to a height: a decade takes as much room as the next."""

    top_ns: int
    height: float

    def at(self, ns: int) -> float:
        """Distance from the top."""
        return float(self.all_at(np.array([ns]))[0])

    def all_at(self, ns: Ints) -> Floats:
        """The same of many."""
        top, floor = log10(max(self.top_ns, FLOOR_NS * 10)), log10(FLOOR_NS)
        share = (np.log10(np.maximum(ns, FLOOR_NS)) - floor) / (top - floor)
        return np.round((1 - np.minimum(share, 1.0)) * (self.height - 4) + 2, 1)

    def decades(self) -> list[int]:
        """Powers of ten of it (ns)."""
        found, ns = [], FLOOR_NS
        while ns <= max(self.top_ns, FLOOR_NS * 10):
            found.append(ns)
            ns *= 10
        return found


def thinned(
    begun: Ints, took: Ints, time: TimeScale, height: LogScale
) -> list[tuple[float, float]]:
    """One point for each cell that holds any, at the place of the first one there.

    Args:
        begun: when each operation began (ns).
        took: its latency (ns).
        time: of the plot.
        height: of the plot.
    """
    x, y = time.all_at(begun), height.all_at(took)
    columns = (x // CELL).astype(np.int64)
    rows = (y * ROWS // height.height).astype(np.int64)
    _, first = np.unique(columns * (ROWS + 1) + rows, return_index=True)
    return sorted(zip(x[first].tolist(), y[first].tolist(), strict=True))


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of time: how much completed in it, and how fast what was ok was."""

    start_ns: int
    end_ns: int
    per_s: dict[Outcome, float]
    p50_ns: int | None
    p99_ns: int | None


def windows(kind: Timing, time: TimeScale) -> list[Window]:
    """The run in equal windows."""
    length_ns = max(nice_step(time.length_ns / WINDOWS), 1_000_000_000)
    first = time.start_ns // length_ns
    count = min(time.end_ns // length_ns - first + 1, WIDTH)

    def place(times: Ints) -> Ints:
        found: Ints = np.clip(times // length_ns - first, 0, count - 1)
        return found

    ended = {name: np.bincount(place(kind.ended[name]), minlength=count) for name in OUTCOMES}
    window = place(kind.begun["ok"])
    order = np.lexsort((kind.took["ok"], window))
    latencies = np.split(kind.took["ok"][order], np.cumsum(np.bincount(window, minlength=count)))
    return [
        _summed(
            n,
            first,
            length_ns,
            {name: kind.every * int(ended[name][n]) for name in OUTCOMES},
            latencies[n],
        )
        for n in range(count)
    ]


def _summed(
    number: int, first: int, length_ns: int, ended: dict[Outcome, int], ascending: Ints
) -> Window:
    enough = ascending if len(ascending) >= QUANTILES_NEED else ascending[:0]
    start_ns = (first + number) * length_ns
    return Window(
        start_ns=start_ns,
        end_ns=start_ns + length_ns,
        per_s={outcome: n * 1e9 / length_ns for outcome, n in ended.items()},
        p50_ns=quantile(enough, 0.5),
        p99_ns=quantile(enough, 0.99),
    )
