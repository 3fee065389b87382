"""The command ``maxq generate-history``."""

from pathlib import Path
from typing import Any

import click

from maxq.harness.cli.given.param_types import Name
from maxq.harness.contracts.terminal import echo
from maxq.harness.run import provenance
from maxq.harness.schedule import generated
from maxq.workloads.generated.asked.kinds import WORKLOADS, help_lines
from maxq.workloads.generated.asked.request import FORMATS, PLACES, Refusal, Request, parsed

HELP = "help"
EPILOG = """
\b
Examples:
  maxq generate-history --workload queue --ops 100000 --out big && maxq check big
  maxq generate-history --workload queue --ops 400 --anomalies lost-write=3,phantom=1 --out small
  maxq generate-history --anomalies help
"""


@click.command(epilog=EPILOG)
@click.option("--workload", type=Name(WORKLOADS), help="whose operations there are many of")
@click.option("--ops", type=int, default=10_000, show_default=True, help="of clients, about")
@click.option("--concurrency", type=int, default=10, show_default=True, help="client threads")
@click.option(
    "--info", type=float, default=0.05, show_default=True, help="share of unknown outcomes"
)
@click.option(
    "--anomalies",
    default="",
    metavar="NAME=COUNT,...",
    help="what to plant, by the names of docs/anomalies.md; help: lists what can be planted",
)
@click.option(
    "--at",
    type=Name(PLACES),
    default="anywhere",
    show_default=True,
    help="where to plant: info is beside an operation of unknown outcome",
)
@click.option(
    "--broker-sets", type=int, default=0, help="two queues each; default: one for 20 clients"
)
@click.option(
    "--seed", type=int, default=0, show_default=True, help="the same seed, the same bytes"
)
@click.option("--format", "to", type=Name(FORMATS), default="parquet", show_default=True)
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="a new folder")
def generate_history(out: Path | None, to: Any, anomalies: str, **given: Any) -> int:
    """Write a run's folder with a history that is made up: correct but for the anomalies asked for.

    It is judged as any run: `maxq check OUT`. What was planted, with the operations that show it
    and the names by which it may be called, is in OUT/planted.json.
    """
    if anomalies == HELP:
        for line in help_lines():
            echo(line)
        return 0
    if out is None or not given["workload"]:
        raise click.UsageError("--workload and --out are needed")
    # Imported here: these need numpy, and the command line is to begin without it.
    from maxq.workloads.generated.world import Outcome
    from maxq.workloads.generated.writing import generate

    try:
        request = Request(anomalies=parsed(anomalies), **given)

        def config(outcome: Outcome) -> dict[str, Any]:
            options = generated.options_of(
                request, outcome.main_ns, learners=request.learners, trims=request.trims
            )
            return generated.config_of(options, request.command(to), provenance.identity())

        written = generate(request, out, config, to)
    except Refusal as why:
        raise click.UsageError(str(why)) from None
    echo(f"{out}: {written.rows:,} events, {written.ops:,} operations of clients in the main part")
    for kind, count in written.counts().items():
        echo(f"  planted: {kind}={count}")
    return 0
