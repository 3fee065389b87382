"""Nodes of several releases in one cluster."""

import pytest

from harness.contracts.target import Settings, Topology, plan
from harness.targets.mixed import Mixed, assigned, complaint, parse_release
from harness.targets.reference import ReferenceTarget
from harness.targets.rocketmq.releases import REFERENCE, Version
from harness.targets.rocketmq.target import TERMINATED, RocketMQTarget

OLD = RocketMQTarget(Version("5.1.0"))
TOPOLOGY = Topology(controllers=1, broker_sets=1, replicas=2)
NODES = {n.name: n for n in plan(TOPOLOGY)}


def mixed(**of: str) -> Mixed:
    return Mixed({REFERENCE: ReferenceTarget(), OLD.name: OLD}, of)


@pytest.mark.parametrize(
    ("text", "target"),
    [("5.1.0", "rocketmq:5.1.0"), ("rocketmq:5.1.0", "rocketmq:5.1.0"), (REFERENCE, REFERENCE),
     ("5.4.0:jraft", "rocketmq:5.4.0:jraft"), ("latest", "rocketmq:5.5.1")],
)  # fmt: skip
def test_a_release(text: str, target: str) -> None:
    assert parse_release(text) == target


@pytest.mark.parametrize("text", ["", "5.1", "5.1.9", "refrence", "5.1.0:jraft"])
def test_no_release(text: str) -> None:
    with pytest.raises(ValueError, match=f"no release '{text}'"):
        parse_release(text)


def test_the_name_of_a_node_counts_before_its_role() -> None:
    releases = {"broker": "rocketmq:5.1.1", "b0-1": REFERENCE, "controller": "rocketmq:5.1.0"}
    found = {n.name: assigned(n, "rocketmq:5.5.0", releases) for n in NODES.values()}
    assert found == {
        "n0": "rocketmq:5.5.0", "c0": "rocketmq:5.1.0", "b0-0": "rocketmq:5.1.1", "b0-1": REFERENCE
    }  # fmt: skip


def test_whom_there_is_not_has_no_release() -> None:
    assert complaint(["broker", "b0-1", "n0"], TOPOLOGY) == ""
    assert complaint(["broker", "b0-2"], TOPOLOGY).startswith("no node or role 'b0-2', did you")


def test_each_node_is_started_by_its_own_target() -> None:
    target = mixed(**{"b0-0": REFERENCE, "b0-1": OLD.name})
    settings = Settings(topology=TOPOLOGY)
    addresses = dict.fromkeys(NODES, "198.18.0.2")
    ours = target.config(NODES["b0-0"], settings, addresses, "/d")
    theirs = target.config(NODES["b0-1"], settings, addresses, "/d")
    assert "timerWheelEnable" in theirs
    assert "timerWheelEnable" not in ours
    assert (target.ends_with("b0-0"), target.ends_with("b0-1")) == (0, TERMINATED)
    assert target.follows_address(NODES["b0-0"])
    assert not target.follows_address(NODES["b0-1"])
    assert (target.layer, target.patience) == ("rocketmq", 3)


def test_a_node_becomes_another_release_at_its_next_start() -> None:
    target = mixed(**{"b0-0": REFERENCE, "b0-1": REFERENCE})
    assert target.other("b0-0") == OLD.name
    target.replace("b0-0", OLD.name)
    assert (target.of("b0-0"), target.of("b0-1")) == (OLD.name, REFERENCE)
    assert target.other("b0-0") == REFERENCE
    with pytest.raises(KeyError):
        target.replace("b0-0", "rocketmq:5.5.0")
