"""The command ``maxq generate-history``."""

import os
import shlex
from pathlib import Path
from typing import Any

import click

from maxq.harness.cli.given.param_types import PLUGIN_OPTION, Name
from maxq.harness.cli.given.sections import Sectioned
from maxq.harness.cli.histories.known_models import known_models
from maxq.harness.contracts.terminal import echo, pasted
from maxq.harness.run import provenance
from maxq.harness.schedule import generated
from maxq.workloads.generated.asked.kinds import WORKLOADS, help_lines
from maxq.workloads.generated.asked.request import FORMATS, PLACES, Refusal, Request, parsed
from maxq.workloads.of_models.request import ANOMALIES, ModelRequest

HELP = "help"
LISTED_MAX = 20  # of what was planted
MANY_OPS = 200_000  # from which on it pays to start processes
JOBS_MAX = 4  # one process writes what the others make, and has enough to do with as many
EPILOG = """
\b
Examples:
  maxq generate-history --workload queue --ops 100000 --out big && maxq check big
  maxq generate-history --workload queue --ops 400 --anomalies lost-write=3,phantom=1 --out small
  maxq generate-history --model fifo-queue --ops 200 --anomalies stale=1 --out small
  maxq generate-history --anomalies help
"""
FIRST = (
    *("workload", "ops", "anomalies", "to", "out", "seed"),
    *("model", "keys", "values", "concurrency", "info"),
)


class _Workload(Name):
    """A workload; who names a model is told how models are asked for."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value not in self.choices and value in known_models():
            self.fail(f"{value} is a model: --model {value}", param)
        return super().convert(value, param, ctx)


@click.command(cls=Sectioned, epilog=EPILOG, first=FIRST)
@click.option("--workload", type=_Workload(WORKLOADS), help="whose operations there are many of")
@click.option(
    "--model", type=Name(known_models, "NAME"), help="calls of a model's objects, and no run"
)
@click.option(
    "--keys",
    type=int,
    help="of a model: objects, or keys of transactions that are in use at a time; default: 1, or 3",
)
@click.option(
    "--values", type=int, default=0, help="of a model: how many are written; default: all differ"
)
@PLUGIN_OPTION
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
@click.option(
    "--format",
    "to",
    type=Name(FORMATS),
    default="parquet",
    show_default=True,
    help="the history's format",
)
@click.option(
    "--jobs",
    type=click.IntRange(1, 64),
    help="processes that make a workload's rows, with the same bytes for any number; "
    f"default: 1, from {MANY_OPS:,} operations on one a core, at most {JOBS_MAX}",
)
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="a new folder")
def generate_history(out: Path | None, to: Any, anomalies: str, **given: Any) -> int:
    """Generate a run's folder with a history that is correct but for the anomalies asked for.

    It is judged as any run: `maxq check OUT`. What was planted, with the operations that show it
    and the names by which it may be called, is in OUT/planted.json. With --model it is a history of
    calls, and no run: `maxq check OUT/history.parquet --model NAME`.
    """
    if anomalies == HELP:
        for line in [*help_lines(), *model_lines()]:
            echo(line)
        return 0
    workload, model, more = given.pop("workload"), given.pop("model"), _of_models(given)
    jobs: int | None = given.pop("jobs")
    if out is None or (workload is None) == (model is None):
        raise click.UsageError("--out is needed, and either --workload or --model")
    if model is not None:
        if jobs is not None:
            raise click.UsageError("--jobs is for --workload")
        return _generate_calls(out, to, anomalies, {"model": model, **given, **more})
    if more:
        raise click.UsageError(f"--{next(iter(more))} is for --model")
    given["workload"] = workload
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

        written = generate(request, out, config, to, jobs or _jobs(request.ops))
    except Refusal as why:
        raise click.UsageError(str(why)) from None
    echo(f"{out}: {written.rows:,} events, {written.ops:,} operations of clients in the main part")
    for kind, count in written.counts().items():
        echo(f"  planted: {kind}={count}")
    return 0


def model_lines() -> list[str]:
    """What can be planted in a model's calls, a line each."""
    wide = max(map(len, ANOMALIES))
    return ["With --model:", *(f"  {name:{wide}}  {what}" for name, what in ANOMALIES.items())]


def _jobs(ops: int) -> int:
    return 1 if ops < MANY_OPS else min(len(os.sched_getaffinity(0)), JOBS_MAX)


def _of_models(given: dict[str, Any]) -> dict[str, int]:
    """Takes the options out that are for models, and returns those that say something."""
    keys, values = given.pop("keys"), given.pop("values")
    return {**({} if keys is None else {"keys": keys}), **({"values": values} if values else {})}


def _generate_calls(out: Path, to: Any, anomalies: str, given: dict[str, Any]) -> int:
    """Write a history of calls."""
    from maxq.harness.cli.histories.generated_calls import PLANTED, write  # numpy, as below
    from maxq.workloads.of_models.making import keys_of, making

    at, broker_sets = given.pop("at"), given.pop("broker_sets")
    if at != "anywhere" or broker_sets:
        raise click.UsageError("--at and --broker-sets are for --workload")
    try:
        model = known_models()[given["model"]]
        asked = {"keys": keys_of(model), **given}
        request = ModelRequest(anomalies=parsed(anomalies), **asked)
        written = write(request, making(request, model), out, to)
    except Refusal as why:
        raise click.UsageError(str(why)) from None
    path = written.path
    echo(f"{path}: {2 * written.ops:,} events of {written.ops:,} operations")
    for wrong in written.planted[:LISTED_MAX]:
        echo(f"  planted: {wrong.kind} at ops {'-'.join(map(str, wrong.ops))}")
    if (more := len(written.planted) - LISTED_MAX) > 0:
        echo(f"  planted: {more:,} more, in {PLANTED}")
    again = f"maxq check {shlex.quote(str(path))} --model {request.model}"
    echo(f"judge it: {pasted(again)}")
    return 0
