"""L1 and L2: leases by intervals, with answers that never came; exact against a naive twin."""

from typing import Any

import pytest

from maxq.checkers.core.api import Anomaly, Context, Verdict
from maxq.checkers.locks.locks import Locks
from maxq.histories.history import History
from maxq.histories.op import NEMESIS, Op

S = 1_000_000_000
CONTEXT = Context(lock_lease_ns=10 * S, client_lease_ns=5 * S)


class Clock:
    """Writes down operations of locks at given seconds; they are sorted by time at the end."""

    def __init__(self) -> None:
        self._events: list[tuple[float, Any, Any, str, Any, dict[str, Any] | None]] = []

    def op(
        self, process: int, f: str, begun: float, done: float | None, kind: str = "ok", key: int = 0
    ) -> None:
        self._events.append((begun, "invoke", process, f, key, None))
        if done is not None:
            self._events.append((done, kind, process, f, key, {"broker": "x:1"}))

    def kill(self, at: float) -> None:
        self._events.append((at, "info", NEMESIS, "kill", "one", None))
        self._events.append((at, "info", NEMESIS, "kill", {"b0-0": {"holds": True}}, None))

    @property
    def history(self) -> History:
        ordered = sorted(self._events, key=lambda e: e[0])
        return History(
            Op(kind, process, f, value, None, index, round(at * S), ext)
            for index, (at, kind, process, f, value, ext) in enumerate(ordered)
        )


def judge(clock: Clock) -> Verdict:
    return Locks().check(clock.history, CONTEXT)


def found(clock: Clock) -> dict[str, Anomaly]:
    verdict = judge(clock)
    assert verdict.valid is False
    return {a.name: a for a in verdict.anomalies}


def held(until: float = 0.0) -> Clock:
    """Process 1 holds the lock from 0.1 s on, by a request of 0 s."""
    clock = Clock()
    clock.op(1, "acquire", 0, 0.1)
    return clock


def test_a_lock_that_ran_out_goes_to_another() -> None:
    clock = held()
    clock.op(2, "acquire", 4, 4.1, "fail")
    clock.op(2, "acquire", 10, 10.1)

    verdict = judge(clock)
    assert (verdict.valid, verdict.claims) == (True, ("L1", "L2"))
    assert verdict.counts["hand-over-gap-ns-min"] == 5.1 * S
    assert verdict.counts["clock-margin-ns"] == 0


def test_two_clients_hold_at_a_time() -> None:
    """L2, and L1 with it: both operations prove it, and a fault is told."""
    clock = held()
    clock.kill(1)
    clock.op(2, "acquire", 2, 2.1)

    both = found(clock)
    assert set(both) == {"lease-overlap", "granted-too-soon"}
    assert both["lease-overlap"].ops == (1, 5)
    assert both["lease-overlap"].detail == {"key": 0, "processes": [1, 2], "for-ns": 2.9 * S}
    assert both["lease-overlap"].signature == "L2/lease-overlap"
    assert both["granted-too-soon"].detail["apart-ns-max"] == 2.1 * S
    assert "acquire answered at 0.100 s, by x:1" in both["granted-too-soon"].story
    assert "kill of b0-0" in both["granted-too-soon"].story


def test_a_grant_after_the_clients_lease_is_still_too_soon_for_the_broker() -> None:
    """L1 without L2."""
    clock = held()
    clock.op(2, "acquire", 5.2, 5.3)
    assert set(found(clock)) == {"granted-too-soon"}


@pytest.mark.parametrize("kind", ["ok", "fail", "info", "open"])
def test_a_release_gives_back_from_the_moment_it_is_asked_for(kind: str) -> None:
    clock = held()
    clock.op(1, "release", 1, None if kind == "open" else 9, kind)
    clock.op(2, "acquire", 0.5, 1.2)
    assert judge(clock).valid is True

    clock.op(3, "acquire", 1.3, 1.4)
    assert set(found(clock)) == {"lease-overlap", "granted-too-soon"}


