"""Brokers of one container are struck together, and cut together."""

import asyncio
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from maxq.harness.contracts.cluster import Proof
from maxq.harness.contracts.layouts import CROSSED_2
from maxq.harness.contracts.target import Topology, plan
from maxq.nemeses.stage import Stage

NODES = plan(Topology(controllers=0, broker_sets=2, replicas=2, layout=CROSSED_2))
NAMES = [node.name for node in NODES]
MACHINE = {node.name: node.process for node in NODES}


def stage() -> Stage:
    cluster: Any = SimpleNamespace(nodes=NODES)
    return Stage(cluster, "key")


def test_a_node_is_beside_those_of_its_process() -> None:
    assert stage().beside("b0-0") == ["b0-0", "b1-1"]
    assert stage().beside("k1") == ["b0-1", "b1-0"]
    assert stage().beside("n0") == ["n0"]
    assert stage().apart == ["n0", "b0-0", "b0-1"]


def test_what_is_done_to_a_container_is_done_once_and_seen_of_all() -> None:
    struck: list[str] = []

    async def verb(node: str) -> Proof:
        struck.append(node)
        return Proof(True, {"by": node})

    done = asyncio.run(stage().each(verb, ["b1-1", "b0-0", "n0"]))
    assert sorted(struck) == ["b0-0", "n0"]
    assert {node: what["by"] for node, what in done.items()} == {
        "b1-1": "b0-0", "b0-0": "b0-0", "n0": "n0",
    }  # fmt: skip
    struck.clear()
    asyncio.run(stage().each_alone(verb, ["b1-1", "b0-0"]))
    assert struck == ["b1-1", "b0-0"]


@given(st.dictionaries(st.sampled_from(NAMES), st.frozensets(st.sampled_from(NAMES))))
def test_a_cut_is_one_between_machines(grudge: dict[str, frozenset[str]]) -> None:
    """Who is cut from whom follows from their machines alone, and no machine is cut from itself."""
    cut = stage().spread(grudge)
    between = {
        (MACHINE[to], MACHINE[source]) for to, sources in grudge.items() for source in sources
    }
    for to in NAMES:
        for source in NAMES:
            wanted = MACHINE[to] != MACHINE[source] and (MACHINE[to], MACHINE[source]) in between
            assert (source in cut.get(to, ())) == wanted
