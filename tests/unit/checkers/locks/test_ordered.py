"""L3, L4 and L10: one broker's grants, overlaps that last, and reads beside a holder."""

import pytest
from both_ways import compared
from lock_histories import lock_history
from ordered_histories import LOOSE, SETTLED, STRICT, Consumed, forgotten, two_brokers

from maxq.checkers.core.api import Context, Verdict
from maxq.checkers.locks.locks import Locks
from maxq.checkers.locks.ordered import Ordered
from maxq.histories.observed import READ_ORDERED


def locks(r: Consumed, context: Context = LOOSE) -> Verdict:
    return Locks().check(r.history, context)


def ordered(r: Consumed, context: Context = LOOSE) -> Verdict:
    return Ordered().check(r.history, context)


def status(verdict: Verdict, claim: str) -> tuple[str, int]:
    return next((c.status, c.occasions) for c in verdict.claim_verdicts if c.claim == claim)


# L3.


def test_one_broker_that_grants_twice_is_blamed() -> None:
    verdict = locks(forgotten())
    assert verdict.of("broken") == ("L3",)
    [found] = [a for a in verdict.anomalies if a.claim == "L3"]
    assert found.name == "granted-again-by-broker"
    assert found.detail["broker"] == "b0-0:1"
    assert "acquire answered at 4.010 s, by b0-0:1" in found.story
    assert status(locks(forgotten(apart=8)), "L3") == ("kept", 1), "a lease less 2 s"


def test_in_strict_mode_it_is_nothing_of_its_own() -> None:
    for context in (STRICT, Context()):
        verdict = locks(forgotten(), context)
        assert "L1" in verdict.of("broken")
        assert not {a.claim for a in verdict.anomalies} & {"L3"}


def test_another_broker_may_grant() -> None:
    r = Consumed()
    r.lives()
    r.asks(1, 1, granted=True)
    r.asks(2, 2, granted=True, node="b0-1")
    assert status(locks(r), "L3") == ("no occasion", 0)


@pytest.mark.parametrize("act", ["kill", "stop", "restart", "start"])
def test_a_process_takes_its_table_with_it(act: str) -> None:
    assert not locks(forgotten(act=act)).of("broken")
    assert locks(forgotten(act=act, node="b0-1")).of("broken") == ("L3",)


@pytest.mark.parametrize("act", ["pause", "resume", "start-partition"])
def test_a_process_that_is_held_keeps_its_table(act: str) -> None:
    assert locks(forgotten(act=act)).of("broken") == ("L3",)


def test_at_an_address_of_nobody_known_any_end_of_a_process_counts() -> None:
    r = Consumed()
    r.asks(1, 1, granted=True)
    r.act(1.5, "kill", "b0-1")
    r.asks(4, 2, granted=True)
    assert not locks(r).of("broken")


def test_a_grant_while_a_process_ends_may_be_of_either() -> None:
    r = Consumed()
    r.lives()
    r.takes(1, 3, 1)
    r.takes(4, 4.1, 2)
    assert locks(r).of("broken") == ("L3",)
    r = Consumed()
    r.lives()
    r.begin(1, "acquire", 1000)
    r.act(2, "restart", "b0-0")
    r.end("ok", 1, "acquire", 1000, broker="b0-0:1")
    r.takes(4, 4.1, 2)
    assert not locks(r).of("broken")


@pytest.mark.parametrize(("node", "blamed"), [("b0-0", False), (None, False), ("b0-1", True)])
def test_a_release_excuses_at_the_broker_that_took_it(node: str | None, blamed: bool) -> None:
    r = Consumed()
    r.lives()
    r.asks(1, 1, granted=True)
    r.frees(2, 1, node=node)
    r.asks(3, 2, granted=True)
    assert (locks(r).of("broken") == ("L3",)) == blamed


def test_arrays_leave_brokers_that_are_not_strict_to_their_rows() -> None:
    found = compared(Locks(), ((lock_history(seed), LOOSE) for seed in range(40)))
    assert found["sure"] == 0


# L4.


