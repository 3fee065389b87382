"""Commands on this machine: ``maxq up``, ``maxq doctor``, ``maxq clean``."""

from typing import Any

import click

from maxq.harness.cli.given import asked
from maxq.harness.cli.given.options import ENVIRONMENT, cluster, load
from maxq.harness.cli.given.param_types import usage
from maxq.harness.cli.given.sections import Sectioned, section
from maxq.harness.cli.testing import resolved
from maxq.harness.contracts.terminal import echo
from maxq.harness.environments import leaks, tools
from maxq.harness.environments.choose import AUTO, SIMULATED
from maxq.harness.run import doctor, stored_run
from maxq.harness.run.run_context import RunContext

CLUSTER = ("target", "broker_conf", "profile", "keys", "mode", "controllers", "namesrvs")
UP = ("environment", *CLUSTER, "broker_sets", "replicas")
DOCTOR = (*CLUSTER, "replicas", "workload", "nemesis")


@click.command(cls=Sectioned, first=UP)
@section("Where", ENVIRONMENT)
@cluster()
def up(**given: Any) -> int:
    """Start a cluster without faults, print how to reach it, and keep it until interrupted."""
    place = doctor.Place(base_image=given.pop("base_image"), store=given.pop("store"))
    given |= {"workload": ("queue",), "nemesis": ("none",), "time_limit": 1, "seed": 0}
    options = resolved({**given, "rate": 1.0, "concurrency": 2}, place, lasting=True)
    if options.environment == SIMULATED:
        raise click.UsageError("up needs --env docker or local: nothing is simulated but runs")
    stored_run.run_up(options, place.store, RunContext(keep=False, base_image=place.base_image))
    return 0


@click.command("doctor", cls=Sectioned, first=DOCTOR)
@cluster()
@load()
def doctor_command(**given: Any) -> int:
    """Try which environments can run `maxq test` with these options here.

    It also looks for what releases of RocketMQ and Spark need.
    """
    place = doctor.Place(base_image=given.pop("base_image"), store=given.pop("store"))
    with usage():
        wanted = asked.asked_from({**given, "environment": AUTO})
    echo("\n".join(doctor.diagnosis(wanted, place, doctor.aloud)))
    for there, line in tools.found():
        echo(f"{'yes' if there else 'no '} {line}")
    echo("yes report: a page that loads nothing, for any browser; none is needed to write it")
    return 0


@click.command()
def clean() -> int:
    """Remove what runs that died have left behind: in the docker engine, and disks.

    Exit code 1 if something could not be removed.
    """
    done = leaks.clean()
    for what in done.removed:
        echo(f"removed {what}")
    for what in done.kept:
        echo(f"could not remove {what}")
    for what in done.unseen:
        echo(f"not looked at: {what}")
    if done.removed or done.kept:
        echo(f"{len(done.removed)} left-overs removed, {len(done.kept)} not")
    else:
        echo("nothing was left behind")
    return 1 if done.kept else 0
