"""The timeline: what each node was, and which faults were in effect, each by its name.

A fault is a strip below the lane of its node: a tint with a firm lower edge, and its name on it, or
beside it where the strip is narrower than the name. Strips of one line never overlap.
"""

from collections.abc import Sequence

import msgspec

from maxq.harness.report.lanes import Lane, Segment
from maxq.harness.report.markup import Html, el, short
from maxq.harness.report.plot import (
    CHAR,
    EDGED,
    GAP,
    LANE,
    label,
    plot,
    row,
    span_of,
    use,
)
from maxq.harness.report.timescale import WIDTH, TimeScale, seconds

STRIP, STRIPS_MAX, EDGE = 14, 4, 3  # px: a strip and its lower edge; lines of strips
FAULTS_MAX = 1000  # strips of one row that are drawn
PER_PX, PER_PX_SMALL = 9, 14  # units that a px takes: in a plot of the timeline, in a small one
NAME_MAX = 60
SAID_LEAST = WIDTH / 100  # units


class Strip(msgspec.Struct, frozen=True, kw_only=True):
    """A fault on a row; `end_ns` None: it was never healed."""

    start_ns: int
    end_ns: int | None
    name: str
    color: str
    proven: bool = True


def segments_row(time: TimeScale, lane: Lane) -> Html:
    """One line of states."""
    return lane_row(time, lane, lane.name, ())


def lane_row(time: TimeScale, lane: Lane, name: Html | str, strips: Sequence[Strip]) -> Html:
    """One line of states, and below it the faults on its node."""
    bars = [_bar(time, s) for s in (*lane.gaps, *lane.segments)]
    texts = []
    for s in (*lane.gaps, *lane.segments):
        start, end = span_of(time, s.start_ns, s.end_ns)
        # Many short times without an answer say no more than their look does.
        if s.label and (s.state != "silent" or end - start > SAID_LEAST):
            kind = f"seg on-{_ink(s)}"
            texts.append(label(start, round(end - start, 1), GAP + 12, s.label, kind))
    top = GAP + LANE + 1
    below, names, height = drawn(time, strips[:FAULTS_MAX], top)
    said = f"{lane.name}: {len(lane.segments)} states, {len(strips)} faults"
    picture = plot(height + GAP, said, use("grid"), *bars, *below, use("marks", "cursor"),
                   texts=[*texts, *names])  # fmt: skip
    return row(name, picture, kind="lane")


def strips_row(time: TimeScale, name: str, strips: Sequence[Strip]) -> Html | None:
    """All faults of a run as one row; None where there were none."""
    if not strips:
        return None
    below, names, height = drawn(time, strips[:FAULTS_MAX], 1, PER_PX_SMALL)
    said = f"{len(strips)} faults"
    picture = plot(height + 2, said, use("grid"), *below, use("marks", "cursor"), texts=names)
    return row(name, picture, kind="lane")


def drawn(
    time: TimeScale, strips: Sequence[Strip], top: int, per_px: int = PER_PX
) -> tuple[list[Html], list[Html], int]:
    """Strips from a height on: their shapes, their names, and where they end (px)."""
    slots = stacked(time, strips, per_px)
    shapes: list[Html] = []
    names: list[Html] = []
    following: dict[int, float] = {}
    for strip, slot in reversed(list(zip(strips, slots, strict=True))):
        start, end = span_of(time, strip.start_ns, strip.end_ns)
        y = top + slot * STRIP
        shapes.append(_shape(strip, start, end, y))
        room = following.get(slot, WIDTH) - start
        names.append(label(start, round(room, 1), y + 10, short(strip.name, NAME_MAX), "fault"))
        following[slot] = start
    lines = max(slots, default=-1) + 1
    return shapes[::-1], names[::-1], top + lines * STRIP


def stacked(time: TimeScale, strips: Sequence[Strip], per_px: int = PER_PX) -> list[int]:
    """A line for each strip: the first that is free, for its name as well where there is one."""
    free: list[float] = []  # where the line's last name ends
    ends: list[float] = []  # where its last strip does
    lines: list[int] = []
    for strip in strips:
        start, end = span_of(time, strip.start_ns, strip.end_ns)
        named = start + (min(len(strip.name), NAME_MAX) * CHAR + 8) * per_px
        line = next((n for n, until in enumerate(free) if until <= start), len(free))
        if line >= STRIPS_MAX:
            bare = (n for n, until in enumerate(ends) if until <= start)
            line = next(bare, STRIPS_MAX - 1)
        free[line : line + 1] = [max(end, named)]
        ends[line : line + 1] = [end]
        lines.append(line)
    return lines


def _shape(strip: Strip, start: float, end: float, y: int) -> Html:
    healed = "never healed" if strip.end_ns is None else f"healed at {seconds(strip.end_ns)}"
    doubt = "" if strip.proven else ", WITHOUT PROOF"
    words = f"{strip.name} at {seconds(strip.start_ns)}, {healed}{doubt}"
    width = round(end - start, 1)
    return el(
        "g",
        el("title", words),
        el("rect", x=start, y=y, width=width, height=STRIP - 1, fill=strip.color, class_="strip"),
        el("rect", x=start, y=y + STRIP - 1 - EDGE, width=width, height=EDGE, fill=strip.color,
           class_="edge"),
    )  # fmt: skip


def _ink(segment: Segment) -> str:
    return "strong" if segment.state in ("master", "leader") else segment.state


def _bar(time: TimeScale, s: Segment) -> Html:
    start, end = span_of(time, s.start_ns, s.end_ns)
    words = f"{seconds(s.start_ns)} to {seconds(s.end_ns)}: {s.title}"
    return el(
        "rect", el("title", words), x=start, y=GAP, width=round(end - start, 1), height=LANE,
        class_=f"state {s.state} shade-{s.shade}" + (" wide" if end - start > EDGED else ""),
    )  # fmt: skip


def marks_row(time: TimeScale, marks: Sequence[tuple[int, int, str]]) -> Html:
    """Findings on the time axis: (time, number, label) of each of their operations. What falls
    close together is one mark, which names every finding that is in it."""
    taken: dict[float, dict[int, str]] = {}
    for at_ns, number, words in marks:
        taken.setdefault(time.at(at_ns) // 40 * 40, {}).setdefault(number, words)
    shapes = []
    for x, findings in sorted(taken.items()):
        words = short("; ".join(findings.values()), 600)
        bar = el("rect", el("title", words), x=x, y=GAP, width=30, height=LANE, class_="anomaly")
        shapes.append(el("a", bar, href=f"#finding-{min(findings)}", aria_label=words))
    height = LANE + 2 * GAP
    said = f"{len({number for _, number, _ in marks})} findings"
    picture = plot(height, said, use("grid"), *shapes, use("marks", "cursor"), role="group")
    return row("findings", picture, kind="lane")
