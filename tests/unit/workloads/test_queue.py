"""The queue workload: what its generators ask for, and what its clients make of answers."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from generator_simulation import Simulated, after, simulate
from hypothesis import given
from hypothesis import strategies as st

from maxq.harness.client.session import Polled, QueueName
from maxq.harness.contracts.cluster import Workload
from maxq.harness.contracts.generator import Context
from maxq.harness.contracts.outcome import Fail, Info, Ok, Outcome
from maxq.harness.contracts.target import Topology, plan
from maxq.harness.generators import clients, limit, reserve, time_limit
from maxq.harness.sampling.rounds import loads
from maxq.harness.schedule.format import Header, Schedule
from maxq.harness.schedule.options import Options
from maxq.harness.schedule.perform import Started, queue_calls
from maxq.histories.op import Op
from maxq.workloads import payload
from maxq.workloads.late_topics import TOPIC
from maxq.workloads.queue import (
    QUEUES,
    READER_SHARE,
    Reader,
    Reads,
    Writer,
    homes_of,
    pinned_threads,
    queue_keys,
    queue_workload,
    retries_of,
    topics_of,
)

SECOND_NS = 1_000_000_000
MS_NS = 1_000_000


class View:
    """As much of a cluster as a workload looks at while it is made."""

    def __init__(self, broker_sets: int) -> None:
        self.nodes = plan(Topology(broker_sets=broker_sets))

    dial: Any = None


def workload(*, concurrency: int = 6, broker_sets: int = 3) -> Workload:
    view: Any = View(broker_sets)
    none: Any = None
    return queue_workload(
        view, none, none, concurrency=concurrency, drain_ns_max=60 * SECOND_NS,
        wall_ms=lambda: 0,
    )  # fmt: skip


def main_phase(
    seconds: int = 10, *, concurrency: int = 6, rate: float = 100.0, complete: Any = None
) -> Simulated:
    """What a run's schedule has clients do."""
    made = workload(concurrency=concurrency)
    options = Options(environment="simulated", seed=1, workload=("queue",), rate=rate,
                      concurrency=concurrency, broker_sets=3)  # fmt: skip
    script = Schedule(header=Header(length=seconds), loads=tuple(loads(options, seconds)))
    source = clients(Started(queue_calls(script, made.threads, made.shares)))
    limited = time_limit((seconds + 1) * SECOND_NS, source)
    return simulate(limited, concurrency=concurrency, complete=complete or after(MS_NS))


def test_values_are_unique_and_keys_are_all_used() -> None:
    sends = [op for op in main_phase().invocations if op.f == "send"]
    values = [op.value[0][2] for op in sends]
    assert len(values) == len(set(values)) > 300
    assert {op.value[0][1] for op in sends} == set(range(3 * QUEUES))


def test_two_of_three_operations_are_sends() -> None:
    ops = main_phase(60, rate=100).invocations
    sends = sum(op.f == "send" for op in ops)
    assert len(ops) == pytest.approx(6000, rel=0.05)
    assert sends == pytest.approx(4000, rel=0.05)


@pytest.mark.parametrize(
    ("concurrency", "readers"), [(2, 1), (3, 1), (5, 1), (6, 2), (9, 3), (1000, 6)]
)
def test_a_third_of_the_threads_read_but_none_without_a_key(concurrency: int, readers: int) -> None:
    ops = main_phase(concurrency=concurrency).invocations
    by_reader = {op.process for op in ops if op.f != "send"}
    by_writer = {op.process for op in ops if op.f == "send"}
    assert by_reader == set(range(readers))
    assert not by_reader & by_writer
    assert READER_SHARE == 3


def test_readers_assign_first_and_share_the_keys() -> None:
    ops = main_phase().invocations
    shares = []
    for reader in (0, 1):
        mine = [op for op in ops if op.process == reader]
        assert [op.f for op in mine[:3]] == ["assign", "poll", "poll"]
        assert sum(op.f == "assign" for op in mine) == 1
        shares.append(mine[0].value)
    assert shares == [[0, 2, 4], [1, 3, 5]]


