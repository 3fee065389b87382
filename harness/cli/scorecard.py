"""The command ``maxq scorecard``."""

from pathlib import Path

import click
from msgspec import convert

from maxq.harness.cli.given.param_types import Alias
from maxq.harness.cli.given.ticker import Steps, Ticker
from maxq.harness.cli.scenarios import BASE_IMAGE, BUDGET, ENVIRONMENT, RESUME, Release
from maxq.harness.cli.schedules import MODE, STORE
from maxq.harness.contracts.target import Profile
from maxq.harness.contracts.terminal import echo
from maxq.harness.experiments.engine import JOURNAL
from maxq.harness.experiments.scorecard import Scorecard
from maxq.harness.experiments.scorecard_page import markdown, page
from maxq.harness.schedule.options import MODES, PAIR_PROFILES, PROFILES
from maxq.histories.store import write_whole

MARKDOWN, PAGE = "scorecard.md", "scorecard.html"
FOLDERS = dict(zip(MODES, ("scorecard", "scorecard-pairs"), strict=True))  # of the store
USUAL = dict(zip(MODES, ("safe,all,default", "sync,auto,async"), strict=True))
OTHERS = {
    MODES[0]: frozenset(PAIR_PROFILES),
    MODES[1]: frozenset(PROFILES.values()) - frozenset(PAIR_PROFILES),
}


@click.command()
@click.option("--versions", required=True, help="releases, joined by commas, such as 5.3.3,5.5.0")
@MODE
@click.option(
    "--profiles",
    default=None,
    show_default="safe,all,default; sync,auto,async in --mode pair",
    help="joined by commas",
)
@ENVIRONMENT
@click.option(
    "--seeds",
    type=click.IntRange(0, 10_000),
    default=0,
    show_default=True,
    help="so many random schedules beside the battery, the same for all releases",
)
@click.option(
    "--rounds", type=click.IntRange(1, 100), default=1, show_default=True, help="of each schedule"
)
@click.option(
    "--jobs", type=click.IntRange(1, 16), default=1, show_default=True, help="clusters at a time"
)
@BUDGET
@RESUME
@BASE_IMAGE
@STORE
def scorecard(
    versions: str,
    mode: str,
    profiles: str | None,
    environment: str,
    seeds: int,
    rounds: int,
    jobs: int,
    budget: int | None,
    resume: bool,
    base_image: str,
    store: Path,
) -> int:
    """Run the same schedules on releases of RocketMQ, and set side by side what each keeps."""
    folder = store.resolve() / FOLDERS[mode]
    if not resume:
        (folder / JOURNAL).unlink(missing_ok=True)
    release, profile = Release(), Alias(PROFILES)
    asked = [profile.convert(p, None, None) for p in (profiles or USUAL[mode]).split(",")]
    if wrong := sorted(set(asked) & OTHERS[mode]):
        raise click.UsageError(f"--profiles: {wrong[0]} is no profile of --mode {mode}")
    card = Scorecard(
        folder,
        targets=[release.convert(v, None, None) for v in versions.split(",")],
        profiles=convert(asked, list[Profile]),
        environment=environment,
        mode=mode,
        seeds=seeds,
        rounds=rounds,
        base_image=base_image,
    )
    steps = Steps("runs", len(card.entries()))

    def line() -> str:
        left, done = len(card.missing()), card.entries()
        broken = sum(bool(e.found) for e in done)
        return steps.line(len(done), len(done) + left, f"something found in {broken}")

    with Ticker(line, lambda: write(card)) as ticker:
        whole = card.run(jobs=jobs, budget_ns=budget, say=ticker.say)
    write(card)
    return 0 if whole else 2


def write(card: Scorecard) -> None:
    """Store what there is, as Markdown and as a page."""
    write_whole(card.folder / MARKDOWN, markdown(card).encode())
    write_whole(card.folder / PAGE, page(card).encode())
    echo(f"scorecard: {card.folder / MARKDOWN}\n           {card.folder / PAGE}")
