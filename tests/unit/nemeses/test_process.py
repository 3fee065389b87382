"""Faults kill, stop and pause: whom they hit, what is told, who comes back."""

from itertools import pairwise
from random import Random
from typing import Any

import pytest
from struck_cluster import TRIO, FakeCluster, invoke, values

from harness.contracts.cluster import Part
from harness.contracts.environment import Capability
from harness.contracts.outcome import Fail, Ok
from harness.generators import time_limit
from harness.generators.simulate import after, simulate
from nemeses.fault import QUIET_NS, package
from nemeses.nodes import ALL, MAJORITY, MINORITY
from nemeses.process import DOWN_NS, kill_fault, pause_fault, restart_fault, stop_fault

SECOND_NS = 1_000_000_000
BROKER_ONLY: tuple[Part, ...] = ("broker",)
PARTS: tuple[Part, ...] = ("master", "master", "slave", "controller-leader", "namesrv")


def test_the_victim_runs_and_has_the_role() -> None:
    cluster = FakeCluster()
    nemesis = kill_fault(cluster, Random(1), BROKER_ONLY).nemesis
    invoke(nemesis, "kill", "kill", "kill")
    assert sorted(cluster.struck("kill")) == ["b0-0", "b1-0", "b2-0"], "nobody is killed twice"


def test_a_completed_kill_says_who_why_and_how_it_was_seen() -> None:
    cluster = FakeCluster()
    [outcome] = invoke(kill_fault(cluster, Random(1), BROKER_ONLY).nemesis, "kill")
    seen = {"holds": True, "role": "broker", "pid": 5, "code": -9, "port": "refused"}
    assert outcome == Ok({cluster.struck("kill")[0]: seen})


@pytest.mark.parametrize("verb", ["kill", "stop", "pause"])
def test_what_was_not_seen_does_not_hold(verb: str) -> None:
    cluster = FakeCluster()
    cluster.unproven = {verb}
    faults = {
        "kill": kill_fault(cluster, Random(1), BROKER_ONLY),
        "stop": stop_fault(cluster, Random(1), BROKER_ONLY),
        "pause": pause_fault(cluster, Random(1), BROKER_ONLY),
    }
    [value] = values(invoke(faults[verb].nemesis, {"stop": "terminate"}.get(verb, verb)))
    assert [seen["holds"] for seen in value.values()] == [False]


@pytest.mark.parametrize("seed", range(10))
def test_every_part_is_struck_before_any_is_struck_again(seed: int) -> None:
    """Also masters: bad luck cannot miss them for a whole run."""
    cluster = FakeCluster(TRIO)
    nemesis = kill_fault(cluster, Random(seed), PARTS).nemesis
    for _ in range(4):
        hits = values(invoke(nemesis, *["kill", "start"] * len(PARTS)))[::2]
        roles = [seen["role"] for hit in hits for seen in hit.values()]
        assert sorted(roles) == sorted(PARTS)


def test_a_part_that_nobody_plays_is_passed_over() -> None:
    cluster = FakeCluster()
    cluster.dead = {"n0", "c0", "b0-0"}
    nemesis = kill_fault(cluster, Random(1), ("namesrv", "controller", "broker")).nemesis
    invoke(nemesis, "kill", "kill")
    assert sorted(cluster.struck("kill")) == ["b1-0", "b2-0"]


def test_in_an_election_any_broker_is_hit() -> None:
    cluster = FakeCluster(TRIO)
    cluster.nobody = {"master", "slave"}
    [value] = values(invoke(kill_fault(cluster, Random(1), ("master", "slave")).nemesis, "kill"))
    [(node, seen)] = value.items()
    assert (node[0], seen["role"]) == ("b", "broker")


def test_nobody_to_kill_is_said() -> None:
    cluster = FakeCluster()
    cluster.dead = {n.name for n in cluster.nodes}
    [outcome] = invoke(kill_fault(cluster, Random(1), ("broker", "broker")).nemesis, "kill")
    assert outcome == Fail(["nobody-to-kill", "broker"])
    assert not cluster.done


@pytest.mark.parametrize(("group", "count"), [(MINORITY, 1), (MAJORITY, 2), (ALL, 3)])
def test_several_are_struck_at_once(group: str, count: int) -> None:
    cluster = FakeCluster(TRIO)
    nemesis = kill_fault(cluster, Random(1), PARTS).nemesis
    classes = set()
    strike = ("kill", group)
    for value in values(invoke(nemesis, strike, "start", strike, "start"))[::2]:
        assert len(value) == count
        classes |= {node[0] for node in value}
    assert classes == ({"b"} if group == ALL else {"b", "c"}), "brokers and controllers in turn"