def test_a_new_process_assigns_before_it_polls() -> None:
    """After an `info` the thread goes on with a fresh client, which knows of no keys."""
    count = 0

    def complete(ctx: Context, op: Op) -> Op:
        nonlocal count
        count += 1
        return after(MS_NS, "info" if count % 5 == 0 else "ok")(ctx, op)

    seen = simulate(limit(50, reserve((1, Reads(4, 1)))), concurrency=1, complete=complete)
    first: dict[Any, Op] = {}
    for op in seen.invocations:
        first.setdefault(op.process, op)
    assert len(first) == 10
    assert {(op.f, tuple(op.value)) for op in first.values()} == {("assign", (0, 1, 2, 3))}


def test_an_assign_that_failed_is_tried_again() -> None:
    seen = simulate(clients(limit(3, Reads(4, 1))), concurrency=1, complete=after(MS_NS, "fail"))
    assert [op.f for op in seen.invocations] == ["assign"] * 3


def drained_after(polls: int, type_: str = "ok") -> Callable[[Context, Op], Op]:
    left = {0: polls, 1: 2 * polls}

    def complete(ctx: Context, op: Op) -> Op:
        done = after(MS_NS, type_ if op.f == "poll" else "ok")(ctx, op)
        if op.f == "poll":
            left[int(op.process) % 6] -= 1
        drained = op.f == "poll" and left[int(op.process) % 6] <= 0
        return msgspec.structs.replace(done, ext={"drained": True}) if drained else done

    return complete


def test_the_final_read_ends_for_each_reader_when_it_is_drained() -> None:
    final = workload().final_generator
    seen = simulate(final, concurrency=6, complete=drained_after(5)).invocations
    assert {op.process for op in seen} == {0, 1}
    for reader, polls in ((0, 5), (1, 10)):
        mine = [op for op in seen if op.process == reader]
        assert [op.f for op in mine] == ["assign"] + ["poll"] * polls
        assert mine[0].ext == {"seek-to-beginning?": True}
        gaps = [b.time - a.time for a, b in pairwise(mine)]
        assert min(gaps) >= 20 * MS_NS


def test_the_final_read_that_never_drains_ends_at_its_time_limit() -> None:
    """A `drained` of a poll that is not ok says nothing."""
    final = workload().final_generator
    seen = simulate(final, concurrency=6, complete=drained_after(1, "fail")).invocations
    assert 59 * SECOND_NS < seen[-1].time <= 60 * SECOND_NS
    assert len(seen) > 5000


class FakeSession:
    """Answers polls from a log of each key, sends as told."""

    def __init__(self) -> None:
        self.logs: dict[int, list[bytes]] = {0: [], 1: []}
        self.broken: Fail | None = None
        self.batch = 2
        self.outcome: Outcome = Ok(7, ext={"broker": "x"})
        self.sent: list[tuple[QueueName, bytes]] = []

    async def poll(
        self, queue: QueueName, offset: int, *, of_master: bool = False
    ) -> Polled | Fail:
        if self.broken is not None:
            return self.broken
        log = self.logs[queue.queue_id]
        if offset > len(log):
            return Polled((), len(log), 0, len(log), "x:1")
        found = tuple(enumerate(log))[offset : offset + self.batch]
        return Polled(found, offset + len(found), 0, len(log), "x:1")

    async def send(self, queue: QueueName, body: bytes, *, born_ms: int) -> Outcome:
        self.sent.append((queue, body))
        return self.outcome

    def close(self) -> None:
        """Nothing is held."""


KEYS = [QueueName(TOPIC, "b0", 0), QueueName(TOPIC, "b0", 1)]
POLL = Op("invoke", 3, "poll", [["poll"]])


def assign(*keys: int, seek: bool = False) -> Op:
    ext = {"seek-to-beginning?": True} if seek else None
    return Op("invoke", 3, "assign", list(keys), ext=ext)


def reader(session: FakeSession) -> Reader:
    fake: Any = session
    return Reader(fake, KEYS)


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(main)


def fill(session: FakeSession, key: int, *values: int) -> None:
    session.logs[key] += [payload.encode(key, 9, v) for v in values]


