"""A master that takes the begin of its log for 0, whatever it has deleted.

A slave with nothing is to be sent everything, from the first byte on; there is none, and the read
ends the master's process. Breaks S15.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.broker.replication.ha_master import HaMaster
from maxq.reference.broker.replication.ha_progress import SlaveProgress
from maxq.reference.mutants import diverged, ran, replaced
from maxq.reference.records import PhyOffset

FAMILY = "replication"
CLAIM = "S15"
SOURCE = "docs/spec/controller-ha.md 6.4 (H8): a log need not begin at 0"


@contextmanager
def mutant() -> Iterator[None]:
    """Begin at 0."""
    honest = HaMaster._begin

    def from_zero(self: HaMaster, link: SlaveProgress, request: PhyOffset) -> str:
        start, self.start = self.start, PhyOffset(0)
        ran(__name__)
        if start > request:
            diverged(__name__)
        try:
            return honest(self, link, request)
        finally:
            self.start = start

    with replaced(HaMaster, "_begin", from_zero):
        yield
