"""The command ``maxq hunt``."""

from collections.abc import Callable
from pathlib import Path

import click

from maxq.harness.cli.given.asked import layout_for
from maxq.harness.cli.given.options import LAYOUT_OPTION
from maxq.harness.cli.given.param_types import PLUGIN_OPTION, Duration, usage
from maxq.harness.cli.given.sections import Sectioned
from maxq.harness.cli.given.ticker import Steps, Ticker
from maxq.harness.cli.scenarios import BASE_IMAGE, BUDGET, ENVIRONMENT, RESUME, Release
from maxq.harness.cli.schedules import MODE, STORE
from maxq.harness.contracts.terminal import echo
from maxq.harness.experiments.engine import JOURNAL
from maxq.harness.experiments.hunt.hunt import Hunt
from maxq.harness.experiments.hunt.page import folder_of, markdown
from maxq.harness.schedule.options import MODES
from maxq.harness.targets.rocketmq.releases import (
    BACK_ENDS,
    JRAFT_SINCE,
    Version,
    ordered,
    parse,
)
from maxq.histories.store import write_whole

MARKDOWN = "hunt.md"
FIRST = (
    *("target", "environment", "mode", "layout", "seeds", "jobs", "length", "budget", "table"),
    *("again", "resume", "store"),
)


@click.command(cls=Sectioned, first=FIRST)
@click.option("--target", type=Release(), required=True, help="such as rocketmq:5.5.0")
@ENVIRONMENT
@MODE
@LAYOUT_OPTION
@click.option(
    "--seeds",
    type=click.IntRange(0, 10_000),
    default=0,
    show_default=True,
    help="so many random runs behind those of the covering array",
)
@click.option(
    "--jobs",
    type=click.IntRange(1, 16),
    default=1,
    show_default=True,
    help="clusters at a time, as long as none of them is too late to judge",
)
@click.option(
    "--length",
    type=Duration(),
    default=None,
    help="of each run's main part; by default 4 to 5 min, about half of that in --mode pair",
)
@BUDGET
@click.option("--table", is_flag=True, help="run nothing, print what there is")
@click.option("--again", is_flag=True, help="judge all stored runs again, and run nothing")
@RESUME
@PLUGIN_OPTION
@BASE_IMAGE
@STORE
def hunt(
    target: str,
    environment: str,
    mode: str,
    layout: str | None,
    seeds: int,
    jobs: int,
    length: int | None,
    budget: int | None,
    table: bool,
    again: bool,
    resume: bool,
    base_image: str,
    store: Path,
) -> int:
    """Look for bugs of a release of RocketMQ with random schedules, a fresh cluster for each.

    Runs cover all profiles and both kinds of controllers, or without controllers the profiles of
    pairs. At the end it prints what was run and found, which pairs of values were met, and which
    rows of RocketMQ's decision tables were reached. The same command again resumes.
    """
    version = parse(target)
    refuse(version, mode)
    with usage():
        layout_for(layout or "", pair=mode == MODES[1])
    folder = store.resolve() / folder_of(mode, layout or "")
    idle = table or again
    if not resume and not idle:
        (folder / JOURNAL).unlink(missing_ok=True)
    found = Hunt(
        folder,
        release=version.release,
        environment=environment,
        mode=mode,
        seeds=seeds,
        length_ms=(length or 0) // 1_000_000,
        base_image=base_image,
        layout=layout or "",
    )
    if again:
        found.look_again(jobs)
    if not idle:
        with Ticker(progress_of(found), lambda: show(found, folder)) as ticker:
            found.run(jobs=jobs, budget_ns=budget, say=ticker.say)
    show(found, folder)
    return 2 if found.missing() else 0


def refuse(version: Version, mode: str) -> None:
    """Refuse a target that there is no such hunt on.

    Raises:
        click.UsageError: it has another back end, or none of those that the runs need.
    """
    named = version.back_end != BACK_ENDS[0]
    if mode == MODES[1] and named:
        raise click.UsageError("--target: a release without a back end: pairs have no controllers")
    if mode == MODES[0] and (named or ordered(version.release) < ordered(JRAFT_SINCE)):
        raise click.UsageError(
            f"--target: a release since {JRAFT_SINCE}, without a back end: half of the runs have "
            "jraft"
        )


def progress_of(found: Hunt) -> Callable[[], str]:
    """What says how far a hunt has come."""
    steps = Steps("runs", found.of - len(found.missing()))

    def progress() -> str:
        entries = found.entries()
        broken = sum(bool(e.broken) for e in entries)
        said = f"{broken} broke a promise" if broken else "none broke a promise"
        return steps.line(found.of - len(found.missing()), found.of, said if entries else "")

    return progress


def show(found: Hunt, folder: Path) -> None:
    """Print what there is, and store it as a page."""
    text = markdown(found)
    write_whole(folder / MARKDOWN, text.encode())
    echo(text)
