"""A broker that trims its consume queues by whole files, the one with the first kept message too.

What the log still holds is in no queue any more, and no consumer is given it. A restart builds the
queues again from the log. Breaks B13.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.broker.store.consume_queue import ConsumeQueue
from maxq.reference.mutants import diverged, ran, replaced
from maxq.reference.records import PhyOffset, QueueOffset
from maxq.reference.wire.message import QUEUE_UNIT_BYTES

FAMILY = "replication"
CLAIM = "B13"
SOURCE = "RocketMQ ConsumeQueue.correctMinOffset, which looks for the first message within a file"


@contextmanager
def mutant() -> Iterator[None]:
    """Begin with the next file."""
    honest = ConsumeQueue.trim

    def by_file(self: ConsumeQueue, log_start: PhyOffset) -> None:
        before = self._min
        honest(self, log_start)
        ran(__name__)
        units = self._file_size // QUEUE_UNIT_BYTES
        following = QueueOffset((self._min // units + 1) * units)
        if before < self._min < following < self.max_offset:
            diverged(__name__)
            self._min = following

    with replaced(ConsumeQueue, "trim", by_file):
        yield
