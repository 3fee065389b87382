"""Cuts by shape: what each means now, and what a cut must leave."""

import asyncio
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from struck_cluster import SETS, TRIO, FakeCluster

from maxq.harness.contracts.cluster import Grudge
from maxq.harness.contracts.environment import CLIENT
from maxq.harness.contracts.outcome import Ok
from maxq.harness.contracts.target import Topology
from maxq.histories.op import NEMESIS, Op
from maxq.nemeses.kind import Drawing, Kind
from maxq.nemeses.kinds.partition import (
    AROUND,
    CLIENTS,
    LINKS,
    PARTITION,
    PARTITION_ANY,
    PARTITION_CLIENTS,
    SHAPES,
    START,
    shapes_for,
)
from maxq.nemeses.majority import layout_of, majority_left
from maxq.nemeses.scripted import Scripted

LAYOUT = layout_of(FakeCluster(TRIO).nodes)
TOPOLOGIES = st.builds(
    Topology,
    controllers=st.integers(1, 5),
    broker_sets=st.integers(1, 3),
    replicas=st.integers(1, 5),
    namesrvs=st.integers(1, 2),
)
ROUNDS = 60


def cut(cluster: FakeCluster, name: str = "c", **args: object) -> dict[str, dict[str, object]]:
    """What is told of an act; the cut itself is the cluster's."""
    done = asyncio.run(
        Scripted(cluster, "7/act").invoke(Op("info", NEMESIS, START, name, ext={"args": args}))
    )
    assert isinstance(done, Ok)
    return done.value  # type: ignore[no-any-return]


def struck(kind: Kind, topology: Topology, seed: int) -> list[tuple[str, Grudge, str, bool]]:
    """What all rounds of a kind ask, the cut that it makes of each, what shape that is, and
    whether it leaves a majority."""
    nodes = FakeCluster(topology).nodes
    assert kind.rounds is not None
    made = []
    for number, steps in enumerate(
        islice(kind.rounds(Drawing.of(str(seed), nodes, by_name=False)), ROUNDS)
    ):
        cluster, args = FakeCluster(topology), steps[0].args
        told = next(iter(cut(cluster, f"{seed}-{number}", **args).values()))
        kept = bool(majority_left(cluster.grudge, layout_of(nodes)))
        assert told["majority"] is kept
        made.append((str(args["shape"]), cluster.grudge, str(told["shape"]), kept))
    return made


@settings(max_examples=25, deadline=None)
@given(TOPOLOGIES, st.integers(0, 2**32))
def test_three_of_four_drawn_cuts_leave_a_majority(topology: Topology, seed: int) -> None:
    made = struck(PARTITION, topology, seed)
    assert all(grudge for _, grudge, *_ in made), "and each cuts something"
    kept = [majority for *_, majority in made]
    for at in range(0, len(kept) - 3, 4):
        assert sum(kept[at : at + 4]) >= 3
    replaced = [(asked, shape) for asked, _, shape, _ in made if asked != shape]
    assert all(shape == "halves" for _, shape in replaced)
    assert all(asked != "majorities-ring" for asked, _ in replaced), "a ring stays a ring"


@pytest.mark.parametrize("topology", [TRIO, SETS, Topology(controllers=2, replicas=2)])
def test_every_shape_is_cut_for_what_it_is_now_and_then(topology: Topology) -> None:
    """Also those whose point is that a majority is lost, in the fourth that may be anything."""
    shapes = shapes_for(FakeCluster(topology).nodes)
    assert {shape for s in range(5) for *_, shape, _ in struck(PARTITION, topology, s)} == set(
        shapes
    )


def test_partition_any_has_no_rule_and_partition_clients_cuts_clients_off() -> None:
    made = struck(PARTITION_ANY, TRIO, 1)
    assert [asked for asked, *_ in made] == [shape for _, _, shape, _ in made]
    rings = [grudge for asked, grudge, *_ in made if asked == "majorities-ring"]
    assert rings
    assert not any(majority_left(grudge, LAYOUT) for grudge in rings)
    assert {asked for asked, *_ in made} == {*SHAPES, *AROUND, *LINKS} - {CLIENTS}
    clients = [g for asked, g, *_ in struck(PARTITION_CLIENTS, TRIO, 1) if asked == CLIENTS]
    assert clients
    assert all(set().union(*grudge.values()) == {CLIENT} for grudge in clients)


def test_a_member_of_the_sync_state_set_is_kept_where_a_shape_allows_it() -> None:
    members = LAYOUT.within(["b0-0", "b0-1"])

    async def playing(part: str) -> list[str]:
        return {"master": ["b0-0"], "sync-state-set-slave": ["b0-1"]}.get(part, ["c0"])

    for number, shape in enumerate(("halves", "majorities-ring", "bridge", "isolate-master") * 10):
        cluster = FakeCluster(TRIO)
        cluster.playing = playing  # type: ignore[method-assign]
        cut(cluster, str(number), shape=shape, keeps=True)
        assert majority_left(cluster.grudge, members), shape


@pytest.mark.parametrize(
    ("shape", "hears_nothing", "is_not_heard"),
    [("isolate-master", True, True), ("master-hears-nobody", True, False),
     ("nobody-hears-master", False, True)],
)  # fmt: skip
def test_a_cut_around_the_master(shape: str, hears_nothing: bool, is_not_heard: bool) -> None:
    cluster = FakeCluster(TRIO)
    told = cut(cluster, shape=shape)
    assert "b0-0" in cluster.grudge or not hears_nothing
    assert all(("b0-0" in sources) is is_not_heard
               for node, sources in cluster.grudge.items() if node != "b0-0")  # fmt: skip
    assert (told.get("b0-0", {}).get("role") == "master") is hears_nothing


def test_without_a_master_halves_are_cut() -> None:
    cluster = FakeCluster(TRIO)
    cluster.nobody.add("master")
    told = cut(cluster, shape="isolate-master")
    assert {what["shape"] for what in told.values()} == {"halves"}
