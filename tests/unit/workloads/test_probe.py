"""Probes: what they send and read back, until when, and what counts as read back."""

import asyncio
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from generator_simulation import Simulated, after, simulate

from maxq.harness.client.session import Polled, QueueName
from maxq.harness.contracts.generator import Context
from maxq.harness.contracts.outcome import Fail, Ok, Outcome
from maxq.harness.contracts.target import Topology, plan
from maxq.harness.generators import EMPTY, reserve, time_limit
from maxq.harness.simulation.world import World
from maxq.histories.observed import (
    CREATE_TOPIC,
    FIND_TOPIC,
    PROBE_READ,
    PROBE_STREAK,
    PROBED,
)
from maxq.histories.op import Op
from maxq.workloads import payload
from maxq.workloads.late_topics import TOPIC
from maxq.workloads.probe import (
    FIRST,
    MARGIN_NS,
    READ_GAP_S,
    READ_S,
    RETRY_NS,
    Late,
    Prober,
    Probes,
    probe_workload,
)
from maxq.workloads.queue import QUEUES

SECOND_NS, MS_NS = 1_000_000_000, 1_000_000
LIMIT_NS = 5 * SECOND_NS
QUEUE = QueueName(TOPIC, "b0", 0)
Kind = Callable[[Op, int], str]  # an operation and its number -> how it ends


def answering(kind: Kind) -> Callable[[Context, Op], Op]:
    """A queue that gives out one offset after the other."""
    count = 0

    def complete(ctx: Context, op: Op) -> Op:
        nonlocal count
        count += 1
        done = after(MS_NS, kind(op, count))(ctx, op)
        if op.f == "send" and done.type == "ok":
            [[_, key, value]] = op.value
            return msgspec.structs.replace(done, value=[["send", key, [100 + count, value]]])
        return done

    return complete


def probed(kind: Kind, *, keys: int = 1) -> Simulated:
    probes = reserve(*((1, Probes(key)) for key in range(keys)))
    limited = time_limit(LIMIT_NS, probes)
    return simulate(limited, concurrency=keys, complete=answering(kind))


def test_a_queue_that_serves_is_probed_as_often_as_a_streak_is_long() -> None:
    seen = probed(lambda op, n: "ok")
    assert [op.f for op in seen.invocations] == ["send", PROBE_READ] * PROBE_STREAK
    sends = [op for op in seen.invocations if op.f == "send"]
    assert [op.value for op in sends] == [[["send", 0, FIRST + n]] for n in range(PROBE_STREAK)]
    assert all(op.ext == {PROBED: True} for op in sends)


def test_what_was_acknowledged_is_read_back_where_it_was_put() -> None:
    seen = probed(lambda op, n: "ok")
    sent = [op.value for op in seen.history if op.f == "send" and op.type == "ok"]
    read = [op.value for op in seen.invocations if op.f == PROBE_READ]
    assert read == [{"key": 0, "value": v, "offset": o} for [[_, _, [o, v]]] in sent]


@pytest.mark.parametrize("refusal", ["fail", "info"])
def test_nobody_gives_up_on_a_refusal(refusal: str) -> None:
    """Until the bound is well over; each try is another message, since one may be there."""
    seen = probed(lambda op, n: refusal).invocations
    assert {op.f for op in seen} == {"send"}
    assert all(b.time - a.time == RETRY_NS + MS_NS for a, b in pairwise(seen))
    values = [op.value[0][2] for op in seen]
    assert len(values) == len(set(values)) == LIMIT_NS // (RETRY_NS + MS_NS) + 1


@pytest.mark.parametrize("bad", [2, 3])
def test_a_streak_begins_anew_after_a_refusal(bad: int) -> None:
    """Whether the message was refused or not given back."""
    seen = probed(lambda op, n: "fail" if n == bad else "ok")
    ended = [(op.f, op.type) for op in seen.history if op.type != "invoke"]
    after_it = ended[bad:]
    assert ended[bad - 1][1] == "fail"
    assert after_it == [("send", "ok"), (PROBE_READ, "ok")] * PROBE_STREAK
    values = [op.value[0][2] for op in seen.invocations if op.f == "send"]
    assert len(values) == len(set(values)), "what was not given back is not sent again"


