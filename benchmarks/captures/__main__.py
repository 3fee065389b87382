"""Captures what real pairs say: ``python -m benchmarks.captures FOLDER``.

Plays scenarios on Apache RocketMQ in environment `local` and writes the traffic between all nodes,
put together to TCP streams, and what is left on their disks, each scenario to a folder of its own:
what `tests/wire/golden` has selections of. A scenario takes two to four minutes. Linux, a JVM and
Maven; ``--target reference`` plays them on our own nodes, to try a scenario.
"""

import asyncio
import shutil
import sys
import tempfile
import time
from pathlib import Path

import click

from benchmarks.captures.capture import capture
from benchmarks.captures.crossed import Crossed
from benchmarks.captures.packets import PacketsLost
from benchmarks.captures.scenarios import SCENARIOS, Scenario
from maxq.harness.cluster.deployment import SetupFailed
from maxq.harness.contracts.environment import EnvironmentUnavailable
from maxq.harness.contracts.target import Target
from maxq.harness.targets.reference import ReferenceTarget
from maxq.harness.targets.rocketmq.releases import REFERENCE, parse
from maxq.harness.targets.rocketmq.target import RocketMQTarget

NAMES = [s.name for s in SCENARIOS]


def target_of(name: str, scenario: Scenario) -> Target:
    """What a target's name means in a scenario."""
    target = ReferenceTarget() if name == REFERENCE else RocketMQTarget(parse(name))
    return Crossed(target, scenario.settings) if scenario.crossed else target


def captured(scenario: Scenario, target: Target, out: Path) -> str:
    """Capture a scenario; what was seen, in words. Raises as `capture`."""
    work = Path(tempfile.mkdtemp(prefix="maxq-"))
    begun = time.monotonic()
    try:
        target.prepare()
        settled = asyncio.run(capture(scenario, target, work, out))
    finally:
        shutil.rmtree(work, ignore_errors=True)
    took = time.monotonic() - begun
    lines = [f"{scenario.name}: {settled.packets} packets, {took:.0f} s"]
    return "\n".join(lines + [f"  {at:7.2f}  {text}" for at, text in settled.marks])


@click.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--only", multiple=True, type=click.Choice(NAMES), help="this scenario, and no other")
@click.option("--target", default="", help="what is captured, instead of the scenario's release")
def main(folder: Path, only: tuple[str, ...], target: str) -> None:
    """Play scenarios and write each to FOLDER/NAME, which must not be there."""
    for scenario in SCENARIOS:
        if only and scenario.name not in only:
            continue
        out = folder / scenario.name
        if out.exists():
            raise click.ClickException(f"{out} is there already")
        try:
            click.echo(captured(scenario, target_of(target or scenario.target, scenario), out))
        except (EnvironmentUnavailable, SetupFailed, PacketsLost) as why:
            click.echo(f"{scenario.name}: {why}")
            sys.exit(2)


if __name__ == "__main__":
    main()
