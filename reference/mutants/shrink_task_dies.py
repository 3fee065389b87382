"""A master whose check for members that fell behind dies at the first one that it finds.

It goes through a table from which it removes, the iteration throws, and a scheduled task that has
thrown is never run again. From then on a silent member stays, and nothing is acknowledged.
Breaks S14b.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.broker.replication.ha_master import HaMaster
from maxq.reference.broker.replication.ha_master_events import Effect
from maxq.reference.mutants import diverged, ran, replaced

FAMILY = "sync-state-set"
CLAIM = "S14b"
SOURCE = "RocketMQ 5.1.1: the shrink loop could throw while iterating, fixed by 5.1.4"


@contextmanager
def mutant() -> Iterator[None]:
    """Never get past the first laggard."""
    honest = HaMaster._review
    dead: list[HaMaster] = []  # whose task has thrown

    def _review(self: HaMaster, now_ns: int, *, laggards: bool = False) -> list[Effect]:
        others = sorted(self.members - {self.broker_id})
        if laggards and self.leading and any(self._lags(now_ns, m) for m in others):
            ran(__name__)
            if not any(core is self for core in dead):
                dead.append(self)
        if any(core is self for core in dead):
            diverged(__name__)
            laggards = False
        return honest(self, now_ns, laggards=laggards)

    with replaced(HaMaster, "_review", _review):
        yield
