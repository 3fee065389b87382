"""S13b, S14, S14b: bounds that were surely passed, and everything that leaves them open."""

from typing import Any

import pytest
from cluster_recorder import broker, set_view
from history_recorder import SECOND_NS
from profiles import under
from timed_cluster import Timed

from maxq.checkers.availability.availability import Availability
from maxq.checkers.core.api import Anomaly, Context, Verdict
from maxq.checkers.evidence.quiescence import Interval, after_last_heal
from maxq.harness.contracts.target import Profile
from maxq.histories.op import NEMESIS

CONTEXT = Context(
    broker_sets={"b0": ("b0-0", "b0-1", "b0-2")},
    recovery_ns=20 * SECOND_NS,
    shrink_ns=8 * SECOND_NS,
)


def judge(r: Timed, context: Context = CONTEXT) -> Verdict:
    return Availability().check(r.history, context)


def only(r: Timed, context: Context = CONTEXT) -> Anomaly:
    verdict = judge(r, context)
    assert verdict.valid is False, verdict.reason
    [found] = verdict.anomalies
    assert found.signature == f"{found.claim}/{found.name}"
    return found


def struck(*, revived: float = 30, proved: bool = True) -> Timed:
    """All three are in the set of master 1; at 10 s broker 3 is killed, and comes back."""
    r = Timed()
    r.at(0).controllers(set_view(1, 3, 1, 1, 2, 3))
    for n in range(3):
        r.lives(n, leads=n == 0)
    r.at(10).fault("kill", **{"b0-2": True})
    r.at(10.5).lives(0, leads=True)
    r.at(15).controllers(set_view(1, 4, 1, 1, 2))
    r.at(19).controllers(set_view(1, 4, 1, 1, 2))
    r.at(revived).fault("start", **{"b0-2": proved})
    return r


def back(r: Timed, *, from_s: float = 31, members: tuple[int, ...] = (1, 2, 3)) -> Timed:
    """Recovery within a second, and everybody seen."""
    r.at(from_s).recovered(True, 800)
    for n in range(3):
        r.lives(n, leads=n == 0)
    r.at(from_s + 4).controllers(set_view(1, 5, 1, *members))
    return r


def test_a_cluster_that_recovers_is_valid_with_evidence_for_every_claim() -> None:
    verdict = judge(back(struck()))
    assert (verdict.valid, verdict.claims) == (True, ("S14", "S14b"))
    assert verdict.counts["answers-on-silence-judged"] == 1


def test_a_harness_that_was_late_itself_judges_no_liveness() -> None:
    r = back(struck(), members=(1, 2))
    r.at(51).controllers(set_view(1, 5, 1, 1, 2))
    assert judge(r).of("broken") == ("S14",)
    late = {"p50": 1.0, "p99": 250.5, "max": 900.0, "wakes": 1000}
    r.at(60).recovered(True, 800, late=late)
    verdict = judge(r)
    assert verdict.valid == "unknown"
    assert "woken more than 250 ms late in one of a hundred times (250.5 ms)" in verdict.reason


# S14.


def test_a_replica_that_never_rejoins() -> None:
    r = back(struck(), members=(1, 2))
    last = r.at(51).controllers(set_view(1, 5, 1, 1, 2))

    found = only(r)
    assert (found.claim, found.name, found.ops[-1]) == ("S14", "replica-not-in-set", last)
    assert found.detail["node"] == "b0-2"
    assert found.detail["after-ms"] == 21_000


def test_who_is_back_in_any_answer_after_the_bound_did_rejoin() -> None:
    r = back(struck(), members=(1, 2))
    r.at(51).controllers(set_view(1, 6, 1, 1, 2, 3))
    r.at(55).controllers(set_view(1, 7, 1, 1, 2))
    assert judge(r).valid is True


@pytest.mark.parametrize("why", ["too early", "nobody asked", "not alive", "no proof"])
def test_a_replica_that_may_rejoin_yet_is_unknown(why: str) -> None:
    r = struck(proved=why != "no proof")
    r.at(31).recovered(True, 800)
    for n in range(2 if why == "not alive" else 3):
        r.lives(n)
    if why != "nobody asked":
        r.at(35 if why == "too early" else 52).controllers(set_view(1, 5, 1, 1, 2))
    verdict = judge(r)
    assert verdict.valid == "unknown"
    assert verdict.of("not judged") == ("S14",)


