"""The command ``maxq list``."""

from collections.abc import Callable, Sequence

import click

from maxq.checkers.core.claims import CLAIMS
from maxq.harness.cli import upgrade
from maxq.harness.cli.param_types import Name
from maxq.harness.contracts.terminal import echo
from maxq.harness.environments.choose import ENVIRONMENTS
from maxq.harness.experiments import scenario
from maxq.harness.run.judging import every_checker
from maxq.harness.run.run_plan import MAKERS as WORKLOADS
from maxq.harness.schedule.options import PROFILES
from maxq.nemeses.catalogue import fault_names
from maxq.reference import mutants

LISTED: dict[str, Callable[[], Sequence[str]]] = {
    "workloads": lambda: tuple(WORKLOADS),
    "nemeses": fault_names,
    "checkers": lambda: [c.name for c in every_checker()],
    "claims": lambda: [f"{c.id}: {c.promise}" for c in CLAIMS],
    "mutants": mutants.names,
    "scenarios": scenario.names,
    "upgrades": upgrade.names,
    "environments": lambda: ENVIRONMENTS,
    "profiles": lambda: tuple(PROFILES),
}


@click.command("list")
@click.argument("kind", type=Name(LISTED))
def list_command(kind: str) -> int:
    """List what there is of a kind, a line each: workloads, nemeses, checkers and so on."""
    for line in LISTED[kind]():
        echo(line)
    return 0
