"""The lock workload: who tries for which key, who renews or falls silent, what clients say."""

import asyncio
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from random import Random
from typing import Any

import msgspec
import pytest
from generator_simulation import Simulated, after, simulate

from maxq.harness.client.locks import LockSession
from maxq.harness.client.session import QueueName
from maxq.harness.contracts.generator import Context
from maxq.harness.contracts.outcome import Fail, Info, Ok, Outcome
from maxq.harness.contracts.target import Topology, plan
from maxq.harness.generators import clients, reserve, time_limit
from maxq.histories.observed import ACQUIRE, RELEASE, RENEW
from maxq.histories.op import Op
from maxq.reference.rpc import ConnectionLost, NotSent
from maxq.reference.wire.bodies import LockResponse, MessageQueue
from maxq.reference.wire.frame import Frame
from maxq.workloads.lock import (
    AFTER_RELEASE_NS,
    CONSUMER_GROUP,
    QUEUES,
    RENEW_GAP_NS,
    TOPIC,
    TRY_GAP_NS,
    HandOver,
    Locker,
    lock_workload,
)

SECOND_NS, MS_NS = 1_000_000_000, 1_000_000


class View:
    """As much of a cluster as the workload looks at."""

    dial: Any = None

    def __init__(self, broker_sets: int = 1) -> None:
        self.nodes = plan(Topology(broker_sets=broker_sets, replicas=3, spares=1))

    def by_role(self, role: object) -> list[Any]:
        return [n for n in self.nodes if n.role is role and not n.spare]

    def address(self, node: str) -> str:
        return f"at-{node}"


def performed(complete: Any = None, *, seconds: int = 120, threads: int = 3) -> Simulated:
    view: Any = View()
    none: Any = None
    workload = lock_workload(view, none, clients=threads, seed=1, lease_ms=10_000)
    assert workload.threads == threads
    limited = clients(time_limit(seconds * SECOND_NS, workload.generator))
    return simulate(limited, concurrency=threads, complete=complete or after(MS_NS))


def test_a_holder_renews_its_own_key_and_lets_go_or_falls_silent() -> None:
    ops = performed().invocations
    count = Counter(op.f for op in ops)
    assert set(count) == {ACQUIRE, RENEW, RELEASE}
    silent = 0
    for process in {op.process for op in ops}:
        held: Any = None
        for op in (op for op in ops if op.process == process):
            if op.f == ACQUIRE:
                silent += held is not None
                held = op.value
            else:
                assert op.value == held
                held = None if op.f == RELEASE else held
    assert silent > 5
    assert count[RELEASE] > silent
    assert {op.value for op in ops} == set(range(QUEUES))


def test_renewals_are_a_second_apart() -> None:
    for process in range(3):
        mine = [op for op in performed().invocations if op.process == process]
        gaps = [b.time - a.time for a, b in pairwise(mine) if b.f == RENEW]
        assert gaps
        assert all(gap == RENEW_GAP_NS + MS_NS for gap in gaps)


def test_who_is_refused_tries_again_for_any_key() -> None:
    ops = performed(after(MS_NS, "fail"), seconds=20).invocations
    assert {op.f for op in ops} == {ACQUIRE}
    assert {op.value for op in ops} == set(range(QUEUES))
    assert len(ops) > 100


def test_a_new_process_does_not_renew_for_its_predecessor() -> None:
    """It is another client to the brokers."""

    def complete(ctx: Context, op: Op) -> Op:
        kind = "info" if op.f == RENEW else "ok"
        return msgspec.structs.replace(op, type=kind, time=ctx.time + MS_NS, index=-1)

    ops = performed(complete).invocations
    first_of: dict[int | str, Op] = {}
    for op in ops:
        first_of.setdefault(op.process, op)
    assert len(first_of) > 10
    assert {op.f for op in first_of.values()} == {ACQUIRE}


# Clients.


class Brokers:
    """Answers the one call that it is asked for."""

    def __init__(self, answer: Callable[[Frame], Frame]) -> None:
        self.answer = answer
        self.asked: list[tuple[str, Frame]] = []

    async def call(self, address: str, frame: Frame, *, timeout_s: float) -> Frame:
        self.asked.append((address, frame))
        return self.answer(frame)


QUEUE = QueueName(TOPIC, "b0", 1)
WIRE = MessageQueue(broker_name="b0", queue_id=1, topic=TOPIC)


def asked(f: str, answer: Callable[[Frame], Frame]) -> tuple[Outcome, Brokers]:
    async def run() -> tuple[Outcome, Brokers]:
        none: Any = None
        async with asyncio.TaskGroup() as group:
            session = LockSession(CONSUMER_GROUP, none, group)
            brokers: Any = Brokers(answer)
            session._pool = brokers
            view: Any = View()
            locker = Locker(view, session, [QueueName(TOPIC, "b0", 0), QUEUE], Random(1))
            return await locker.invoke(Op("invoke", 7, f, 1)), brokers

    return asyncio.run(run())


def granting(*queues: MessageQueue) -> Callable[[Frame], Frame]:
    return lambda frame: frame.answer(0, body=LockResponse(lock_ok_mq_set=queues).to_json())


def raising(error: Exception) -> Callable[[Frame], Frame]:
    def answer(frame: Frame) -> Frame:
        raise error

    return answer


def test_granted_is_ok_and_names_the_broker() -> None:
    outcome, brokers = asked(ACQUIRE, granting(WIRE))
    [(address, frame)] = brokers.asked
    assert isinstance(outcome, Ok)
    assert (outcome.value, outcome.ext) == (1, {"broker": address})
    assert address in {"at-b0-0", "at-b0-1", "at-b0-2"}
    assert frame.code == 41
    assert b'"maxq-7"' in (frame.body or b"")


