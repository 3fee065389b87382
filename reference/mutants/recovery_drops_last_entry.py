"""A controller whose recovery takes the last record of its log for torn.

After a restart of the whole group the last decision is forgotten by all of them, and its number
given out again. Breaks S4.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.mutants import diverged, ran, replaced
from maxq.reference.raft.log import Log
from maxq.reference.raft.storage import Snapshot, Storage
from maxq.reference.raft.watermark import Watermark

FAMILY = "raft"
CLAIM = "S4"
SOURCE = "Alagappan et al., Protocol-Aware Recovery (FAST 2018): truncating a log loses commits"


@contextmanager
def mutant() -> Iterator[None]:
    """Cut one too many."""
    honest = Storage.load

    async def load(self: Storage) -> tuple[int, str, Log, Snapshot | None]:
        ran(__name__)
        term, vote, log, snapshot = await honest(self)
        if log.entries:
            diverged(__name__)
            log.entries.pop()
        return term, vote, log, snapshot

    def no_watermark(self: Watermark) -> None:
        """What is lost is not noticed."""

    with replaced(Storage, "load", load), replaced(Watermark, "load", no_watermark):
        yield
