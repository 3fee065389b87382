"""Workload delayed: messages that are to come after a while, and readers of all queues of all sets.

Senders send a message with a delay level to a random queue; readers read every queue of the topic,
since a message whose master is gone may come at another broker set. At the end, when all faults are
healed, they read on for longer than the longest delay.
Operations (`maxq.histories.observed`):

    send-delayed   [value, delay]   ok: the master has it; delay in ms. ext: `node`, the broker set
    read-delayed   queue            as in `maxq.workloads.following`

Delays are those of RocketMQ's first three levels. Claims: E1, E2.
"""

import asyncio
from collections.abc import Callable, Sequence

import msgspec

from maxq.harness.client.session import POLLERS, QueueName, RouteBook, Session
from maxq.harness.contracts.cluster import Cluster, Workload
from maxq.harness.contracts.generator import PENDING, Context, Generator, Step
from maxq.harness.contracts.outcome import Client, Ok, Outcome
from maxq.harness.generators import reserve, time_limit
from maxq.histories.observed import READ_DELAYED, SEND_DELAYED
from maxq.histories.op import Op
from maxq.reference.wire import property as props
from maxq.workloads import payload
from maxq.workloads.following import FINAL_GAP_NS, KEY, Follower, Reads, queues_of

TOPIC = "maxq-delayed"
QUEUES = 2  # of each broker set
READERS, SENDERS = 1, 2  # threads, readers first
DELAYS_MS = (1000, 5000, 10_000)  # of the levels 1, 2, 3
FINAL_NS = 30_000_000_000  # that a last read takes, and some time of grace


class Sends(msgspec.Struct, frozen=True):
    """One thread that sends by operations `f`: its number among `of` that do, and how many it has
    sent."""

    thread: int
    sent: int = 0
    f: str = SEND_DELAYED
    of: int = SENDERS

    def op(self, ctx: Context) -> Step | None:
        process = ctx.some_free_process()
        if process is None:
            return PENDING, self
        value = self.sent * self.of + self.thread
        delay = DELAYS_MS[ctx.rng.randrange(len(DELAYS_MS))]
        op = Op("invoke", process, self.f, [value, delay], time=ctx.time)
        return op, msgspec.structs.replace(self, sent=self.sent + 1)

    def update(self, ctx: Context, event: Op) -> Generator:
        return self


class DelayedClient:
    """Sends, or reads on from where it was in each queue."""

    def __init__(
        self, session: Session, queues: Sequence[QueueName], wall_ms: Callable[[], int]
    ) -> None:
        self._session = session
        self._queues = queues
        self._wall_ms = wall_ms
        self._follower = Follower(session, queues)

    async def open(self) -> None:
        """Connections are made when first needed."""

    async def invoke(self, op: Op) -> Outcome:
        if op.f == READ_DELAYED:
            return await self._follower.read(op.value)
        value, delay_ms = op.value
        process = op.process if isinstance(op.process, int) else -1
        queue = self._queues[value % len(self._queues)]
        body = payload.encode(KEY, process, value)
        level = {props.DELAY: str(DELAYS_MS.index(delay_ms) + 1)}
        sent = await self._session.send(queue, body, born_ms=self._wall_ms(), more=level)
        return Ok(op.value, ext=sent.ext) if isinstance(sent, Ok) else sent

    async def close(self) -> None:
        self._session.close()


def delayed_workload(
    cluster: Cluster, routes: RouteBook, group: asyncio.TaskGroup, *, wall_ms: Callable[[], int]
) -> Workload:
    """Make the workload.

    Args:
        cluster: where it runs.
        routes: where its queues live.
        group: the run's tasks.
        wall_ms: the harness's wall clock, for message time stamps.
    """
    queues = queues_of(cluster, TOPIC, QUEUES)

    def client(thread: int) -> Client:
        return DelayedClient(Session(routes, cluster.dial, group), queues, wall_ms)

    readers = ((1, Reads(READ_DELAYED, len(queues), thread)) for thread in range(READERS))
    senders = ((1, Sends(thread)) for thread in range(SENDERS))
    last = Reads(READ_DELAYED, len(queues), gap_ns=FINAL_GAP_NS)
    return Workload(
        name="delayed",
        threads=READERS + SENDERS,
        generator=reserve(*readers, *senders),
        final_generator=time_limit(FINAL_NS, reserve((READERS, last))),
        client=client,
        topics={TOPIC: QUEUES},
        needs=("delayed",),
        groups=(POLLERS,),
    )
