"""Fault readdress: who moves, how, and that all come home."""

from collections import Counter
from random import Random

import pytest
from struck_cluster import TRIO, FakeCluster, invoke, values

from harness.contracts.environment import Capability
from harness.contracts.outcome import Ok
from harness.generators import limit
from harness.generators.simulate import simulate
from nemeses.fault import package
from nemeses.readdress import LIVE, RESTART, readdress_fault


@pytest.mark.parametrize(("way", "restart"), [(LIVE, False), (RESTART, True)])
def test_one_moves_as_asked_and_comes_home(way: str, restart: bool) -> None:
    cluster = FakeCluster(TRIO)
    nemesis = readdress_fault(cluster, Random(1), ("master",)).nemesis
    away, home, idle = invoke(nemesis, ("change-ip", way), "restore-ip", "restore-ip")
    assert away == Ok({"b0-0": {"holds": True, "role": "master", "restart": restart}})
    assert isinstance(home, Ok)
    assert list(home.value) == ["b0-0"]
    assert cluster.moves == {"b0-0": 0}
    assert idle == Ok({"nobody": {"holds": True, "reason": "no node had moved"}})


def test_several_that_moved_come_home_together_half_of_the_times_live() -> None:
    cluster = FakeCluster(TRIO)
    nemesis = readdress_fault(cluster, Random(1), ("master", "slave")).nemesis
    ways: Counter[bool] = Counter()
    for _ in range(10):
        *_, home = values(invoke(nemesis, ("change-ip", LIVE), ("change-ip", LIVE), "restore-ip"))
        assert len(home) == 2
        ways.update({seen["restart"] for seen in home.values()})
    assert ways == {True: 5, False: 5}


def test_no_paused_one_is_moved_unless_there_is_no_other() -> None:
    cluster = FakeCluster(TRIO)
    cluster.held = {"b0-0", "b0-1"}
    nemesis = readdress_fault(cluster, Random(1), ("master", "slave", "broker")).nemesis
    for value in values(invoke(nemesis, *[("change-ip", LIVE)] * 6)):
        assert list(value) == ["b0-2"]
    cluster.held, cluster.dead = {"b0-0"}, {"b0-1", "b0-2"}
    [value] = values(invoke(nemesis, ("change-ip", LIVE)))
    [(node, seen)] = value.items()
    assert (node[:2], seen["role"]) == ("b0", "broker"), "and no spare"


def test_a_move_that_was_not_seen_does_not_hold() -> None:
    cluster = FakeCluster(TRIO)
    cluster.unproven = {"change_ip"}
    nemesis = readdress_fault(cluster, Random(1), ("master",)).nemesis
    [value] = values(invoke(nemesis, ("change-ip", LIVE)))
    assert value["b0-0"]["holds"] is False


def test_half_of_the_moves_are_live() -> None:
    made = package(readdress_fault(FakeCluster(TRIO), Random(1), ("master",)))
    assert made.needs == {Capability.READDRESS, Capability.RESTART}
    ops = simulate(limit(60, made.generator), concurrency=0).invocations
    ways = Counter(op.value for op in ops if op.f == "change-ip")
    assert ways[LIVE] == ways[RESTART] > 10
    [end] = simulate(made.final_generator, concurrency=0).invocations
    assert end.f == "restore-ip"
