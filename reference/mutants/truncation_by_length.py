"""A slave that copies on from the end of its log, whatever epochs are before it.

A deposed master keeps what no other replica ever had, and calls it the new master's. Breaks S8, S9.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.broker.replication import epochs as policy
from maxq.reference.broker.replication.epochs import Epochs
from maxq.reference.mutants import diverged, ran, replaced
from maxq.reference.records import PhyOffset

FAMILY = "replication"
CLAIM = "S8"
SOURCE = "Kafka before KIP-101: truncation by high watermark or length instead of by leader epoch"


@contextmanager
def mutant() -> Iterator[None]:
    """Compare lengths."""
    honest = policy.truncation_point

    def truncation_point(
        mine: Epochs, my_end: PhyOffset, theirs: Epochs, their_end: PhyOffset
    ) -> PhyOffset | None:
        ran(__name__)
        point = min(my_end, their_end)
        if point != honest(mine, my_end, theirs, their_end):
            diverged(__name__)
        return point

    with replaced(policy, "truncation_point", truncation_point):
        yield