def test_a_cluster_that_serves_one_in_many_is_probed_to_the_end() -> None:
    seen = probed(lambda op, n: "ok" if op.f == PROBE_READ or n % 5 == 0 else "fail")
    assert seen.invocations[-1].time > LIMIT_NS - 2 * RETRY_NS


def test_each_queue_has_probes_of_its_own() -> None:
    """One that does not serve holds up no other, and its numbers are its own."""

    def kind(op: Op, n: int) -> str:
        return "fail" if op.f == "send" and op.value[0][1] == 1 else "ok"

    seen = probed(kind, keys=2).invocations
    well = [op for op in seen if op.process == 0]
    assert [op.f for op in well] == ["send", PROBE_READ] * PROBE_STREAK
    assert len([op for op in seen if op.process == 1]) > 2 * PROBE_STREAK


def test_a_thread_whose_client_was_retired_goes_on() -> None:
    seen = probed(lambda op, n: "info" if n == 1 else "ok").invocations
    assert [op.process for op in seen] == [0] + [1] * 2 * PROBE_STREAK


def test_the_workload_is_idle_until_the_end_and_then_within_its_bound() -> None:
    class View:
        nodes = plan(Topology(broker_sets=2, spares=1))
        dial: Any = None

    view: Any = View()
    none: Any = None
    made = probe_workload(view, none, none, bound_ns=2 * SECOND_NS, wall_ms=lambda: 0)
    assert made.generator is EMPTY
    assert made.threads == 2 * QUEUES
    seen = simulate(made.final_generator, concurrency=made.threads, complete=after(MS_NS, "fail"))
    assert {op.value[0][1] for op in seen.invocations} == set(range(2 * QUEUES))
    last = max(op.time for op in seen.invocations)
    assert 2 * SECOND_NS + MARGIN_NS - RETRY_NS - MS_NS <= last <= 2 * SECOND_NS + MARGIN_NS


# Clients.


class Queue:
    """A session with a broker that shows what `held` says, from a moment on."""

    def __init__(self, found: Callable[[float], Polled | Fail]) -> None:
        self._found = found
        self.asked: list[int] = []

    async def poll(
        self, queue: QueueName, offset: int, *, of_master: bool = False
    ) -> Polled | Fail:
        assert queue == QUEUE
        self.asked.append(offset)
        return self._found(asyncio.get_running_loop().time())

    def close(self) -> None:
        pass


def shows(*held: tuple[int, int], key: int = 0) -> Polled:
    messages = tuple((at, payload.encode(key, 0, value)) for at, value in held)
    return Polled(messages, 9, 0, 9, "x:1")


def read_back(found: Callable[[float], Polled | Fail]) -> tuple[Outcome, float, Queue]:
    """What came of one reading back, after how long (s)."""
    world, queue = World(1), Queue(found)

    async def client(_: object) -> tuple[Outcome, float]:
        session: Any = queue
        loop = asyncio.get_running_loop()
        begun = loop.time()
        prober = Prober(session, [QUEUE], lambda: 0)
        op = Op("invoke", 0, PROBE_READ, {"key": 0, "value": 7, "offset": 5})
        return await prober.invoke(op), loop.time() - begun

    try:
        return *world.run(world.add_machine("client", "198.18.0.2"), client), queue
    finally:
        world.close()


def test_a_message_that_stands_where_it_was_put_is_read_back() -> None:
    outcome, after_s, queue = read_back(lambda now: shows((4, 3), (5, 7)))
    assert outcome == Ok({"key": 0, "value": 7, "offset": 5}, ext={"node": "b0", "broker": "x:1"})
    assert (after_s, queue.asked) == (0, [5])


def test_a_broker_may_show_it_a_moment_later() -> None:
    outcome, after_s, _ = read_back(lambda now: shows((5, 7)) if now > 1 else shows())
    assert isinstance(outcome, Ok)
    assert 0.9 < after_s <= 1 + READ_GAP_S


