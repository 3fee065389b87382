"""A broker whose retention asks for the age of a file and for nothing else.

It deletes what is not confirmed yet, and a slave that finds its master's log beginning behind the
end of its own throws its log away, although a member of the SyncStateSet. RocketMQ does both: its
cleaner knows no bound but the last file. Breaks S9.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.broker.membership.membership import Membership
from maxq.reference.broker.replication.ha_slave import HaSlave
from maxq.reference.broker.replication.replication import Replication
from maxq.reference.broker.store.store import Store
from maxq.reference.mutants import diverged, ran, replaced
from maxq.reference.records import PhyOffset
from maxq.reference.wire.ha import Transfer

FAMILY = "replication"
CLAIM = "S9"
SOURCE = "RocketMQ MappedFileQueue.deleteExpiredFileByTime, which knows no confirmOffset"


@contextmanager
def mutant() -> Iterator[None]:
    """Hold nothing but the last file."""
    copied, trim = Replication.copied, Store.trim

    def copied_by_all(self: Membership) -> PhyOffset:
        ran(__name__)
        return self._store.end

    def everything(self: Replication) -> PhyOffset:
        return self.master.end if self.master.leading else copied.__get__(self)

    async def unchecked(self: Store, start: PhyOffset) -> None:
        if start > self.confirm_offset:
            diverged(__name__)
        confirmed, self.confirm_offset = self.confirm_offset, max(self.confirm_offset, start)
        try:
            await trim(self, start)
        finally:
            self.confirm_offset = confirmed

    def member_too(self: HaSlave, frame: Transfer) -> bool:
        first = not self._joined and not self._awaits_first_sync()
        return first and frame.start > self.end > 0

    with (
        replaced(Membership, "copied", copied_by_all),
        replaced(Replication, "copied", property(everything)),
        replaced(Store, "trim", unchecked),
        replaced(HaSlave, "_must_begin_anew", member_too),
    ):
        yield
