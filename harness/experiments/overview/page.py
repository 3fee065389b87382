"""All runs of a store as one page: newest first, to be filtered, two of them beside each other.

The page loads nothing and follows the rules of a report (`maxq.harness.report.page`): what runs and
folders say is text, style and script are allowed by their digests. Where it is served it also asks
its own server how the running run goes on.
"""

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from tempfile import NamedTemporaryFile
from urllib.parse import quote

from maxq.harness.experiments.overview.entries import (
    STATES,
    Entry,
    counted,
    entries,
    inner_stores,
)
from maxq.harness.report.markup import Child, Html, clean, el, join, policy, short
from maxq.histories.store import REPORT

INDEX = "index.html"
RUNS_MAX, SAID_MAX, FAULTS_MAX = 5000, 400, 60
HEADS = ("", "started (UTC)", "verdict", "what was found", "settings", "lost", "faults")
BADGE = {"unfinished": "unknown", "damaged": "damaged", "running": "running"}


def write_index(root: Path, title: str = "", *, inner: bool = True) -> Path:
    """Write the page into a store, and, `inner`, into each store inside of it; where it is.

    Raises:
        OSError: a store does not take it.
    """
    stores = inner_stores(root)
    for name, store in stores.items() if inner else ():
        _write(store / INDEX, page(entries(store), title=name))
    links = {f"{name}/runs/{INDEX}": name for name in stores}
    path = root / INDEX
    _write(path, page(entries(root), title=title or root.name, inner=links))
    return path


def _write(path: Path, text: str) -> None:
    """Put a page in its place; runs that end at one time each write one."""
    with NamedTemporaryFile(
        "w", encoding="utf-8", dir=path.parent, prefix=".index.", delete=False
    ) as file:
        file.write(text)
    os.chmod(file.name, 0o644)
    os.replace(file.name, path)


def page(
    runs: Sequence[Entry],
    *,
    title: str,
    inner: Mapping[str, str] | None = None,
    served: bool = False,
) -> str:
    """The page. Pure.

    Args:
        runs: newest first.
        title: what they are.
        inner: other such pages, by address relative to this one.
        served: by `maxq serve`, so that there is something to ask.
    """
    style, script = _inside("overview.css"), _inside("overview.js")
    allowed = policy(style, script) + ("; connect-src 'self'" if served else "")
    head = join(
        el("meta", charset="utf-8"),
        el("meta", http_equiv="Content-Security-Policy", content=allowed),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", name="referrer", content="no-referrer"),
        el("meta", name="color-scheme", content="light dark"),
        el("title", f"{len(runs)} runs: {short(title, SAID_MAX)} — Max-Q"),
        Html(f"<style>{style}</style>"),
    )
    shown = runs[:RUNS_MAX]
    body = join(
        el("h1", f"{len(runs):,} runs ", el("small", short(title, SAID_MAX))),
        _tally(runs),
        _inner(inner or {}),
        el("section", el("h2", "Running now"), el("div", id="live"), id="running", hidden=True,
           aria_live="polite") if served else None,
        _tools(),
        el("section", id="beside", hidden=True, aria_label="two runs beside each other"),
        el("div", el("table", el("thead", el("tr", (el("th", h, scope="col") for h in HEADS))),
           el("tbody", (_row(n, run) for n, run in enumerate(shown))), id="runs"), class_="scroll"),
        el("p", f"{len(runs) - len(shown)} older runs are not shown.") if len(runs) > len(shown)
        else None,
        Html(f"<script>{script}</script>"),
    )  # fmt: skip
    whole = el("html", el("head", head), el("body", body, data_served=served), lang="en")
    return f"<!doctype html>\n{whole}\n"


def _inside(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _badge(state: str) -> Html:
    return el("span", state.upper() if state == "invalid" else state,
              class_=f"badge {BADGE.get(state, state)}")  # fmt: skip


def _tally(runs: Sequence[Entry]) -> Html:
    count = Counter(run.state for run in runs)
    parts = (
        el("label", el("input", type="checkbox", data_state=state, checked=True), " ",
           _badge(state), f" {count[state]:,}")
        for state in STATES if count[state]
    )  # fmt: skip
    return el("p", [[part, " "] for part in parts], class_="tally", id="states")


def _inner(inner: Mapping[str, str]) -> Html | None:
    if not inner:
        return None
    links = [[el("a", short(name, SAID_MAX), href=f"./{quote(address, errors='replace')}"), " "]
             for address, name in inner.items()]  # fmt: skip
    return el("p", "Also here: ", links, class_="note")


def _tools() -> Html:
    return el(
        "p",
        el("input", type="search", id="filter", aria_label="filter", size=40,
           placeholder="filter: words of a row, such as partition 5.5.0"),
        " ", el("output", id="shown"), " ", el("span", "Tick two runs to see them beside each "
                                               "other.", class_="note"),
        id="tools", hidden=True,
    )  # fmt: skip


def _row(number: int, run: Entry) -> Html:
    report = f"./{quote(run.name, errors='replace')}/{REPORT}"
    found: list[Child] = [short(run.said, SAID_MAX)]
    more = [el("li", short(text, SAID_MAX)) for text in run.found]
    if more:
        kinds = f"{len(more)} kind{'' if len(more) == 1 else 's'} of findings"
        found.append(el("details", el("summary", kinds), el("ul", more)))
    cells: list[Child] = [
        el("input", type="checkbox", data_pick=number, aria_label=f"compare run {number + 1}",
           hidden=True),
        el("a", run.started, href=report, class_="at") if run.report
        else el("span", run.started, class_="at"),
        _badge(run.state),
        found,
        [el("div", short(run.load, SAID_MAX)), el("small", short(run.where, SAID_MAX))],
        run.lost,
        _faults(run),
    ]  # fmt: skip
    return el(
        "tr", (el("td", cell, data_head=head) for head, cell in zip(HEADS, cells, strict=True)),
        data_state=run.state, data_run=_data(run), class_=run.state,
    )  # fmt: skip


def _faults(run: Entry) -> Child:
    if not run.faults:
        return counted(run)
    some = run.faults[:FAULTS_MAX]
    return el("details", el("summary", counted(run)), el("ul", (el("li", short(f, SAID_MAX))
              for f in some)))  # fmt: skip


def _data(run: Entry) -> str:
    """What the script needs to put a run beside another one."""
    data = {
        "run": f"{run.name}",
        "verdict": f"{run.state}: {run.said}",
        "settings": run.settings,
        "lost": run.lost,
        "claims": run.claims,
        "findings": run.found,
        "faults": run.faults[:FAULTS_MAX],
    }
    return json.dumps(_cleaned(data))


def _cleaned(value: object) -> object:
    """Plain values, their texts without what cannot be shown."""
    match value:
        case str():
            return short(value, SAID_MAX)
        case dict():
            return {clean(key): _cleaned(each) for key, each in value.items()}
        case list() | tuple():
            return [_cleaned(each) for each in value]
    return value
