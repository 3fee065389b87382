"""Cuts that leave a majority of the controllers, and a replica of each broker set, connected."""

from itertools import combinations
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from struck_cluster import SETS, TRIO, FakeCluster

from maxq.harness.contracts.cluster import Grudge
from maxq.harness.contracts.target import Topology
from maxq.nemeses.grudges import apart, bridge, deaf, halves, isolated, majorities_ring, mute
from maxq.nemeses.majority import (
    Layout,
    drawn,
    layout_of,
    majority_left,
    some_majority,
    spared,
)

NODES = ["n0", "c0", "c1", "c2", "b0-0", "b0-1", "b0-2"]
LAYOUT = layout_of(FakeCluster(TRIO).nodes)
TOPOLOGIES = st.builds(
    Topology,
    controllers=st.integers(1, 5),
    broker_sets=st.integers(1, 3),
    replicas=st.integers(1, 5),
    namesrvs=st.integers(1, 2),
)


def names_of(cluster: FakeCluster) -> list[str]:
    return [n.name for n in cluster.nodes if not n.spare]


def left(grudge: Grudge, layout: Layout) -> bool:
    """The same as `majority_left` by going through every group of nodes that is connected."""

    def whole(group: frozenset[str]) -> bool:
        return not any(grudge.get(a, frozenset()) & group for a in group)

    count = len(layout.controllers)
    majorities = [
        frozenset(some)
        for size in range(count // 2 + 1, count + 1)
        for some in combinations(layout.controllers, size)
        if whole(frozenset(some))
    ]
    return any(
        all(any(whole(some | {r}) for r in replicas) for replicas in layout.sets)
        for some in majorities
    )


def test_the_layout_is_of_controllers_and_sets_without_spares() -> None:
    assert layout_of(FakeCluster(TRIO).nodes) == Layout(("c0", "c1", "c2"), (tuple(NODES[4:]),))
    assert layout_of(FakeCluster(SETS).nodes) == Layout(("c0",), (("b0-0",), ("b1-0",), ("b2-0",)))


def test_within_some_replicas_a_set_without_any_keeps_its_own() -> None:
    layout = Layout(("c0",), (("b0-0", "b0-1"), ("b1-0", "b1-1")))
    assert layout.within(["b0-1", "c0"]) == Layout(("c0",), (("b0-1",), ("b1-0", "b1-1")))


@pytest.mark.parametrize(
    ("grudge", "kept"),
    [
        ({}, True),
        (isolated("b0-0", NODES), True),
        (isolated("c0", NODES), True),
        (isolated("n0", NODES), True),
        (apart(["c0", "c1", "b0-0"], ["n0", "c2", "b0-1", "b0-2"]), True),
        (apart(["c0", "c1", "n0"], ["c2", "b0-0", "b0-1", "b0-2"]), False),
        (apart(["c0"], ["c1"], ["c2", "n0", "b0-0", "b0-1", "b0-2"]), False),
        (apart(["c0", "c1", "c2", "n0"], ["b0-0", "b0-1", "b0-2"]), False),
        # One way is as bad as both: an answer is needed as well.
        ({"c0": frozenset({"c1", "c2"}), "c1": frozenset({"c2"})}, False),
        ({"c0": frozenset({"c1", "c2"})}, True),
        ({b: frozenset({"c0", "c1"}) for b in NODES[4:]}, False),
        ({b: frozenset({"c0"}) for b in NODES[4:]}, True),
    ],
)
def test_what_leaves_a_majority(grudge: Grudge, kept: bool) -> None:
    group = majority_left(grudge, LAYOUT)
    assert bool(group) is kept is left(grudge, LAYOUT)
    if kept:
        assert len(group & set(LAYOUT.controllers)) == 2
        assert len(group & set(LAYOUT.sets[0])) == 1


@pytest.mark.parametrize("seed", range(50))
def test_no_ring_of_seven_leaves_a_majority_until_the_links_of_one_are_spared(seed: int) -> None:
    ring = majorities_ring(NODES, Random(seed))
    assert not majority_left(ring, LAYOUT)
    group = some_majority(LAYOUT, Random(seed))
    mended = spared(ring, group)
    assert majority_left(mended, LAYOUT)
    assert all(mended.get(to, frozenset()) <= sources for to, sources in ring.items())
    for node in NODES:
        assert ring[node] - mended.get(node, frozenset()) <= group, "nothing else is spared"
        assert len(set(NODES) - mended.get(node, frozenset())) > 3, "and each hears a majority"


@settings(deadline=None)
@given(TOPOLOGIES, st.randoms(use_true_random=False))
def test_majorities_are_found_as_by_going_through_all_groups(
    topology: Topology, rng: Random
) -> None:
    cluster = FakeCluster(topology)
    names, layout = names_of(cluster), layout_of(cluster.nodes)
    some = rng.choice(names)
    cuts = [halves(names, rng), bridge(names, rng), majorities_ring(names, rng)]
    cuts += [isolated(some, names), deaf(some, names), mute(some, names)]
    cuts.append({n: frozenset(rng.sample(names, rng.randrange(len(names)))) - {n} for n in names})
    for grudge in cuts:
        assert bool(majority_left(grudge, layout)) is left(grudge, layout)


def test_what_is_drawn_keeps_the_better_of_two_layouts_where_a_draw_does() -> None:
    """A replica in sync beside the majority; any replica where the draws have no other."""
    in_sync = LAYOUT.within(["b0-1"])
    for seed in range(20):
        grudge = drawn(halves, NODES, Random(seed), [in_sync, LAYOUT])
        assert grudge is not None
        assert majority_left(grudge, in_sync)

    def without(everybody: object, rng: object) -> Grudge:
        return isolated("b0-1", NODES)

    assert drawn(without, NODES, Random(1), [in_sync, LAYOUT]) == isolated("b0-1", NODES)
    assert drawn(majorities_ring, NODES, Random(1), [in_sync, LAYOUT]) is None
