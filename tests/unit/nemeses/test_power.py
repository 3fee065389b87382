"""Fault power: who is struck, and what is told of it."""

from random import Random

import pytest
from struck_cluster import TRIO, FakeCluster, invoke, values

from harness.client.outcome import Ok
from harness.deployment import Deployment
from harness.environments.api import Capability, MissingCapability
from harness.environments.local import LocalEnvironment
from harness.faults import fault_packages
from harness.options import Options
from harness.targets.api import plan
from harness.targets.reference import ReferenceTarget
from nemeses.nodes import ALL
from nemeses.power import power_fault


def test_one_that_plays_the_part_is_struck_and_what_it_lost_is_told() -> None:
    nemesis = power_fault(FakeCluster(TRIO), Random(1), ("master",)).nemesis
    seen = {"holds": True, "role": "master", "code": -9, "lost_bytes": 7, "lost_names": 1}
    assert invoke(nemesis, "power-loss") == [Ok({"b0-0": seen})]


def test_all_brokers_are_struck_together_and_all_come_back() -> None:
    cluster = FakeCluster(TRIO)
    nemesis = power_fault(cluster, Random(1), ("master",)).nemesis
    struck, back = values(invoke(nemesis, ("power-loss", ALL), "start"))
    assert sorted(struck) == sorted(back) == ["b0-0", "b0-1", "b0-2"]
    assert not cluster.dead


def test_an_environment_that_cannot_refuses_by_name() -> None:
    options = Options(environment="local", seed=1, nemesis=("power",))
    environment = LocalEnvironment.__new__(LocalEnvironment)
    cluster = Deployment(environment, ReferenceTarget(), options.settings())
    with pytest.raises(MissingCapability, match=r"local cannot do power-loss.*--nemesis power"):
        fault_packages(("power",), cluster, environment, 1)


def test_the_package_needs_power_loss_and_brokers_sync_then() -> None:
    fault = power_fault(FakeCluster(TRIO), Random(1), ("master",))
    assert Capability.POWER_LOSS in fault.needs
    settings = Options(environment="simulated", seed=1, nemesis=("kill", "power")).settings()
    assert settings.sync_flush
    addresses = {n.name: "198.18.0.16" for n in plan(settings.topology)}
    broker = plan(settings.topology)[-1]
    config = ReferenceTarget().config(broker, settings, addresses, "/d")
    assert "flushDiskType=SYNC_FLUSH\n" in config
