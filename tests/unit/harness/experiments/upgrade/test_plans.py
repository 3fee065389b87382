"""Upgrades as planned: what is documented of each, and schedules that can be performed."""

import pytest

from maxq.harness.experiments.upgrade.plans import BEFORE, COMPATIBLE, Upgrade, upgrades
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
    [profile] = upgrade.profiles(["P-SAFE"])
    script = upgrade.schedule(profile)
    assert decode(encode(script)) == script
    options = options_for(script, "local")
    nodes = options.node_releases
    assert [complaint(act, nodes) for act in script.acts] == [""] * len(script.acts)
    assert nodes["n0"].endswith(upgrade.namesrvs or upgrade.controllers)
    assert ("c0" in nodes) is not upgrade.pair
    assert nodes.get("c0", "").endswith(upgrade.controllers)
    assert nodes["b0-1"].endswith(upgrade.brokers)
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


def test_old_name_servers_need_what_rip_32_says() -> None:
    """Brokers that may not use old requests are lost under a name server that knows no others."""
    said = {u.name: (u.expected, u.keys) for u in upgrades() if u.group == "name-servers"}
    assert len(said) == 3 * 2 * 2
    wrong = {name for name, (expected, _) in said.items() if expected == "does not act"}
    assert wrong == {f"{of}-pair-under-{BEFORE}" for of in ("reference", "5.5.0")}
    compatible = {name for name, (_, keys) in said.items() if keys == {COMPATIBLE: "true"}}
    assert compatible == {name for name in said if name.endswith("-compatible")}


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
