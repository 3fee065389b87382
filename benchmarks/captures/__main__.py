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

from benchmarks.captures.folder import Seen, write
from benchmarks.captures.packets import PacketsLost, read
from benchmarks.captures.scenarios import SCENARIOS, Scenario
from benchmarks.captures.scene import CapturedEnvironment, Scene, Settled, names
from benchmarks.captures.stores import trimmed
from benchmarks.captures.streams import conversations, segment
from maxq.harness.cluster.deployment import Deployment, SetupFailed
from maxq.harness.cluster.processes import NODE_LOG
from maxq.harness.contracts.environment import EnvironmentUnavailable, Role
from maxq.harness.contracts.target import Target
from maxq.harness.targets.reference import ReferenceTarget
from maxq.harness.targets.rocketmq.releases import REFERENCE, parse
from maxq.harness.targets.rocketmq.target import RocketMQTarget

STORE = "store"
NAMES = [s.name for s in SCENARIOS]


def target_of(name: str) -> Target:
    """What a target's name means."""
    return ReferenceTarget() if name == REFERENCE else RocketMQTarget(parse(name))


async def capture(scenario: Scenario, target: Target, work: Path, out: Path) -> Settled:
    """Play a scenario and write its folder.

    Raises:
        EnvironmentUnavailable: this host cannot.
        SetupFailed: the cluster does not come up.
        PacketsLost: the capture lacks something.
    """
    packets = work / "packets.pcap"
    environment = CapturedEnvironment(work, packets)
    cluster = Deployment(environment, target, scenario.settings)
    began = time.time()
    try:
        await cluster.up()
        async with asyncio.TaskGroup() as group:
            scene = Scene(cluster, group, began)
            scene.mark("all nodes run")
            try:
                await scenario.play(scene)
                scene.mark("all nodes are stopped")
            finally:
                scene.close()
        await cluster.stop_all()
        count = await environment.heard()
        await keep(cluster, out)
    finally:
        await environment.down()
    segments = (segment(at_ns, packet) for at_ns, packet in read(packets.read_bytes()))
    release = scenario.target.rpartition(":")[2]
    seen = Seen(
        release=release,
        nodes=names(cluster),
        began_ns=int(began * 1e9),
        marks=scene.marks,
        conversations=conversations(s for s in segments if s is not None),
    )
    write(out, seen)
    return Settled(marks=scene.marks, packets=count)


async def keep(cluster: Deployment, out: Path) -> None:
    """Write the brokers' stores, and all nodes' logs beside the capture (``<name>-logs``)."""
    for node in cluster.by_role(Role.BROKER):
        stored = await cluster.processes.stored(node.name, STORE)
        files = {path.removeprefix(f"{STORE}/"): data for path, data in stored.items()}
        for path, data in trimmed(files).items():
            _put(out / "stores" / node.name / path, data)
    for node in cluster.nodes:
        machine = cluster.processes.machine(node.name)
        log = await machine.get(f"{machine.data_dir}/{NODE_LOG}")
        _put(out.with_name(f"{out.name}-logs") / f"{node.name}.log", log or b"")


def _put(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


@click.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--only", multiple=True, type=click.Choice(NAMES), help="this scenario, and no other")
@click.option("--target", default="", help="what is captured, instead of the scenario's release")
def main(folder: Path, only: tuple[str, ...], target: str) -> None:
    """Play scenarios and write each to FOLDER/NAME, which must not be there."""
    wanted = [s for s in SCENARIOS if s.name in (only or NAMES)]
    for scenario in wanted:
        out = folder / scenario.name
        if out.exists():
            raise click.ClickException(f"{out} is there already")
        runs = target_of(target or scenario.target)
        work = Path(tempfile.mkdtemp(prefix="maxq-"))
        begun = time.monotonic()
        try:
            runs.prepare()
            settled = asyncio.run(capture(scenario, runs, work, out))
        except (EnvironmentUnavailable, SetupFailed, PacketsLost) as why:
            click.echo(f"{scenario.name}: {why}")
            sys.exit(2)
        finally:
            shutil.rmtree(work, ignore_errors=True)
        took = time.monotonic() - begun
        click.echo(f"{scenario.name}: {settled.packets} packets, {took:.0f} s")
        for at, text in settled.marks:
            click.echo(f"  {at:7.2f}  {text}")


if __name__ == "__main__":
    main()
