"""``maxq compact``: many runs in one dataset."""

from collections.abc import Sequence
from pathlib import Path

import click

from maxq.harness.cli.given.ticker import Steps, Ticker
from maxq.harness.contracts.terminal import echo, pasted
from maxq.harness.run.several.compacting import compact
from maxq.harness.run.several.given import given_by
from maxq.histories.datasets.writing import is_unfinished

EPILOG = """
\b
Examples:
  maxq compact runs/campaigns/nightly --out season
  maxq check season
"""


@click.command("compact", epilog=EPILOG)
@click.argument(
    "runs", nargs=-1, required=True, metavar="RUN...", type=click.Path(exists=True, path_type=Path)
)
@click.option(
    "--out",
    required=True,
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="the folder of the dataset, which is made",
)
def compact_command(runs: Sequence[Path], out: Path) -> int:
    """Put many runs into one dataset, which `maxq check DIR` judges at once.

    RUN is a run's folder, a journal (.jsonl), a table, or the folder of a campaign or a store,
    which means all its runs. They stay as they are. If the command was cut off, the same one again
    starts over.
    """
    found = given_by(runs)
    if is_unfinished(out):
        echo(f"{out} is unfinished: starting over", err=True)
    steps, count = Steps("runs", 0), [0]

    def done(number: int) -> None:
        count[0] = number

    with Ticker(lambda: steps.line(count[0], len(found))):
        written = compact(found, out, done)
    events = sum(run.report.count for run in written)
    cut_off = sum(not run.report.complete for run in written)
    more = f", {cut_off:,} of which did not end properly" if cut_off else ""
    echo(f"{out}: {len(written):,} run{'' if len(written) == 1 else 's'}{more}; {events:,} events")
    echo(f"judge:   {pasted(f'maxq check {out}')}")
    return 0
