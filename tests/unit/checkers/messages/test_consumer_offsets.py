"""O1: offsets that were committed, left undisturbed for long enough, and fetched."""

import msgspec
import pytest
from cluster_recorder import set_view
from history_recorder import SECOND_NS
from timed_cluster import Timed

from maxq.checkers.core.api import Anomaly, Context, Status, Verdict
from maxq.checkers.messages.consumer_offsets import Offsets
from maxq.checkers.messages.copied_offsets import Moves
from maxq.histories.observed import SetView

CONTEXT = Context(broker_sets={"b0": ("b0-0", "b0-1")}, recovery_ns=20 * SECOND_NS)


class Placed(Timed):
    """Groups that move on."""

    def at(self, seconds: float) -> "Placed":
        super().at(seconds)
        return self

    def commit(self, key: int, offset: int, *, ok: bool = True) -> int:
        return self.op("ok" if ok else "info", key, "commit-offset", [key, offset], [key, offset])

    def fetch(self, key: int, offset: int, by: int = 90) -> int:
        return self.op("ok", by, "fetch-offset", key, [key, offset])


def judge(r: Placed) -> Verdict:
    return Offsets().check(r.history, CONTEXT)


def only(r: Placed) -> Anomaly:
    verdict = judge(r)
    assert verdict.valid is False, verdict.reason
    [found] = verdict.anomalies
    assert found.signature == "O1/consumer-offset-regressed"
    return found


def failed_over(*, after: float = 40.0, told: int = 0) -> Placed:
    """A offset at 1 s, the master dies so much later, and the next one says what it knows."""
    r = Placed()
    r.at(0).controllers(set_view(1, 1, 1, 1, 2))
    r.at(1).commit(7, 5)
    r.at(1 + after).controllers(set_view(1, 1, 1, 1, 2))
    r.fault("kill", **{"b0-0": True})
    r.at(4 + after).controllers(set_view(2, 2, 2, 2))
    r.at(5 + after).fetch(7, told)
    return r


def test_an_offset_that_a_fail_over_takes_away() -> None:
    found = only(failed_over())
    assert found.detail == {"key": 7, "committed": 5, "fetched": 0, "broker": None}
    assert "committed offset 5 (at 1.000 s), and later got 0 (at 45.000 s)" in found.story


@pytest.mark.parametrize("told", [5, 6])
def test_an_offset_that_is_kept(told: int) -> None:
    verdict = judge(failed_over(told=told))
    assert (verdict.valid, verdict.claims) == (True, ("O1",))
    assert verdict.counts == {"groups": 1, "offsets-judged": 1}


def test_an_offset_that_nobody_had_time_to_copy() -> None:
    verdict = judge(failed_over(after=30))
    assert verdict.valid == "unknown"
    assert verdict.reason == (
        "no offset was asked for after a fail-over before which it had been left undisturbed for "
        "30 s"
    )


def test_who_took_the_note_and_is_asked_himself_shows_nothing() -> None:
    """Within one reign nothing was taken away, so nothing was kept either."""
    r = Placed()
    r.at(0).controllers(set_view(1, 1, 1, 1, 2))
    r.at(1).commit(7, 5)
    r.at(50).fetch(7, 5)
    r.at(51).controllers(set_view(1, 1, 1, 1, 2))
    assert judge(r).of("no occasion") == ("O1",)
    r.fault("kill", **{"b0-0": True})
    r.at(55).controllers(set_view(2, 2, 2, 2))
    r.at(56).fetch(8, 0)
    assert judge(r).of("no occasion") == ("O1",), "of that group no offset was committed"
    r.at(57).fetch(7, 5)
    assert judge(r).of("kept") == ("O1",)


@pytest.mark.parametrize("again", [(2, 2, 1, 1, 2), (1, 2, 1, 1)])
def test_a_master_that_is_elected_again_is_no_fail_over(again: tuple[int, ...]) -> None:
    r = Placed()
    r.at(0).controllers(set_view(1, 1, 1, 1, 2))
    r.at(1).commit(7, 5)
    r.at(40).controllers(set_view(1, 1, 1, 1, 2))
    r.at(41).controllers(set_view(*again))
    r.at(42).fetch(7, 5)
    assert judge(r).of("no occasion") == ("O1",)


def test_what_an_offset_that_is_lost_within_one_reign_breaks() -> None:
    r = Placed()
    r.at(0).controllers(set_view(1, 1, 1, 1, 2))
    r.at(1).commit(7, 5)
    r.at(50).fetch(7, 4)
    r.at(51).controllers(set_view(1, 1, 1, 1, 2))
    assert only(r).detail["fetched"] == 4


def test_an_offset_that_was_lost_before_it_was_copied_is_not_forgotten_later() -> None:
    """Its master dies at once; who is master then never had it, however long nothing happens."""
    r = Placed()
    r.at(0).controllers(set_view(1, 1, 1, 1, 2))
    r.at(1).commit(7, 5)
    r.at(2).fault("kill", **{"b0-0": True})
    r.at(4).controllers(set_view(2, 2, 2, 2))
    r.at(5).fault("start", **{"b0-0": True})
    r.at(50).fetch(7, 0)
    r.at(51).controllers(set_view(2, 3, 2, 1, 2))
    assert judge(r).of("not judged") == ("O1",)


def test_elections_that_nobody_can_have_seen() -> None:
    """Before controllers first told of the set, and after they last did."""
    r = Placed()
    r.at(1).commit(7, 5)
    r.at(40).controllers(set_view(1, 1, 1, 1, 2))
    r.at(41).controllers(set_view(2, 2, 2, 1, 2))
    r.at(42).fetch(7, 0)
    r.at(43).commit(8, 5)
    r.at(90).fetch(8, 0)
    assert judge(r).of("not judged") == ("O1",)
    bare = Placed()
    bare.at(1).commit(7, 5)
    bare.at(50).fetch(7, 0)
    assert judge(bare).of("no occasion") == ("O1",)


