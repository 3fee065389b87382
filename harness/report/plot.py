"""The drawing: plots of equal width over one time axis, as SVG that stretches.

A plot is an outer SVG, in pixels and per cent, which holds text, and an inner one of `WIDTH` units,
which is stretched and which a zoom views in part. What all plots have (grid, bands of faults,
marks) is drawn once in `shared` and used by each.
"""

from collections.abc import Iterable, Sequence

from maxq.harness.report.bands import Band
from maxq.harness.report.markup import Html, el, join
from maxq.harness.report.measures import LogScale, Window, thinned
from maxq.harness.report.timescale import WIDTH, TimeScale, duration, seconds
from maxq.histories.columns.timings import OUTCOMES, Timing

LANE, GAP = 16, 3  # px
LATENCY, RATE, AXIS = 120, 46, 20  # px
HIGH = 1000  # px; more than any plot
RULER, RULERS_MAX = 5, 6  # px of a fault's ruler; how many there is room for
BAND_GAP = 6  # units between bands of one colour that are drawn as one: half a pixel or so
EDGED = 25  # units; the edge of a narrower state would hide it
CHAR, NARROW = 6.4, 640  # px: of a letter; of the narrowest plot, for labels where no script runs


def plot(
    height: int, label: str, *parts: Html, texts: Sequence[Html] = (), role: str = "img"
) -> Html:
    """A plot: `parts` in units, `texts` beside them. One with links in it is no `img`."""
    inner = el(
        "svg",
        *parts,
        class_="x",
        width="100%",
        height=height,
        viewBox=f"0 0 {WIDTH} {height}",
        preserveAspectRatio="none",
    )
    return el(
        "svg", inner, *texts, class_="plot", width="100%", height=height, role=role,
        aria_label=label,
    )  # fmt: skip


def row(name: Html | str, drawn: Html, *, kind: str = "") -> Html:
    """A plot with its name at the left."""
    return el("div", el("div", name, class_="name"), drawn, class_=f"row {kind}".strip())


def use(*ids: str) -> Html:
    """What all plots share, by name."""
    return join(el("use", href=f"#{name}") for name in ids)


def shared(time: TimeScale, bands: Iterable[Band]) -> Html:
    """Grid, bands, marks and cursor, drawn once."""
    grid = (el("line", x1=x, x2=x, y1=0, y2=HIGH, class_="grid") for x, _ in time.ticks())
    shades = _shades(time, bands)
    cursor = el("line", x1=-9, x2=-9, y1=0, y2=HIGH, class_="cursor", id="cursor-line")
    now = el("line", x1=-9, x2=-9, y1=0, y2=HIGH, class_="now", id="now-line")
    chosen = el("rect", x=-9, y=0, width=0, height=HIGH, class_="chosen", id="chosen")
    return el(
        "svg",
        el("defs", el("g", grid, id="grid"), el("g", shades, id="bands"),
           el("g", id="marks"), el("g", chosen, cursor, now, id="cursor")),
        width=0, height=0, aria_hidden="true", class_="defs", id="shared",
        data_from=time.start_ns / 1e9, data_to=time.end_ns / 1e9,
    )  # fmt: skip


def shaded(time: TimeScale, bands: Iterable[Band]) -> list[tuple[str, float, float]]:
    """Where each colour is: (colour, from, to) in units; what overlaps, or nearly meets, is one.

    All plots use these, so their number must not grow with that of faults.
    """
    spans: dict[str, list[tuple[float, float]]] = {}
    for band in bands:
        spans.setdefault(band.color, []).append(span_of(time, band.fault.begun_ns, band.end_ns()))
    return [(color, *span) for color, each in spans.items() for span in merged(each)]


