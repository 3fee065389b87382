"""One cluster of several targets: each node by its own, and another one after a change."""

import pytest

from maxq.harness.contracts.target import Settings, Target, Topology, plan
from maxq.harness.targets.mixed import MixedTarget
from maxq.harness.targets.reference import ReferenceTarget
from maxq.harness.targets.rocketmq.releases import (
    REFERENCE,
    misplaced,
    parse,
    spelled,
    version_name,
    version_number,
)
from maxq.harness.targets.rocketmq.target import RocketMQTarget

TOPOLOGY = Topology(controllers=3, broker_sets=1, replicas=2)
NODES = {node.name: node for node in plan(TOPOLOGY)}
OLD = "rocketmq:5.1.0"


def mixed(**assigned: str) -> MixedTarget:
    targets: dict[str, Target] = {REFERENCE: ReferenceTarget(), OLD: RocketMQTarget(parse(OLD))}
    return MixedTarget(targets, {name.replace("_", "-"): of for name, of in assigned.items()})


def test_each_node_is_its_own_target_and_others_the_first() -> None:
    target = mixed(b0_0=OLD, c1=OLD)
    assert target.assigned("b0-0") == OLD
    assert target.assigned("b0-1") == REFERENCE
    ends = {name: target.ends_with(node) for name, node in NODES.items()}
    assert ends == {"n0": 0, "c0": 0, "c1": 143, "c2": 0, "b0-0": 143, "b0-1": 0}
    assert not target.follows_address(NODES["b0-0"])
    assert target.follows_address(NODES["b0-1"])
    assert target.name == "reference, b0-0 rocketmq:5.1.0, c1 rocketmq:5.1.0"
    assert (target.patience, target.layer) == (3, "rocketmq")


def test_a_node_that_is_assigned_anew_answers_and_is_configured_as_that() -> None:
    target, node = mixed(), NODES["b0-0"]
    assert target.answers_as(node) == version_number("5.3.3")
    target.assign("b0-0", OLD)
    assert target.answers_as(node) == version_number("5.1.0")
    addresses = {name: name for name in NODES}
    lines = target.config(node, Settings(topology=TOPOLOGY), addresses, "/d")
    assert "maxHashSlotNum=10000" in lines, "as Java needs it"
    with pytest.raises(ValueError, match=r"the run has no rocketmq:5\.5\.0; it has: reference"):
        target.assign("b0-0", "rocketmq:5.5.0")


@pytest.mark.parametrize(
    ("release", "number"), [("5.0.0", 413), ("5.1.1", 435), ("5.3.3", 479), ("5.5.0", 513)]
)
def test_versions_have_rocketmqs_numbers(release: str, number: int) -> None:
    assert version_number(release) == number
    assert version_name(number) == release


def test_what_is_no_version_is_told_as_its_number() -> None:
    assert [version_name(n) for n in (0, 414)] == ["0", "414"]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("reference", "reference"),
        ("5.1.0", "rocketmq:5.1.0"),
        ("rocketmq:5.1.0", "rocketmq:5.1.0"),
        ("latest", "rocketmq:5.5.1"),
        ("5.4.0:jraft", "rocketmq:5.4.0:jraft"),
    ],
)
def test_a_release_names_a_target(text: str, name: str) -> None:
    assert spelled(text) == name


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("refrence", "no release 'refrence', did you mean reference"),
        ("5.1.9", "no release 5.1.9, did you mean 5.1"),
        ("4.9.8", "no release 4.9.8"),
        ("", "no release ''; there are: reference, latest, 5.0.0"),
    ],
)
def test_what_is_no_release_is_refused_with_the_nearest(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        spelled(text)


def test_what_is_no_node_is_refused_with_the_nearest() -> None:
    assert misplaced({"broker": OLD, "b0-1": REFERENCE}, NODES) == ""
    assert "did you mean broker?" in misplaced({"brokers": OLD}, NODES)
    assert "no component or node 'b1-1'" in misplaced({"b1-1": OLD}, NODES)