def test_an_overlap_that_lasts_is_blamed() -> None:
    verdict = ordered(two_brokers())
    assert verdict.of("broken") == ("L4",)
    [found] = verdict.anomalies
    assert (found.name, found.detail["processes"]) == ("overlap-lasts", [1, 2])
    assert found.detail["for-ns"] == 3_990_000_000


def test_one_that_ends_in_time_is_none() -> None:
    assert not ordered(two_brokers(at=5 + SETTLED - 0.1)).of("broken")
    assert status(ordered(two_brokers(apart=6)), "L4") == ("kept", 1)


def test_where_routes_may_differ_nothing_is_judged() -> None:
    """Somebody is cut off, or a name server is away."""
    for act, node in (("start-partition", "b0-0"), ("kill", "n0"), ("change-address", "b0-1")):
        r = Consumed()
        r.act(5, act, node)
        r.asks(5 + SETTLED, 1, granted=True)
        r.asks(6 + SETTLED, 2, granted=True, node="b0-1")
        r.act(60, "pause", "b0-2")
        assert status(ordered(r), "L4") == ("no occasion", 0), act


def test_after_the_last_heal_it_is_judged_as_well() -> None:
    r = Consumed()
    r.act(1, "pause", "b0-0")
    r.act(5, "resume", "b0-0")
    r.asks(5 + SETTLED, 1, granted=True)
    r.asks(6 + SETTLED, 2, granted=True, node="b0-1")
    assert ordered(r).of("broken") == ("L4",)
    assert not ordered(r, STRICT).anomalies


# L10.


def beside(inv: float, ret: float, *values: int) -> Consumed:
    """Process 1 relies on the lock from 10.01 s to 15 s; process 2 reads."""
    r = Consumed()
    r.asks(1, 2, granted=True)
    r.asks(10, 1, granted=True)
    r.reads(inv, ret, 2, *values)
    return r


def test_a_read_beside_the_holder_is_blamed() -> None:
    verdict = ordered(beside(11, 12, 5), STRICT)
    assert verdict.of("broken") == ("L10",)
    [found] = verdict.anomalies
    assert (found.name, found.detail) == (
        "read-beside-holder", {"key": 1000, "processes": [1, 2]},
    )  # fmt: skip
    assert "granted 0.990 s before" in found.story
    assert status(ordered(beside(11, 12, 5)), "L10")[0] == "not promised"


@pytest.mark.parametrize(
    "r", [beside(11, 12), beside(10.005, 12, 5), beside(11, 15.1, 5), beside(15.2, 16, 5)],
    ids=["empty", "sent before", "answered after", "run out"],
)  # fmt: skip
def test_a_read_that_may_have_been_before_or_after_is_none(r: Consumed) -> None:
    assert not ordered(r, STRICT).of("broken")


def test_a_holder_reads_its_own_and_what_was_given_back_is_free() -> None:
    r = Consumed()
    r.asks(10, 1, granted=True)
    r.reads(11, 12, 1, 5)
    r.frees(12.5, 1)
    r.asks(12.6, 2, granted=True)
    r.reads(12.7, 13, 2, 6)
    assert status(ordered(r, STRICT), "L10") == ("kept", 2)


def test_a_longer_hold_of_another_is_seen_behind_a_shorter_one() -> None:
    r = Consumed()
    r.asks(10, 1, granted=True)
    r.asks(10.5, 2, granted=True)
    r.frees(11, 2)
    r.asks(12, 3, granted=True)
    r.reads(13, 14, 3, 5)
    assert [a.detail["processes"] for a in ordered(r, STRICT).anomalies] == [[1, 3]]


def test_locks_of_other_workloads_are_not_its_own() -> None:
    r = Consumed()
    r.op("ok", 1, "acquire", 0, 0)
    assert ordered(r, STRICT).counts["ordered-queues"] == 0


def test_a_read_of_another_shape_is_no_read() -> None:
    r = Consumed()
    r.asks(1, 1, granted=True)
    r.op("ok", 1, READ_ORDERED, 1000, "five")
    verdict = ordered(r, STRICT)
    assert verdict.of("not judged") == ("L4", "L10")
    assert "is no read of a queue" in verdict.reason
