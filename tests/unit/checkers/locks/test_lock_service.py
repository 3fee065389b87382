"""Lock service: locks that nobody has are granted, and some are while one broker is silent."""

import msgspec
import pytest
from history_recorder import SECOND_NS
from lock_service_histories import BROKERS, Asked, alone, expired, given_back, silent_member

from maxq.checkers.core.api import Context, Verdict
from maxq.checkers.locks.lock_service import LockService
from maxq.histories.op import NEMESIS

CONTEXT = Context(
    broker_sets={"b0": BROKERS},
    lock_lease_ns=10 * SECOND_NS,
    recovery_ns=20 * SECOND_NS,
    settings={"broker:lockInStrictMode": "true"},
)


def judge(r: Asked) -> Verdict:
    return LockService().check(r.history, CONTEXT)


def found(r: Asked) -> list[str]:
    return [a.signature for a in judge(r).anomalies]


def test_a_lock_that_ran_out_can_be_had() -> None:
    assert found(expired()) == ["L8/expired-lock-kept"]
    assert judge(expired(refused=False)).of("kept") == ("L8",)


def test_not_while_others_want_it_nor_soon_after() -> None:
    r = Asked()
    r.asks(19, 1, granted=True)
    r.asks(30.9, 2, granted=False)  # within a lease and what a request may take
    r.begin(3, "acquire", 0)
    r.asks(80, 2, granted=False)  # somebody may have been granted it just now
    assert judge(r).of("no occasion") == ("L6", "L7", "L8", "L9")


def test_nor_soon_after_a_broker_was_started() -> None:
    r = Asked()
    r.act(10, "kill", "b0-1")
    r.act(15, "start", "b0-1")
    r.asks(34, 2, granted=False)
    assert judge(r).anomalies == ()
    r.asks(36, 2, granted=False)
    assert found(r) == ["L8/expired-lock-kept"]


def test_heals_at_the_end_that_find_nobody_change_nothing() -> None:
    r = Asked()
    r.act(10, "kill", "b0-1")
    r.act(15, "start", "b0-1")
    r.act(30, "start", "nobody")
    r.asks(36, 2, granted=False)
    assert found(r) == ["L8/expired-lock-kept"]


@pytest.mark.parametrize("f", ["power-loss", "start-partition", "bump-clock", "slow-disk"])
def test_nor_in_a_run_that_may_have_left_dead_connections_or_other_clocks(f: str) -> None:
    r = Asked()
    r.begin(NEMESIS, f, "c")
    r.end("info", NEMESIS, f, {"b0-0": {"holds": True, "from": {"b0-1": 1}}})
    r.act(2, "stop-partition", "b0-0")
    r.act(3, "start", "b0-0")
    r.asks(60, 2, granted=False)
    assert judge(r).anomalies == ()


def test_a_lock_that_was_given_back_can_be_had() -> None:
    r = given_back()
    [anomaly] = judge(r).anomalies
    assert anomaly.signature == "L9/released-lock-kept"
    assert anomaly.detail == {"key": 0, "processes": [1, 2], "after-ms": 3000}
    assert "Process 1, its only holder, had given it back 3.000 s before" in anomaly.story
    assert judge(given_back(refused=False)).of("kept") == ("L8", "L9")


def test_within_two_seconds_the_members_may_not_have_heard() -> None:
    assert found(given_back(after=1.9)) == []


def test_not_where_a_third_may_have_a_part_of_it() -> None:
    r = Asked()
    r.asks(30, 3, granted=None)  # may have been granted it by one member
    r.asks(40, 1, granted=True)
    r.gives_back(41, 1)
    r.asks(45, 2, granted=False)
    assert found(r) == []


def test_a_silent_member_keeps_no_lock_from_being_granted() -> None:
    [anomaly] = judge(silent_member()).anomalies
    assert anomaly.signature == "L6/lock-not-granted"
    assert anomaly.detail == {"key": 0, "requests": 5, "for-ms": 29010}
    assert judge(silent_member(granted=True)).of("kept") == ("L6",)
    assert found(silent_member(granted=False)) == ["L6/lock-not-granted"]


def test_not_before_all_leases_are_over_or_of_the_silent_one() -> None:
    assert found(silent_member(until=38)) == []
    assert found(silent_member(node="b0-2")) == []


def test_not_where_somebody_else_is_gone_too() -> None:
    r = Asked()
    r.lives()
    r.act(9, "kill", "n0")
    r.act(10, "pause", "b0-2")
    for second in range(40, 50):
        r.asks(second, second, granted=None)
    r.act(60, "resume", "b0-2")
    assert judge(r).anomalies == ()


def test_a_value_that_is_no_lock() -> None:
    r = Asked()
    r.op("ok", 1, "acquire", "x", "x")
    assert judge(r).of("not judged") == ("L6", "L7", "L8", "L9")


def test_without_strict_mode_it_is_measured() -> None:
    loose = Context(broker_sets={"b0": BROKERS}, settings={"broker:lockInStrictMode": "false"})
    assert LockService().check(expired().history, loose).of("not promised") == (
        "L6",
        "L7",
        "L8",
        "L9",
    )


@pytest.mark.parametrize("f", ["kill", "pause"])
def test_one_of_three_grants_nothing(f: str) -> None:
    [anomaly] = judge(alone(f=f)).anomalies
    assert anomaly.signature == "L7/granted-without-quorum"
    assert anomaly.detail == {"key": 0, "processes": [1], "broker": "b0-0:1"}
    assert judge(alone(granted=False)).of("kept") == ("L7",)


def test_two_of_three_may_and_who_was_asked_before() -> None:
    assert found(alone(at=10.5)) == []
    r = Asked()
    r.lives()
    r.act(10, "pause", "b0-2")
    r.begin(1, "acquire", 0)
    r.act(11, "kill", "b0-1")
    r.end("ok", 1, "acquire", 0, broker="b0-0:1")
    r.act(30, "resume", "b0-2")
    assert judge(r).of("no occasion") == ("L6", "L7", "L8", "L9")


def test_where_another_number_was_set_by_hand_quorums_are_not_known() -> None:
    other = msgspec.structs.replace(CONTEXT, by_hand=("broker:totalReplicas",))
    assert LockService().check(alone().history, other).anomalies == ()
