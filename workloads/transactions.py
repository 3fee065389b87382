"""Workload transactions: half messages and what happens to them, read from all broker sets.

Producers of one group send half messages to random queues and share a journal, which says what each
transaction came to: commit, roll back, or nothing ever. It is drawn before the half message is sent
and never changes, so any of the group gives the same answer. Drawn too is when the end is
sent: *soon*, *late* (anyone who is asked before does not know either), *silent* (never: brokers
have to ask), and *dies* (the producer ends once its half message is stored). Readers read every
queue, since a half message whose master is gone may be settled at another broker set, and belong to
the producer group. At the end, when all faults are healed, they read on until brokers have asked
about all that is open.
Operations (`maxq.histories.observed`):

    send-half          [value, decision, when]   ok: the master has it. ext: `node`, the broker set
    end-transaction    [value, decision]         ok: the master says so; fail: certainly not by this
    read-transactions  queue                     as in `maxq.workloads.following`

This workload is of RocketMQ's transactions; those of consistency models are generated
(``maxq.checkers.transactions``). Claims: E4, E6, E7, E8, E9.
"""

import asyncio
from collections.abc import Callable, Sequence

import msgspec

from maxq.harness.client.producers import Decision, Place, ProducerSession
from maxq.harness.client.session import POLLERS, QueueName, RouteBook
from maxq.harness.contracts.cluster import Cluster, Workload
from maxq.harness.contracts.generator import PENDING, Context, Generator, Step
from maxq.harness.contracts.outcome import Client, Fail, Ok, Outcome
from maxq.harness.generators import reserve, time_limit
from maxq.histories.observed import (
    COMMIT,
    END_TRANSACTION,
    LATE,
    LATE_NS,
    OPEN,
    READ_TRANSACTIONS,
    ROLL_BACK,
    SEND_HALF,
)
from maxq.histories.op import Op
from maxq.workloads import payload
from maxq.workloads.following import FINAL_GAP_NS, KEY, Follower, Reads, queues_of

TOPIC, PRODUCER_GROUP = "maxq-transactions", "maxq-transactions"
QUEUES = 2  # of each broker set
READERS, PRODUCERS = 1, 3  # threads, readers first
SOON, SILENT, DIES = "soon", "silent", "dies"
# What is drawn, each row as likely as another. All but what ends soon is open for a while, so that
# some are when their master is killed.
KINDS: tuple[tuple[Decision, str], ...] = (
    (COMMIT, SOON), (COMMIT, LATE), (COMMIT, LATE), (COMMIT, SILENT), (COMMIT, SILENT),
    (COMMIT, DIES),
    (ROLL_BACK, SOON), (ROLL_BACK, LATE), (ROLL_BACK, SILENT),
    (OPEN, SILENT),
)  # fmt: skip


class Produces(msgspec.Struct, frozen=True):
    """One thread that sends half messages and ends them: its number among those that do, how many
    it has sent, and what it has to end, each with its time (ns)."""

    thread: int
    sent: int = 0
    ends: tuple[tuple[int, int, str], ...] = ()  # time, value, decision

    def op(self, ctx: Context) -> Step | None:
        process = ctx.some_free_process()
        if process is None:
            return PENDING, self
        for end in self.ends:
            at, value, decision = end
            if at <= ctx.time:
                left = tuple(e for e in self.ends if e != end)
                op = Op("invoke", process, END_TRANSACTION, [value, decision], time=ctx.time)
                return op, msgspec.structs.replace(self, ends=left)
        value = self.sent * PRODUCERS + self.thread
        kind = KINDS[ctx.rng.randrange(len(KINDS))]
        op = Op("invoke", process, SEND_HALF, [value, *kind], time=ctx.time)
        return op, msgspec.structs.replace(self, sent=self.sent + 1)

    def update(self, ctx: Context, event: Op) -> Generator:
        if event.type != "ok" or event.f != SEND_HALF:
            return self
        value, decision, when = event.value
        after_ns = {SOON: 0, LATE: LATE_NS}.get(when)
        if after_ns is None:
            return self
        end = (event.time + after_ns, value, decision)
        return msgspec.structs.replace(self, ends=(*self.ends, end))


