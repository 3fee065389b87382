"""Fault partition: the shapes of cuts, who is aimed at, what is told."""

from collections import Counter
from random import Random

import pytest
from struck_cluster import SETS, TRIO, FakeCluster, invoke, values

from harness.contracts.cluster import Grudge
from harness.contracts.environment import CLIENT, Capability
from harness.contracts.outcome import Fail, Ok
from harness.generators import limit
from harness.generators.simulate import simulate
from nemeses import grudges
from nemeses.fault import package
from nemeses.partition import CLIENTS, KINDS, START, STOP, kinds_for, partition_fault

NODES = ["n0", "c0", "c1", "c2", "b0-0", "b0-1", "b0-2"]


def heard(grudge: Grudge, node: str) -> set[str]:
    """Whom a node hears, itself included."""
    return set(NODES) - grudge.get(node, frozenset())


@pytest.mark.parametrize("seed", range(10))
def test_halves_hear_their_own_only(seed: int) -> None:
    grudge = grudges.halves(NODES, Random(seed))
    sides = {frozenset(heard(grudge, node)) for node in NODES}
    assert sorted(map(len, sides)) == [3, 4]


@pytest.mark.parametrize("seed", range(10))
def test_a_bridge_hears_both_sides(seed: int) -> None:
    grudge = grudges.bridge(NODES, Random(seed))
    [middle] = [node for node in NODES if heard(grudge, node) == set(NODES)]
    assert all(middle in heard(grudge, node) for node in NODES)
    assert sorted(len(heard(grudge, n)) for n in NODES if n != middle) == [4] * 6


@pytest.mark.parametrize("count", range(3, 8))
def test_in_a_ring_each_hears_a_majority_and_no_two_the_same(count: int) -> None:
    nodes = NODES[:count]
    grudge = grudges.majorities_ring(nodes, Random(1))
    majorities = [frozenset(nodes) - grudge[node] for node in nodes]
    assert all(len(m) == count // 2 + 1 for m in majorities)
    assert all(node in m for node, m in zip(nodes, majorities, strict=True))
    assert len(set(majorities)) == count


def test_one_way_and_isolation() -> None:
    assert grudges.deaf("c0", NODES[:3]) == {"c0": {"n0", "c1"}}
    assert grudges.mute("c0", NODES[:3]) == {"n0": {"c0"}, "c1": {"c0"}}
    assert grudges.isolated("c0", NODES[:3]) == {"c0": {"n0", "c1"}, "n0": {"c0"}, "c1": {"c0"}}


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_cuts_and_says_what_it_did(kind: str) -> None:
    cluster = FakeCluster(TRIO)
    nemesis = partition_fault(cluster, Random(1)).nemesis
    [done] = values(invoke(nemesis, (START, kind)))
    assert done.keys() == cluster.grudge.keys()
    for to, seen in done.items():
        assert (seen["holds"], seen["kind"]) == (True, kind)
        assert seen["from"] == dict.fromkeys(sorted(cluster.grudge[to]), 1)
        assert isinstance(seen["reset"], bool)
        assert not {"r0", CLIENT} & {to, *seen["from"]}, "no spare, and no client"
    [back] = values(invoke(nemesis, (STOP, None)))
    assert back.keys() == done.keys()
    assert not cluster.grudge


@pytest.mark.parametrize(
    ("kind", "to", "sources", "role"),
    [
        ("isolate-master", "b0-0", set(NODES) - {"b0-0"}, "master"),
        ("isolate-controller-leader", "c0", set(NODES) - {"c0"}, "controller-leader"),
        ("master-hears-nobody", "b0-0", set(NODES) - {"b0-0"}, "master"),
        ("nobody-hears-master", "n0", {"b0-0"}, "namesrv"),
        ("link-broker-controller", "c0", {"b0-0"}, "controller-leader"),
        ("link-client-master", "b0-0", {CLIENT}, "master"),
    ],
)
def test_victims_are_who_plays_the_part(kind: str, to: str, sources: set[str], role: str) -> None:
    cluster = FakeCluster(TRIO)
    [done] = values(invoke(partition_fault(cluster, Random(1)).nemesis, (START, kind)))
    assert cluster.grudge[to] == sources
    assert done[to]["role"] == role


def test_a_kind_without_a_victim_becomes_halves_and_says_so() -> None:
    cluster = FakeCluster(TRIO)
    cluster.nobody = {"controller-leader", "master"}
    nemesis = partition_fault(cluster, Random(1)).nemesis
    for kind in ("isolate-master", "isolate-controller-leader", "link-broker-controller"):
        [done] = values(invoke(nemesis, (START, kind)))
        assert {seen["kind"] for seen in done.values()} == {"halves"}


def test_every_third_cut_resets() -> None:
    nemesis = partition_fault(FakeCluster(TRIO), Random(1)).nemesis
    cuts = values(invoke(nemesis, *[(START, "halves")] * 30))
    assert Counter(seen["reset"] for cut in cuts for seen in [*cut.values()][:1]) == {
        False: 20,
        True: 10,
    }


def test_what_was_not_seen_does_not_hold_and_nothing_to_heal_is_told() -> None:
    cluster = FakeCluster(TRIO)
    cluster.unproven = {"cut"}
    nemesis = partition_fault(cluster, Random(1)).nemesis
    [done] = values(invoke(nemesis, (START, "halves")))
    assert not any(seen["holds"] for seen in done.values())
    _, idle = invoke(nemesis, (STOP, None), (STOP, None))
    assert idle == Ok({"nobody": {"holds": True, "reason": "nothing was cut"}})
    assert invoke(nemesis, (START, "x")) == [Fail(["no-such-partition", "x"])]


def test_kinds_that_a_cluster_cannot_have_are_left_out() -> None:
    alone = kinds_for(FakeCluster(SETS).nodes)
    assert not {"isolate-controller-leader", "link-broker-broker", CLIENTS} & set(alone)
    assert "isolate-sync-state-set-slave" not in alone
    assert set(kinds_for(FakeCluster(TRIO).nodes)) == set(KINDS)
    assert set(kinds_for(FakeCluster(TRIO).nodes, clients=True)) == {*KINDS, CLIENTS}


@pytest.mark.parametrize("seed", range(5))
def test_all_kinds_come_in_turn(seed: int) -> None:
    made = package(partition_fault(FakeCluster(TRIO), Random(seed)))
    assert made.needs == {Capability.CUT}
    assert made.fs == {START, STOP}
    ops = simulate(limit(4 * len(KINDS) + 1, made.generator), concurrency=0).invocations
    begun = [op.value for op in ops if op.f == START]
    assert sorted(begun[: len(KINDS)]) == sorted(begun[len(KINDS) :]) == sorted(KINDS)
