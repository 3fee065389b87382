"""The ordered workload: who holds a lock reads and commits, stops without it, and hands it over."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from generator_simulation import Simulated, after, simulate

from maxq.harness.client.session import Polled, QueueName
from maxq.harness.contracts.generator import Context
from maxq.harness.contracts.outcome import Fail, Ok, Outcome
from maxq.harness.contracts.target import Topology, plan
from maxq.harness.generators import clients, delay, reserve, time_limit
from maxq.harness.schedule.options import CLIENT_LEASE_MS, ORDERED
from maxq.histories.observed import (
    ACQUIRE,
    COMMIT_ORDERED,
    ORDERED_KEYS,
    READ_ORDERED,
    RELEASE,
    RENEW,
    RENEW_NS,
    SEND_ORDERED,
)
from maxq.histories.op import Op
from maxq.workloads import ordered, payload
from maxq.workloads.ordered import WORK_NS, Consumer, OrderedClient, Sends, ordered_workload

MS_NS = 1_000_000
LEASE_NS = 10_000 * MS_NS
QUEUE = QueueName(ordered.TOPIC, "b0", 0)
HOLDERS_OWN = {RENEW, READ_ORDERED, COMMIT_ORDERED, RELEASE}


class View:
    """As much of a cluster as the workload looks at."""

    dial: Any = None

    def __init__(self, *namesrvs: str) -> None:
        self.nodes = plan(Topology(controllers=0, broker_sets=2, replicas=2))
        self.names = namesrvs

    def by_role(self, role: object) -> list[Any]:
        return [n for n in self.nodes if n.role is role]

    def namesrvs(self) -> Sequence[str]:
        return self.names


def consumed(answers: Any = None, *, seconds: int = 60, keys: int = 1) -> Simulated:
    """One consumer, which finds two messages in each read unless `answers` says otherwise."""
    count = iter(range(1_000_000))

    def complete(ctx: Context, op: Op) -> Op:
        kind = answers(next(count), op) if answers else "ok"
        value = [[7, 70], [8, 80]] if op.f == READ_ORDERED else op.value
        return msgspec.structs.replace(op, type=kind, value=value, time=ctx.time + MS_NS, index=-1)

    consumer = delay(10 * MS_NS, Consumer(keys, LEASE_NS))
    limited = clients(time_limit(seconds * 1000 * MS_NS, consumer))
    return simulate(limited, concurrency=1, complete=complete)


def test_only_a_holder_reads_and_it_commits_what_it_read() -> None:
    ops = consumed().invocations
    assert {op.f for op in ops} == {ACQUIRE, *HOLDERS_OWN}
    held, unread = False, False
    for op in ops:
        assert held == (op.f in HOLDERS_OWN)
        if op.f == READ_ORDERED:
            assert not unread
        unread = op.f == READ_ORDERED or (unread and op.f != COMMIT_ORDERED)
        held = op.f != RELEASE and not (op.f == COMMIT_ORDERED and _silent_after(ops, op))
        if op.f == COMMIT_ORDERED:
            assert op.value == [ORDERED_KEYS, 9]


def _silent_after(ops: Sequence[Op], op: Op) -> bool:
    later = [other for other in ops if other.time > op.time]
    return bool(later) and later[0].f == ACQUIRE


def test_who_falls_silent_does_nothing_for_as_long_as_brokers_keep_its_lock() -> None:
    ops = consumed(seconds=120).invocations
    pairs = [(a, b) for a, b in pairwise(ops) if b.f == ACQUIRE]
    silent = [b.time - a.time for a, b in pairs if a.f == COMMIT_ORDERED]
    assert len(silent) > 3
    assert min(silent) >= LEASE_NS
    assert sum(a.f == RELEASE for a, _ in pairs) > len(silent)


def test_a_holder_renews_before_its_lease_is_over_and_all_it_does_lies_within() -> None:
    asked = 0
    for op in consumed(seconds=120).invocations:
        if op.f in (ACQUIRE, RENEW):
            asked = op.time
        elif op.f in (READ_ORDERED, COMMIT_ORDERED):
            assert op.time - asked < RENEW_NS
    assert RENEW_NS + WORK_NS < CLIENT_LEASE_MS * MS_NS / 2


@pytest.mark.parametrize("kind", ["fail", "info"])
def test_who_is_not_sure_to_have_the_lock_stops(kind: str) -> None:
    ops = consumed(lambda n, op: kind if op.f == RENEW else "ok").invocations
    after_renewal = [b.f for a, b in pairwise(ops) if a.f == RENEW]
    assert len(after_renewal) > 3
    assert set(after_renewal) == {ACQUIRE}


def test_a_read_that_fails_is_tried_again_and_some_time_the_lock_is_given_back() -> None:
    count = Counter(op.f for op in consumed(lambda n, op: "fail" if op.f == READ_ORDERED else "ok",
                                            seconds=120).invocations)  # fmt: skip
    assert count[READ_ORDERED] > count[RELEASE] > 3
    assert not count[COMMIT_ORDERED]


def test_the_producer_sends_to_each_key_in_turn() -> None:
    gen = time_limit(1000 * MS_NS, reserve((1, delay(10 * MS_NS, Sends(2)))))
    ops = simulate(gen, concurrency=1, complete=after(MS_NS)).invocations
    assert [op.value for op in ops[:3]] == [[1000, 0], [1001, 1], [1000, 2]]
    assert {op.f for op in ops} == {SEND_ORDERED}


# The whole workload.


@pytest.mark.parametrize("settling_ns", [0, 24_000 * MS_NS])
def test_a_run_counts_its_threads_and_hands_each_lock_over_at_its_end(settling_ns: int) -> None:
    view: Any = View()
    none: Any = None
    made = ordered_workload(view, none, lease_ms=10_000, settling_ns=settling_ns, wall_ms=none)
    assert made.threads == ORDERED == ordered.CONSUMERS + ordered.PRODUCERS
    ops = simulate(made.final_generator, concurrency=4, complete=after(MS_NS)).invocations
    granted = {(op.value, op.process) for op in ops if op.f == ACQUIRE}
    assert granted == {(key, process) for key in (1000, 1001) for process in (0, 1)}
    assert ops[0].time == settling_ns


# Clients.


class Answering:
    """Stands for a client's sessions: offsets, messages and locks."""

    def __init__(self, committed: Outcome, polled: Polled | Fail) -> None:
        self.committed, self.polled = committed, polled
        self.asked: list[int] = []

    async def fetch(self, queue: QueueName, group: str) -> Outcome:
        return self.committed

    async def poll(
        self, queue: QueueName, offset: int, *, of_master: bool = False
    ) -> Polled | Fail:
        self.asked.append(offset)
        return self.polled

    async def lock(self, broker: str, client_id: str, queue: QueueName) -> Outcome:
        return Ok()

    def close(self) -> None:
        """There is nothing to close."""


