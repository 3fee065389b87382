"""The heals at the end of a run: of every fault of its schedule, in one order."""

import pytest

from maxq.harness.schedule.format import Act
from maxq.histories.fault_facts import BUILT_IN, FaultFacts
from maxq.nemeses.heals import final_heals


def acts(*names: str) -> list[Act]:
    return [Act(id=f"a{n}", f=f) for n, f in enumerate(names)]


def test_cuts_are_healed_before_nodes_are_resumed_moved_back_and_started() -> None:
    everything = acts(
        "kill", "change-address", "pause", "start-partition", "bump-clock", "start-delay"
    )
    order = ["stop-delay", "reset-clock", "stop-partition", "resume", "restore-address", "start"]
    assert final_heals(everything, BUILT_IN) == order
    assert final_heals(everything[::-1], BUILT_IN) == order


@pytest.mark.parametrize("f", ["kill", "stop", "power-loss"])
def test_what_is_down_is_started(f: str) -> None:
    assert final_heals(acts(f), BUILT_IN) == ["start"]


def test_a_disk_may_have_ended_its_node() -> None:
    assert final_heals(acts("start-disk-fault"), BUILT_IN) == ["stop-disk-fault", "start"]


def test_a_heal_in_the_schedule_is_done_at_the_end_too() -> None:
    """A restart may have left its node down."""
    assert final_heals(acts("restart"), BUILT_IN) == []
    assert final_heals(acts("restart", "start"), BUILT_IN) == ["start"]


def test_a_node_that_has_moved_for_good_is_not_moved_back() -> None:
    moved = Act(id="m", f="change-address", args={"stays": True})
    assert final_heals([moved], BUILT_IN) == []
    assert final_heals([moved, Act(id="n", f="change-address")], BUILT_IN) == ["restore-address"]


def test_faults_of_other_kinds_are_healed_by_their_facts() -> None:
    flap = FaultFacts(strikes="start-flap", effect="cut", heals=("stop-flap",))
    kinds = BUILT_IN.with_((flap,))
    assert final_heals(acts("kill", "start-flap"), kinds) == ["stop-flap", "start"]
    assert final_heals(acts("elect-master"), BUILT_IN) == []
    assert final_heals(acts("wipe"), BUILT_IN) == ["start"]
