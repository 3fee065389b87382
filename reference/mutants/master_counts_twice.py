"""A master that counts itself among those that must have a copy, and once more.

Of inSyncReplicas=2, the master's own log is one; counted twice, it is both. Breaks A8.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from maxq.reference.broker.replication.plain.plain_ports import PlainServer
from maxq.reference.mutants import diverged, replaced
from maxq.reference.records import PhyOffset

FAMILY = "pair"
CLAIM = "A8"
SOURCE = "inSyncReplicas, read as without the master"


@contextmanager
def mutant() -> Iterator[None]:
    """Wait for one copy less."""
    honest = PlainServer.when_acknowledged

    def when_acknowledged(
        self: PlainServer, end: PhyOffset, copies: int, then: Callable[[str], None]
    ) -> None:
        diverged(__name__)
        honest(self, end, max(copies - 1, 1), then)

    with replaced(PlainServer, "when_acknowledged", when_acknowledged):
        yield
