"""S13d: writes while faults last, and everything that leaves it open."""

from typing import Any

import pytest
from cluster_recorder import Cluster, broker, set_view
from history_recorder import SECOND_NS
from profiles import under

from maxq.checkers.availability.attempts import Attempts
from maxq.checkers.availability.availability import Availability
from maxq.checkers.availability.write_availability import windows
from maxq.checkers.core.api import Anomaly, Context, Verdict
from maxq.checkers.core.keyed import Event
from maxq.checkers.evidence.active_faults import connected
from maxq.checkers.evidence.quiescence import lulls
from maxq.harness.contracts.target import Profile
from maxq.histories.op import NEMESIS, Op

CONTEXT = Context(
    broker_sets={"b0": ("b0-0", "b0-1", "b0-2")},
    recovery_ns=20 * SECOND_NS,
)
CONTROLLERS, OTHERS = ("c0", "c1", "c2"), ("n0", "b0-0", "b0-1", "b0-2")
EVERYBODY = (*CONTROLLERS, *OTHERS)


def cut_off(node: str, *others: str) -> dict[str, Any]:
    """A node that no other hears, and that hears none, as a cut's completion tells it."""
    apart = {to: {"holds": True, "from": {node: 1}} for to in others}
    return {node: {"holds": True, "from": dict.fromkeys(others, 1)}, **apart}


class Timed(Cluster):
    """Everything is written down at the time that was set last, in seconds. All three brokers are
    in the set of master 1, everybody is asked, and a message was sent."""

    now = 0.0

    def __init__(self) -> None:
        super().__init__()
        self.act("inspect", {"b0-0": {"holds": True}})
        for node in CONTROLLERS:
            self.op("fail", 9, "observe-controller", {"node": node}, {"node": node})
        self.op("fail", 9, "observe-route", {"node": "n0"}, {"node": "n0"})
        self.controllers(set_view(1, 3, 1, 1, 2, 3))
        for n in range(3):
            value = broker(f"b0-{n}", n + 1, (1, 0, 9), leads=n == 0)
            self.op("ok", 8, "observe-replica", {"node": f"b0-{n}"}, value)
        self.send(1, 1, 0, node="b0")

    def at(self, seconds: float) -> "Timed":
        self.now = seconds
        return self

    def _add(self, op_type: Any, process: Any, f: str, value: Any, ext: dict[str, Any]) -> int:
        index = len(self.ops)
        time = round(self.now * SECOND_NS)
        self.ops.append(Op(op_type, process, f, value, None, index, time, ext or None))
        return index

    def act(self, f: str, value: Any, request: str = "one", **asked: Any) -> "Timed":
        """An action of the nemesis, whatever it completes with."""
        self.begin(NEMESIS, f, request, **asked)
        self.end("info", NEMESIS, f, value, **asked)
        return self

    def hit(self, f: str, *nodes: str, holds: bool = True, **asked: Any) -> "Timed":
        return self.act(f, {n: {"holds": holds} for n in nodes}, **asked)

    def tried(self, begin: float, end: float, ok: bool = False, **ext: Any) -> "Timed":
        """A send to the set each second."""
        for second in range(int(begin), int(end)):
            done: dict[str, Any] = {"node": "b0", **ext} if ok else ext
            offset = second if ok else None
            self.at(second).send(2, 100 + second, offset, "ok" if ok else "info", **done)
        return self


def judge(r: Timed, context: Context = CONTEXT) -> Verdict:
    return Availability().check(r.history, context)


def found(r: Timed, context: Context = CONTEXT) -> list[Anomaly]:
    return [a for a in judge(r, context).anomalies if a.claim == "S13d"]


def judged(r: Timed, context: Context = CONTEXT) -> int:
    return judge(r, context).counts["lulls-judged"]


def master_killed(*, end: float = 60.0, ok: bool = False) -> Timed:
    """At 10 s the master is killed; 2 leads from 15 s on; at 60 s the next act begins."""
    r = Timed().at(10).hit("kill", "b0-0")
    r.at(15).controllers(set_view(2, 4, 2, 2))
    r.tried(16, end, ok)
    r.controllers(set_view(2, 5, 2, 2, 3))
    return r.at(end).hit("start", "b0-0")


