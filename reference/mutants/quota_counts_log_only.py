"""A broker that counts its commit log alone, when it looks at what it takes of its share.

Each of its queues has a file at full size, and with many of them it takes far more. Breaks B9.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.broker.store.store import Store
from maxq.reference.mutants import diverged, replaced

FAMILY = "container"
CLAIM = "B9"
SOURCE = "RIP-31 speaks of the size of the CommitLog; RocketMQ counts queues and index as well"


@contextmanager
def mutant() -> Iterator[None]:
    """Leave out the queues."""
    honest = Store.size

    def size(self: Store) -> int:
        log = len(self.log_files()) * self._log.file_size
        if log != honest.__get__(self):
            diverged(__name__)
        return log

    with replaced(Store, "size", property(size)):
        yield