def test_who_ended_by_himself_need_not_rejoin() -> None:
    """That is S15's to tell."""
    r = struck()
    r.at(31).recovered(False, 20_000, **{"b0-2": 1})
    r.lives(0)
    r.lives(1)
    r.at(52).controllers(set_view(1, 5, 1, 1, 2))
    verdict = judge(r)
    assert ("S14" in verdict.of("kept"), verdict.of("broken", "not judged")) == (True, ())


def test_a_replica_seen_alive_only_after_the_last_answer_is_not_accused() -> None:
    r = struck()
    r.at(31).recovered(True, 800)
    r.lives(0)
    r.lives(1)
    r.at(52).controllers(set_view(1, 5, 1, 1, 2))
    r.lives(2)
    assert judge(r).valid == "unknown"


def test_which_replicas_there_are_must_be_known() -> None:
    verdict = judge(back(struck()), Context())
    assert verdict.valid == "unknown"
    assert "which replicas there are" in verdict.reason


# S14b.


def test_a_silent_member_that_stays_is_named_with_who_could_have_dropped_it() -> None:
    r = Timed()
    r.at(0).controllers(set_view(1, 3, 1, 1, 2, 3))
    for n in range(3):
        r.lives(n, leads=n == 0)
    r.at(10).fault("pause", **{"b0-2": True})
    alive = r.lives(0, leads=True)
    r.at(17).controllers(set_view(1, 3, 1, 1, 2, 3))  # not yet
    stays = r.at(18.5).controllers(set_view(1, 3, 1, 1, 2, 3))
    r.at(30).fault("resume", **{"b0-2": True})
    back(r)

    found = only(r)
    assert (found.claim, found.name) == ("S14b", "silent-member-stays")
    assert found.ops == (11, alive, stays)
    assert found.detail["for-ms"] == 8_500
    assert "since the pause of op 11" in found.story
    profiles: tuple[Profile, ...] = ("P-NUM", "P-DEFAULT")
    for profile in profiles:
        measured = judge(r, under(profile, broker_sets=CONTEXT.broker_sets))
        assert (measured.valid, measured.claims) == (True, ("S14",))
        assert measured.counts["silent-member-stays"] == 1


@pytest.mark.parametrize(("answered_at", "blamed"), [(27, False), (39, True)])
def test_where_nobody_writes_nothing_lags(answered_at: float, *, blamed: bool) -> None:
    """A master notices silence by its writes, or 20 s later by the connection."""
    r = Timed()
    r.at(0).controllers(set_view(1, 3, 1, 1, 2, 3))
    for n in range(3):
        r.lives(n, leads=n == 0)
    r.at(10).fault("pause", **{"b0-2": True})
    for _ in range(2):
        value = broker("b0-0", 1, (1, 0, 9), leads=True)
        r.at(11).op("ok", 8, "observe-replica", {"node": "b0-0"}, value)
    r.at(answered_at).controllers(set_view(1, 3, 1, 1, 2, 3))
    r.at(40).fault("resume", **{"b0-2": True})
    assert [a.name for a in judge(r).anomalies] == ["silent-member-stays"] * blamed


@pytest.mark.parametrize(
    ("also", "writes_at", "blamed"), [("b0-1", 11, 0), ("b0-1", 13, 2), ("n0", 11, 1)]
)
def test_a_silent_member_that_has_everything_keeps_another_that_has_not(
    also: str, writes_at: int, blamed: int
) -> None:
    """Controllers refuse a set with somebody of whom they do not hear, and who has all does not
    lag."""
    r = Timed()
    r.at(0).controllers(set_view(1, 3, 1, 1, 2, 3))
    for n in range(3):
        r.lives(n, leads=n == 0)
    r.at(10).fault("pause", **{"b0-2": True})
    if writes_at == 11:
        r.at(11).lives(0, leads=True)
    end = len(r.ops)
    r.at(12).fault("pause", **{also: True})
    for more in (0, writes_at == 13):
        value = broker("b0-0", 1, (1, 0, end + more), leads=True)
        r.at(13).op("ok", 8, "observe-replica", {"node": "b0-0"}, value)
    if also == "n0":
        r.lives(1)
    r.at(24).controllers(set_view(1, 3, 1, 1, 2, 3))
    assert [a.name for a in judge(r).anomalies] == ["silent-member-stays"] * blamed