def test_no_send_succeeds_although_everything_that_is_needed_is_there() -> None:
    r = master_killed()
    [anomaly] = found(r)
    assert anomaly.signature == "S13d/not-writable-during-fault"
    assert anomaly.detail == {
        "set": "b0",
        "connected": ["b0-1", "b0-2", "c0", "c1", "c2", "n0"],
        "gone": ["b0-0"],
        "sync-state-set": [2, 3],
        "sends": 30,
        "for-ms": 50_000,
    }
    assert "30 sends that were begun later than 20.0 s" in anomaly.story
    assert "the kill of b0-0 at 10.000 s" in anomaly.story
    times = [r.history[index].time // SECOND_NS for index in anomaly.ops]
    assert times == [10, 30, 59, 59], "the kill, the first and last of the sends, the last answer"


def test_a_single_send_keeps_the_promise() -> None:
    r = master_killed(end=58)
    r.ops = r.ops[:-2]
    r.at(58).send(1, 999, 9, node="b0", pinned=True)
    r.at(60).hit("start", "b0-0")
    assert not found(r)
    verdict = judge(r)
    assert "S13d" in verdict.claims
    assert (verdict.counts["lulls"], verdict.counts["lulls-judged"]) == (1, 1)


@pytest.mark.parametrize("end", [25, 31, 34])
def test_too_short_a_time_says_nothing(end: float) -> None:
    """Neither a lull within the bound, nor one in which hardly anything was tried beyond it."""
    r = master_killed(end=end)
    assert (found(r), judged(r)) == ([], 0)


def test_sends_before_the_bound_do_not_count_on_either_side() -> None:
    r = Timed().at(10).hit("kill", "b0-0")
    r.tried(11, 29, ok=True).tried(31, 60)
    assert found(r.at(60).hit("start", "b0-0"))


def test_a_send_that_was_over_after_the_lull_proves_nothing() -> None:
    r = Timed().at(10).hit("kill", "b0-0").tried(11, 59)
    r.begin(3, "send", [["send", 0, 7]])
    r.at(60).hit("start", "b0-0")
    r.at(61).end("ok", 3, "send", [["send", 0, [3, 7]]], node="b0")
    assert found(r)


def test_clients_that_stay_with_one_broker_are_no_witnesses() -> None:
    r = Timed().at(10).hit("kill", "b0-0").tried(11, 60, pinned=True)
    r.at(60).hit("start", "b0-0")
    assert (found(r), judged(r)) == ([], 0)


def test_sends_to_another_set_say_nothing() -> None:
    r = Timed().at(10).hit("kill", "b0-0")
    r.send(1, 70, 0, key=1, node="b1")
    for second in range(31, 60):
        r.at(second).send(2, 100 + second, None, "info", key=1)
    assert not judged(r.at(60).hit("start", "b0-0"))


# What is not promised.


def struck(strike: Any, context: Context = CONTEXT) -> int:
    """Whether a lull after some faults is judged."""
    r = Timed().at(10)
    strike(r)
    r.tried(11, 60)
    r.at(60).act("await-recovery", None)
    return len(list(windows(r.history, context)))


PROMISED = {
    "nothing": lambda r: r,
    "a controller": lambda r: r.hit("kill", "c0"),
    "paused": lambda r: r.hit("pause", "b0-0", "c1"),
    "all replicas but one": lambda r: r.hit("power-loss", "b0-0", "b0-1"),
    "isolated": lambda r: r.act("start-partition", cut_off("b0-0", *CONTROLLERS, *OTHERS[:1],
                                                           "b0-1", "b0-2")),
    "a clock": lambda r: r.hit("bump-clock", *EVERYBODY),
    "held, then killed, then started": lambda r: r.hit("pause", "n0").hit("kill", "n0").hit(
        "start", "n0"),
    "a disk that is sound again": lambda r: r.hit(
        "start-disk-fault", "b0-0", args={"sync_ms": 9}).hit("stop-disk-fault", "b0-0"),
    "a full disk, healed and started": lambda r: r.hit(
        "start-disk-fault", "b0-0", args={"full": True}).hit("stop-disk-fault", "b0-0").hit(
        "start", "b0-0"),
    "a slow way that is over": lambda r: r.hit("start-delay", "c0").hit("stop-delay", "c0"),
    "moved back": lambda r: r.hit("change-address", "b0-1").hit("restore-address", "b0-1"),
    "unproven, then proven": lambda r: r.hit("kill", "c0", holds=False).hit("start", "c0"),
    "a cut that its own heal ended": lambda r: r.act(
        "start-partition", cut_off("n0", "c0"), "f1", who={"part": "namesrv"}).act(
        "stop-partition", {"n0": {"holds": True}}, "f1.h", who={"of": "f1"}),
    "nobody": lambda r: r.act("start-partition", {"nobody": {"holds": True}}).act(
        "kill", {"nobody": {"holds": True}}),
}  # fmt: skip
UNPROMISED = {
    "most controllers": lambda r: r.hit("kill", "c0", "c1"),
    "all replicas": lambda r: r.hit("pause", "b0-0", "b0-1", "b0-2"),
    "all name servers": lambda r: r.hit("kill", "n0"),
    "a name server that hears nobody": lambda r: r.act(
        "start-partition", cut_off("n0", *CONTROLLERS, "b0-0", "b0-1", "b0-2")),
    "one way": lambda r: r.act("start-partition", {"b0-0": {"holds": True, "from": {"c0": 1}}}),
    "one link": lambda r: r.act("start-partition", cut_off("b0-0", "c0")),
    "clients": lambda r: r.act("start-partition", cut_off("b0-0", *CONTROLLERS, "n0", "b0-1",
                                                          "b0-2", "client")),
    "a disk": lambda r: r.hit("start-disk-fault", "b0-2", args={"sync_ms": 9}),
    "a full disk that may have ended it": lambda r: r.hit(
        "start-disk-fault", "b0-0", args={"full": True}).hit("stop-disk-fault", "b0-0"),
    "a slow controller": lambda r: r.hit("start-delay", "c2"),
    "moved": lambda r: r.hit("change-address", "b0-0"),
    "no proof": lambda r: r.hit("kill", "b0-0", holds=False),
    "no proof of the heal": lambda r: r.hit("kill", "c0").hit("start", "c0", holds=False),
    "no proof of a restart": lambda r: r.hit("restart", "c0", holds=False),
    "no proof of a cut": lambda r: r.act("start-partition", {"c0": {"holds": False, "from": {}}}),
    "no proof of its end": lambda r: r.act("stop-partition", {"c0": {"holds": False}}),
    "unknown": lambda r: r.hit("set-on-fire", "c0"),
    "no completion": lambda r: r.begin(NEMESIS, "kill", "one"),
    "another cut healed": lambda r: r.act(
        "start-partition", cut_off("n0", "c0"), "f1", who={"part": "namesrv"}).act(
        "start-partition", cut_off("n0", "c0"), "f2", who={"part": "namesrv"}).act(
        "stop-partition", {"n0": {"holds": True}}, "f1.h", who={"of": "f1"}),
    "no member left": lambda r: r.controllers(set_view(1, 4, 1, 1)) and r.hit("kill", "b0-0"),
    "a member that nobody knows": lambda r: r.controllers(set_view(1, 4, 1, 9)),
}  # fmt: skip


@pytest.mark.parametrize("name", PROMISED)
def test_what_leaves_enough_is_judged(name: str) -> None:
    assert struck(PROMISED[name]) == 1


@pytest.mark.parametrize("name", UNPROMISED)
def test_what_may_stop_everything_is_not_judged(name: str) -> None:
    assert struck(UNPROMISED[name]) == 0


@pytest.mark.parametrize(("profile", "promised"), [("P-SAFE", 0), ("P-NUM", 0), ("P-ALL", 1)])
def test_as_many_replicas_as_must_acknowledge(profile: Profile, promised: int) -> None:
    context = under(profile, broker_sets=CONTEXT.broker_sets)
    assert struck(lambda r: r.hit("kill", "b0-0", "b0-1"), context) == promised
    assert struck(lambda r: r.hit("kill", "b0-0"), context) == 1


def test_a_set_whose_members_are_lost_meanwhile_is_not_judged() -> None:
    r = master_killed()
    r.ops = r.ops[:-2]
    r.controllers(set_view(2, 6, 1, 1))
    assert not found(r.at(60).hit("start", "b0-0"))


def test_a_set_of_which_nobody_was_told_is_not_judged() -> None:
    context = Context(broker_sets={**CONTEXT.broker_sets, "b1": ("b1-0",)})
    assert [w.set for w in windows(master_killed().history, context)] == ["b0"]


def test_who_is_cut_off_from_all_may_be_sound_and_does_not_count() -> None:
    r = Timed().at(10)
    r.act("start-partition", cut_off("c2", "c0", "c1", *OTHERS), "a", who={"part": "controller"})
    r.act("start-partition", cut_off("b0-0", "c0", "c1", "n0", "b0-1", "b0-2"), "b", who={"of": ""})
    r.at(60).act("await-recovery", None)
    *_, last = lulls(r.history)
    assert sorted(connected(last.state, CONTROLLERS, OTHERS) or ()) == [
        "b0-1",
        "b0-2",
        "c0",
        "c1",
        "n0",
    ]
    assert not last.state.gone
    assert not last.state.doubtful


def test_a_send_of_another_shape_is_for_others_to_judge() -> None:
    r = master_killed()
    check = Attempts()
    known = check.prepare(r.history, CONTEXT)
    done = Op("info", 1, "send", None, None, 900, 31 * SECOND_NS)
    for value in (None, [], [["send"]], [["send", "k", 1]], [["send", 0, 1], ["send", 1, 2]]):
        begun = Op("invoke", 1, "send", value, None, 899, 31 * SECOND_NS)
        assert not list(check.rows(Event(done, begun, False), known))


@pytest.mark.parametrize("end", ["", "wipe", "ran"])
def test_a_broker_on_a_damaged_store_may_refuse_it(end: str) -> None:
    """Until it has been seen to run on it, or has an empty one."""
    r = Timed().at(5).hit("kill", "b0-2").at(6).hit("copy-store", "b0-2").at(7).hit("start", "b0-2")
    if end == "wipe":
        r.at(9).hit("wipe", "b0-2")
    if end == "ran":
        value = broker("b0-2", 3, (1, 0, 9), leads=False)
        r.at(9).op("ok", 8, "observe-replica", {"node": "b0-2"}, value)
    r.at(10).hit("kill", "b0-0")
    r.at(15).controllers(set_view(2, 4, 2, 2))
    r.tried(16, 60)
    r.controllers(set_view(2, 5, 2, 2, 3))
    assert bool(found(r.at(60).hit("start", "b0-0"))) == bool(end)
