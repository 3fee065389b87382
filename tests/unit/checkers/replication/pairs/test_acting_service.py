"""Acting service: what clients are answered while a set's master is gone."""

import pickle
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import pytest
from history_recorder import SECOND_NS, Recorder
from pair_histories import Served, refused_offset, served, unread

from maxq.checkers.core.api import Context, Verdict
from maxq.checkers.core.keyed import events_of
from maxq.checkers.replication.pairs.acting_service import ActingService
from maxq.histories.observed import ACQUIRE, COMMIT_OFFSET, FETCH_OFFSET, NOT_GRANTED
from maxq.histories.op import NEMESIS

CONTEXT = Context(
    broker_sets={"b0": ("b0-0", "b0-1")},
    shrink_ns=8 * SECOND_NS,
    settings={
        "broker:enableSlaveActingMaster": "true",
        "broker:slaveReadEnable": "true",
        "broker:enableControllerMode": "false",
    },
)
Call = Callable[[Served], object]


def judge(r: Recorder, context: Context = CONTEXT) -> Verdict:
    return ActingService().check(r.history, context)


def polls(*ends: int | None, at: float = 30, **ext: Any) -> list[Call]:
    return [partial(Served.reads, at=at + n, end=end, **ext) for n, end in enumerate(ends)]


def test_a_slave_that_serves_keeps_all() -> None:
    r = served(*polls(2), lambda r: r.asks(31, COMMIT_OFFSET, 0))
    assert judge(r).of("kept") == ("A5", "A6")


def test_where_every_poll_fails_reads_have_ended() -> None:
    [found] = judge(unread()).anomalies
    assert (found.claim, found.name) == ("A5", "acting-not-readable")
    assert found.detail == {"set": "b0", "node": "b0-1"}


def test_a_set_that_an_operator_has_opened_shows_no_slave() -> None:
    """Name servers follow an order to let it be written to (327), and clients find nobody."""
    assert judge(opened(by="b0-0")).of("no occasion") == ("A5", "A6")
    assert judge(opened(by="b1-0")).of("broken") == ("A5",)


def opened(*, by: str) -> Served:
    """Every poll fails; write permission was given before, for the set of a broker."""
    r = Served()
    r.act(10, "kill", "b0-0")
    r.now = 12
    r.begin(NEMESIS, "add-write", "opened")
    r.end("info", NEMESIS, "add-write", {by: {"holds": True, "set": by[:2]}})
    r.says(25, "b0-1", acting=True, end=150)
    for at in (30, 31, 32, 33):
        r.reads(at, end=None)
    r.act(60, "start", "b0-0")
    return r


@pytest.mark.parametrize(
    "calls",
    [polls(None, None), polls(None, None, None, at=12), polls(None, None, None, pinned=True)],
    ids=["few", "early", "of whoever does not follow routes"],
)
def test_polls_that_fail_prove_nothing_where(calls: list[Call]) -> None:
    assert judge(served(*calls)).of("no occasion") == ("A5", "A6")


def test_one_poll_that_succeeds_is_service() -> None:
    verdict = judge(served(*polls(None, None, 2, None, None)))
    assert "A5" in verdict.of("kept")


@pytest.mark.parametrize(("end", "broken"), [(0, ("A5",)), (1, ())])
def test_a_queue_ends_behind_what_the_slave_held(end: int, broken: tuple[str, ...]) -> None:
    """Of the second message nothing is known: where its record ends no answer shows."""
    verdict = judge(served(*polls(end)))
    assert verdict.of("broken") == broken
    assert [a.name for a in verdict.anomalies] == ["acting-lacks-message" for _ in broken]


def test_what_the_slave_did_not_hold_it_need_not_show() -> None:
    r = served(*polls(0))
    at = next(n for n, op in enumerate(r.ops) if op.time == 25 * SECOND_NS and op.type == "ok")
    r.ops[at] = msgspec.structs.replace(r.ops[at], value={**r.ops[at].value, "end": 99})
    assert judge(r).of("broken") == ()


@pytest.mark.parametrize("f", [COMMIT_OFFSET, FETCH_OFFSET, ACQUIRE])
@pytest.mark.parametrize(("code", "broken"), [(1, True), (26, False), (None, False)])
def test_an_answer_with_another_code_is_a_refusal(f: str, code: int | None, broken: bool) -> None:
    verdict = judge(served(lambda r: r.asks(30, f, code)))
    assert ("A6" in verdict.of("broken")) is broken
    assert ("A6" in verdict.of("no occasion")) is (code is None)


def test_a_lock_that_is_not_granted_is_answered() -> None:
    r = served(lambda r: r.asks(30, ACQUIRE, 1))
    at = next(n for n, op in enumerate(r.ops) if op.f == ACQUIRE and op.type == "fail")
    r.ops[at] = msgspec.structs.replace(r.ops[at], error=NOT_GRANTED, ext={"broker": "b0-1:1"})
    assert "A6" in judge(r).of("kept")


def test_who_does_not_act_may_refuse() -> None:
    r = served(lambda r: r.asks(30, FETCH_OFFSET, 1, "b0-2"))
    assert "A6" in judge(r).of("no occasion")


def test_rocketmqs_slaves_are_judged_after_a_minute_beside_their_master() -> None:
    context = msgspec.structs.replace(CONTEXT, target="rocketmq:5.5.0")
    assert judge(refused_offset(), context).of("no occasion") == ("A5", "A6")
    r = Served()
    r.act(1, "start", "b0-1")
    r.says(80, "b0-1", acting=False)
    r.act(90, "kill", "b0-0")
    r.asks(110, COMMIT_OFFSET, 1)
    r.act(120, "start", "b0-0")
    assert judge(r, context).of("broken") == ("A6",)


def test_where_slaves_serve_no_reads_a5_is_not_promised() -> None:
    settings = {**(CONTEXT.settings or {}), "broker:slaveReadEnable": "false"}
    context = msgspec.structs.replace(CONTEXT, settings=settings)
    assert judge(unread(), context).of("not promised") == ("A5",)


def test_what_sets_must_know_can_be_carried_elsewhere() -> None:
    r, checker = unread(), ActingService()
    known = checker.prepare(r.history, CONTEXT)
    rows = [row for event in events_of(r.history, checker.reads)
            for _, row in checker.rows(event, known)]  # fmt: skip
    elsewhere = pickle.loads(pickle.dumps(known))
    assert checker.judge("b0", rows, elsewhere) == checker.judge("b0", rows, known)
