"""A master that takes what it has sent for copied.

Bytes in a connection's buffer are no copy: a slave that is cut off or paused never gets them,
and the master acknowledges until its window is full. Breaks A8.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.broker.replication.plain import plain_events as events
from maxq.reference.broker.replication.plain.plain_master import PlainLink, PlainMaster
from maxq.reference.mutants import diverged, replaced
from maxq.reference.records import PhyOffset

FAMILY = "pair"
CLAIM = "A8"
SOURCE = "a write that returned, taken for one that arrived"


@contextmanager
def mutant() -> Iterator[None]:
    """Count a piece as reported once it is sent."""
    honest = PlainMaster._send

    def send(self: PlainMaster, now_ns: int, link: PlainLink, size: int) -> events.SendPiece:
        piece = honest(self, now_ns, link, size)
        if size:
            diverged(__name__)
            link.acked = link.next
        return piece

    def fault(self: PlainMaster, link: PlainLink, offset: PhyOffset) -> str:
        return ""  # each report is now behind what counts

    with replaced(PlainMaster, "_send", send), replaced(PlainMaster, "_fault", fault):
        yield
