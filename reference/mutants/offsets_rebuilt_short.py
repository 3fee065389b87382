"""A broker that rebuilds its queues up to its checkpoint only, and gives the offsets behind it out
again.

Records of the last moments before a restart are in the log and in no queue. If it is elected, the
next messages get their offsets. Breaks S6, S11.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.broker.store.store import Store
from maxq.reference.mutants import diverged, ran, replaced
from maxq.reference.records import QueueOffset
from maxq.reference.wire.message import Message

FAMILY = "replication"
CLAIM = "S6"
SOURCE = "RocketMQ 5.1.1 to 5.1.4, #7689 (docs/spec/controller-ha.md 6.4 (H18))"


@contextmanager
def mutant() -> Iterator[None]:
    """Index no record behind the watermark; fit what comes later in by its own offset."""
    honest, honest_recovering = Store._dispatch, Store.recovering
    under_way: list[Store] = []

    def recovering(self: Store) -> Iterator[None]:
        under_way.append(self)
        try:
            yield from honest_recovering(self)
        finally:
            under_way.remove(self)

    def _dispatch(self: Store, message: Message, size: int) -> None:
        ran(__name__)
        known = self._watermark.sealed
        behind = known is not None and message.physical_offset + size > known.end
        if self in under_way and behind:
            diverged(__name__)
            return
        key = (message.topic, message.queue_id)
        queue = self._queue(key)
        if message.queue_offset < queue.max_offset:
            queue.truncate(message.queue_offset)
            self._visible[key] = min(self._visible.get(key, 0), message.queue_offset)
        while queue.max_offset < message.queue_offset:  # not indexed before the restart
            queue.append(queue.max_offset, queue.unit(QueueOffset(queue.max_offset - 1)))
            self._visible[key] = self._visible.get(key, 0) + 1
        honest(self, message, size)

    with replaced(Store, "recovering", recovering), replaced(Store, "_dispatch", _dispatch):
        yield
