"""A slave that acts delivers every delayed message that it has in its log, also those of long ago.

It begins where its copy of the schedule topic begins, and not where its master is known to have
been. Breaks E5.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.broker.escape.delayed_escape import DelayedEscape
from maxq.reference.mutants import diverged, replaced
from maxq.reference.names import SCHEDULE_TOPIC
from maxq.reference.records import QueueOffset

FAMILY = "escape"
CLAIM = "E5"
SOURCE = "RocketMQ's slaves before their first copy of the progress; docs/spec/acting-master.md 4"


@contextmanager
def mutant() -> Iterator[None]:
    """Begin at the first message."""
    honest = DelayedEscape._start

    def start(self: DelayedEscape, number: int) -> QueueOffset:
        first, _ = self._store.bounds(SCHEDULE_TOPIC, number - 1)
        if honest(self, number) != first:
            diverged(__name__)
        return QueueOffset(first)

    with replaced(DelayedEscape, "_start", start):
        yield
