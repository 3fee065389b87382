"""A broker whose retention asks for the age of a file and for nothing else.

It deletes what is not confirmed yet, and a slave that finds its master's log beginning behind the
end of its own throws its log away, although a member of the SyncStateSet. RocketMQ does both: its
cleaner knows no bound but the last file. Breaks S9.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.broker.membership.controlled import ControlledMembership
from maxq.reference.broker.replication.replication import Replication
from maxq.reference.mutants import held_by_nothing, ran, replaced
from maxq.reference.records import PhyOffset

FAMILY = "replication"
CLAIM = "S9"
SOURCE = "RocketMQ MappedFileQueue.deleteExpiredFileByTime, which knows no confirmOffset"


@contextmanager
def mutant() -> Iterator[None]:
    """Hold nothing but the last file."""
    copied = Replication.copied

    def copied_by_all(self: ControlledMembership) -> PhyOffset:
        ran(__name__)
        return self._store.end

    def everything(self: Replication) -> PhyOffset:
        return self.master.end if self.master.leading else copied.__get__(self)

    with (
        replaced(ControlledMembership, "copied", copied_by_all),
        replaced(Replication, "copied", property(everything)),
        held_by_nothing(__name__),
    ):
        yield
