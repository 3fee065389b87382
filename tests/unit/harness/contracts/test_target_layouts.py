"""Where the brokers of a layout are, and what is no layout."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from spread_layout import SPREAD

from maxq.harness.contracts.layouts import BUILT_IN, CROSSED_2, LayoutKind
from maxq.harness.contracts.target import Topology, containers, plan, spoken

KINDS = {**BUILT_IN, SPREAD.name: SPREAD}


def laid_out(layout: str, replicas: int = 2) -> dict[str, tuple[str, ...]]:
    kind = KINDS[layout]
    topology = Topology(broker_sets=kind.sets, replicas=replicas, layout=kind)
    return {container.name: container.brokers for container in containers(plan(topology))}


@pytest.mark.parametrize(
    ("layout", "replicas", "expected"),
    [
        ("crossed-2", 2, {"k0": ("b0-0", "b1-1"), "k1": ("b0-1", "b1-0")}),
        ("crossed-3", 2, {"k0": ("b0-0", "b2-1"), "k1": ("b0-1", "b1-0"), "k2": ("b1-1", "b2-0")}),
        ("mixed", 2, {"k0": ("b0-1", "b1-1")}),
        ("one", 3, {"k0": ("b0-0", "b0-1", "b0-2")}),
        ("spread", 2, {"k0": ("b0-0", "b1-0"), "k1": ("b1-1",), "k2": ("b0-1",)}),
        ("spread", 3,
         {"k0": ("b0-0", "b1-0"), "k1": ("b0-2", "b1-1"), "k2": ("b0-1", "b1-2")}),
    ],
)  # fmt: skip
def test_layouts(layout: str, replicas: int, expected: dict[str, tuple[str, ...]]) -> None:
    assert laid_out(layout, replicas) == expected


@given(st.sampled_from(["crossed-2", "crossed-3"]), st.integers(1, 3))
def test_no_crossed_container_has_two_brokers_of_a_set(layout: str, replicas: int) -> None:
    replicas = min(replicas, int(layout[-1]))
    for brokers in laid_out(layout, replicas).values():
        assert len({broker.partition("-")[0] for broker in brokers}) == len(brokers)


@given(st.sampled_from(sorted(KINDS)), st.integers(1, 3))
def test_no_two_brokers_of_a_machine_share_a_port(layout: str, replicas: int) -> None:
    kind = KINDS[layout]
    nodes = plan(Topology(broker_sets=kind.sets, replicas=replicas, layout=kind))
    ports = [
        (node.process, port)
        for node in nodes
        for port in ((node.port - 2, node.port, node.port + 1) if node.broker_set else (node.port,))
    ]
    assert len({*ports}) == len(ports)


def test_how_many_nodes_there_are_is_said_with_their_processes() -> None:
    assert spoken(plan(Topology(broker_sets=2, replicas=2, layout=CROSSED_2))) == (
        "6 nodes in 4 processes"
    )
    assert spoken(plan(Topology(broker_sets=2, replicas=2))) == "6 nodes"


@pytest.mark.parametrize(
    ("kind", "alone"), [*((kind, kind.name == "one") for kind in KINDS.values())], ids=[*KINDS]
)
def test_two_of_a_set_in_a_container_are_for_pairs_alone(kind: LayoutKind, alone: bool) -> None:
    kind.check()
    assert kind.pairs_alone is alone


def test_a_layout_for_any_number_of_replicas_keeps_all_of_a_set_apart() -> None:
    def on(machines: int) -> LayoutKind:
        return msgspec.structs.replace(
            SPREAD, replicas=0, container_of=lambda s, r: f"k{r % machines}"
        )

    assert (on(9).pairs_alone, on(8).pairs_alone) == (False, True)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"name": "a/b"}, "layout 'a/b': a name has letters, digits, - and _"),
        ({"sets": 0}, "sets=0 is not 1 to 50"),
        ({"sets": 51}, "sets=51 is not 1 to 50"),
        ({"replicas": -1}, "replicas=-1 is not 0 to 9"),
        ({"container_of": lambda s, r: "left"}, r"container_of\(0, 0\) is 'left', and not empty"),
        ({"container_of": lambda s, r: None}, r"container_of\(0, 0\) is None, and not empty"),
        ({"container_of": lambda s, r: ["k0"][s]}, r"container_of\(1, 0\): IndexError"),
        ({"container_of": lambda s, r: ""}, "no broker is in a container"),
    ],
)
def test_what_is_no_layout_is_refused(wrong: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        msgspec.structs.replace(SPREAD, **wrong).check()
