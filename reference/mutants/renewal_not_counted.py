"""A broker whose leases run from the first grant, however often they are renewed.

A client that has renewed in time gets that answer, and loses the queue all the same. Breaks L1.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.broker.locks.locks import LockTable
from maxq.reference.mutants import diverged, ran, replaced
from maxq.reference.wire.bodies import MessageQueue

FAMILY = "locks"
CLAIM = "L1"
SOURCE = "Gray and Cheriton, Leases (1989): holder and server must count from one request"


@contextmanager
def mutant() -> Iterator[None]:
    """Answer a renewal, and note nothing."""
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
        since = None if held is None else held.renewed_ns
        granted = honest(self, now_ns, group, client_id, queue, attempt)
        if held is None or since is None or held is not self._leases.get((group, queue)):
            return granted
        if granted:
            diverged(__name__)
            held.renewed_ns = since
        return granted

    with replaced(LockTable, "_lock", _lock):
        yield
