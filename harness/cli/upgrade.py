"""The command ``maxq upgrade``."""

from collections.abc import Iterable
from pathlib import Path

import click
from msgspec import convert

from maxq.harness.cli.given.param_types import Alias, Name
from maxq.harness.cli.given.ticker import Steps, Ticker
from maxq.harness.cli.scenarios import BUDGET, ENVIRONMENT, RESUME
from maxq.harness.cli.schedules import STORE
from maxq.harness.contracts.target import Profile
from maxq.harness.contracts.terminal import echo
from maxq.harness.experiments.engine import JOURNAL
from maxq.harness.experiments.upgrade.page import cell, page
from maxq.harness.experiments.upgrade.plans import upgrades
from maxq.harness.experiments.upgrade.trials import Trials
from maxq.harness.schedule.options import PROFILES
from maxq.histories.store import write_whole

ALL = "all"
GROUPS = tuple(dict.fromkeys(upgrade.group for upgrade in upgrades()))


def names() -> list[str]:
    """The upgrades that can be tried."""
    return [upgrade.name for upgrade in upgrades()]


def of_names(wanted: Iterable[str]) -> list[str]:
    """The upgrades that are meant by their own names, those of groups, or all."""
    asked = set(wanted)
    return [u.name for u in upgrades() if asked & {u.name, u.group, ALL}]


@click.command("upgrade")
@click.argument(
    "wanted", metavar="NAME...", nargs=-1, required=True, type=Name([ALL, *GROUPS, *names()])
)
@click.option("--profiles", default="safe,default", show_default=True, help="joined by commas")
@ENVIRONMENT
@click.option(
    "--rounds", type=click.IntRange(1, 100), default=1, show_default=True, help="of each upgrade"
)
@click.option(
    "--write",
    type=click.Path(dir_okay=False, path_type=Path),
    default=None,
    help="the page of all upgrades; what was not run in this store stays as the page has it",
)
@BUDGET
@RESUME
@STORE
def upgrade_command(
    wanted: tuple[str, ...],
    profiles: str,
    environment: str,
    rounds: int,
    write: Path | None,
    budget: int | None,
    resume: bool,
    store: Path,
) -> int:
    """Try what clusters of two releases do, and clusters that go from one to the other.

    `maxq list upgrades` names them and their groups; `all` tries all. The same command again
    resumes. Exit codes: 0 as documented, 1 one is not, 2 one was not run.
    """
    folder = store.resolve() / "upgrade"
    if not resume:
        (folder / JOURNAL).unlink(missing_ok=True)
    profile = Alias(PROFILES)
    asked = convert([profile.convert(p, None, None) for p in profiles.split(",")], list[Profile])
    chosen = of_names(wanted)
    trials = Trials(folder, names=chosen, profiles=asked, environment=environment, rounds=rounds)
    steps = Steps("runs", trials.of - len([*trials.missing()]))

    def line() -> str:
        left, wrong = [*trials.missing()], trials.undocumented()
        said = f"{len(wrong)} not as documented, last {wrong[-1].job.name}" if wrong else ""
        now = f"now: {left[0].name} {left[0].profile}" if left else ""
        return steps.line(trials.of - len(left), trials.of, said, now)

    def show() -> None:
        if write is not None:
            before = write.read_text() if write.exists() else ""
            write_whole(write.resolve(), page(trials, before).encode())
        for upgrade in upgrades():
            for of in upgrade.profiles(asked) if upgrade.name in chosen else ():
                entries = trials.entries(upgrade.name, of)
                echo(f"{upgrade.name} {of}: {cell(upgrade, entries)}")

    with Ticker(line, show) as ticker:
        whole = trials.run(budget_ns=budget, say=ticker.say)
    show()
    return 1 if trials.undocumented() else 0 if whole else 2