def test_a_group_that_is_all_down_is_passed_over() -> None:
    cluster = FakeCluster(TRIO)
    cluster.dead = {"b0-0", "b0-1", "b0-2"}
    [value] = values(invoke(kill_fault(cluster, Random(1), PARTS).nemesis, ("kill", ALL)))
    assert [node[0] for node in value] in (["c"], ["n"])


def test_start_starts_everything_that_is_dead_but_no_spare() -> None:
    cluster = FakeCluster(TRIO)
    cluster.dead = {"n0", "b0-1", "r0"}
    nemesis = kill_fault(cluster, Random(1), BROKER_ONLY).nemesis
    [back] = values(invoke(nemesis, "start"))
    assert set(back) == {"n0", "b0-1"}
    assert all(seen["holds"] and seen["port"] == "open" for seen in back.values())
    [idle] = invoke(nemesis, "start")
    assert idle == Ok({"nobody": {"holds": True, "reason": "every node was running"}})


def test_nobody_is_paused_twice_and_all_go_on() -> None:
    cluster = FakeCluster(TRIO)
    nemesis = pause_fault(cluster, Random(1), ("broker",)).nemesis
    invoke(nemesis, "pause", "pause", "pause")
    assert cluster.held == {"b0-0", "b0-1", "b0-2"}
    assert isinstance(invoke(nemesis, "pause")[0], Fail)
    back, idle = values(invoke(nemesis, "resume", "resume"))
    assert (sorted(back), cluster.held) == (["b0-0", "b0-1", "b0-2"], set())
    assert list(idle) == ["nobody"]


def test_who_was_killed_while_paused_is_not_resumed() -> None:
    cluster = FakeCluster(TRIO)
    nemesis = pause_fault(cluster, Random(1), ("master",)).nemesis
    invoke(nemesis, "pause")
    invoke(kill_fault(cluster, Random(1), ("master",)).nemesis, "kill")
    assert cluster.struck("kill") == ["b0-0"], "a paused node can be killed"
    assert list(values(invoke(nemesis, "resume"))[0]) == ["nobody"]


def test_the_package_kills_and_starts_in_turn_and_heals_at_the_end() -> None:
    made = package(kill_fault(FakeCluster(), Random(1), BROKER_ONLY))
    assert made.needs == {Capability.KILL, Capability.RESTART}
    assert made.fs == {"kill", "start"}
    seen = simulate(
        time_limit(20 * SECOND_NS, made.generator), concurrency=0, complete=after(1000)
    ).invocations
    assert [op.f for op in seen] == (["kill", "start"] * 20)[: len(seen)]
    assert [op.value for op in seen[::2]] == ["one", "one", "one", "majority", "one", "one"]
    assert seen[0].time == QUIET_NS
    gaps = [b.time - a.time for a, b in pairwise(seen)]
    assert gaps[0::2] == [DOWN_NS + 1000] * len(gaps[0::2])
    assert gaps[1::2] == [QUIET_NS + 1000] * len(gaps[1::2])
    [end] = simulate(made.final_generator, concurrency=0).invocations
    assert end.f == "start"


def test_stop_and_pause_name_their_operations() -> None:
    cluster = FakeCluster()
    assert package(stop_fault(cluster, Random(1), PARTS)).fs == {"terminate", "start"}
    pause = package(pause_fault(cluster, Random(1), PARTS))
    assert pause.fs == {"pause", "resume"}
    assert pause.needs == {Capability.PAUSE}


def test_a_restart_ends_and_begins_and_is_proven_by_both() -> None:
    cluster = FakeCluster()
    nemesis = restart_fault(cluster, Random(1), BROKER_ONLY).nemesis
    [value] = values(invoke(nemesis, "restart"))
    [(node, seen)] = value.items()
    assert [verb for verb, who in cluster.done if who == node] == ["stop", "start"]
    assert seen["holds"] is True
    assert (seen["stopped"]["code"], seen["started"]["port"]) == (0, "open")
    assert "forced" not in seen
    for verb in ("stop", "start"):
        cluster.unproven = {verb}
        [value] = values(invoke(nemesis, "restart"))
        assert [seen["holds"] for seen in value.values()] == [False]


@pytest.mark.parametrize(("fault", "f"), [(stop_fault, "terminate"), (restart_fault, "restart")])
def test_a_stop_that_had_to_be_forced_is_proven_and_says_so(fault: Any, f: str) -> None:
    cluster = FakeCluster()
    cluster.stubborn = True
    [value] = values(invoke(fault(cluster, Random(1), BROKER_ONLY).nemesis, f))
    [seen] = value.values()
    assert (seen["holds"], seen["forced"], seen["reason"]) == (True, True, "it did not stop")
