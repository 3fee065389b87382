"""Plays a scenario on a cluster while its traffic is captured, and writes what came of it."""

import asyncio
import time
from pathlib import Path

from benchmarks.captures.folder import Seen, write
from benchmarks.captures.packets import read
from benchmarks.captures.scenarios import Scenario
from benchmarks.captures.scene import CapturedEnvironment, Scene, Settled, names
from benchmarks.captures.stores import trimmed
from benchmarks.captures.streams import conversations, segment
from maxq.harness.cluster.deployment import Deployment
from maxq.harness.cluster.processes import NODE_LOG
from maxq.harness.contracts.environment import Role
from maxq.harness.contracts.target import Target

STORE = "store"


async def capture(scenario: Scenario, target: Target, work: Path, out: Path) -> Settled:
    """Play a scenario and write its folder.

    Args:
        scenario: what is played.
        target: what the nodes are.
        work: an empty folder, for the nodes' files.
        out: the capture's folder; logs of the nodes go beside it (``<name>-logs``).

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
        marks = await _played(scenario, cluster, began)
        await cluster.stop_all()
        count = await environment.heard()
        await _keep(cluster, out)
    finally:
        await environment.down()
    segments = (segment(at_ns, packet) for at_ns, packet in read(packets.read_bytes()))
    seen = Seen(
        release=scenario.target.rpartition(":")[2],
        nodes=names(cluster),
        began_ns=int(began * 1e9),
        marks=marks,
        conversations=conversations(s for s in segments if s is not None),
    )
    write(out, seen)
    return Settled(marks=marks, packets=count)


async def _played(scenario: Scenario, cluster: Deployment, began: float) -> list[tuple[float, str]]:
    async with asyncio.TaskGroup() as group:
        scene = Scene(cluster, group, began)
        scene.mark("all nodes run")
        try:
            await scenario.play(scene)
            scene.mark("all nodes are stopped")
        finally:
            scene.close()
    return scene.marks


async def _keep(cluster: Deployment, out: Path) -> None:
    """Write the brokers' stores and all nodes' logs."""
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
