"""Where the brokers of a layout are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxq.harness.contracts.target import LAYOUTS, Layout, Topology, containers, plan, spoken


def laid_out(layout: Layout, replicas: int = 2) -> dict[str, tuple[str, ...]]:
    topology = Topology(broker_sets=LAYOUTS[layout].sets, replicas=replicas, layout=layout)
    return {container.name: container.brokers for container in containers(plan(topology))}


@pytest.mark.parametrize(
    ("layout", "replicas", "expected"),
    [
        ("crossed-2", 2, {"k0": ("b0-0", "b1-1"), "k1": ("b0-1", "b1-0")}),
        ("crossed-3", 2, {"k0": ("b0-0", "b2-1"), "k1": ("b0-1", "b1-0"), "k2": ("b1-1", "b2-0")}),
        ("mixed", 2, {"k0": ("b0-1", "b1-1")}),
        ("one", 3, {"k0": ("b0-0", "b0-1", "b0-2")}),
    ],
)
def test_layouts(layout: Layout, replicas: int, expected: dict[str, tuple[str, ...]]) -> None:
    assert laid_out(layout, replicas) == expected


@given(st.sampled_from(["crossed-2", "crossed-3"]), st.integers(1, 3))
def test_no_crossed_container_has_two_brokers_of_a_set(layout: Layout, replicas: int) -> None:
    replicas = min(replicas, int(layout[-1]))
    for brokers in laid_out(layout, replicas).values():
        assert len({broker.partition("-")[0] for broker in brokers}) == len(brokers)


@given(st.sampled_from(sorted(LAYOUTS)), st.integers(1, 3))
def test_no_two_brokers_of_a_machine_share_a_port(layout: Layout, replicas: int) -> None:
    nodes = plan(Topology(broker_sets=LAYOUTS[layout].sets, replicas=replicas, layout=layout))
    ports = [
        (node.process, port)
        for node in nodes
        for port in ((node.port - 2, node.port, node.port + 1) if node.broker_set else (node.port,))
    ]
    assert len({*ports}) == len(ports)


def test_how_many_nodes_there_are_is_said_with_their_processes() -> None:
    assert spoken(plan(Topology(broker_sets=2, replicas=2, layout="crossed-2"))) == (
        "6 nodes in 4 processes"
    )
    assert spoken(plan(Topology(broker_sets=2, replicas=2))) == "6 nodes"
