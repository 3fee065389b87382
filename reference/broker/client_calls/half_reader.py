"""Reads half messages and their ends from the log, for who settles transactions.

A master asks producers about those that stay open; a slave that acts sends them elsewhere. Both
know what is open by the same two topics, and remember how far those are settled as consumer offsets
of a group of RocketMQ's own.
"""

from maxq.reference.broker.messages import transaction
from maxq.reference.broker.messages.half_queue import HalfQueue
from maxq.reference.broker.messages.transaction import GROUP, QUEUE
from maxq.reference.broker.store.store import Store
from maxq.reference.broker.store.topics import Tables
from maxq.reference.names import HALF_TOPIC, OP_TOPIC
from maxq.reference.records import PhyOffset, QueueOffset
from maxq.reference.wire.message import Message, decode

AT_ONCE_MAX = 200  # records read, or half messages asked about, before requests have their turn


class HalfReader:
    """What is open, read from where both topics are remembered to be settled.

    A position behind the end of its queue is of records that were lost in an unclean election.

    Args:
        store: where both topics are.
        tables: remembers how far they are done with.
    """

    def __init__(self, store: Store, tables: Tables) -> None:
        self._store = store
        self._tables = tables
        self.core = HalfQueue(self._position(HALF_TOPIC), self._position(OP_TOPIC))

    def _position(self, topic: str) -> QueueOffset:
        first, _ = self._store.bounds(topic, QUEUE)
        known = self._tables.offset(topic, GROUP, QUEUE) or 0
        return QueueOffset(max(first, min(known, self._store.written(topic, QUEUE))))

    def read_some(self) -> bool:
        """Read what comes next, no more than a piece; false once there is no more. Ends come
        first, so that what has ended is never open here, not even for a moment."""
        ops = self._read(OP_TOPIC, self.core.next_op)
        for op in ops:
            self.core.on_op(op.queue_offset, transaction.ended_offsets(op))
        halves = [] if ops else self._read(HALF_TOPIC, self.core.next_half)
        for waiting in halves:
            self.core.on_half(transaction.facts(waiting))
        return bool(ops or halves)

    def _read(self, topic: str, offset: QueueOffset) -> list[Message]:
        """The next records of a queue that replicas and disk have."""
        safe, found = min(self._store.confirm_offset, self._store.durable), list[Message]()
        units = self._store.units(topic, QUEUE, offset)
        for _, (_, unit) in zip(range(AT_ONCE_MAX), units, strict=False):
            if PhyOffset(unit.physical_offset + unit.size) > safe:
                break
            found.append(decode(self._store.record(unit))[0])
        return found

    def waiting(self, offset: QueueOffset) -> Message | None:
        """A half message; None if it is in the log no more."""
        unit = self._store.unit_of(HALF_TOPIC, QUEUE, offset)
        return None if unit is None else decode(self._store.record(unit))[0]

    def remember(self) -> None:
        """Remember how far both topics are settled."""
        for topic, offset in zip((HALF_TOPIC, OP_TOPIC), self.core.left_behind(), strict=True):
            if offset != (self._tables.offset(topic, GROUP, QUEUE) or 0):
                self._tables.commit_offset(topic, GROUP, QUEUE, offset)
