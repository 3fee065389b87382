"""A master that shows its consumers what it has, confirmed or not.

What is read at a master that is cut off disappears when it is truncated. Breaks S10.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.broker.store.store import Store
from maxq.reference.mutants import diverged, ran, replaced
from maxq.reference.records import QueueOffset

FAMILY = "confirm"
CLAIM = "S10"
SOURCE = "RocketMQ 5.0.0 and 5.1.0: no confirm limit; later releases with readUnCommitted=true"


@contextmanager
def mutant() -> Iterator[None]:
    """Let everything be read."""
    honest = Store.bounds

    def bounds(self: Store, topic: str, queue_id: int) -> tuple[QueueOffset, QueueOffset]:
        ran(__name__)
        first, end = honest(self, topic, queue_id)
        written = self.written(topic, queue_id)
        if written > end:
            diverged(__name__)
        return first, max(end, written)

    with replaced(Store, "bounds", bounds):
        yield
