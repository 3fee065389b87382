"""Brokers that keep a lock for a shorter time than its client relies on it.

A consumer that is slow to renew, or that was paused, reads on within its own lease, and the next
one reads the same queue beside it. Breaks L10, and L1 and L2 with it.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.broker.locks.locks import LockTable
from maxq.reference.mutants import diverged, ran, replaced
from maxq.reference.wire.bodies import MessageQueue

FAMILY = "locks"
CLAIM = "L10"
SOURCE = (
    "RocketMQ: rocketmq.broker.rebalance.lockMaxLiveTime of brokers set below "
    "rocketmq.client.rebalance.lockMaxLiveTime of clients"
)
PART = 4  # of the lease: below the client's, which is a half of it


@contextmanager
def mutant() -> Iterator[None]:
    """Let go early."""
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
        if held is not None and held.client_id != client_id:
            age_ns = now_ns - held.renewed_ns
            if self.lease_ns // PART < age_ns <= self.lease_ns:
                diverged(__name__)
                del self._leases[group, queue]
        return honest(self, now_ns, group, client_id, queue, attempt)

    with replaced(LockTable, "_lock", _lock):
        yield
