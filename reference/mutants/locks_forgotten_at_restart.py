"""A broker that grants locks right after its start, though it has forgotten whom it had granted.

Two of three restart while a client consumes: they grant its queue to the next one who asks.
Breaks L1, L2.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from maxq.reference.broker.locks.locks import LockTable
from maxq.reference.mutants import diverged, ran, replaced
from maxq.reference.wire.bodies import MessageQueue

FAMILY = "locks"
CLAIM = "L1"
SOURCE = "RocketMQ keeps locks in memory and serves them at once; Chubby waits a lease (2006)"


@contextmanager
def mutant() -> Iterator[None]:
    """Wait for no lease of the life before."""
    honest = LockTable.lock

    def lock(
        self: LockTable,
        now_ns: int,
        group: str,
        client_id: str,
        queues: Iterable[MessageQueue],
        *,
        attempt: str | None = None,
    ) -> tuple[MessageQueue, ...]:
        ran(__name__)
        if now_ns < self.closed_until_ns:
            diverged(__name__)
            self.closed_until_ns = 0
        return honest(self, now_ns, group, client_id, queues, attempt=attempt)

    with replaced(LockTable, "lock", lock):
        yield