@pytest.mark.parametrize("f", [ACQUIRE, RENEW])
def test_another_queue_granted_is_not_ours(f: str) -> None:
    other = MessageQueue(broker_name="b0", queue_id=0, topic=TOPIC)
    assert isinstance(asked(f, granting(other))[0], Fail)
    assert isinstance(asked(f, granting())[0], Fail)


@pytest.mark.parametrize("f", [ACQUIRE, RENEW, RELEASE])
@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (raising(NotSent("refused")), Fail),
        (raising(TimeoutError()), Info),
        (raising(ConnectionLost("reset")), Info),
        (lambda frame: frame.answer(1, "nobody knows"), Info),
    ],
)
def test_whatever_is_unsure_is_info(f: str, answer: Any, kind: type[object]) -> None:
    assert isinstance(asked(f, answer)[0], kind)


def test_an_answer_that_is_none_is_info() -> None:
    assert isinstance(asked(ACQUIRE, lambda f: f.answer(0, body=b"{"))[0], Info)


def test_a_release_asks_to_unlock() -> None:
    outcome, brokers = asked(RELEASE, granting())
    assert isinstance(outcome, Ok)
    assert brokers.asked[0][1].code == 42


def test_keys_are_queues_of_every_set_but_the_spares() -> None:
    view: Any = View(broker_sets=2)
    none: Any = None
    made = lock_workload(view, none, clients=1, seed=1, lease_ms=10_000)
    ops = simulate(
        clients(time_limit(60 * SECOND_NS, made.generator)), concurrency=1, complete=after(MS_NS)
    ).invocations
    assert {op.value for op in ops} == set(range(2 * QUEUES))


# The end: each lock is handed over once.


def handed_over(complete: Any = None, *, keys: int = 2, limit_s: int = 30) -> Simulated:
    limited = time_limit(limit_s * SECOND_NS, reserve((2, HandOver(tuple(range(keys))))))
    return simulate(limited, concurrency=2, complete=complete or after(MS_NS))


def refusing(refused: Callable[[Op, int], str]) -> Any:
    """Answers as told by an operation and how many there were before."""
    count = 0

    def complete(ctx: Context, op: Op) -> Op:
        nonlocal count
        count += 1
        return after(MS_NS, refused(op, count - 1))(ctx, op)

    return complete


STORY = [(0, ACQUIRE), (1, ACQUIRE), (0, RELEASE), (1, ACQUIRE), (1, RELEASE)]


def told(seen: Simulated) -> list[tuple[Any, str]]:
    return [(op.process, op.f) for op in seen.invocations]


def test_each_lock_goes_from_one_client_to_another() -> None:
    seen = handed_over()
    assert told(seen) == STORY * 2
    asked = [op.time for op in seen.invocations[2:4]]
    assert asked[1] - asked[0] == AFTER_RELEASE_NS + MS_NS, "long enough for any broker to know"
    assert [op.value for op in seen.invocations] == [0] * 5 + [1] * 5


def test_one_operation_at_a_time() -> None:
    """Who was granted it, and when it was given back, is beyond doubt."""
    kinds = [op.type for op in handed_over().history]
    assert kinds == ["invoke", "ok"] * 10


def test_that_the_second_client_is_refused_meanwhile_is_as_it_should_be() -> None:
    """Only what somebody else may still hold is asked for until it is granted."""
    seen = handed_over(refusing(lambda op, n: "fail" if n == 1 else "ok"), keys=1)
    assert told(seen) == STORY


def test_a_lease_of_before_may_have_to_run_out_first() -> None:
    seen = handed_over(refusing(lambda op, n: "fail" if n < 4 else "ok"), keys=1)
    assert told(seen) == [(0, ACQUIRE)] * 4 + STORY
    tries = [op.time for op in seen.invocations[:5]]
    assert all(b - a == TRY_GAP_NS + MS_NS for a, b in pairwise(tries))


def test_so_may_the_first_clients_own() -> None:
    """Whatever came of its release."""
    seen = handed_over(refusing(lambda op, n: "fail" if 2 <= n < 5 else "ok"), keys=1)
    assert told(seen) == [*STORY[:3], (1, ACQUIRE), (1, ACQUIRE), *STORY[3:]]


def test_nobody_gives_up_before_the_limit() -> None:
    seen = handed_over(after(MS_NS, "fail"), limit_s=9)
    assert set(told(seen)) == {(0, ACQUIRE)}
    assert seen.invocations[-1].time > 9 * SECOND_NS - 2 * TRY_GAP_NS


def test_who_was_not_answered_is_another_client_from_then_on() -> None:
    """The lock may be held by the one before until its lease is over."""
    seen = handed_over(refusing(lambda op, n: "info" if n == 0 else "ok"), keys=1)
    assert told(seen) == [(0, ACQUIRE), (2, ACQUIRE), (1, ACQUIRE), (2, RELEASE), *STORY[3:]]


@pytest.mark.parametrize("threads", [2, 3, 4])
def test_the_locks_are_dealt_out_to_pairs_of_clients(threads: int) -> None:
    view: Any = View(broker_sets=2)
    none: Any = None
    made = lock_workload(view, none, clients=threads, seed=1, lease_ms=10_000)
    seen = simulate(made.final_generator, concurrency=threads, complete=after(MS_NS))
    assert seen.invocations[0].time == 10 * SECOND_NS + AFTER_RELEASE_NS, "nobody has any by then"
    by_key: dict[Any, list[Any]] = {}
    for op in seen.invocations:
        by_key.setdefault(op.value, []).append((op.process, op.f))
    assert set(by_key) == set(range(2 * QUEUES))
    for story in by_key.values():
        assert [f for _, f in story] == [f for _, f in STORY]
        assert len({process for process, _ in story}) == 2
