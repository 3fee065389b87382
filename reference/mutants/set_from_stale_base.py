"""A master that computes each change of the SyncStateSet from the set with which its term began.

Its proposals carry the newest epoch, so they are accepted; each takes away who joined since. Two
slaves that come back drive each other out, for ever. The first term of a set is spared, or no
cluster would come up. Breaks S14.
"""

from collections.abc import Iterator, Set
from contextlib import contextmanager

from maxq.reference.broker.replication.sync_state_set import (
    Members,
    ProposeSyncStateSet,
    SyncStateSet,
)
from maxq.reference.mutants import diverged, ran, replaced
from maxq.reference.records import BrokerId, MasterEpoch

FAMILY = "sync-state-set"
CLAIM = "S14"
SOURCE = (
    "RocketMQ's second report replaces the member that the first one added "
    "(docs/spec/controller-ha.md 6.4 (H4))"
)


@contextmanager
def mutant() -> Iterator[None]:
    """Remember the set as it was."""
    honest_begin, honest = SyncStateSet.begin, SyncStateSet.propose
    bases: list[tuple[SyncStateSet, Members]] = []

    def begin(
        self: SyncStateSet, master_epoch: MasterEpoch, members: Set[BrokerId], epoch: int
    ) -> None:
        honest_begin(self, master_epoch, members, epoch)
        bases[:] = [(s, m) for s, m in bases if s is not self]
        if master_epoch > 1:
            bases.append((self, self.members))

    def propose(
        self: SyncStateSet, now_ns: int, *, gone: Set[BrokerId], joins: BrokerId | None
    ) -> ProposeSyncStateSet | None:
        ran(__name__)
        now = self.members
        base = next((m for s, m in bases if s is self), now)
        if joins is not None and base != now:
            diverged(__name__)
            self.members = base
        try:
            return honest(self, now_ns, gone=gone, joins=joins)
        finally:
            self.members = now

    with replaced(SyncStateSet, "begin", begin), replaced(SyncStateSet, "propose", propose):
        yield
