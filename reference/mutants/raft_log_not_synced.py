"""A controller that acknowledges log entries, terms and votes which it has written and not synced.

When a majority loses its power at once, what was committed is gone: elections and SyncStateSets
that brokers act upon. Breaks S3, S4.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.mutants import diverged, replaced
from maxq.reference.raft import storage
from maxq.reference.raft.message import Entry
from maxq.reference.raft.storage import Storage
from maxq.reference.raft.watermark import Watermark
from maxq.reference.records import some

FAMILY = "raft"
CLAIM = "S3"
SOURCE = (
    "DLedger 0.3.1.2: entries are flushed every 10 ms, and acknowledged before "
    "(docs/spec/controller-ha.md 7)"
)


@contextmanager
def mutant() -> Iterator[None]:
    """Leave it to the kernel."""

    async def append(self: Storage, term: int, vote: str, entries: tuple[Entry, ...]) -> None:
        diverged(__name__)
        file = some(self._file, "the log is loaded before it is written")
        data = storage._record(term, vote, entries)
        file.pwrite(data, self._end)
        self._end += len(data)

    def _check_torn(self: Storage, data: bytes, at: int) -> None:
        """What follows a record that is not whole is cut, as DLedger does."""

    def no_watermark(self: Watermark) -> None:
        """What is lost is not noticed."""

    with (
        replaced(Storage, "append", append),
        replaced(Storage, "_check_torn", _check_torn),
        replaced(Watermark, "load", no_watermark),
    ):
        yield