def test_a_release_of_before_or_of_another_excuses_nothing() -> None:
    clock = Clock()
    clock.op(1, "acquire", 0, 0.1)
    clock.op(1, "release", 0.2, 0.3)
    clock.op(1, "acquire", 0.4, 0.5)
    clock.op(2, "acquire", 1, 1.1)
    clock.op(1, "release", 2, 2.1)
    clock.op(3, "release", 0.6, 0.7)
    assert set(found(clock)) == {"lease-overlap", "granted-too-soon"}


def test_a_renewal_extends_and_an_unanswered_one_does_not() -> None:
    renewed, unanswered = held(), held()
    renewed.op(1, "renew", 4, 4.1)
    unanswered.op(1, "renew", 4, 6, "info")
    for clock in (renewed, unanswered):
        clock.op(2, "acquire", 8.2, 8.3)
    assert set(found(renewed)) == {"lease-overlap", "granted-too-soon"}
    assert judge(unanswered).valid is True


def test_who_is_told_that_it_lost_the_lock_relies_on_it_no_more() -> None:
    clock = held()
    clock.op(1, "renew", 2, 2.1, "fail")
    clock.op(2, "acquire", 2.2, 2.3)
    assert set(found(clock)) == {"granted-too-soon"}


def test_an_acquire_without_answer_accuses_nobody() -> None:
    clock = held()
    clock.op(2, "acquire", 1, 2, "info")
    clock.op(3, "acquire", 1, None)
    clock.op(4, "acquire", 11, 11.1)
    assert judge(clock).valid is True


def test_grants_that_overlap_are_judged_whichever_came_first() -> None:
    """Surely closer than 8 s, although nobody knows the order."""
    clock = Clock()
    clock.op(1, "acquire", 0, 3)
    clock.op(2, "acquire", 1, 4)
    assert set(found(clock)) == {"lease-overlap", "granted-too-soon"}

    far = Clock()
    far.op(1, "acquire", 0, 9)
    far.op(2, "acquire", 0.5, 9.5)
    assert judge(far).claims == ("L1",)  # no grant lasts until its answer: nobody holds


def test_a_grant_that_took_longer_than_the_lease_is_still_compared() -> None:
    clock = Clock()
    clock.op(1, "acquire", 15, 16)
    clock.op(2, "acquire", 0, 17)
    clock.op(3, "acquire", 40, 41)
    assert judge(clock).valid is True  # 2 may have been granted at 0 s and at 17 s

    clock.op(4, "acquire", 9.9, 17.5)
    assert set(found(clock)) == {"granted-too-soon"}


def test_keys_are_apart_and_a_client_may_ask_again() -> None:
    clock = held()
    clock.op(2, "acquire", 1, 1.1, key=1)
    clock.op(1, "acquire", 2, 2.1)
    verdict = judge(clock)
    assert verdict.valid == "unknown"
    assert "two clients" in verdict.reason


def test_an_unknown_time_is_a_doubt_and_a_value_that_is_no_key_too() -> None:
    ops = (Op("invoke", 1, "acquire", 0, None, 0, -1), Op("ok", 1, "acquire", 0, None, 1, -1))
    verdict = Locks().check(History(ops), CONTEXT)
    assert (verdict.valid, verdict.counts["without-time"]) == ("unknown", 1)

    for value in (None, "0", [0], True):
        odd = (Op("invoke", 1, "acquire", value, None, 0, 0),)
        assert Locks().check(History(odd), CONTEXT).reason.startswith("W9")


def test_a_completion_without_a_value_is_of_its_invocation_s_key() -> None:
    clock = held()
    history = clock.history
    done = history[1]
    ops = (history[0], Op(done.type, 1, done.f, None, None, 1, done.time))
    assert Locks().check(History(ops), CONTEXT).counts["keys"] == 1
