"""A slave that takes the point up to which both lists of epochs agree for the end of its own log.

Its log may be shorter. It reports to its master that it has what it has not, is taken into the
SyncStateSet, and what it never got counts as replicated. When the master sends on from there it
sees the gap, and connects again, and says so again. Breaks S6, S9b.
"""

from asyncio import TaskGroup
from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.broker.replication import epochs as policy
from maxq.reference.broker.replication import ha_slave_events as slave
from maxq.reference.broker.replication.epochs import Epochs
from maxq.reference.broker.replication.ha import HaClient
from maxq.reference.mutants import diverged, ran, replaced
from maxq.reference.records import PhyOffset

FAMILY = "replication"
CLAIM = "S6"
SOURCE = "seen of RocketMQ 5.5.0 (docs/spec/controller-ha.md 6.4 (H9); docs/track-record.md)"


@contextmanager
def mutant() -> Iterator[None]:
    """Leave this log's end out of the comparison, and see the gap only when bytes come."""
    honest, honest_append = policy.truncation_point, HaClient._append

    def truncation_point(
        mine: Epochs, my_end: PhyOffset, theirs: Epochs, their_end: PhyOffset
    ) -> PhyOffset | None:
        ran(__name__)
        point = honest(mine, my_end, theirs, their_end)
        if point is None or not mine or mine[-1] not in theirs:
            return point
        shared = policy.end_of(theirs, theirs.index(mine[-1]), their_end)
        if shared > max(point, my_end):
            diverged(__name__)
            return shared
        return point

    async def _append(self: HaClient, group: TaskGroup, effect: slave.Append) -> bool:
        if not effect.data or effect.start == self._access.end:
            return await honest_append(self, group, effect)
        failed = slave.AppendFailed(why="a gap", end=self._access.end, epochs=self._saved())
        await self._step(group, failed)
        return False

    with (
        replaced(policy, "truncation_point", truncation_point),
        replaced(HaClient, "_append", _append),
    ):
        yield
