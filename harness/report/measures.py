"""Latency and rate of what clients did, small enough to draw and honest about it.

Times are ns. A completion's latency counts from its invocation. Of the points that fall into one
cell of a fine grid one is drawn, so an outlier is never lost and a page stays small; how many were
drawn of how many is said. Quantiles and rates count every operation.
"""

from collections import defaultdict
from collections.abc import Sequence
from math import log10
from typing import Literal

import msgspec

from maxq.harness.report.timescale import WIDTH, TimeScale, nice_step
from maxq.histories.history import History
from maxq.histories.observed import refused
from maxq.histories.op import Op

Outcome = Literal["ok", "refused", "info", "fail"]
OUTCOMES: tuple[Outcome, ...] = ("ok", "refused", "info", "fail")
CELL = 10  # units wide; of the height that a plot has, one in `ROWS`
ROWS = 60
FLOOR_NS = 10_000  # what is faster is drawn at the bottom
WINDOWS = 120  # of time, for rates and quantiles; never shorter than a second
QUANTILES_NEED = 5  # ok operations in a window, for its quantiles to mean anything


class Kind(msgspec.Struct, kw_only=True):
    """What happened to one kind of operation: `points` are (time of invocation, latency) by
    outcome, `ends` the times of completions."""

    f: str
    invoked: int = 0
    points: dict[Outcome, list[tuple[int, int]]] = msgspec.field(
        default_factory=lambda: {outcome: [] for outcome in OUTCOMES}
    )
    ends: dict[Outcome, list[int]] = msgspec.field(
        default_factory=lambda: {outcome: [] for outcome in OUTCOMES}
    )
    counts: dict[Outcome, int] = msgspec.field(default_factory=lambda: dict.fromkeys(OUTCOMES, 0))

    @property
    def open(self) -> int:
        """How many never completed."""
        return max(0, self.invoked - sum(self.counts.values()))

    @property
    def slowest_ns(self) -> int:
        return max((ns for points in self.points.values() for _, ns in points), default=0)

    def latencies(self) -> list[int]:
        """Of the ok ones, ascending."""
        return sorted(ns for _, ns in self.points["ok"])


def kinds(history: History) -> list[Kind]:
    """Each kind of operation of clients and observers, by name."""
    found: dict[str, Kind] = {}
    for op in history.clients:
        kind = found.setdefault(op.f, Kind(f=op.f))
        if op.type == "invoke":
            kind.invoked += 1
            continue
        outcome = outcome_of(op)
        if outcome is None:
            continue
        kind.counts[outcome] += 1
        if op.time < 0:
            continue
        kind.ends[outcome].append(op.time)
        begun = history.invocation(op)
        if begun is not None and 0 <= begun.time <= op.time and begun.index < op.index:
            kind.points[outcome].append((begun.time, op.time - begun.time))
    return [found[f] for f in sorted(found)]


def outcome_of(op: Op) -> Outcome | None:
    """How a completion is counted; None: it is none."""
    if op.type == "fail":
        return "refused" if refused(op) else "fail"
    return op.type if op.type in ("ok", "info") else None


def quantile(ascending: Sequence[int], share: float) -> int | None:
    """The value that this share is not above; None of nothing."""
    if not ascending:
        return None
    return ascending[min(len(ascending) - 1, int(share * len(ascending)))]


class LogScale(msgspec.Struct, frozen=True):
    """Latency to a height: a decade takes as much room as the next."""

    top_ns: int
    height: float

    def at(self, ns: int) -> float:
        """Distance from the top."""
        top, floor = log10(max(self.top_ns, FLOOR_NS * 10)), log10(FLOOR_NS)
        share = (log10(max(ns, FLOOR_NS)) - floor) / (top - floor)
        return round((1 - min(share, 1.0)) * (self.height - 4) + 2, 1)

    def decades(self) -> list[int]:
        """Powers of ten of it (ns)."""
        found, ns = [], FLOOR_NS
        while ns <= max(self.top_ns, FLOOR_NS * 10):
            found.append(ns)
            ns *= 10
        return found


def thinned(
    points: Sequence[tuple[int, int]], time: TimeScale, height: LogScale
) -> list[tuple[float, float]]:
    """One point for each cell that holds any, at the place of the first one there."""
    cells: dict[tuple[int, int], tuple[float, float]] = {}
    for at_ns, latency_ns in points:
        x, y = time.at(at_ns), height.at(latency_ns)
        cell = int(x // CELL), int(y * ROWS // height.height)
        if cell not in cells:
            cells[cell] = x, y
    return sorted(cells.values())


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of time: how much completed in it, and how fast what was ok was."""

    start_ns: int
    end_ns: int
    per_s: dict[Outcome, float]
    p50_ns: int | None
    p99_ns: int | None


def windows(kind: Kind, time: TimeScale) -> list[Window]:
    """The run in equal windows."""
    length_ns = max(nice_step(time.length_ns / WINDOWS), 1_000_000_000)
    first = time.start_ns // length_ns
    count = min(time.end_ns // length_ns - first + 1, WIDTH)
    ended: list[dict[Outcome, int]] = [dict.fromkeys(OUTCOMES, 0) for _ in range(count)]
    latencies: dict[int, list[int]] = defaultdict(list)
    for outcome in OUTCOMES:
        for at_ns in kind.ends[outcome]:
            ended[_window(at_ns, length_ns, first, count)][outcome] += 1
    for at_ns, latency_ns in kind.points["ok"]:
        latencies[_window(at_ns, length_ns, first, count)].append(latency_ns)
    return [_summed(n, first, length_ns, ended[n], sorted(latencies[n])) for n in range(count)]


def _window(at_ns: int, length_ns: int, first: int, count: int) -> int:
    return min(max(at_ns // length_ns - first, 0), count - 1)


def _summed(
    number: int, first: int, length_ns: int, ended: dict[Outcome, int], ascending: list[int]
) -> Window:
    enough = ascending if len(ascending) >= QUANTILES_NEED else []
    start_ns = (first + number) * length_ns
    return Window(
        start_ns=start_ns,
        end_ns=start_ns + length_ns,
        per_s={outcome: n * 1e9 / length_ns for outcome, n in ended.items()},
        p50_ns=quantile(enough, 0.5),
        p99_ns=quantile(enough, 0.99),
    )
