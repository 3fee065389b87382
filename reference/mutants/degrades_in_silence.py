"""A master that takes fewer copies where fewer are in sync, though nobody allowed it.

Stands for enableAutoInSyncReplicas=true as a default: once its only slave is gone for as long as
housekeeping takes, the master acknowledges alone. Breaks A8.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.broker.replication.plain.plain_master import PlainMaster
from maxq.reference.mutants import diverged, replaced

FAMILY = "pair"
CLAIM = "A8"
SOURCE = "RocketMQ's enableAutoInSyncReplicas, on without being set"


@contextmanager
def mutant() -> Iterator[None]:
    """Degrade to minInSyncReplicas."""
    honest = PlainMaster.copies_needed

    def copies_needed(self: PlainMaster, in_sync: int) -> int:
        right = honest(self, in_sync)
        fewer = max(min(right, in_sync), self.settings.min_in_sync_replicas)
        if fewer != right:
            diverged(__name__)
        return fewer

    with replaced(PlainMaster, "copies_needed", copies_needed):
        yield
