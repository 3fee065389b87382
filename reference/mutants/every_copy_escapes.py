"""A slave that forgets which half messages it has moved, and moves them again in each round.

Each copy that comes after the one before was ended is asked about, and committed, by itself. Breaks
E9.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.broker.messages.half_queue import HalfQueue
from maxq.reference.mutants import diverged, replaced
from maxq.reference.records import QueueOffset

FAMILY = "escape"
CLAIM = "E9"
SOURCE = (
    "RocketMQ, whose checks write no op record for the copy before; docs/spec/acting-master.md 4"
)


@contextmanager
def mutant() -> Iterator[None]:
    """Leave open what was moved."""

    def on_moved(self: HalfQueue, offset: QueueOffset) -> None:
        diverged(__name__)

    with replaced(HalfQueue, "on_moved", on_moved):
        yield