def silent(why: str) -> Timed:
    """Broker 3 is silent and stays a member; something excuses it."""
    r = Timed()
    first = set_view(1, 3, 1, 1, 2, 3)
    r.at(0).controllers(first)
    for n in range(3):
        if why != "id not known" or n != 2:
            r.lives(n, leads=n == 0)
    if why == "cut":
        r.at(5).fault("cut", **{"b0-0": True})
    r.at(10).fault("kill", **{"b0-2": why != "no proof"})
    if why == "master not seen":
        r.lives(0, leads=False)
    else:
        r.lives(0, leads=True)
    if why == "other fault":
        r.at(14).fault("kill", n0=True)
    if why == "fault going on":
        r.at(14).begin(NEMESIS, "kill", "one")
    if why == "member came":
        r.at(14).op("ok", 3, "join", {"node": "b9"}, {"node": "b9", "set": "b9", "id": 1})
    if why == "being moved":
        r.at(10).begin(3, "change-address", {"node": "b0-0"})
    if why == "revived":
        r.at(12).fault("start", **{"b0-2": True})
    view = {
        "new master": set_view(2, 4, 1, 1, 3),
        "only member": set_view(1, 4, 1, 3),
        "master itself": set_view(1, 3, 3, 2, 3),
    }.get(why, first)
    r.at(20).controllers(view)
    return r


@pytest.mark.parametrize(
    "why",
    [
        *("id not known", "cut", "no proof", "master not seen", "other fault", "fault going on"),
        *("member came", "being moved", "revived", "new master", "only member", "master itself"),
    ],
)
def test_a_silent_member_is_excused(why: str) -> None:
    assert judge(silent("")).anomalies[0].name == "silent-member-stays"
    assert judge(silent(why)).anomalies == ()


def test_a_cut_that_was_healed_excuses_no_more() -> None:
    r = Timed()
    r.at(0).controllers(set_view(1, 3, 1, 1, 2, 3))
    for n in range(3):
        r.lives(n, leads=n == 0)
    r.at(1).fault("start-partition", **{"b0-0": True})
    r.at(2).fault("start", **{"b0-0": True})
    r.at(3).fault("stop-partition", **{"b0-0": True})
    r.at(10).fault("kill", **{"b0-2": True})
    r.lives(0, leads=True)
    r.at(20).controllers(set_view(1, 3, 1, 1, 2, 3))
    assert [a.name for a in judge(r).anomalies] == ["silent-member-stays"]


@pytest.mark.parametrize("f", ["restart", "order-election", "bump-clock"])
def test_what_leaves_nothing_in_effect_excuses_no_more(f: str) -> None:
    """A restart and an order are over by themselves; a cluster does not go by a wall clock."""
    r = Timed()
    r.at(0).controllers(set_view(1, 3, 1, 1, 2, 3))
    for n in range(3):
        r.lives(n, leads=n == 0)
    r.at(1).fault(f, **{"b0-1": True})
    r.at(10).fault("kill", **{"b0-2": True})
    r.lives(0, leads=True)
    r.at(20).controllers(set_view(1, 3, 1, 1, 2, 3))
    assert [a.name for a in judge(r).anomalies] == ["silent-member-stays"]


# S13b.


def headless(why: str = "") -> Timed:
    """Master 1 is killed at 10 s, and leads still at 31 s; something excuses it."""
    r = Timed()
    if why != "never seen leading":
        r.at(0).controllers(set_view(1, 3, 3 if why == "slave" else 1, 1, 2, 3))
    for n in range(3):
        r.lives(n, leads=n == 0)
    if why == "cut":
        r.at(5).fault("cut", **{"b0-1": True})
    r.at(10).fault("kill", **{"b0-0": why != "no proof"})
    if why == "back":
        r.at(20).fault("start", **{"b0-0": True})
    if why == "something happened":
        r.at(15).fault("kill", n0=True)
    if why != "nobody lives":
        r.at(16).lives(1)
    members = (1,) if why == "alone" else (1, 2, 3)
    view = {
        "replaced": set_view(2, 4, 2, 2),
        "elected again": set_view(2, 4, 1, *members),
        "slave": set_view(1, 3, 3, *members),
    }.get(why, set_view(1, 3, 1, *members))
    r.at(29 if why == "too early" else 31).controllers(view)
    return r