class Journal:
    """What the producers of the group have written down, as their database would."""

    def __init__(self) -> None:
        self._entries: dict[str, tuple[Decision, float]] = {}  # by key; from when on it is known
        self.places: dict[int, Place] = {}

    def begin(self, key: str, decision: Decision, when: str) -> None:
        """A half message is about to be sent."""
        wait_s = LATE_NS / 1e9 if when == LATE else 0.0
        self._entries[key] = decision, asyncio.get_running_loop().time() + wait_s

    def decided(self, key: str) -> Decision:
        """What a transaction has come to by now."""
        decision, known_s = self._entries.get(key, (OPEN, 0.0))
        return decision if asyncio.get_running_loop().time() >= known_s else OPEN


class TransactionClient:
    """One producer, which may read as well."""

    def __init__(
        self,
        make: Callable[[], ProducerSession],
        journal: Journal,
        queues: Sequence[QueueName],
        wall_ms: Callable[[], int],
    ) -> None:
        self._make = make
        self._session = make()
        self._journal = journal
        self._queues = queues
        self._follower = Follower(self._session, queues)
        self._wall_ms = wall_ms

    async def open(self) -> None:
        """Connections are made when first needed."""

    async def invoke(self, op: Op) -> Outcome:
        if op.f == READ_TRANSACTIONS:
            self._session.stay(self._queues[op.value])
            return await self._follower.read(op.value)
        if op.f == SEND_HALF:
            return await self._send(op)
        value, decision = op.value
        place = self._journal.places.get(value)
        if place is None:
            return Fail("place-unknown")
        done = await self._session.end(place, decision)
        return Ok(op.value, ext=done.ext) if isinstance(done, Ok) else done

    async def _send(self, op: Op) -> Outcome:
        value, decision, when = op.value
        process = op.process if isinstance(op.process, int) else -1
        key = f"{value:032X}"  # as long as RocketMQ's
        self._journal.begin(key, decision, when)
        sent, place = await self._session.send_half(
            self._queues[value % len(self._queues)], payload.encode(KEY, process, value),
            born_ms=self._wall_ms(), key=key,
        )  # fmt: skip
        if place is not None:
            self._journal.places[value] = place
        if not isinstance(sent, Ok):
            return sent
        if when == DIES:
            self._session.close()
            self._session = self._make()
        return Ok(op.value, ext=sent.ext)

    async def close(self) -> None:
        self._session.close()


def transactions_workload(
    cluster: Cluster,
    routes: RouteBook,
    group: asyncio.TaskGroup,
    *,
    wall_ms: Callable[[], int],
    final_ns: int,
) -> Workload:
    """Make the workload.

    Args:
        cluster: where it runs.
        routes: where its queues live.
        group: the run's tasks.
        wall_ms: the harness's wall clock, for message time stamps.
        final_ns: how long the last read takes, in which brokers ask about all that is open.
    """
    queues, journal = queues_of(cluster, TOPIC, QUEUES), Journal()
    names = iter(range(1 << 62))

    def session() -> ProducerSession:
        return ProducerSession(
            routes, cluster.dial, group,
            client_id=f"maxq-producer-{next(names)}",
            producer_group=PRODUCER_GROUP,
            decided=journal.decided,
        )  # fmt: skip

    def client(thread: int) -> Client:
        return TransactionClient(session, journal, queues, wall_ms)

    readers = ((1, Reads(READ_TRANSACTIONS, len(queues), n)) for n in range(READERS))
    producers = ((1, Produces(n)) for n in range(PRODUCERS))
    last = Reads(READ_TRANSACTIONS, len(queues), gap_ns=FINAL_GAP_NS)
    return Workload(
        name="transactions",
        threads=READERS + PRODUCERS,
        generator=reserve(*readers, *producers),
        final_generator=time_limit(final_ns, reserve((READERS, last))),
        client=client,
        topics={TOPIC: QUEUES},
        needs=("half",),
        groups=(POLLERS,),
    )
