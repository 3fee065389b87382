"""S15: a node that is started runs, and what excuses one that does not."""

from typing import Any

import pytest
from history_recorder import Recorder
from profiles import settings

from maxq.checkers.availability.processes import Processes
from maxq.checkers.core.api import Context, Verdict
from maxq.histories.op import NEMESIS


class Looked(Recorder):
    def look(self, f: str = "await-recovery", **found: Any) -> "Looked":
        self.begin(NEMESIS, f, None)
        self.end("info", NEMESIS, f, {"cluster": {"holds": True, "nodes": 7, **found}})
        return self

    def act(self, f: str, node: str, **proof: Any) -> "Looked":
        self.begin(NEMESIS, f, "one")
        self.end("info", NEMESIS, f, {node: {"holds": True, **proof}})
        return self


def judge(r: Recorder, context: Context | None = None) -> Verdict:
    return Processes().check(r.history, context or Context())


def names(r: Recorder) -> list[tuple[str, str]]:
    return [(a.name, a.detail["node"]) for a in judge(r).anomalies]


def test_nodes_that_run_are_evidence() -> None:
    r = Looked().act("kill", "b0-0").act("start", "b0-0", code=None, port="open").look()
    verdict = judge(r)
    assert (verdict.valid, verdict.of("kept")) == (True, ("S15",))
    assert verdict.counts == {"starts": 1, "ended-by-themselves": 0}


def test_without_a_look_nobody_knows() -> None:
    assert judge(Looked().act("kill", "b0-0")).of("not judged") == ("S15",)


def test_who_has_ended_when_all_is_healed_is_named_with_what_was_done_to_him() -> None:
    r = Looked().act("kill", "b0-0").act("start", "b0-0").look(crashed={"b0-0": 1})
    [found] = judge(r).anomalies
    assert (found.signature, found.detail) == (
        "S15/node-ended",
        {"node": "b0-0", "after": "start", "code": 1},
    )
    assert "with exit code 1" in found.story
    assert names(Looked().look().look("last-look", crashed={"b0-1": 3})) == [("node-ended", "b0-1")]


def test_who_runs_and_does_not_answer_is_named() -> None:
    assert names(Looked().look(silent=["c1"])) == [("node-does-not-answer", "c1")]


def test_who_was_found_ended_in_an_act() -> None:
    r = Looked().act("kill", "b0-1", holds=False, ended_by_itself=255).look()
    assert names(r) == [("node-ended", "b0-1")]
    old = Looked().act("kill", "b0-1", holds=False, code=9, reason="it had ended by itself").look()
    assert names(old) == [("node-ended", "b0-1")]


@pytest.mark.parametrize("started", [False, True])
def test_a_damaged_store_excuses_until_its_node_was_started(started: bool) -> None:
    """A machine that gets its address back restarts its node only if that ran."""
    r = Looked().act("kill", "b0-1").act("flip-bit", "b0-1")
    r.act("restore-address", "b0-1", **({"started": {"code": None}} if started else {}))
    r.act("start", "b0-1", holds=False, code=1, port="refused").look()
    assert names(r) == ([("node-does-not-start", "b0-1")] if started else [])


def test_who_is_started_and_ends_again_does_not_start() -> None:
    r = Looked().act("start", "b0-2", holds=False, code=1, port="refused").look()
    assert names(r) == [("node-does-not-start", "b0-2")]
    again = Looked().act("restart", "b0-2", holds=False, started={"code": 1}).look()
    assert names(again) == [("node-does-not-start", "b0-2")]


def test_a_node_is_named_once() -> None:
    r = Looked().act("start", "b0-2", holds=False, code=1).look(crashed={"b0-2": 1})
    assert names(r.look("last-look", crashed={"b0-2": 1})) == [("node-ended", "b0-2")]


@pytest.mark.parametrize("why", ["disk", "address", "cut", "wiped", "recorded"])
def test_a_recorded_reason_excuses(why: str) -> None:
    r = Looked()
    if why == "disk":
        r.act("start-disk-fault", "b0-2")
    elif why == "address":
        r.act("change-address", "b0-2")
    elif why == "cut":
        r.act("start-partition", "b0-2", **{"from": {"c0": 4}})
    elif why == "wiped":
        r.act("wipe", "b0-2")
    more = {"excused": "its disk was at fault"} if why == "recorded" else {}
    r.act("start", "b0-2", holds=False, code=1, **more)
    assert names(r.look()) == []


def test_once_healed_nothing_excuses() -> None:
    r = Looked().act("change-address", "b0-2").act("restore-address", "b0-2")
    r.act("start", "b0-2", holds=False, code=1)
    assert names(r.look()) == [("node-does-not-start", "b0-2")]
    assert names(Looked().look(crashed={"b0-2": 1}, excused={"b0-2": "its disk"})) == []


def test_a_loss_of_power_is_promised_only_to_who_syncs() -> None:
    r = Looked().act("power-loss", "b0-0").look(crashed={"b0-0": 1})
    unsynced = Context(settings=settings("P-SAFE"))
    assert judge(r, unsynced).of("not promised") == ("S15",)
    synced = Context(settings=settings("P-SAFE", broker__flushDiskType="SYNC_FLUSH"))
    assert judge(r, synced).of("broken") == ("S15",)
