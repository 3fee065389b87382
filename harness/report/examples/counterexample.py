"""A page about some operations that have no legal order: who did what beside whom.

It loads nothing, and nothing in it can run.
"""

from collections.abc import Sequence
from importlib.resources import files
from typing import NamedTuple

from maxq.harness.report.examples.diagram import CELL_MAX, Bar, diagram, stylesheet
from maxq.harness.report.markup import Html, el, join, policy, short

REPORT = "maxq.harness.report"


class Example(NamedTuple):
    """What the page is about; `of` is how many operations there were on the object."""

    model: str
    headline: str
    why: str
    of: int
    command: str
    bars: Sequence[Bar]
    steps: Sequence[str] = ()  # the reason at length, line by line


def page(example: Example) -> str:
    """The whole page. Pure: an equal example gives an equal page."""
    style = files(REPORT).joinpath("report.css").read_text(encoding="utf-8") + stylesheet()
    count, said = len(example.bars), example.headline.removeprefix("INVALID: ")
    head = join(
        el("meta", charset="utf-8"),
        el("meta", http_equiv="Content-Security-Policy", content=policy(style, "")),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", name="color-scheme", content="light dark"),
        el("title", f"INVALID: not a {example.model} — Max-Q"),
        Html(f"<style>{style}</style>"),
    )
    body = el(
        "main",
        el("h1", el("span", "INVALID", class_="badge invalid"), " ", short(said, 400)),
        el("p", short(example.why, 2000), class_="summary"),
        el("ul", (el("li", short(step, 400)) for step in example.steps)) if example.steps else "",
        el("p", f"{_these(count, example.of)} Red: those that show it best.", class_="note"),
        el("h2", "Who did what, beside whom"),
        el("p", "One lane a process; time goes to the right, not to scale. Bars overlap where "
                "neither operation was over before the other began; only where one ends before "
                "another begins is their order known. A dashed bar had no answer: it may take "
                "effect at any time after its begin, or never.", class_="note"),
        diagram(example.bars),
        el("h2", "Operations"),
        _table(example.bars),
        el("h2", "Judge it again"),
        el("pre", example.command),
        class_="alone",
    )  # fmt: skip
    whole = el("html", el("head", head), el("body", body), lang="en")
    return f"<!doctype html>\n{whole}\n"


def _these(count: int, of: int) -> str:
    what = f"The operation below, of {of:,}, suffices: it breaks" if count == 1 else \
        f"The {count:,} operations below, of {of:,}, suffice: they break"  # fmt: skip
    return f"{what} the model whatever the others did."


def _table(bars: Sequence[Bar]) -> Html:
    rows = (
        el("tr", el("td", f"{b.begun}-{'' if b.ended is None else b.ended}"),
           el("td", short(b.process, 40)), el("td", b.times),
           el("td", el("code", short(b.asked, CELL_MAX))),
           el("td", el("code", short(b.answered, CELL_MAX))), class_="shown" if b.shown else None)
        for b in bars
    )  # fmt: skip
    names = ("ops", "process", "time", "operation", "outcome")
    return el("table", el("thead", el("tr", (el("th", name) for name in names))),
              el("tbody", rows), class_="calls")  # fmt: skip
