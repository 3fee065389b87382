"""A broker that takes a request of a client that once held a queue for a renewal.

It looks whether it knows the client for the queue, not whether the client holds it now. Who lost
its lease, and has not noticed, goes on beside the new owner. Breaks L1, L2.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.broker.locks.locks import LockTable
from maxq.reference.mutants import diverged, ran, replaced
from maxq.reference.wire.bodies import MessageQueue

FAMILY = "locks"
CLAIM = "L1"
SOURCE = "leases renewed after their expiry: Kleppmann, How to do distributed locking (2016)"


@contextmanager
def mutant() -> Iterator[None]:
    """Remember every owner of a queue, and renew for each."""
    honest = LockTable._lock
    former: list[tuple[LockTable, set[tuple[str, str, MessageQueue]]]] = []

    def known(table: LockTable) -> set[tuple[str, str, MessageQueue]]:
        for of, owners in former:
            if of is table:
                return owners
        former.append((table, set()))
        return former[-1][1]

    def _lock(
        self: LockTable,
        now_ns: int,
        group: str,
        client_id: str,
        queue: MessageQueue,
        attempt: str | None,
    ) -> bool:
        ran(__name__)
        granted = honest(self, now_ns, group, client_id, queue, attempt)
        if not granted and (group, client_id, queue) in known(self):
            diverged(__name__)
            return True
        if granted:
            known(self).add((group, client_id, queue))
        return granted

    with replaced(LockTable, "_lock", _lock):
        yield