def test_where_brokers_have_no_ids_nobody_tells_of_elections() -> None:
    context = msgspec.structs.replace(CONTEXT, has_ids=False)
    verdict = Offsets().check(failed_over().history, context)
    assert verdict.of("no occasion", "not judged") == ("O1",)
    assert not verdict.anomalies


@pytest.mark.parametrize(("of", "found"), [("x1:1", 1), ("x2:1", 0), ("z9:1", 1)])
def test_what_a_slave_took_that_acts_for_its_master_does_not_count(of: str, found: int) -> None:
    """Controllers name the master all the time; who is unknown to them may be one."""
    r = Placed()
    r.at(0).controllers(set_view(1, 1, 1, 1, 2))
    r.at(1).op("ok", 7, "commit-offset", [7, 5], [7, 5], broker=of)
    r.at(2).controllers(set_view(1, 1, 1, 1, 2))
    r.at(50).op("ok", 90, "fetch-offset", 7, [7, 4], broker="x1:1")
    r.at(51).controllers(set_view(1, 1, 1, 1, 2))
    assert len(judge(r).anomalies) == found


@pytest.mark.parametrize("around", ["before", "after"])
def test_whoever_is_master_before_or_after_a_note_may_have_taken_it(around: str) -> None:
    first, then = set_view(1, 1, 2, 1, 2), set_view(2, 2, 1, 1, 2)
    r = Placed()
    r.at(0).controllers(first)
    of = {"before": "x2:1", "after": "x1:1"}[around]
    r.at(1).op("ok", 7, "commit-offset", [7, 5], [7, 5], broker=of)
    r.at(2).controllers(then)
    known = Offsets().prepare(r.history, CONTEXT)
    [begun] = [op.index for op in r.history.ops if op.f == "commit-offset" and op.type != "ok"]
    assert Moves(known).may_be_master(of, begun, begun + 1)


@pytest.mark.parametrize(("of", "status"), [("x1:1", "kept"), ("y1:1", "no occasion")])
def test_the_fail_over_must_be_of_the_groups_own_broker_set(of: str, status: Status) -> None:
    r = Placed()
    other = SetView(
        master=1,
        master_address="y1:1",
        master_epoch=1,
        sync_state_set=(1,),
        sync_state_set_epoch=1,
        replicas={"1": "y1:1"},
    )
    r.at(0).controllers(set_view(1, 1, 1, 1, 2))
    r.controllers(other, of="b1")
    r.at(1).op("ok", 7, "commit-offset", [7, 5], [7, 5], broker=of)
    r.at(40).controllers(set_view(1, 1, 1, 1, 2))
    r.controllers(other, of="b1")
    r.at(41).controllers(set_view(2, 2, 2, 1, 2))
    r.controllers(other, of="b1")
    r.at(42).op("ok", 90, "fetch-offset", 7, [7, 5], broker=of)
    assert judge(r).of(status) == ("O1",)


def test_an_answer_from_old_state_tells_of_no_fail_over() -> None:
    r = Placed()
    r.at(0).controllers(set_view(2, 2, 2, 1, 2))
    r.at(1).commit(7, 5)
    r.at(40).controllers(set_view(1, 1, 1, 1, 2), node="c1")
    r.at(41).controllers(set_view(2, 2, 2, 1, 2))
    r.at(42).fetch(7, 5)
    assert judge(r).of("no occasion") == ("O1",)


@pytest.mark.parametrize("what", ["kill", "order", "election", "wipe", "cut"])
def test_what_disturbs_the_copying(what: str) -> None:
    r = Placed()
    r.at(0).controllers(set_view(1, 1, 1, 1, 2))
    r.at(1).commit(7, 5)
    r.at(20)
    if what == "kill":
        r.fault("kill", c0=True)
    elif what == "order":
        r.fault("order-election", **{"b0-1": True})
    elif what == "election":
        r.controllers(set_view(2, 2, 2, 1, 2))
    elif what == "cut":
        r.fault("start-partition", **{"b0-1": True})
    else:
        r.op("ok", 80, "wipe", {"node": "r0"}, {"node": "r0"})
    r.at(45).fault("kill", **{"b0-0": True})
    r.at(48).controllers(set_view(3, 3, 2, 2))
    r.at(50).fetch(7, 0)
    spared: Status = "no occasion" if what == "wipe" else "not judged"
    assert judge(r).of(spared) == ("O1",)


def test_what_nobody_knows_to_be_committed_counts_for_nothing() -> None:
    r = Placed()
    r.at(1).commit(7, 5, ok=False)
    r.at(50).fetch(7, 0)
    assert judge(r).valid == "unknown"


def test_the_furthest_of_the_offsets_that_count() -> None:
    r = Placed()
    r.at(0).controllers(set_view(1, 1, 1, 1, 2))
    for offset in (1, 2):
        r.at(offset).commit(7, offset)
    r.at(30).commit(7, 3)
    r.at(44).controllers(set_view(1, 1, 1, 1, 2))
    r.controllers(set_view(2, 2, 2, 1, 2))
    r.at(45).fetch(7, 2)
    assert judge(r).valid is True
    r.at(46).fetch(7, 1)
    assert only(r).detail["committed"] == 2


def test_a_value_of_another_shape_is_told() -> None:
    r = Placed()
    r.op("ok", 7, "commit-offset", [7, 1], "far")
    verdict = judge(r)
    assert verdict.valid == "unknown"
    assert verdict.reason.startswith("W9: ")
