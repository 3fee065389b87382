"""The command ``maxq campaign``."""

import os
from collections.abc import Sequence
from pathlib import Path

import click

from maxq.harness.cli.given.param_types import PLUGIN_OPTION, Duration, Name
from maxq.harness.cli.given.ticker import Steps, Ticker
from maxq.harness.contracts.terminal import echo
from maxq.harness.experiments import campaign
from maxq.harness.experiments.engine import JOURNAL
from maxq.harness.experiments.mutants import WANTED, MutantCampaign, names_of, table
from maxq.harness.schedule.options import MODES
from maxq.reference.mutants import CONTAINED

MUTANTS = Path("mutants")


@click.command("campaign")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--store",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("runs"),
    show_default=True,
    help="where the campaign's folder goes",
)
@click.option("--fresh", is_flag=True, help="discard what was done before, and start over")
@click.option("--budget", type=Duration(), default=None, help="begin no run after this long")
@click.option(
    "--mode",
    type=Name([*MODES, CONTAINED]),
    default=None,
    help="with `mutants`: only those of controllers, of pairs, or of pairs in containers",
)
@PLUGIN_OPTION
def campaign_command(
    file: Path, store: Path, fresh: bool, budget: int | None, mode: str | None
) -> int:
    """Run a campaign: a TOML file of runs, or one that comes with Max-Q, such as acceptance.

    `mutants` runs every seeded bug in the simulator until it is caught. The same command again
    resumes.
    """
    if file == MUTANTS:
        names = () if mode is None else names_of(mode)
        return run_mutants(store, fresh=fresh, budget_ns=budget, names=names)
    if mode is not None:
        raise click.UsageError("--mode is of `maxq campaign mutants`; cells have their own")
    try:
        found = campaign.read_campaign(file)
        planned = Duration().convert(found.budget, None, None) if found.budget else None
    except campaign.CampaignError as error:
        raise click.UsageError(str(error)) from None
    limit = budget if budget is not None else planned
    folder = store.resolve() / "campaigns" / found.name
    if fresh and folder.exists():
        (folder / JOURNAL).unlink(missing_ok=True)
    runs = campaign.Runs(found, folder)
    steps = Steps("runs", len(runs.done()))

    def line() -> str:
        done, now = runs.done(), runs.next()
        failed = [d.name for d in done if not d.passed]
        said = f"{len(failed)} FAILED, last {failed[-1]}" if failed else "none failed"
        at_work = f"now: {now.name}" if now else ""
        return steps.line(len(done), len(runs.jobs), said if done else "", at_work)

    def show() -> None:
        echo(campaign.table(runs.done()))
        echo(f"JUnit:   {folder / campaign.JUNIT}")

    with Ticker(line, show) as ticker:
        runs.run(budget_ns=limit, say=lambda text: ticker.say(text, err=False))
    show()
    if any(not d.passed for d in runs.done()):
        return 1
    return 0 if runs.next() is None else 2


def run_mutants(
    store: Path, *, fresh: bool, budget_ns: int | None, names: Sequence[str] = ()
) -> int:
    """Run the campaign of certain mutants, or all; the exit code: 0 if enough are caught, 2 if it
    is not over."""
    folder = store.resolve() / "campaigns" / "mutants"
    if fresh:
        (folder / JOURNAL).unlink(missing_ok=True)
    found = MutantCampaign(folder, jobs=os.cpu_count() or 1, names=names)

    def line() -> str:
        rows = list(found.rows())
        caught = sum(r.caught for r in rows)
        return f"{sum(r.whole for r in rows)} of {len(rows)} mutants done; {caught} caught"

    def show() -> None:
        for text in table(list(found.rows())):
            echo(text)

    with Ticker(line, show) as ticker:
        found.run(budget_ns=budget_ns, say=ticker.say)
    show()
    rows = list(found.rows())
    if sum(r.caught for r in rows) >= WANTED * len(rows):
        return 0
    return 1 if all(r.whole for r in rows) else 2
