"""A master that confirms what a majority of the SyncStateSet has.

That is Raft's rule, and right where the longest log of a majority wins an election. Here any single
member may be elected. Breaks S6, S10.
"""

from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager

from maxq.reference.broker.replication import sync_state_set as sets
from maxq.reference.mutants import diverged, ran, replaced
from maxq.reference.records import BrokerId

FAMILY = "confirm"
CLAIM = "S6"
SOURCE = (
    "RocketMQ P-NUM (inSyncReplicas=2 of 3) elects from the whole set (docs/spec/controller-ha.md "
    "6.3)"
)


@contextmanager
def mutant() -> Iterator[None]:
    """Wait for more than half of the members."""
    honest = sets.confirmed

    def confirmed(
        waited_for: Set[BrokerId], me: BrokerId, mine: int, acked: Mapping[BrokerId, int]
    ) -> int | None:
        ran(__name__)
        reached = [mine, *(acked.get(s, -1) for s in sorted(waited_for - {me}))]
        found = sorted(reached, reverse=True)[len(reached) // 2]
        if found != honest(waited_for, me, mine, acked):
            diverged(__name__)
        return found if found >= 0 else None

    with replaced(sets, "confirmed", confirmed):
        yield
