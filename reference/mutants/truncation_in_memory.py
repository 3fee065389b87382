"""A broker that truncates its log by moving its end, and leaves the bytes in the file.

They are overwritten one after the other; a restart before that finds whole records behind the new
ones, and takes them for the log's. Breaks S8.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.broker.store.commit_log import CommitLog
from maxq.reference.mutants import diverged, replaced
from maxq.reference.records import PhyOffset

FAMILY = "replication"
CLAIM = "S8"
SOURCE = "RocketMQ #10666, open at 5.5.0 (docs/spec/controller-ha.md 6.4 (H1))"


@contextmanager
def mutant() -> Iterator[None]:
    """Erase nothing."""

    async def truncate(self: CommitLog, offset: PhyOffset) -> None:
        diverged(__name__)
        self._cuts += 1
        self.end = offset
        self.durable = min(self.durable, offset)

    with replaced(CommitLog, "truncate", truncate):
        yield
