"""Which nodes are gone after each action."""

import pytest
from history_recorder import Recorder

from maxq.checkers.evidence.active_faults import InForce
from maxq.checkers.evidence.faults import faults
from maxq.harness.schedule.format import Act
from maxq.histories.grounds import declaration
from maxq.histories.op import NEMESIS
from maxq.nemeses.catalogue import facts_of


def gone_after(*acts: tuple[str, dict[str, object]]) -> frozenset[str]:
    r, force = Recorder(), InForce()
    for number, (f, proof) in enumerate(acts):
        r.begin(NEMESIS, f, f"f{number}")
        r.end("info", NEMESIS, f, {"b0-0": {"holds": True, **proof}})
    for fault in faults(r.history):
        force.take(fault)
    assert not force.lost
    return force.state.gone


@pytest.mark.parametrize("strike", ["pause", "kill"])
@pytest.mark.parametrize("f", ["change-address", "restore-address", "restart"])
def test_a_process_that_another_act_started_is_not_gone(strike: str, f: str) -> None:
    assert gone_after((strike, {}), (f, {"started": {"pid": 2}})) == frozenset()


@pytest.mark.parametrize("f", ["change-address", "restore-address"])
def test_a_new_address_alone_wakes_nobody(f: str) -> None:
    assert gone_after(("pause", {}), (f, {})) == {"b0-0"}


def test_a_start_without_proof_leaves_a_node_gone() -> None:
    proof = {"started": {"pid": 2}, "holds": False}
    assert gone_after(("pause", {}), ("change-address", proof)) == {"b0-0"}


@pytest.mark.parametrize("by_wall_clock", [False, True])
def test_a_wrong_clock_impairs_who_goes_by_it_until_it_is_right(by_wall_clock: bool) -> None:
    acts = [Act(id="a", f="bump-clock"), Act(id="b", f="reset-clock")]
    facts = facts_of(acts, by_wall_clock=by_wall_clock)
    r, force, seen = Recorder(), InForce(), []
    r.begin("run", "run", declaration((), facts).value)
    for act in acts:
        r.begin(NEMESIS, act.f, act.id)
        r.end("info", NEMESIS, act.f, {"b0-0": {"holds": True}})
    for fault in faults(r.history):
        force.take(fault)
        seen.append(force.state.doubtful)
    assert not force.lost
    assert seen == [frozenset({"b0-0"} if by_wall_clock else ()), frozenset()]


@pytest.mark.parametrize(
    ("holds", "strike", "doubtful"),
    [(True, {"full": True}, False), (False, {"full": True}, True), (True, {"sync_ms": 900}, False)],
)
def test_a_node_that_its_disk_may_have_ended_is_sound_once_all_processes_were_seen_to_run(
    *, holds: bool, strike: dict[str, object], doubtful: bool
) -> None:
    r, force = Recorder(), InForce()
    r.begin(NEMESIS, "start-disk-fault", "d", args=strike)
    r.end("info", NEMESIS, "start-disk-fault", {"b0-0": {"holds": True}})
    r.begin(NEMESIS, "stop-disk-fault", "d")
    r.end("info", NEMESIS, "stop-disk-fault", {"b0-0": {"holds": True}})
    r.begin(NEMESIS, "await-recovery", None)
    r.end("info", NEMESIS, "await-recovery", {"cluster": {"holds": holds, "crashed": {}}})
    for fault in faults(r.history):
        force.take(fault)
    assert force.state.doubtful == ({"b0-0"} if doubtful else frozenset())


def test_and_so_is_one_whose_start_was_not_proven_at_once() -> None:
    r, force, seen = Recorder(), InForce(), []
    for f, of, holds in (("kill", "b0-0", True), ("start", "b0-0", False),
                         ("await-recovery", "cluster", True)):  # fmt: skip
        r.begin(NEMESIS, f, None)
        r.end("info", NEMESIS, f, {of: {"holds": holds, "crashed": {}}})
    for fault in faults(r.history):
        force.take(fault)
        seen.append(force.state.doubtful)
    assert seen == [frozenset(), {"b0-0"}, frozenset()]
