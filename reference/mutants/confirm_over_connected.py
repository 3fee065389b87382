"""A master for whom all members that are connected are all members.

Cut off from its slaves it confirms, shows and acknowledges alone. Breaks S6, S10.
"""

from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager

from maxq.reference.broker.replication import sync_state_set as sets
from maxq.reference.mutants import diverged, ran, replaced
from maxq.reference.records import BrokerId

FAMILY = "confirm"
CLAIM = "S6"
SOURCE = (
    "a member that is connected without an acknowledgement is skipped in confirm "
    "(docs/spec/controller-ha.md 6.4 (H6))"
)


@contextmanager
def mutant() -> Iterator[None]:
    """Leave out whoever says nothing."""
    honest = sets.confirmed

    def confirmed(
        waited_for: Set[BrokerId], me: BrokerId, mine: int, acked: Mapping[BrokerId, int]
    ) -> int | None:
        ran(__name__)
        found = honest(waited_for, me, mine, acked)
        if found is not None:
            return found
        diverged(__name__)
        return min([mine, *(acked[s] for s in sorted(waited_for - {me}) if s in acked)])

    with replaced(sets, "confirmed", confirmed):
        yield
