"""Circles across queues are those of the whole graph, though most of it is not looked at."""

from typing import Any

import networkx as nx
from hypothesis import given, settings
from hypothesis import strategies as st

from maxq.checkers.messages.circles import circles, links

OPS = st.integers(0, 40)
CHAINS = st.lists(OPS, max_size=12)
POLLED = st.lists(st.tuples(OPS, OPS).filter(lambda pair: pair[0] != pair[1]), max_size=8)


def components(edges: list[tuple[int, int]]) -> list[set[int]]:
    """The operations of each circle, where circles meet together."""
    graph = nx.DiGraph([(one, two) for one, two in edges if one != two])
    return [found for found in nx.strongly_connected_components(graph) if len(found) > 1]


QUEUES = st.dictionaries(st.integers(0, 5), st.tuples(CHAINS, POLLED), max_size=5)


@settings(deadline=None)  # the first imports what it needs
@given(QUEUES)
def test_as_many_components_have_a_circle(queues: dict[int, Any]) -> None:
    found = {key: links(chain, polled) for key, (chain, polled) in queues.items()}
    judged = circles(found)
    of_polls = components([pair for _, polled in queues.values() for pair in polled])
    of_writes = components(
        [pair for one in found.values() for pair in zip(one.chain, one.chain[1:], strict=False)]
    )
    assert judged.cycles == len(of_polls)
    assert all(any({*f.ops} <= each for each in of_polls) for f in judged.findings)
    several = sum(len(one.chain) > 1 for one in found.values()) > 1
    polls = any(one.polled for one in found.values())
    if several or polls:  # one queue that says no more has no circle that means anything
        assert judged.write_cycles == len(of_writes)