@pytest.mark.parametrize(
    ("held", "error"),
    [
        ([], ["not-read-back", [5, None]]),
        ([(5, 8)], ["not-read-back", [5, 8]]),
        ([(6, 7)], ["not-read-back", [5, None]]),
    ],
)
def test_what_stands_elsewhere_or_instead_is_not(held: list[Any], error: list[Any]) -> None:
    outcome, after_s, _ = read_back(lambda now: shows(*held))
    assert outcome == Fail(error)
    assert READ_S <= after_s <= READ_S + 2 * READ_GAP_S


def test_who_is_never_answered_fails_with_the_last_error() -> None:
    outcome, after_s, _ = read_back(lambda now: Fail("no-route"))
    assert outcome == Fail("no-route")
    assert after_s >= READ_S


def late_probe(known: list[dict[str, bool]], *, by_sending: bool, copied: bool = True) -> list[str]:
    """What is asked of a topic that came into being during the run, whose brokers know it as said,
    the last one for good: kinds of operations in order."""
    answers = [*known]

    def complete(ctx: Context, op: Op) -> Op:
        if op.f != FIND_TOPIC:
            return answering(lambda *_: "ok")(ctx, op)
        said = answers.pop(0) if len(answers) > 1 else answers[0]
        done = after(MS_NS, "ok")(ctx, op)
        return msgspec.structs.replace(done, value={**op.value, "master": "b0-0", "known": said})

    late = Late(QueueName("t", "b0", 0), by_sending, copied)
    probes = time_limit(LIMIT_NS, reserve((1, Probes(0, late=late))))
    return [op.f for op in simulate(probes, concurrency=1, complete=complete).invocations]


ALL, MASTER, NONE = (
    {"b0-0": a, "b0-1": b} for a, b in ((True, True), (True, False), (False, False))
)
SERVED = ["send", PROBE_READ] * PROBE_STREAK


def test_a_late_topic_that_the_next_master_does_not_know_is_made_there_as_well() -> None:
    """As on 5.5.0: an operator's topic was gone with the master that had made it."""
    known = [NONE, NONE, ALL]
    tries = 0

    def complete(ctx: Context, op: Op) -> Op:
        nonlocal tries
        done = after(MS_NS, "ok")(ctx, op)
        if op.f == FIND_TOPIC:
            said = known.pop(0) if len(known) > 1 else known[0]
            return msgspec.structs.replace(
                done, value={**op.value, "master": "b0-0", "known": said}
            )
        tries += op.f == "send"
        lost = op.f == "send" and tries == 1
        return answering(lambda *_: "fail" if lost else "ok")(ctx, op)

    probes = Probes(0, late=Late(QueueName("t", "b0", 0), by_sending=False))
    seen = simulate(time_limit(LIMIT_NS, reserve((1, probes))), concurrency=1, complete=complete)
    first = [FIND_TOPIC, CREATE_TOPIC, "send"]
    assert [op.f for op in seen.invocations] == [*first, *first[:2], *SERVED, FIND_TOPIC]


@pytest.mark.parametrize(
    ("known", "by_sending", "asked"),
    [
        ([ALL], True, [FIND_TOPIC, *SERVED]),
        ([ALL], False, [FIND_TOPIC, *SERVED]),
        ([NONE, ALL], True, [FIND_TOPIC, *SERVED, FIND_TOPIC]),
        # Another master was elected once the queue was served, and does not know the topic.
        ([NONE, NONE, ALL], True, [FIND_TOPIC, *SERVED, FIND_TOPIC, *SERVED, FIND_TOPIC]),
        ([NONE, ALL], False, [FIND_TOPIC, CREATE_TOPIC, *SERVED, FIND_TOPIC]),
        ([MASTER, MASTER, ALL], False, [FIND_TOPIC, *SERVED, FIND_TOPIC, FIND_TOPIC]),
    ],
)
def test_a_late_topic_is_looked_for_made_probed_and_awaited_at_every_replica(
    known: list[dict[str, bool]], by_sending: bool, asked: list[str]
) -> None:
    assert late_probe(known, by_sending=by_sending) == asked
    begin = asked[: asked.index("send")]
    assert late_probe(known, by_sending=by_sending, copied=False) == [*begin, *SERVED]
