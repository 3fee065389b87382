"""Workload ordered: consumers of one group that read a queue while they hold its lock, in turn.

A key is the one queue of a broker set. A producer sends to all keys. Each consumer tries for the
lock of a random key. Who has it asks how far its group has read, reads on, takes some time over
what it got, commits, and renews the lock in between; it stops at once where a renewal is not
granted. After a few reads it gives the lock back, or falls silent, so that the lease has to run
out. Its lease is counted from the sending of the request that was granted; renewals are so frequent
that what was read is done within it. Operations (`maxq.histories.observed`):

    send-ordered     [key, message]   ok: the master has it
    acquire, renew, release  key      as of the workload lock, from `ORDERED_KEYS` on
    read-ordered     key              ok: [message …]; ext ``node``, ``broker``
    commit-ordered   [key, offset]    ok: taken note of

All go to whom clients are sent to, the master or the slave that acts for it. Each consumer reads
routes itself, as a client of its own would, and asks the name servers in another order than the
others: where these disagree consumers go to different brokers. At the end, where brokers ask nobody
once all clients have found the same one, each lock is handed over. Claims: L1 to L4, L10.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from maxq.harness.client.consumer_offsets import OffsetSession
from maxq.harness.client.locks import LockSession
from maxq.harness.client.session import POLLERS, QueueName, RouteBook, Session
from maxq.harness.contracts.cluster import Cluster, Workload
from maxq.harness.contracts.environment import Role
from maxq.harness.contracts.generator import PENDING, Context, Generator, Step
from maxq.harness.contracts.outcome import Client, Fail, Ok, Outcome
from maxq.harness.generators import phases, reserve, sleep, time_limit
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
from maxq.histories.op import Op, Process
from maxq.workloads import payload
from maxq.workloads.lock import HAND_OVER_LEASES, SILENT_SHARE, TRY_GAP_NS, HandOver

TOPIC, CONSUMER_GROUP = "maxq-ordered", "maxq-ordered"
QUEUES = 1  # of each broker set: consumers are to compete
CONSUMERS, PRODUCERS = 3, 1  # threads, consumers first
READS = 6  # a holder reads fewer times than this, and once at least
WORK_NS = 600_000_000  # that a consumer takes over what it read, at the most
EMPTY_GAP_NS = 200_000_000  # after a read that found nothing


class Sends(msgspec.Struct, frozen=True):
    """The producer: one message after the other, to each key in turn."""

    keys: int
    sent: int = 0

    def op(self, ctx: Context) -> Step | None:
        process = ctx.some_free_process()
        if process is None:
            return PENDING, self
        value = [ORDERED_KEYS + self.sent % self.keys, self.sent]
        op = Op("invoke", process, SEND_ORDERED, value, time=ctx.time)
        return op, msgspec.structs.replace(self, sent=self.sent + 1)

    def update(self, ctx: Context, event: Op) -> Generator:
        return self


class Consumer(msgspec.Struct, frozen=True):
    """One thread that consumes.

    `asked_ns` is when it last asked for a lock; `renew_ns`, from when on it renews before all else;
    `reads` are left before it lets go; `read` is the offset up to which it has read and not
    committed, -1: none. Who falls silent does nothing for `lease_ns`: so long brokers keep locks.
    """

    keys: int
    lease_ns: int
    next_ns: int = 0
    held: int | None = None
    holder: Process | None = None
    asked_ns: int = 0
    renew_ns: int = 0
    reads: int = 0
    read: int = -1
    silent: bool = False  # does not give back what it holds

    def op(self, ctx: Context) -> Step | None:
        process = ctx.some_free_process()
        if process is None:
            return PENDING, self
        time = max(ctx.time, self.next_ns)
        if self.held is None or process != self.holder:  # another process is another client
            key = ORDERED_KEYS + ctx.rng.randrange(self.keys)
            return Op("invoke", process, ACQUIRE, key, time=time), self
        f, value = self._next(time)
        return Op("invoke", process, f, value, time=time), self

    def _next(self, time_ns: int) -> tuple[str, Any]:
        """What a holder does at a time."""
        if time_ns >= self.renew_ns:
            return RENEW, self.held
        if self.read >= 0:
            return COMMIT_ORDERED, [self.held, self.read]
        return (READ_ORDERED if self.reads else RELEASE), self.held

    def update(self, ctx: Context, event: Op) -> Generator:
        if event.type == "invoke":
            asks = event.f in (ACQUIRE, RENEW)
            return msgspec.structs.replace(self, asked_ns=event.time) if asks else self
        match event.f:
            case "acquire" | "renew":
                return self._asked(ctx, event)
            case "read-ordered":
                return self._has_read(ctx, event)
            case "commit-ordered" if event.type != "info":
                return self._unless_silent(ctx, msgspec.structs.replace(self, read=-1))
        return self._without(ctx, event)

    def _asked(self, ctx: Context, event: Op) -> Generator:
        if event.type != "ok":
            return self._without(ctx, event)
        renew_ns = self.asked_ns + RENEW_NS
        if event.f == RENEW:
            return msgspec.structs.replace(self, renew_ns=renew_ns)
        return Consumer(
            self.keys,
            self.lease_ns,
            held=event.value,
            holder=event.process,
            renew_ns=renew_ns,
            reads=ctx.rng.randrange(1, READS),
            silent=ctx.rng.random() < SILENT_SHARE,
        )

    def _has_read(self, ctx: Context, event: Op) -> Generator:
        """A read that failed, or found nothing, is one of those that it has left."""
        if event.type == "info":
            return self._without(ctx, event)
        left = msgspec.structs.replace(self, reads=self.reads - 1)
        found = event.value if event.type == "ok" else []
        if not found:
            left = msgspec.structs.replace(left, next_ns=event.time + EMPTY_GAP_NS)
            return self._unless_silent(ctx, left)
        work_ns = ctx.rng.randrange(WORK_NS // 10, WORK_NS)
        return msgspec.structs.replace(left, read=found[-1][0] + 1, next_ns=event.time + work_ns)

    def _unless_silent(self, ctx: Context, after: "Consumer") -> Generator:
        over = not after.reads and after.silent
        return Consumer(self.keys, self.lease_ns, ctx.time + self.lease_ns) if over else after

    def _without(self, ctx: Context, event: Op) -> Generator:
        """It has no lock, and tries again."""
        gap_ns = ctx.rng.randrange(TRY_GAP_NS // 2, TRY_GAP_NS)
        return Consumer(self.keys, self.lease_ns, event.time + gap_ns)


class OrderedClient:
    """One client, which reads routes for itself.

    Args:
        cluster: where it runs.
        group: the run's tasks.
        queues: by key.
        turn: the name server that it asks first, as a number.
        wall_ms: the harness's wall clock, for message time stamps.
    """

    def __init__(
        self,
        cluster: Cluster,
        group: asyncio.TaskGroup,
        queues: Mapping[int, QueueName],
        turn: int,
        wall_ms: Callable[[], int],
    ) -> None:
        self._group = group
        self._queues = queues
        self._wall_ms = wall_ms

        def namesrvs() -> list[str]:
            every = list(cluster.namesrvs())
            first = turn % max(len(every), 1)
            return every[first:] + every[:first]

        self._routes = RouteBook(namesrvs, cluster.dial, group)
        self._session = Session(self._routes, cluster.dial, group)
        self._offsets = OffsetSession(self._routes, cluster.dial, group)
        self._locks = LockSession(CONSUMER_GROUP, cluster.dial, group)
        self._following: asyncio.Task[None] | None = None
        self._positions: dict[int, int] = {}  # how far it has read what it holds, by key

    async def open(self) -> None:
        """Begin to follow routes; other connections are made when first needed."""
        self._routes.watch((TOPIC,))
        await self._routes.refresh()
        self._following = self._group.create_task(self._routes.run())

    async def invoke(self, op: Op) -> Outcome:
        key = op.value[0] if isinstance(op.value, list) else op.value
        queue = self._queues[key]
        match op.f:
            case "send-ordered":
                body = payload.encode(key, int(op.process), op.value[1])
                sent = await self._session.send(queue, body, born_ms=self._wall_ms())
                return Ok(op.value, ext=sent.ext) if isinstance(sent, Ok) else sent
            case "read-ordered":
                return await self._read(key, queue)
            case "commit-ordered":
                done = await self._offsets.commit(queue, CONSUMER_GROUP, op.value[1])
                return Ok(op.value, ext=done.ext) if isinstance(done, Ok) else done
            case _:
                return await self._ask(op, queue)

    async def _ask(self, op: Op, queue: QueueName) -> Outcome:
        """Acquire, renew or give back a lock."""
        broker = self._routes.master(TOPIC, queue.broker_set)
        if broker is None:
            self._routes.nudge(TOPIC)
            return Fail("no-route")
        attempt = self._locks.unlock if op.f == RELEASE else self._locks.lock
        outcome = await attempt(broker, f"maxq-{op.process}", queue)
        if op.f != RENEW:
            self._positions.pop(op.value, None)  # others may have read on meanwhile
        if isinstance(outcome, Ok):
            return Ok(op.value, ext={"broker": broker})
        self._routes.nudge(TOPIC)
        return msgspec.structs.replace(outcome, ext={"broker": broker})

    async def _read(self, key: int, queue: QueueName) -> Outcome:
        """Read on, at first from where the group is; whatever fails has taken nothing."""
        if key not in self._positions:
            found = await self._offsets.fetch(queue, CONSUMER_GROUP)
            if not isinstance(found, Ok):
                return Fail(found.error)
            self._positions[key] = found.value
        offset = self._positions[key]
        polled = await self._session.poll(queue, offset)
        if isinstance(polled, Fail):
            return polled
        if polled.next_offset < offset:  # a log that ends before; see the workload queue
            del self._positions[key]
            return Fail(["offset-moved", [offset, polled.next_offset]])
        self._positions[key] = polled.next_offset
        messages = [[at, payload.decode(key, body)] for at, body in polled.messages]
        return Ok(messages, ext={"node": queue.broker_set, **polled.ext})

    async def close(self) -> None:
        if self._following is not None:
            self._following.cancel()
        for each in (self._routes, self._session, self._offsets, self._locks):
            each.close()


def ordered_workload(
    cluster: Cluster,
    group: asyncio.TaskGroup,
    *,
    lease_ms: int,
    settling_ns: int,
    wall_ms: Callable[[], int],
) -> Workload:
    """Make the workload.

    Args:
        cluster: where it runs.
        group: the run's tasks.
        lease_ms: how long a broker keeps a lock for a client that is silent.
        settling_ns: how long clients wait at the end until all are sure to ask one broker.
        wall_ms: the harness's wall clock, for message time stamps.
    """
    sets = sorted({n.broker_set for n in cluster.by_role(Role.BROKER) if not n.spare})
    queues = {ORDERED_KEYS + n: QueueName(TOPIC, name, 0) for n, name in enumerate(sets)}

    def client(thread: int) -> Client:
        return OrderedClient(cluster, group, queues, thread, wall_ms)

    lease_ns = lease_ms * 1_000_000
    consumers = ((1, Consumer(len(queues), lease_ns)) for _ in range(CONSUMERS))
    hand_over = time_limit(HAND_OVER_LEASES * lease_ns, HandOver(tuple(queues)))
    settled = phases(sleep(settling_ns), hand_over) if settling_ns else hand_over
    return Workload(
        name="ordered",
        threads=CONSUMERS + PRODUCERS,
        generator=reserve(*consumers, (PRODUCERS, Sends(len(queues)))),
        final_generator=reserve((2, settled)),
        client=client,
        topics={TOPIC: QUEUES},
        groups=(POLLERS, CONSUMER_GROUP),
    )
