"""A master that takes the number of a grown SyncStateSet from the controller, and not its members.

It acknowledges by the set that it has in its head, while the controller has a bigger one already
and may elect the member that no send waits for. Breaks S6, S9.
"""

from collections.abc import Iterator, Set
from contextlib import contextmanager

from maxq.reference.broker.replication.sync_state_set import SyncStateSet
from maxq.reference.mutants import diverged, ran, replaced
from maxq.reference.records import BrokerId, MasterEpoch

FAMILY = "sync-state-set"
CLAIM = "S6"
SOURCE = (
    "acknowledged by the local set, while an expansion is applied remotely "
    "(docs/spec/controller-ha.md 6.4 (H4 and H6))"
)


@contextmanager
def mutant() -> Iterator[None]:
    """Overlook who came back."""
    honest = SyncStateSet.adopt
    dropped: list[SyncStateSet] = []  # of which a member has been dropped

    def adopt(
        self: SyncStateSet, master_epoch: MasterEpoch, members: Set[BrokerId], epoch: int
    ) -> bool:
        ran(__name__)
        before = self.members
        taken = honest(self, master_epoch, members, epoch)
        if taken and before - members:
            dropped.append(self)
        if taken and before < members and any(s is self for s in dropped):
            diverged(__name__)
            self.members = before
        return taken

    with replaced(SyncStateSet, "adopt", adopt):
        yield
