"""A broker whose leases end when their client gives them back, and never by themselves.

A client that died keeps its queues from all others. Breaks L8.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.broker.locks.locks import LockTable
from maxq.reference.mutants import diverged, ran, replaced
from maxq.reference.wire.bodies import MessageQueue

FAMILY = "locks"
CLAIM = "L8"
SOURCE = "the hazard of a client that died; docs/spec/acting-master.md 6.2"


@contextmanager
def mutant() -> Iterator[None]:
    """Let no lease run out."""
    honest = LockTable._lock

    def _lock(
        self: LockTable,
        now_ns: int,
        group: str,
        client_id: str,
        queue: MessageQueue,
        attempt: str | None,
    ) -> bool:
        ran(__name__)
        held = self._leases.get((group, queue))
        over = held is not None and now_ns - held.renewed_ns > self.lease_ns
        if held is not None and over and held.client_id != client_id:
            diverged(__name__)
            return False
        return honest(self, now_ns, group, client_id, queue, attempt)

    def expire(self: LockTable, now_ns: int) -> None:
        """Nothing is forgotten."""

    with replaced(LockTable, "_lock", _lock), replaced(LockTable, "expire", expire):
        yield
