"""Workload flood: one broker set is written to as fast as can be, and others a little.

Brokers that share a partition have a share of it each. The first set is flooded, so that its
brokers come beyond theirs; the quiet ones get a few messages, which must stay. Observers look at
what each broker takes (`observe-disk`). Nobody reads the messages. Operation
(`maxq.histories.observed`):

    send-flood   [queue, message]   ok: the master has it. ext: `node`, the broker set

Beside the workload queue, the messages of that are read to the end as well. Claims: B9, B10.
"""

import asyncio
from collections.abc import Callable, Sequence

import msgspec

from maxq.harness.client.session import POLLERS, QueueName, RouteBook, Session
from maxq.harness.contracts.cluster import Cluster, Workload
from maxq.harness.contracts.generator import PENDING, Context, Generator, Step
from maxq.harness.contracts.outcome import Client, Fail, Ok, Outcome
from maxq.histories.observed import SEND_FLOOD
from maxq.histories.op import Op
from maxq.workloads import payload
from maxq.workloads.following import KEY, queues_of

TOPIC = "maxq-flood"
SENDERS = 4  # threads
BODY_BYTES = 16_000
QUIET_OF = 8  # one message of so many is for a set that is not flooded, until there are
QUIET_MAX = 96  # of them: some files of a small log, and less than a share of 4 MiB


class Sends(msgspec.Struct, frozen=True):
    """All threads' sends: how many there were, to so many queues, the first of which is flooded."""

    queues: int
    sent: int = 0

    def op(self, ctx: Context) -> Step | None:
        process = ctx.some_free_process()
        if process is None:
            return PENDING, self
        turn, rest = divmod(self.sent, QUIET_OF)
        quiet = rest == QUIET_OF - 1 and turn < QUIET_MAX * (self.queues - 1)
        queue = 1 + turn % (self.queues - 1) if quiet else 0
        op = Op("invoke", process, SEND_FLOOD, [queue, self.sent], time=ctx.time)
        return op, Sends(self.queues, self.sent + 1)

    def update(self, ctx: Context, event: Op) -> Generator:
        return self


class Sender:
    """Sends what the operation says."""

    def __init__(
        self, session: Session, queues: Sequence[QueueName], wall_ms: Callable[[], int]
    ) -> None:
        self._session = session
        self._queues = queues
        self._wall_ms = wall_ms

    async def open(self) -> None:
        """Connections are made when first needed."""

    async def invoke(self, op: Op) -> Outcome:
        if op.f != SEND_FLOOD:
            return Fail(["no-such-operation", op.f])
        queue, value = op.value
        process = op.process if isinstance(op.process, int) else -1
        body = payload.encode(KEY, process, value, size=BODY_BYTES)
        sent = await self._session.send(self._queues[queue], body, born_ms=self._wall_ms())
        return Ok(op.value, ext=sent.ext) if isinstance(sent, Ok) else sent

    async def close(self) -> None:
        self._session.close()


def flood_workload(
    cluster: Cluster, routes: RouteBook, group: asyncio.TaskGroup, *, wall_ms: Callable[[], int]
) -> Workload:
    """Make the workload.

    Args:
        cluster: where it runs; it has two broker sets at least.
        routes: where its queues live.
        group: the run's tasks.
        wall_ms: the harness's wall clock, for message time stamps.
    """
    queues = queues_of(cluster, TOPIC, 1)

    def client(thread: int) -> Client:
        return Sender(Session(routes, cluster.dial, group), queues, wall_ms)

    return Workload(
        name="flood",
        threads=SENDERS,
        generator=Sends(len(queues)),
        final_generator=None,
        client=client,
        topics={TOPIC: 1},
        groups=(POLLERS,),
    )
