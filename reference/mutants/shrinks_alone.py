"""A master that drops a silent member from its own set, before the controller has agreed.

Cut off from everybody, it ends up as the only one whom it waits for, and acknowledges alone, while
the controllers have long elected another broker. Breaks S6.
"""

from collections.abc import Iterator, Set
from contextlib import contextmanager

from maxq.reference.broker.replication.sync_state_set import ProposeSyncStateSet, SyncStateSet
from maxq.reference.mutants import diverged, ran, replaced
from maxq.reference.records import BrokerId

FAMILY = "sync-state-set"
CLAIM = "S6"
SOURCE = (
    "RocketMQ acknowledges, and shows to readers, by its local set (docs/spec/controller-ha.md "
    "5.1 to 5.3 and 6.4 (H6))"
)


@contextmanager
def mutant() -> Iterator[None]:
    """Wait for no member that is gone."""
    honest = SyncStateSet.propose

    def propose(
        self: SyncStateSet, now_ns: int, *, gone: Set[BrokerId], joins: BrokerId | None
    ) -> ProposeSyncStateSet | None:
        ran(__name__)
        proposal = honest(self, now_ns, gone=gone, joins=joins)
        if gone & self.members:
            diverged(__name__)
            self.members -= gone
            self.proposals.clear()
        return proposal

    def answered(self: SyncStateSet, now_ns: int, number: int, outcome: str) -> bool:
        self._asked, self._quiet_until_ns = None, now_ns + self.timing.retry_ns
        self.proposals.clear()
        return True

    with replaced(SyncStateSet, "propose", propose), replaced(SyncStateSet, "answered", answered):
        yield
