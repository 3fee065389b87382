"""A name server that keeps the permission to write when a master is gone.

Clients go on sending to a broker set that has slaves only, and the name server shows no acting
master of it, as it would be written to. Breaks N2.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.mutants import diverged, ran, replaced
from maxq.reference.namesrv.queues import Queues
from maxq.reference.wire.route import PERM_WRITE

FAMILY = "routes"
CLAIM = "N2"
SOURCE = "RocketMQ wipes the permission at eviction alone (docs/spec/acting-master.md 1.6)"


@contextmanager
def mutant() -> Iterator[None]:
    """Count what would lose it."""

    def wipe_write(self: Queues, broker: str) -> int:
        ran(__name__)
        queues = [q for t in self.topics() for q in self.of(t) if q.broker_name == broker]
        if any(q.perm & PERM_WRITE for q in queues):
            diverged(__name__)
        return len(queues)

    with replaced(Queues, "wipe_write", wipe_write):
        yield
