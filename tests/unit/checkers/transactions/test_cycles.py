"""Components and names of cycles, against networkx."""

from collections.abc import Iterator
from itertools import pairwise
from random import Random
from typing import Any

import networkx as nx
import numpy as np
import pytest

from maxq.checkers.transactions import components as found_by
from maxq.checkers.transactions.components import by_scipy, by_tarjan, components, cyclic
from maxq.checkers.transactions.cycles import Cycles, cycles
from maxq.checkers.transactions.graph import (
    NONE,
    PROCESS,
    REALTIME,
    RW,
    WR,
    WW,
    Edges,
    Fan,
    Graph,
    Stations,
    edges_of,
    fanned,
)
from maxq.checkers.transactions.levels import CYCLES

SIZE = 7


def random_edges(random: Random, size: int, count: int, kinds: int) -> list[tuple[int, int, int]]:
    pairs = [(random.randrange(size), random.randrange(size), random.randrange(kinds))
             for _ in range(count)]  # fmt: skip
    return [(one, two, kind) for one, two, kind in pairs if one != two]


def graph_from(rows: list[tuple[int, int, int]], size: int = SIZE) -> Graph:
    columns = np.array(rows, np.int64).reshape(len(rows), 3).T
    nothing = np.full(len(rows), NONE)
    return Graph(size, size, Edges(columns[0], columns[1], columns[2], nothing, nothing))


def loops(rows: list[tuple[int, int, int]]) -> Iterator[list[int]]:
    """The kinds of the edges of every simple cycle."""
    whole: Any = nx.MultiDiGraph()
    whole.add_edges_from((one, two, {"kind": kind}) for one, two, kind in set(rows))
    for ring in nx.simple_cycles(whole):
        ways: list[list[int]] = [[]]
        for one, two in pairwise([*ring, ring[0]]):
            kinds = [edge["kind"] for edge in whole.get_edge_data(one, two).values()]
            ways = [[*way, kind] for way in ways for kind in kinds]
        yield from ways


def rank_of(kinds: list[int]) -> int:
    """Which name a cycle has."""
    anti = [kind == RW for kind in kinds]
    if any(anti):
        if sum(anti) == 1:
            return 2
        return 4 if any(a and b for a, b in zip(anti, [*anti[1:], anti[0]], strict=True)) else 3
    return int(WR in kinds)


def worst(rows: list[tuple[int, int, int]], last: int) -> int:
    allowed = [row for row in rows if row[2] <= last]
    return min(map(rank_of, loops(allowed)), default=len(CYCLES))


def ranks(found: Cycles, extra: str) -> int:
    return min((CYCLES.index(name.removesuffix(extra)) for name in found.counts
                if name.removesuffix(extra) in CYCLES), default=len(CYCLES))  # fmt: skip


@pytest.mark.parametrize("found_by_scipy", [True, False])
@pytest.mark.parametrize("seed", range(40))
def test_components_are_those_of_networkx_with_scipy_and_without(
    seed: int, found_by_scipy: bool
) -> None:
    if found_by_scipy:
        pytest.importorskip("scipy", reason="scipy is not installed: the extra `transactions`")
    random = Random(seed)
    size = random.choice((1, 6, 60, 400))
    rows = random_edges(random, size, random.randint(0, 2 * size), 1)
    source = np.array([row[0] for row in rows], np.int64)
    target = np.array([row[1] for row in rows], np.int64)
    other: Any = nx.DiGraph()
    other.add_nodes_from(range(size))
    other.add_edges_from(zip(source.tolist(), target.tolist(), strict=True))
    wanted = {frozenset(each) for each in nx.strongly_connected_components(other)}
    found = (by_scipy if found_by_scipy else by_tarjan)(size, source, target)
    groups = {frozenset(np.flatnonzero(found == n).tolist()) for n in set(found.tolist())}
    assert groups == wanted
    assert cyclic(found).sum() == sum(len(each) for each in wanted if len(each) > 1)
    # Numbers fall along edges: whoever seeks an order relies on it.
    assert np.all(found[source] >= found[target])


def test_without_scipy_all_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: Any) -> Any:
        raise ImportError

    rows = random_edges(Random(3), SIZE, 14, 5)
    before = cycles(graph_from(rows), lambda: False)
    monkeypatch.setattr(found_by, "by_scipy", missing)
    assert components(2, np.array([0, 1]), np.array([1, 0])).tolist() == [0, 0]
    assert cycles(graph_from(rows), lambda: False).counts == before.counts


@pytest.mark.parametrize("block", range(8))
def test_the_worst_cycle_is_named_at_every_level(block: int) -> None:
    seen = set()
    for seed in range(60):
        random = Random(f"{block} {seed}")
        rows = random_edges(random, SIZE, random.randint(3, 14), 5)
        found = cycles(graph_from(rows), lambda: False)
        assert not found.undecided
        told = len(CYCLES)
        for extra, last in (("", RW), ("-process", PROCESS), ("-realtime", REALTIME)):
            wanted = worst(rows, last)
            if wanted < told:  # what is there without the order is not said again with it
                assert f"{CYCLES[wanted]}{extra}" in found.counts, (rows, found.counts, extra)
                told = wanted
                seen.add(CYCLES[wanted] + extra)
            named = [CYCLES.index(n.removesuffix(extra)) for n in found.counts
                     if (n.endswith(extra) if extra else n in CYCLES)]  # fmt: skip
            assert min(named, default=len(CYCLES)) >= wanted
        for cycle in found.shown:
            kinds = [step.kind for step in cycle.steps]
            ring = [step.txn for step in cycle.steps]
            for at, step in enumerate(cycle.steps):
                assert (step.txn, ring[(at + 1) % len(ring)], step.kind) in rows
            assert cycle.name.startswith(CYCLES[rank_of(kinds)]), (cycle, rows)
    assert len(seen) > 6


def test_the_shortest_cycle_is_shown() -> None:
    rows = [(0, 1, WW), (1, 2, WW), (2, 3, WW), (3, 0, WW), (4, 5, WW), (5, 4, WW), (0, 4, WW),
            (5, 3, WW)]  # fmt: skip
    (cycle,) = cycles(graph_from(rows), lambda: False).shown
    assert [step.txn for step in cycle.steps] == [4, 5]


@pytest.mark.parametrize("seed", range(30))
def test_way_stations_lead_to_all_of_a_group_but_to_nobody_itself(seed: int) -> None:
    random = Random(seed)
    members = [(random.randrange(3), random.randrange(8)) for _ in range(random.randint(1, 12))]
    sources = [(random.randrange(3), random.randrange(8)) for _ in range(random.randint(1, 12))]
    of, member = np.array(members, np.int64).T
    group, source = np.array(sources, np.int64).T
    stations = Stations(8)
    kind = np.full(len(group), RW)
    edges = fanned(Fan(source, group, kind, group, member, of, member), stations)
    ways: Any = nx.DiGraph()
    ways.add_nodes_from(range(stations.size))
    for one, two in zip(edges.source.tolist(), edges.target.tolist(), strict=True):
        ways.add_edge(one if one >= 8 else ("from", one), two)
    wanted = {(s, m) for g, s in sources for o, m in members if o == g and s != m}
    got = {(s, m) for _, s in sources if ("from", s) in ways
           for m in nx.descendants(ways, ("from", s)) if m < 8}  # fmt: skip
    assert got == wanted


def test_nobody_comes_before_itself() -> None:
    assert not len(edges_of(np.array([1]), np.array([1]), WW, NONE, NONE).source)
