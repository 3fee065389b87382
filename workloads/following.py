"""Readers that follow all queues of a topic, of all broker sets: a message may come to any.

A reader reads one queue after the other, on from where it was; a new process begins again. At the
end, when all faults are healed, one reads on for a while. Its operation is ``[message …]`` of a
queue's number, with ext ``node`` and ``broker``, ``end`` where all that is there was read, and
``gap`` where the broker has deleted what was not read yet.
"""

from collections.abc import Sequence

import msgspec

from maxq.harness.client.session import QueueName, Session
from maxq.harness.contracts.cluster import Cluster
from maxq.harness.contracts.environment import Role
from maxq.harness.contracts.generator import PENDING, Context, Generator, Step
from maxq.harness.contracts.outcome import Fail, Ok, Outcome
from maxq.histories.op import Op
from maxq.workloads import payload

KEY = 0  # in payloads: such a message belongs to no queue
FINAL_GAP_NS = 100_000_000  # between two reads at the end


class Reads(msgspec.Struct, frozen=True):
    """One thread that reads, one queue after the other, by operations `f`; at the end (`gap_ns`) no
    faster than that."""

    f: str
    queues: int
    turn: int = 0
    gap_ns: int = 0
    next_ns: int = 0

    def op(self, ctx: Context) -> Step | None:
        process = ctx.some_free_process()
        if process is None:
            return PENDING, self
        time = max(ctx.time, self.next_ns)
        op = Op("invoke", process, self.f, self.turn % self.queues, time=time)
        after = msgspec.structs.replace(self, turn=self.turn + 1, next_ns=time + self.gap_ns)
        return op, after

    def update(self, ctx: Context, event: Op) -> Generator:
        return self


class Follower:
    """Remembers how far one process is in each queue."""

    def __init__(self, session: Session, queues: Sequence[QueueName]) -> None:
        self._session = session
        self._queues = queues
        self._positions = [0] * len(queues)

    async def read(self, number: int) -> Outcome:
        """Read on in a queue."""
        offset = self._positions[number]
        found = await self._session.poll(self._queues[number], offset)
        if isinstance(found, Fail):
            return found
        if found.next_offset < offset:  # a log that ends before; see the workload queue
            return Fail(["offset-moved", [offset, found.next_offset]])
        self._positions[number] = found.next_offset
        ext: dict[str, object] = {"node": self._queues[number].broker_set, **found.ext}
        if found.next_offset >= found.max_offset and not found.retry:
            ext["end"] = True
        if found.min_offset > offset:
            ext["gap"] = True
        values = [payload.decode(KEY, body) for _, body in found.messages]
        return Ok([v for v in values if isinstance(v, int)], ext=ext)


def queues_of(cluster: Cluster, topic: str, count: int) -> list[QueueName]:
    """The queues of a topic that has so many on each broker set; their numbers are indices."""
    sets = sorted({n.broker_set for n in cluster.by_role(Role.BROKER) if not n.spare})
    return [QueueName(topic, s, q) for s in sets for q in range(count)]
