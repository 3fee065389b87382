"""A controller that keeps its log over a restart, and neither its term nor its vote.

Terms begin again, so the newest entries have lower terms than older ones. A node that slept all the
while, with an older log of a higher term, wins against them, and what was committed is overwritten.
Breaks S3, S4.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.mutants import diverged, ran, replaced
from maxq.reference.raft.log import Log
from maxq.reference.raft.storage import Snapshot, Storage
from maxq.reference.raft.watermark import Watermark

FAMILY = "raft"
CLAIM = "S4"
SOURCE = (
    "Raft, figure 2: currentTerm and votedFor are persistent; DLedger syncs neither "
    "(docs/spec/controller-ha.md 7)"
)


@contextmanager
def mutant() -> Iterator[None]:
    """Read the log alone."""
    honest = Storage.load

    async def load(self: Storage) -> tuple[int, str, Log, Snapshot | None]:
        ran(__name__)
        term, _, log, snapshot = await honest(self)
        if term:
            diverged(__name__)
        return 0, "", log, snapshot

    def no_watermark(self: Watermark) -> None:
        """What is lost is not noticed."""

    with replaced(Storage, "load", load), replaced(Watermark, "load", no_watermark):
        yield