def merged(spans: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Spans (units) in order, without those that overlap or nearly meet."""
    whole: list[tuple[float, float]] = []
    for start, end in sorted(spans):
        if whole and start <= whole[-1][1] + BAND_GAP:
            whole[-1] = whole[-1][0], max(end, whole[-1][1])
        else:
            whole.append((start, end))
    return whole


def _shades(time: TimeScale, bands: Iterable[Band]) -> list[Html]:
    """One grey for the time in which anything was at work, and at the top a ruler for each colour,
    so that faults at one time do not mix to a colour of their own."""
    found = shaded(time, bands)
    grey = [_shade(start, end, y=0, height=HIGH, class_="band")
            for start, end in merged((start, end) for _, start, end in found)]  # fmt: skip
    rulers = {color: n for n, color in enumerate(dict.fromkeys(color for color, _, _ in found))}
    return grey + [
        _shade(start, end, y=min(rulers[color], RULERS_MAX - 1) * RULER, height=RULER - 1,
               fill=color, class_="ruler")
        for color, start, end in found
    ]  # fmt: skip


def _shade(start: float, end: float, **more: str | float) -> Html:
    return el("rect", x=start, width=round(end - start, 1), **more)


def span_of(time: TimeScale, start_ns: int, end_ns: int | None) -> tuple[float, float]:
    """Units from, to; never invisibly narrow."""
    start = time.at(max(start_ns, time.start_ns))
    end = WIDTH if end_ns is None or end_ns < 0 else time.at(end_ns)
    return start, max(end, start + 4)


def label(x: float, width: float, y: float, words: str, kind: str = "seg") -> Html:
    """Text at a place, which a script shows where there is room (0: always)."""
    fits = not width or len(words) * CHAR + 6 <= width * NARROW / WIDTH
    return el(
        "text", words, class_=kind, data_x=x, data_w=width, x=f"{x * 100 / WIDTH:.2f}%", y=y,
        visibility=None if fits else "hidden",
    )  # fmt: skip


def axis(time: TimeScale) -> Html:
    """The times, above or below plots."""
    # The last one may have too little room before the edge.
    texts = [label(x, max(WIDTH - x, 1), 14, words, "tick") for x, words in time.ticks()]
    said = f"time from {seconds(time.start_ns)} to {seconds(time.end_ns)}"
    return row("", plot(AXIS, said, use("grid"), texts=texts), kind="axis")


# Latency and rate.


def latency_plot(time: TimeScale, kind: Timing, stretches: Sequence[Window]) -> tuple[Html, str]:
    """Points by outcome and quantiles of what was ok; with a sentence on what was drawn."""
    height = LogScale(kind.slowest_ns, LATENCY)
    drawn, paths = 0, []
    for outcome in OUTCOMES:
        points = thinned(kind.begun[outcome], kind.took[outcome], time, height)
        drawn += len(points)
        dots = "".join(f"M{x:g} {y:g}h.01" for x, y in points)
        if dots:
            paths.append(el("path", d=dots, class_=f"dots {outcome}"))
    for name in ("p99", "p50"):
        line = _steps(time, height, [(w, getattr(w, f"{name}_ns")) for w in stretches])
        if line:
            paths.append(el("path", d=line, class_=f"quantile {name}"))
    scale = [
        el("line", x1=0, x2=WIDTH, y1=height.at(ns), y2=height.at(ns), class_="grid")
        for ns in height.decades()
    ]
    texts = [label(0, 0, max(10, height.at(ns) - 3), duration(ns), "y") for ns in height.decades()]
    total = sum(map(len, kind.took.values()))
    said = "" if drawn == total else f"{drawn:,} points stand for {total:,} operations. "
    if kind.every > 1:
        said += f"These are one in {kind.every} of all that completed: quantiles are of them. "
    words = f"latency of {kind.f}, logarithmic, {total} operations, slowest " + duration(
        kind.slowest_ns
    )
    return (
        plot(LATENCY, words, use("bands", "grid"), *scale, *paths, use("marks", "cursor"),
             texts=texts),
        said,
    )  # fmt: skip


def _steps(time: TimeScale, height: LogScale, values: Sequence[tuple[Window, int | None]]) -> str:
    """A line of steps, broken where there is no value."""
    path, pen_down = [], False
    for window, ns in values:
        if ns is not None:
            start, end, y = time.at(window.start_ns), time.at(window.end_ns), height.at(ns)
            path.append(f"{'L' if pen_down else 'M'}{start:g} {y:g}H{end:g}")
        pen_down = ns is not None
    return "".join(path)


def rate_plot(time: TimeScale, kind: Timing, stretches: Sequence[Window]) -> Html:
    """Completions a second, one outcome on top of the other."""
    top = max((sum(w.per_s.values()) for w in stretches), default=0) or 1.0
    below = [0.0] * len(stretches)
    areas = []
    for outcome in OUTCOMES:
        above = [b + w.per_s[outcome] for b, w in zip(below, stretches, strict=True)]
        if above != below:
            areas.append(_area(time, stretches, below, above, top, outcome))
        below = above
    words = f"rate of {kind.f}: at most {top:.3g} completions a second"
    texts = [label(0, 0, 11, f"{top:.3g}/s", "y")]
    return plot(RATE, words, use("bands", "grid"), *areas, use("marks", "cursor"), texts=texts)


def _area(
    time: TimeScale,
    stretches: Sequence[Window],
    below: Sequence[float],
    above: Sequence[float],
    top: float,
    outcome: str,
) -> Html:
    def y(value: float) -> str:
        return f"{RATE - 1 - value * (RATE - 4) / top:.1f}".removesuffix(".0")

    ends = [(f"{time.at(w.start_ns):g}", f"{time.at(w.end_ns):g}") for w in stretches]
    there = [f"L{a} {y(v)}H{b}" for (a, b), v in zip(ends, above, strict=True)]
    back = [f"L{b} {y(v)}H{a}" for (a, b), v in zip(reversed(ends), reversed(below), strict=True)]
    path = f"M{there[0][1:]}{''.join(there[1:])}{''.join(back)}Z"
    return el("path", d=path, class_=f"area {outcome}")
