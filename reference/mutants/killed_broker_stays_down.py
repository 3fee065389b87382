"""A broker that was killed does not start again.

It marks its store as in use while it runs, and takes the mark of a process that was killed for
damage. Once all of them were killed none serves, and everything that was acknowledged is on disks
that no broker reads. Breaks S15, and with it S13.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.broker.store.commit_log import CorruptLog
from maxq.reference.broker.store.store import Store
from maxq.reference.mutants import diverged, ran, replaced

FAMILY = "replication"
CLAIM = "S15"
SOURCE = "RocketMQ 5.5.0: after a loss of power an empty epoch file keeps a broker from starting"
MARK = "abort"  # RocketMQ's name of such a file, which it only logs


@contextmanager
def mutant() -> Iterator[None]:
    """Refuse a store that was not closed."""
    honest, honest_close = Store.recovering, Store.close

    def recovering(self: Store) -> Iterator[None]:
        ran(__name__)
        if MARK in self._host.disk.list(self._root):
            diverged(__name__)
            raise CorruptLog(f"{self._root}/{MARK}: the store was not closed")
        yield from honest(self)
        self._host.disk.open(f"{self._root}/{MARK}", create=True).close()

    def close(self: Store) -> None:
        opened = self._locked
        honest_close(self)
        if opened:
            self._host.disk.unlink(f"{self._root}/{MARK}")

    with replaced(Store, "recovering", recovering), replaced(Store, "close", close):
        yield
