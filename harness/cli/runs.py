"""``maxq runs`` and ``maxq serve``: all runs of a store, in a terminal, as a page, over HTTP."""

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import click
import msgspec

from maxq.harness.cli.given.param_types import Name
from maxq.harness.contracts.terminal import coloured, echo, echo_drawn, one_line, table
from maxq.harness.experiments.overview.entries import (
    SORTS,
    STATES,
    Entry,
    counted,
    differences,
    entries,
    entry_of,
    inner_stores,
    trend,
)
from maxq.histories.store import RunStore

SHOWN, WIDTH, CELL_MAX, PORT = 20, 120, 90, 8087
INDEXED_MAX = 500  # runs of a store whose page each run writes anew
STORE = click.option(
    "--store",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("runs"),
    show_default=True,
    help="where the run folders are; of a campaign: runs/campaigns/NAME/runs",
)
COLUMNS = (("started (UTC)", 19), ("verdict", 10), ("what was found", 42), ("settings", 38),
           ("lost", 10), ("faults", 6))  # fmt: skip
CAMPAIGN_COLUMNS = (("campaign", 32), ("runs", 34), ("lost", 8), ("verdicts, oldest first", 42))
STYLES = {"invalid": "bold red", "valid": "green", "unknown": "yellow", "damaged": "red"}


@click.command()
@click.argument("beside", nargs=-1, type=click.Path(exists=True, file_okay=False, path_type=Path))
@STORE
@click.option("--filter", "words", multiple=True, help="only runs with this word in their line")
@click.option(
    "--verdict", "states", type=Name(STATES), multiple=True, help="only these; repeatable"
)
@click.option(
    "--sort", type=Name(tuple(SORTS)), default="newest", show_default=True, help="the order"
)
@click.option(
    "--campaigns", is_flag=True, help="a row for each campaign of the store, with its verdicts"
)
@click.option("--all", "every", is_flag=True, help=f"not only the newest {SHOWN}")
@click.option("--json", "as_json", is_flag=True, help="print all that is known of each as JSON")
def runs(
    beside: Sequence[Path], store: Path, words: Sequence[str], states: Sequence[str],
    sort: str, campaigns: bool, every: bool, as_json: bool,
) -> int:  # fmt: skip
    """List the runs of a store, newest first, and write its index.html; or put two runs, given by
    their folders, beside each other."""
    if beside:
        if len(beside) != 2:
            raise click.UsageError("two runs can stand beside each other: give two folders")
        show_beside(*(entry_of(path.resolve()) for path in beside))
        return 0
    present(store)
    if campaigns:
        show_campaigns(store, words, states)
        return 0
    found = [run for run in entries(store) if fits(run, words, states)]
    found.sort(key=SORTS[sort])
    if as_json:
        plain = [run.plain() for run in found]
        echo(msgspec.json.format(msgspec.json.encode(plain), indent=2).decode())
        return 0
    show_runs(found if every else found[:SHOWN])
    left = 0 if every else len(found) - SHOWN
    if left > 0:
        echo(f"... and {left} {'older' if sort == 'newest' else 'more'} ones; --all shows them")
    from maxq.harness.experiments.overview.page import write_index

    try:
        page = write_index(store)
    except OSError as error:
        echo(f"the page is not written: {error}", err=True)
    else:
        echo(f"page:    {page}")
    return 0


def present(store: Path) -> None:
    """Complain of a store that is not there."""
    if not store.is_dir():
        raise click.UsageError(f"there is no folder {store}; --store names another one")


def index_anew(store: Path) -> None:
    """Write the page of a store after a run; of so many runs that it would take long, not."""
    from maxq.harness.experiments.overview.page import write_index

    with suppress(OSError):  # the run stands without it
        if len(RunStore(store).runs()) <= INDEXED_MAX:
            write_index(store, inner=False)


def fits(run: Entry, words: Sequence[str], states: Sequence[str]) -> bool:
    """Whether a run has all the words in its line, and one of the verdicts."""
    line = " ".join((run.name, run.started, run.state, run.said, run.load, run.where, *run.found))
    return (not states or run.state in states) and all(w.lower() in line.lower() for w in words)


def show_runs(found: Sequence[Entry]) -> None:
    """A table, a run a row."""
    if not found:
        echo("there are no such runs")
        return
    cells = [
        [
            (run.started, ""),
            (run.state.upper() if run.state == "invalid" else run.state, STYLES.get(run.state, "")),
            (_cut(run.said), ""),
            (_cut(f"{run.where}; {run.load}".strip("; ")), "dim"),
            (run.messages.number, ""),
            (counted(run), ""),
        ]
        for run in found
    ]
    echo_drawn(table(COLUMNS, cells, width=WIDTH, colour=coloured()))


def show_campaigns(store: Path, words: Sequence[str], states: Sequence[str]) -> None:
    """A table, a row for the store and for each store of a campaign in it."""
    cells = []
    for name, path in {"": store, **inner_stores(store)}.items():
        found = [run for run in entries(path) if fits(run, words, states)]
        counts = Counter(run.state for run in found)
        told = ", ".join(f"{counts[s]:,} {s}" for s in STATES if counts[s])
        lost = sum(run.messages.lost or 0 for run in found)
        if found:
            of = one_line(name) or "outside of campaigns"
            cells.append([(of, ""), (told, ""), (f"{lost:,}", ""), (trend(found), "")])
    if not cells:
        echo("there are no such runs")
        return
    echo_drawn(table(CAMPAIGN_COLUMNS, cells, width=WIDTH, colour=coloured()))
    echo("verdicts: . valid, X invalid, ? unknown; the newest is the last")


def _cut(text: str) -> str:
    return text if len(text) <= CELL_MAX else f"{text[:CELL_MAX]}…"


def show_beside(one: Entry, other: Entry) -> None:
    """Two runs, a row for what differs."""
    columns = (("", 12), (one_line(one.name), 50), (one_line(other.name), 50))
    rows = [
        [(name, "dim"), (a, ""), (b, "bold" if a != b else "")]
        for name, a, b in differences(one, other)
    ]
    echo_drawn(table(columns, rows, width=WIDTH, colour=coloured()))


@click.command()
@STORE
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=PORT,
    show_default=True,
    help="the port; 0: a free one",
)
def serve(store: Path, port: int) -> int:
    """Serve the runs of a store over HTTP until interrupted, with the current run live.

    It is read-only, and on this machine's loopback.
    """
    present(store)
    from maxq.harness.experiments.overview.serving import LOOPBACK, server

    with server(store.resolve(), port) as http:
        echo(f"http://{LOOPBACK}:{http.server_port}/ shows {store}; Control-C ends it")
        try:
            http.serve_forever()
        except KeyboardInterrupt:
            echo("ended", err=True)
    return 0