def polled(offset: int, *values: int) -> Polled:
    bodies = tuple((offset + n, payload.encode(1000, 1, v)) for n, v in enumerate(values))
    return Polled(bodies, offset + len(values), 0, 9, "x:1")


def performed(answering: Answering, *ops: tuple[str, Any]) -> list[Outcome]:
    async def run() -> list[Outcome]:
        view: Any = View("n0", "n1")
        async with asyncio.TaskGroup() as group:
            client: Any = OrderedClient(view, group, {1000: QUEUE}, 1, lambda: 0)
            client._session = client._offsets = client._locks = answering
            client._routes._brokers = {ordered.TOPIC: {"b0": {0: "x:1"}}}
            return [await client.invoke(Op("invoke", 5, f, value)) for f, value in ops]

    return asyncio.run(run())


def test_a_holder_begins_where_its_group_is_and_reads_on() -> None:
    stands = Answering(Ok(3), polled(3, 30, 31))
    found = performed(stands, (ACQUIRE, 1000), (READ_ORDERED, 1000), (READ_ORDERED, 1000))
    assert stands.asked == [3, 5]
    assert isinstance(found[1], Ok)
    assert found[1].value == [[3, 30], [4, 31]]
    assert found[1].ext == {"node": "b0", "broker": "x:1"}
    # Another holder may have committed since.
    stands = Answering(Ok(3), polled(3, 30))
    performed(stands, (READ_ORDERED, 1000), (ACQUIRE, 1000), (READ_ORDERED, 1000))
    assert stands.asked == [3, 3]
    stands = Answering(Ok(3), polled(3, 30))
    performed(stands, (READ_ORDERED, 1000), (RENEW, 1000), (READ_ORDERED, 1000))
    assert stands.asked == [3, 4]


def test_a_read_that_learns_nothing_fails() -> None:
    unknown = performed(Answering(Fail("no-route"), polled(0)), (READ_ORDERED, 1000))
    refused = performed(Answering(Ok(0), Fail("no")), (READ_ORDERED, 1000))
    shorter = Answering(Ok(5), polled(2))
    back = performed(shorter, (READ_ORDERED, 1000), (READ_ORDERED, 1000))
    assert [unknown, refused] == [[Fail("no-route")], [Fail("no")]]
    assert back == [Fail(["offset-moved", [5, 2]])] * 2
    assert shorter.asked == [5, 5], "it asks again how far its group is"


def test_clients_ask_name_servers_in_another_order() -> None:
    async def run() -> list[str]:
        view: Any = View("n0", "n1", "n2")
        none: Any = None
        async with asyncio.TaskGroup() as group:
            made = [OrderedClient(view, group, {}, turn, none) for turn in range(4)]
        return ["".join(client._routes._namesrvs()) for client in made]

    assert asyncio.run(run()) == ["n0n1n2", "n1n2n0", "n2n0n1", "n0n1n2"]
