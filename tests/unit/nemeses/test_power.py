"""Fault power: who is struck, and what is told of it."""

from pathlib import Path
from random import Random

import pytest
from struck_cluster import TRIO, FakeCluster, invoke, values

from checkers.core.claims import unmade
from harness.cluster.deployment import Deployment
from harness.contracts.environment import SIMULATED_ONLY, Capability, Lack, MissingCapability
from harness.contracts.outcome import Ok
from harness.contracts.target import plan
from harness.environments import docker, local
from harness.environments.disks.node_disk import NEEDS_ROOT
from harness.environments.docker import DockerEnvironment
from harness.environments.local import LocalEnvironment
from harness.run.execute import capabilities_of
from harness.run.fault_selection import fault_packages
from harness.schedule.options import Options
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


@pytest.mark.parametrize("made", [LocalEnvironment, DockerEnvironment])
def test_an_environment_that_cannot_refuses_by_name(
    made: type[LocalEnvironment | DockerEnvironment],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As without root."""
    for module in (local, docker):
        monkeypatch.setattr(module, "lacking", lambda: {Capability.POWER_LOSS: Lack(NEEDS_ROOT)})
    environment = made(tmp_path)
    options = Options(environment=environment.name, seed=1, nemesis=("power",))
    cluster = Deployment(environment, ReferenceTarget(), options.settings())
    why = rf"{environment.name} cannot do power-loss, which --nemesis power needs: needs root"
    with pytest.raises(MissingCapability, match=why):
        fault_packages(("power",), cluster, environment, 1)
    assert not capabilities_of("local") & SIMULATED_ONLY


def test_machines_have_disks_of_their_own_only_where_power_may_be_lost() -> None:
    for nemesis in (("power",), ("kill", "power"), ("kill-then-power",), ("power-loss", "start")):
        assert Options(environment="local", seed=1, nemesis=nemesis).loses_power
    for nemesis in (("none",), ("kill", "partition"), ("partition-then-kill",)):
        assert not Options(environment="local", seed=1, nemesis=nemesis).loses_power
    ordered = Options(environment="local", seed=1, nemesis=("power-then-kill",))
    assert ordered.settings().sync_flush
    assert not unmade("S6", ordered.context().settings, power_lost=True)


def test_the_package_needs_power_loss_and_brokers_sync_then() -> None:
    fault = power_fault(FakeCluster(TRIO), Random(1), ("master",))
    assert Capability.POWER_LOSS in fault.needs
    settings = Options(environment="simulated", seed=1, nemesis=("kill", "power")).settings()
    assert settings.sync_flush
    addresses = {n.name: "198.18.0.16" for n in plan(settings.topology)}
    broker = plan(settings.topology)[-1]
    config = ReferenceTarget().config(broker, settings, addresses, "/d")
    assert "flushDiskType=SYNC_FLUSH\n" in config
