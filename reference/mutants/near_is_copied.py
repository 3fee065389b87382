"""A master for which a slave that lacks little has everything.

RocketMQ counts a slave as in sync that lacks less than haMaxGapNotInSync, 256 MiB by default,
to decide whether a message is taken; here that also answers whether it was copied. Breaks A8.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.broker.replication.plain import plain_events as events
from maxq.reference.broker.replication.plain.plain_master import PlainMaster
from maxq.reference.mutants import diverged, replaced

FAMILY = "pair"
CLAIM = "A8"
SOURCE = "RocketMQ's haMaxGapNotInSync, read as a promise of copies"


@contextmanager
def mutant() -> Iterator[None]:
    """Acknowledge what waits, while enough slaves are in sync."""
    honest = PlainMaster._advance

    def advance(self: PlainMaster) -> list[events.MasterEffect]:
        found = honest(self)
        for copies, waiting in self._waiting:
            if copies <= self.in_sync_count:
                early = waiting.reached(self.counted)
                if early:
                    diverged(__name__)
                found += [events.Acknowledge(ticket=ticket) for ticket in early]
        return found

    with replaced(PlainMaster, "_advance", advance):
        yield