def test_a_reader_keeps_its_position_over_failures() -> None:
    async def main() -> None:
        session = FakeSession()
        fill(session, 0, 10, 11, 12)
        client = reader(session)
        assert await client.invoke(POLL) == Fail("nothing-assigned")
        assert await client.invoke(assign(0)) == Ok([0])
        assert await client.invoke(POLL) == Ok(
            [["poll", {0: [[0, 10], [1, 11]]}]], ext={"node": "b0", "broker": "x:1"}
        )
        session.broken = Fail("timeout")
        assert await client.invoke(POLL) == Fail("timeout", ext={"node": "b0"})
        session.broken = None
        again = await client.invoke(POLL)
        assert isinstance(again, Ok)
        assert again.value == [["poll", {0: [[2, 12]]}]]
        empty = await client.invoke(POLL)
        assert empty == Ok([["poll", {0: []}]], ext={"node": "b0", "broker": "x:1", "end": {0: 3}})

    run(main())


def test_a_new_assignment_keeps_what_stays_and_a_seek_begins_anew() -> None:
    async def main() -> None:
        session = FakeSession()
        fill(session, 0, 10, 11)
        client = reader(session)
        await client.invoke(assign(0))
        await client.invoke(POLL)
        await client.invoke(assign(0, 1))
        first = await client.invoke(POLL)  # the turn is at key 1
        second = await client.invoke(POLL)
        assert isinstance(first, Ok)
        assert isinstance(second, Ok)
        assert [first.value, second.value] == [[["poll", {1: []}]], [["poll", {0: []}]]]
        await client.invoke(assign(0, 1, seek=True))
        polled = [await client.invoke(POLL) for _ in range(2)]
        found = [p.value for p in polled if isinstance(p, Ok)]
        assert [["poll", {0: [[0, 10], [1, 11]]}]] in found

    run(main())


def test_a_log_that_ends_before_what_was_read_moves_nobody_back() -> None:
    """It may be the log of a master that is none any more; the last read shows what is lost."""

    async def main() -> None:
        session = FakeSession()
        fill(session, 0, 10, 11)
        client = reader(session)
        await client.invoke(assign(0))
        await client.invoke(POLL)
        session.logs[0] = []
        fill(session, 0, 13)
        assert await client.invoke(POLL) == Fail(["offset-moved", [2, 1]])
        session.logs[0] = []
        fill(session, 0, 10, 11, 12)
        again = await client.invoke(POLL)
        assert isinstance(again, Ok)
        assert again.value == [["poll", {0: [[2, 12]]}]]

    run(main())


def test_the_final_read_ends_when_every_key_is_read_to_its_end() -> None:
    async def main() -> None:
        session = FakeSession()
        fill(session, 0, 10, 11, 12)
        fill(session, 1, 20)
        client = reader(session)
        await client.invoke(assign(0, 1))
        for _ in range(20):
            early = await client.invoke(POLL)
            assert isinstance(early, Ok)
            assert "drained" not in (early.ext or {}), "only a final read drains"
        await client.invoke(assign(0, 1, seek=True))
        read: dict[int, list[Any]] = {0: [], 1: []}
        ends: dict[int, int] = {}
        for _ in range(20):
            polled = await client.invoke(POLL)
            assert isinstance(polled, Ok)
            assert polled.ext is not None
            for key, messages in polled.value[0][1].items():
                assert key not in ends, "a key that has ended is read no more"
                read[key] += [value for _, value in messages]
            ends.update(polled.ext.get("end", {}))
            if polled.ext.get("drained"):
                break
        assert (read, ends) == ({0: [10, 11, 12], 1: [20]}, {0: 3, 1: 1})

    run(main())


def test_an_end_needs_an_empty_poll() -> None:
    """A message may arrive between the read and the answer's bounds."""

    async def main() -> None:
        session = FakeSession()
        fill(session, 0, 10)
        client = reader(session)
        await client.invoke(assign(0, seek=True))
        polled = await client.invoke(POLL)
        assert isinstance(polled, Ok)
        assert "end" not in (polled.ext or {})

    run(main())


def test_what_is_no_payload_becomes_a_value_that_nobody_sent() -> None:
    async def main() -> None:
        session = FakeSession()
        session.logs[0] = [b"rubbish", payload.encode(1, 9, 5)]
        client = reader(session)
        await client.invoke(assign(0))
        polled = await client.invoke(POLL)
        assert isinstance(polled, Ok)
        [[_, found]] = polled.value
        assert [str(v)[:8] for _, v in found[0]] == ["corrupt:", "corrupt:"]

    run(main())


