"""The command ``maxq campaign``."""

from pathlib import Path

import click

from maxq.harness.cli import schedules
from maxq.harness.cli.given.param_types import PLUGIN_OPTION, Duration
from maxq.harness.contracts.terminal import echo
from maxq.harness.experiments import campaign
from maxq.harness.experiments.engine import JOURNAL

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
@click.option("--fresh", is_flag=True, help="forget what was done before, and begin anew")
@click.option("--budget", type=Duration(), default=None, help="begin no run after this long")
@PLUGIN_OPTION
def campaign_command(file: Path, store: Path, fresh: bool, budget: int | None) -> int:
    """Run a campaign: a TOML file of cells, or one that comes with Max-Q, such as acceptance;
    `mutants` runs every seeded bug in the simulator until it is caught.

    The same command again goes on where the last one was cut off.
    """
    if file == MUTANTS:
        return schedules.run_mutants(store, fresh=fresh, budget_ns=budget)
    try:
        found = campaign.read_campaign(file)
        planned = Duration().convert(found.budget, None, None) if found.budget else None
    except campaign.CampaignError as error:
        raise click.UsageError(str(error)) from None
    limit = budget if budget is not None else planned
    folder = store.resolve() / "campaigns" / found.name
    if fresh and folder.exists():
        (folder / JOURNAL).unlink(missing_ok=True)
    done = campaign.run_campaign(found, folder, budget_ns=limit, say=echo)
    echo(campaign.table(done))
    echo(f"JUnit:   {folder / campaign.JUNIT}")
    whole = len(done) == len(campaign.jobs_of(found))
    return 1 if any(not d.passed for d in done) else 0 if whole else 2
