"""A page of tables with a heading and sentences each, as one file that loads nothing."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from maxq.harness.report.markup import Child, Html, el, join, policy

STYLE = """\
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:76rem;padding:0 1rem;
color:light-dark(#1b1b1b,#e8e8e8);background:light-dark(#fff,#161616);color-scheme:light dark}
.wide{overflow-x:auto}table{border-collapse:collapse;margin:1rem 0}
th,td{border:1px solid light-dark(#ccc,#444);padding:.3rem .55rem;text-align:left;
vertical-align:top;font-variant-numeric:tabular-nums}
td.broken{background:light-dark(#fbd5d0,#5c1f1a)}td.kept{background:light-dark(#dcf2dc,#1d3b1f)}
td.other{color:light-dark(#666,#999)}code{font-size:.92em;overflow-wrap:anywhere}
td.measured{background:light-dark(#fdf0cf,#4a3c12)}td[class]{white-space:nowrap}
td.prose{white-space:normal}
"""

Row = tuple[tuple[str, str], ...]  # of (text, how it is shown)


class Part(NamedTuple):
    """A heading, sentences, and a table: its columns, and its rows."""

    title: str
    sentences: tuple[str, ...]
    head: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()


def tables_page(
    title: str, preface: Iterable[str], parts: Iterable[Part], tips: Mapping[str, str]
) -> str:
    """The page. A cell that is shown as ``name`` is the head of its row, and has a tooltip where
    `tips` has one; ``code`` is a command; all else is a class of its own."""
    head = join(
        el("meta", charset="utf-8"),
        el("meta", http_equiv="Content-Security-Policy", content=policy(STYLE, "")),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("title", title),
        Html(f"<style>{STYLE}</style>"),
    )
    body: list[Child] = [el("h1", title), *(el("p", s) for s in preface)]
    for part in parts:
        body += [el("h2", part.title), *(el("p", s) for s in part.sentences)]
        if part.rows:
            body.append(_table(part.head, part.rows, tips))
    return f"<!doctype html>\n{el('html', el('head', head), el('body', body), lang='en')}\n"


def _table(head: Sequence[str], rows: Sequence[Row], tips: Mapping[str, str]) -> Html:
    top = el("tr", (el("th", name, scope="col") for name in head))
    body = [el("tr", (_cell(text, kind, tips) for text, kind in row)) for row in rows]
    return el("div", el("table", el("thead", top), el("tbody", body)), class_="wide")


def _cell(text: str, kind: str, tips: Mapping[str, str]) -> Html:
    if kind == "name":
        return el("th", text, scope="row", title=tips.get(text))
    if kind == "code":
        return el("td", el("code", text))
    return el("td", text, class_=kind or None)
