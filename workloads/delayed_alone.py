"""Workload delayed-alone: delayed messages of a topic that one broker set has, and no other.

While the master of that set is away, nobody can take them: they wait for it, and must not hold up
what is due behind them at the same delay level, which is what the workload `delayed` sends and
reads. Nobody reads these here. Operation (`maxq.histories.observed`):

    send-delayed-alone   [value, delay]   ok: the master has it; delay in ms

Claims: none of its own; E1 of what stands behind them.
"""

import asyncio
from collections.abc import Callable

import msgspec

from maxq.harness.client.session import QueueName, RouteBook, Session
from maxq.harness.contracts.cluster import Cluster, Workload
from maxq.harness.contracts.environment import Role
from maxq.harness.contracts.generator import PENDING, Context, Generator, Step
from maxq.harness.contracts.outcome import Client, Ok, Outcome
from maxq.harness.generators import each_thread
from maxq.histories.observed import SEND_DELAYED_ALONE
from maxq.histories.op import Op
from maxq.reference.wire import property as props
from maxq.workloads import payload
from maxq.workloads.delayed import DELAYS_MS
from maxq.workloads.following import KEY

TOPIC = "maxq-delayed-alone"
SENDERS = 1


class SendsAlone(msgspec.Struct, frozen=True):
    """The one thread that sends, and how many it has sent."""

    sent: int = 0

    def op(self, ctx: Context) -> Step | None:
        process = ctx.some_free_process()
        if process is None:
            return PENDING, self
        delay = DELAYS_MS[ctx.rng.randrange(len(DELAYS_MS))]
        op = Op("invoke", process, SEND_DELAYED_ALONE, [self.sent, delay], time=ctx.time)
        return op, SendsAlone(self.sent + 1)

    def update(self, ctx: Context, event: Op) -> Generator:
        return self


class AloneClient:
    """Sends to the one queue of the topic."""

    def __init__(self, session: Session, queue: QueueName, wall_ms: Callable[[], int]) -> None:
        self._session = session
        self._queue = queue
        self._wall_ms = wall_ms

    async def open(self) -> None:
        """Connections are made when first needed."""

    async def invoke(self, op: Op) -> Outcome:
        value, delay_ms = op.value
        process = op.process if isinstance(op.process, int) else -1
        body = payload.encode(KEY, process, value)
        level = {props.DELAY: str(DELAYS_MS.index(delay_ms) + 1)}
        sent = await self._session.send(self._queue, body, born_ms=self._wall_ms(), more=level)
        return Ok(op.value, ext=sent.ext) if isinstance(sent, Ok) else sent

    async def close(self) -> None:
        self._session.close()


def delayed_alone_workload(
    cluster: Cluster, routes: RouteBook, group: asyncio.TaskGroup, *, wall_ms: Callable[[], int]
) -> Workload:
    """Make the workload; its topic is the first broker set's.

    Args:
        cluster: where it runs.
        routes: where its queue lives.
        group: the run's tasks.
        wall_ms: the harness's wall clock, for message time stamps.
    """
    first = min(n.broker_set for n in cluster.by_role(Role.BROKER) if not n.spare)
    queue = QueueName(TOPIC, first, 0)

    def client(thread: int) -> Client:
        return AloneClient(Session(routes, cluster.dial, group), queue, wall_ms)

    return Workload(
        name="delayed-alone",
        threads=SENDERS,
        generator=each_thread(SendsAlone()),
        final_generator=None,
        client=client,
        topics={},
        alone={TOPIC: 1},
    )
