"""A slave that acts for its master, and sends nothing on.

It serves reads; what is due waits for the master. Stands for enableRemoteEscape=false on brokers of
which more is expected. Breaks E1.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.broker.escape.delayed_escape import DelayedEscape
from maxq.reference.mutants import diverged, replaced

FAMILY = "escape"
CLAIM = "E1"
SOURCE = "RocketMQ's default, enableRemoteEscape=false (EscapeBridge.putMessage)"


@contextmanager
def mutant() -> Iterator[None]:
    """Deliver nothing."""

    def tick(self: DelayedEscape) -> None:
        diverged(__name__)

    with replaced(DelayedEscape, "tick", tick):
        yield
