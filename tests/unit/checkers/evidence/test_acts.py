"""A fault and what ended it, on each of its nodes."""

import pytest
from history_recorder import Recorder

from maxq.checkers.evidence.acts import acts_of
from maxq.histories.op import NEMESIS


def act(r: Recorder, f: str, *, holds: bool = True, **more: object) -> int:
    r.begin(NEMESIS, f, f"{f}-{len(r.ops)}")
    return r.end("info", NEMESIS, f, {"b0-0": {"holds": holds, **more}})


@pytest.mark.parametrize("f", ["kill", "stop", "power-loss", "restart"])
def test_a_suspension_ends_with_its_process(f: str) -> None:
    r = Recorder()
    act(r, "pause")
    ended = act(r, f)
    act(r, "start")
    pause = acts_of(r.history)[0]
    assert pause.over("b0-0") == ended


def test_a_restart_for_a_new_address_ends_a_suspension() -> None:
    r = Recorder()
    act(r, "pause")
    act(r, "change-address")
    ended = act(r, "change-address", started={"pid": 7})
    assert acts_of(r.history)[0].over("b0-0") == ended


def test_a_kill_without_proof_ends_no_suspension_and_no_kill_another() -> None:
    r = Recorder()
    act(r, "pause")
    act(r, "kill", holds=False)
    resumed = act(r, "resume")
    act(r, "kill")
    act(r, "kill")
    started = act(r, "start")
    assert [a.over("b0-0") for a in acts_of(r.history)] == [resumed, *[started] * 3]


@pytest.mark.parametrize(("f", "heal"), [("kill", "start"), ("pause", "resume")])
def test_who_runs_again_by_the_heal_of_another_fault_is_down_no_more(f: str, heal: str) -> None:
    """A schedule names the fault of each heal; a broker may be struck by two."""
    r = Recorder()
    r.begin(NEMESIS, f, "one")
    r.end("info", NEMESIS, f, {"b0-0": {"holds": True}, "b0-1": {"holds": True}})
    ends = []
    for node, of in (("b0-1", "other"), ("b0-0", "one")):
        r.begin(NEMESIS, heal, f"{of}.1", who={"of": of})
        ends.append(r.end("info", NEMESIS, heal, {node: {"holds": True}}))
    [struck] = acts_of(r.history)
    assert [struck.over(node) for node in ("b0-1", "b0-0")] == ends


def test_a_named_cut_ends_with_its_own_heal() -> None:
    r = Recorder()
    r.begin(NEMESIS, "start-partition", "one")
    r.end("info", NEMESIS, "start-partition", {"b0-0": {"holds": True, "from": {"b0-1": 1}}})
    ends = []
    for of in ("other", "one"):
        r.begin(NEMESIS, "stop-partition", f"{of}.1", who={"of": of})
        ends.append(r.end("info", NEMESIS, "stop-partition", {"b0-0": {"holds": True}}))
    [cut] = acts_of(r.history)
    assert cut.over("b0-0") == ends[1]
