"""Some operations, drawn: who did what beside whom.

Bars are operations, one lane a process. Only the order of begins and ends counts, so that is what
the diagram keeps: two bars overlap where neither operation was over before the other began, and
their lengths mean nothing.
"""

from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import NamedTuple

from maxq.harness.report.markup import Html, clean, el, join, short

LEFT, LANE, BAR, PAD = 96, 62, 22, 14  # px
CHAR, STEP_MIN = 7.3, 30  # px: of a letter, of a step of the order
LABEL_MAX, CELL_MAX = 34, 400  # characters


class Bar(NamedTuple):
    """An operation: `begun` and `ended` are its places in the history, `ended` None if it has no
    answer; `shown` if it is one of those that show best what is wrong."""

    process: str
    begun: int
    ended: int | None
    asked: str
    answered: str
    times: str
    outcome: str
    shown: bool


def diagram(bars: Sequence[Bar]) -> Html:
    """Some operations, a lane for each process."""
    return el("div", _drawn(bars), class_="drawn", tabindex="0", role="region",
              aria_label="diagram of operations")  # fmt: skip


def stylesheet() -> str:
    """The style of a diagram."""
    return files(__package__).joinpath("diagram.css").read_text(encoding="utf-8")


def steps(bars: Sequence[Bar]) -> Mapping[int, int]:
    """Where each begin and end stands, in whole steps: only a begin that follows an end is a step
    further, so that exactly those bars overlap of which neither was over first."""
    found: dict[int, int] = {}
    ends = {b.ended for b in bars if b.ended is not None}
    step, was_end = 0, False
    for place in sorted({*ends, *(b.begun for b in bars)}):
        is_end = place in ends
        step += was_end and not is_end
        found[place] = step
        was_end = is_end
    return found


def _label(bar: Bar) -> tuple[str, str]:
    answer = bar.answered.removeprefix("ok").strip()
    if bar.outcome == "info":
        return _cut(bar.asked), ""
    shown = f"→ {answer}" if answer else bar.answered
    return _cut(bar.asked), _cut(shown)


def _cut(text: str) -> str:
    text = clean(text)
    return text if len(text) <= LABEL_MAX else f"{text[: LABEL_MAX - 1]}…"


def _drawn(bars: Sequence[Bar]) -> Html:
    at = steps(bars)
    last = max(at.values(), default=0)
    wide = _widths(bars, at, last)
    edges = [LEFT]
    for width in wide:
        edges.append(edges[-1] + width + PAD)
    lanes = {p: n for n, p in enumerate(sorted({b.process for b in bars}, key=_by_number))}
    height, width = len(lanes) * LANE + 10, edges[-1] + 50
    return el(
        "svg",
        (_lane(p, n, width) for p, n in lanes.items()),
        (_bar(b, at, edges, lanes[b.process] * LANE + 28) for b in bars),
        width=width, height=height, viewBox=f"0 0 {width} {height}", role="img",
        aria_label=f"{len(bars)} operations of {len(lanes)} processes; the table below says which",
    )  # fmt: skip


def _by_number(process: str) -> tuple[int, str]:
    return len(process), process


def _widths(bars: Sequence[Bar], at: Mapping[int, int], last: int) -> list[int]:
    """Of each step its width: so that every bar has room for its words."""
    wide = [STEP_MIN] * (last + 1)
    spans = [(at[b.begun], last if b.ended is None else at[b.ended], b) for b in bars]
    for first, end, bar in sorted(spans, key=lambda s: (s[1] - s[0], s[0])):
        need = int(max(map(len, _label(bar))) * CHAR) + 16
        short_of = need - sum(wide[first : end + 1]) - PAD * (end - first)
        if short_of > 0:
            each = -(-short_of // (end - first + 1))
            for step in range(first, end + 1):
                wide[step] += each
    return wide


def _lane(process: str, number: int, width: int) -> Html:
    y = number * LANE + 28
    name = f"process {process}" if process.isdigit() else process
    return join(
        el("line", x1=LEFT, x2=width, y1=y + BAR / 2, y2=y + BAR / 2, class_="lane"),
        el(
            "text",
            short(name, 13),
            x=2,
            y=y + 15,
            class_="who",
        ),
    )


def _bar(bar: Bar, at: Mapping[int, int], edges: Sequence[int], y: int) -> Html:
    x = edges[at[bar.begun]]
    asked, answered = _label(bar)
    mark = " shown" if bar.shown else ""
    if bar.ended is None:
        until = edges[-1] + 40
        shape = el("path", d=f"M{until} {y}H{x}V{y + BAR}H{until}", class_=f"open{mark}")
    else:
        until = edges[at[bar.ended] + 1] - PAD
        shape = el("rect", x=x, y=y, width=until - x, height=BAR, rx=3,
                   class_=f"bar {bar.outcome}{mark}")  # fmt: skip
    return el(
        "g",
        el("title", f"{short(bar.asked, CELL_MAX)}: {short(bar.answered, CELL_MAX)} "
                    f"({bar.times})"),
        shape,
        el("text", asked, x=x + 5, y=y - 5, class_="word"),
        el("text", answered or ("no answer" if bar.outcome == "info" else
                                "failed" if bar.outcome == "fail" else ""),
           x=x + 6, y=y + 15, class_="word out"),
    )  # fmt: skip
