"""A slave that remembers delayed messages as delivered before anybody has taken them.

The returned master goes on behind them, and they are delivered by nobody. Breaks E1.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.broker.escape import delayed_escape
from maxq.reference.mutants import diverged, replaced
from maxq.reference.records import QueueOffset

FAMILY = "escape"
CLAIM = "E1"
SOURCE = "the hazard of asynchronous delivery, as RocketMQ's enableScheduleAsyncDeliver has it"


@contextmanager
def mutant() -> Iterator[None]:
    """What is on its way counts as there."""

    def reached(next_offset: QueueOffset, first_held: QueueOffset | None) -> QueueOffset:
        if first_held is not None:
            diverged(__name__)
        return next_offset

    with replaced(delayed_escape, "reached", reached):
        yield