def test_a_silent_master_that_stays_is_named_with_who_could_have_led() -> None:
    r = headless()
    [found] = [a for a in judge(r).anomalies if a.claim == "S13b"]
    assert found.name == "dead-master-stays"
    assert found.detail == {
        "set": "b0", "node": "b0-0", "id": 1, "fault": "kill", "epoch": 1, "for-ms": 21_000,
    }  # fmt: skip
    assert "b0-1 of the SyncStateSet ran" in found.story
    assert len(found.ops) == 3


@pytest.mark.parametrize(
    "why",
    [
        *("never seen leading", "slave", "cut", "no proof", "back", "something happened"),
        *("nobody lives", "alone", "replaced", "elected again", "too early"),
    ],
)
def test_a_silent_master_is_excused(why: str) -> None:
    assert [a for a in judge(headless(why)).anomalies if a.claim == "S13b"] == []


def test_a_master_that_was_replaced_in_time_is_evidence() -> None:
    r = headless("replaced")
    r.at(32).fault("start", **{"b0-0": True})
    verdict = judge(back(r, from_s=33))
    assert (verdict.valid, verdict.claims) == (True, ("S13b", "S14"))


@pytest.mark.parametrize(
    ("f", "of", "over"),
    [
        ("stop-partition", "f1", True),
        ("stop-partition", "f2", False),
        ("stop-partition", "", True),
        ("restore-address", "f1", False),
        ("stop-delay", "", False),
    ],
)
def test_a_cut_is_undone_by_its_own_heal_only(f: str, of: str, over: bool) -> None:
    r = Timed()
    r.at(0).controllers(set_view(1, 3, 1, 1, 2, 3))
    for n in range(3):
        r.lives(n, leads=n == 0)
    who = {"who": {"of": of}} if of else {}
    for act in ("f1", "f2"):
        r.at(1).begin(NEMESIS, "start-partition", act, args={"from": "controllers"})
        r.end("info", NEMESIS, "start-partition", {"b0-0": {"holds": True}})
        if act == "f2" and of != "f2":
            r.begin(NEMESIS, "stop-partition", "h2", who={"of": "f2"})
            r.end("info", NEMESIS, "stop-partition", {"b0-0": {"holds": True}})
    r.at(3).begin(NEMESIS, f, "h", **who)
    r.end("info", NEMESIS, f, {"b0-0": {"holds": True}})
    r.at(10).fault("kill", **{"b0-2": True})
    r.lives(0, leads=True)
    r.at(20).controllers(set_view(1, 3, 1, 1, 2, 3))
    assert [a.name for a in judge(r).anomalies] == ["silent-member-stays"] * over


# Undisturbed time.


def test_rest_begins_after_the_last_disturbance_and_says_what_makes_it_doubtful() -> None:
    assert after_last_heal(Timed().history) == Interval()
    r = struck()
    healed = len(r.ops) - 1
    r.at(40).recovered(True, 1)
    assert after_last_heal(r.history) == Interval(healed, 30 * SECOND_NS)
    moved = r.at(41).op("ok", 3, "leave", {"node": "b0-1"}, {"node": "b0-1"})
    assert after_last_heal(r.history).at == moved
    r.begin(3, "join", {"node": "b0-1"})
    assert after_last_heal(r.history).doubt.startswith("join at op")
    r.at(42).begin(NEMESIS, "kill", "one")
    assert after_last_heal(r.history).doubt != ""


@pytest.mark.parametrize("value", [None, {"cluster": 1}, {"cluster": {"holds": "yes"}}])
def test_an_odd_recovery_is_unknown(value: Any) -> None:
    r = back(struck())
    r.begin(NEMESIS, "await-recovery", None)
    r.end("info", NEMESIS, "await-recovery", value)
    assert judge(r).reason.startswith("W9")