@pytest.mark.parametrize(
    ("outcome", "want"),
    [
        (Ok(7, ext={"broker": "x"}), Ok([["send", 1, [7, 42]]], ext={"broker": "x"})),
        (Fail("no-route"), Fail("no-route")),
        (Info("timeout"), Info("timeout")),
    ],
)
def test_a_writer_says_what_its_session_says(outcome: Outcome, want: Outcome) -> None:
    async def main() -> None:
        session: Any = FakeSession()
        session.outcome = outcome
        client = Writer(session, KEYS, lambda: 5)
        assert await client.invoke(Op("invoke", 3, "send", [["send", 1, 42]])) == want
        assert session.sent == [(KEYS[1], payload.encode(1, 3, 42))]

    run(main())


def test_a_final_read_follows_the_routes_whoever_was_pinned() -> None:
    """Only a master can say where its log ends."""

    async def main() -> None:
        session: Any = FakeSession()
        session.pinned = lambda broker_set: "b0-1"
        client = reader(session)
        await client.invoke(assign(0))
        assert session.pinned is not None
        await client.invoke(assign(0, seek=True))
        assert session.pinned is None

    run(main())


@pytest.mark.parametrize("size", [0, 900])
def test_a_writer_sends_as_much_as_it_is_asked_to(size: int) -> None:
    sent: list[bytes] = []

    class Sending(FakeSession):
        async def send(self, queue: QueueName, body: bytes, *, born_ms: int) -> Outcome:
            sent.append(body)
            return Ok(0)

    async def main() -> None:
        session: Any = Sending()
        client = Writer(session, KEYS, lambda: 0)
        ext = {"size": size} if size else None
        await client.invoke(Op("invoke", 3, "send", [["send", 1, 7]], ext=ext))

    run(main())
    assert sent == [payload.encode(1, 3, 7, size=size)]
    assert len(sent[0]) >= size


def test_writers_and_readers_are_pinned_in_turn_each_to_another_replica() -> None:
    class Found(View):
        def address(self, node: str) -> str:
            return f"{node} at {self.moves}"

        moves = 0

    view: Any = Found(1)
    view.nodes = plan(Topology(broker_sets=1, replicas=3))
    none: Any = None
    made = queue_workload(
        view, none, none, concurrency=8, drain_ns_max=SECOND_NS, wall_ms=lambda: 0,
        pinned=3,
    )  # fmt: skip
    clients_made: list[Any] = [made.client(thread) for thread in range(8)]
    pins = [client._session.pinned for client in clients_made]
    assert [t for t, pin in enumerate(pins) if pin is not None] == [1, 6, 7]
    assert [pins[t]("b0") for t in (1, 6, 7)] == ["b0-1 at 0", "b0-0 at 0", "b0-1 at 0"]
    view.moves = 1
    assert pins[6]("b0") == "b0-0 at 1", "it follows its broker to another address"
    again: Any = made.client(6)
    assert again._session.pinned("b0") == "b0-0 at 1", "so does every process of the thread"
    assert made.shares == ((0,), (1,))
    assert pinned_threads(8, 2, 8) == frozenset(range(8))
    assert pinned_threads(8, 2, 5) == {7, 1, 6, 0, 5}


@given(st.integers(1, 4), st.integers(1, 40))
def test_keys_of_many_topics_are_queues_of_the_sets_that_are_said(sets: int, topics: int) -> None:
    """Those of the first topic come first and are as without others; each topic has its queues."""
    view: Any = View(sets)
    keys = queue_keys(view, topics)
    assert keys[: sets * QUEUES] == queue_keys(view)
    assert [key.broker_set for key in keys] == homes_of([f"b{n}" for n in range(sets)], topics)
    assert len(set(keys)) == len(keys)
    queues = Counter(key.topic for key in keys)
    assert queues == {topic: n * sets for topic, n in topics_of(topics).items()}


@given(st.integers(1, 4), st.integers(1, 40))
def test_a_try_of_any_topic_goes_to_another_set_if_there_is_one(sets: int, topics: int) -> None:
    homes = homes_of([f"b{n}" for n in range(sets)], topics)
    how = retries_of(homes, 2, avoids=True)
    assert how is not None
    for key, other in enumerate(how.elsewhere):
        assert other != key
        assert (homes[other] != homes[key]) is (sets > 1)
        assert how.homes[key] == int(homes[key][1:])
