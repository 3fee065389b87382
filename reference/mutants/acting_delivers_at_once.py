"""A slave that acts takes what waits for overdue.

It knows how far its master was, and not that the rest has time: it sends on all that waits as soon
as it begins to act. Breaks E2.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from maxq.reference.broker.store.delay import Dues
from maxq.reference.mutants import diverged, replaced

FAMILY = "escape"
CLAIM = "E2"
SOURCE = "RocketMQ's correctDeliverTimestamp, which takes a time that cannot be for now"


@contextmanager
def mutant() -> Iterator[None]:
    """All is due."""
    honest = Dues.is_due

    def is_due(self: Dues, offset: int, at_ms: int, **now: Any) -> bool:
        if not honest(self, offset, at_ms, **now):
            diverged(__name__)
        return True

    with replaced(Dues, "is_due", is_due):
        yield
