"""A master that keeps old files for the slaves that are connected, and for no other.

A member of the SyncStateSet that is away for a moment finds the log beginning behind the end of its
own, and throws its log away. Breaks S9.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.broker.membership.controlled import ControlledMembership
from maxq.reference.broker.replication import sync_state_set as sets
from maxq.reference.broker.replication.ha_master import HaMaster
from maxq.reference.broker.replication.replication import Replication
from maxq.reference.mutants import held_by_nothing, ran, replaced
from maxq.reference.records import PhyOffset, some

FAMILY = "replication"
CLAIM = "S9"
SOURCE = "docs/spec/controller-ha.md 4.7: a slave behind the master's first byte begins anew"


@contextmanager
def mutant() -> Iterator[None]:
    """Ask the connections, not the SyncStateSet."""
    copied = Replication.copied

    def by_connected(self: HaMaster) -> PhyOffset:
        acked = self._acked()
        known = frozenset(acked) | {self.broker_id}
        everywhere = some(sets.confirmed(known, self.broker_id, self.counted, acked), "all acked")
        return PhyOffset(max(everywhere, self.start))

    def copied_now(self: Replication) -> PhyOffset:
        return by_connected(self.master) if self.master.leading else copied.__get__(self)

    def held_from(self: ControlledMembership) -> PhyOffset:
        ran(__name__)
        known = self.replication
        return self._store.confirm_offset if known is None else copied_now(known)

    with (
        replaced(ControlledMembership, "copied", held_from),
        replaced(Replication, "copied", property(copied_now)),
        held_by_nothing(__name__),
    ):
        yield
