"""Upgrades as planned: what is documented of each, and schedules that can be performed."""

import pytest

from maxq.harness.experiments.upgrade.plans import Upgrade, upgrades
from maxq.harness.run.replay import options_for
from maxq.harness.schedule.format import decode, encode
from maxq.harness.targets.rocketmq.releases import MISSING
from maxq.histories.fault_facts import RELEASE
from maxq.nemeses.catalogue import complaint

BY_NAME = {upgrade.name: upgrade for upgrade in upgrades()}


def test_each_has_a_name_of_its_own() -> None:
    assert len(BY_NAME) == len(upgrades())


@pytest.mark.parametrize("upgrade", upgrades(), ids=lambda upgrade: upgrade.name)
def test_each_schedule_can_be_written_read_and_performed(upgrade: Upgrade) -> None:
    script = upgrade.schedule("P-SAFE")
    assert decode(encode(script)) == script
    options = options_for(script, "local")
    nodes = options.node_releases
    assert [complaint(act, nodes) for act in script.acts] == [""] * len(script.acts)
    assert nodes["c0"].endswith(upgrade.controllers)
    assert nodes["b0-2"].endswith(upgrade.brokers)
    assert bool(options.later) == (upgrade.replaced > 0)
    assert any(RELEASE in act.args for act in script.acts) == (upgrade.replaced > 0)


def test_the_table_of_compatibility_is_the_documented_one() -> None:
    said = {name: BY_NAME[name].expected for name in BY_NAME if "rolling" not in name}
    assert said["5.1.0-under-5.1.0"] == said["5.1.1-under-5.1.1"] == "switches"
    assert said["5.1.1-under-5.1.0"] == said["reference-under-5.1.0"] == "never up"
    assert said["5.1.0-under-replaced-5.1.1"] == "no switch"
    assert said["5.1.0-restarted-under-replaced-5.1.1"] == "stays away"
    assert said["reference-under-5.1.1"] == said["5.1.1-under-reference"] == "switches"
    assert said["documented-5.1.0-to-5.1.1"] == "keeps all"


def test_all_neighbours_are_tried_up_and_down_and_nobody_says_anything() -> None:
    rolling = [upgrade for upgrade in upgrades() if upgrade.group == "rolling"]
    assert len(rolling) == 2 * (len(MISSING) - 1)
    assert not any(upgrade.says or upgrade.expected for upgrade in rolling)
    up = BY_NAME["rolling-5.1.0-to-5.1.1"]
    assert [act.who.nodes for act in up.acts] == [
        ("n0",), ("c0",), ("c1",), ("c2",), ("b0-0",), ("b0-1",), ("b0-2",)
    ]  # fmt: skip
    assert {act.args[RELEASE] for act in up.acts} == {"5.1.1"}
    assert up.replaced == 7
