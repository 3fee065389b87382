"""Fault power: who is struck, and what is told of it."""

import asyncio
from collections.abc import Sequence
from random import Random

import pytest

from harness.client.outcome import Fail, Ok, Outcome
from harness.cluster import Part, Proof
from harness.deployment import Deployment
from harness.environments.api import Capability, MissingCapability
from harness.environments.local import LocalEnvironment
from harness.faults import fault_packages
from harness.options import Options
from harness.targets.api import Node, Topology, plan
from harness.targets.reference import ReferenceTarget
from histories.op import NEMESIS, Op
from nemeses.nodes import TOGETHER
from nemeses.power import power_package


class FakeCluster:
    """A cluster of one set whose first broker is master."""

    def __init__(self) -> None:
        self.nodes: Sequence[Node] = plan(Topology(broker_sets=1, replicas=3))
        self.dark: list[str] = []

    def running(self, node: str) -> bool:
        return node not in self.dark

    async def playing(self, part: Part) -> Sequence[str]:
        names = {"master": ["b0-0"], "broker": ["b0-0", "b0-1", "b0-2"]}.get(part, [])
        return [n for n in names if self.running(n)]

    async def power_loss(self, node: str) -> Proof:
        self.dark.append(node)
        return Proof(True, {"code": -9, "port": "refused", "lost_bytes": 7, "lost_names": 1})

    async def start(self, node: str) -> Proof:
        self.dark.remove(node)
        return Proof(True, {"port": "open"})


def invoke(cluster: FakeCluster, f: str, value: object = None) -> Outcome:
    package = power_package(cluster, Random(1), ("controller-leader", "master"))  # type: ignore[arg-type]
    return asyncio.run(package.nemesis.invoke(Op("info", NEMESIS, f, value)))


def test_one_that_plays_the_part_is_struck_and_what_it_lost_is_told() -> None:
    seen = {"holds": True, "role": "master", "code": -9, "port": "refused"}
    outcome = invoke(FakeCluster(), "power-loss", "one")
    assert outcome == Ok({"b0-0": {**seen, "lost_bytes": 7, "lost_names": 1}})


def test_all_brokers_are_struck_together_and_all_come_back() -> None:
    cluster = FakeCluster()
    invoke(cluster, "power-loss", TOGETHER)
    assert cluster.dark == ["b0-0", "b0-1", "b0-2"]
    assert invoke(cluster, "power-loss", TOGETHER) == Fail(["nobody-to-power-loss", "broker"])
    back = invoke(cluster, "start")
    assert isinstance(back, Ok)
    assert (sorted(back.value), cluster.dark) == (["b0-0", "b0-1", "b0-2"], [])


def test_an_environment_that_cannot_refuses_by_name() -> None:
    options = Options(environment="local", seed=1, nemesis=("power",))
    environment = LocalEnvironment.__new__(LocalEnvironment)
    cluster = Deployment(environment, ReferenceTarget(), options.settings())
    with pytest.raises(MissingCapability, match=r"local cannot do power-loss.*--nemesis power"):
        fault_packages(("power",), cluster, environment, 1)


def test_the_package_needs_power_loss_and_brokers_sync_then() -> None:
    package = power_package(FakeCluster(), Random(1), ("master",))  # type: ignore[arg-type]
    assert Capability.POWER_LOSS in package.needs
    settings = Options(environment="simulated", seed=1, nemesis=("kill", "power")).settings()
    assert settings.sync_flush
    config = ReferenceTarget().config(
        plan(settings.topology)[-1],
        settings,
        {n.name: "198.18.0.16" for n in plan(settings.topology)},
        "/d",
    )
    assert "flushDiskType=SYNC_FLUSH\n" in config
