"""A broker to which nothing of a log is known that is older than the epoch list.

Its epoch files were deleted, as the upgrade to RocketMQ 5.1.1 prescribes, or it ran without
controllers before. As a slave it throws its log away when it shares no epoch with its master, and
asks for everything; as a master it has no epoch for that, and closes the connection, again and
again. Breaks S14.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.broker.replication import epochs as policy
from maxq.reference.broker.replication.epochs import Epochs
from maxq.reference.broker.replication.ha_slave import HaSlave
from maxq.reference.broker.replication.ha_slave_events import Effect
from maxq.reference.mutants import diverged, ran, replaced
from maxq.reference.records import PhyOffset
from maxq.reference.wire.ha import MasterHandshake

FAMILY = "replication"
CLAIM = "S14"
SOURCE = "docs/spec/controller-ha.md 6.4 (H8), of which the reference had (d)"


@contextmanager
def mutant() -> Iterator[None]:
    """Compare nothing, and serve nothing before the first epoch."""

    def compare(self: HaSlave, now_ns: int, theirs: MasterHandshake) -> list[Effect]:
        diverged(__name__)
        if self._in_sync_state_set:
            return self._leave(now_ns, "no shared epoch, and a member of the SyncStateSet")
        self.epochs = ()
        return self._cut(theirs, PhyOffset(0))

    def label_at(epochs: Epochs, offset: PhyOffset) -> int | None:
        ran(__name__)
        return policy.index_at(epochs, offset)

    with replaced(HaSlave, "_compare", compare), replaced(policy, "label_at", label_at):
        yield
