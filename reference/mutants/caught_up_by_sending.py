"""A master for whom a slave is caught up as soon as everything was sent to it.

A member that takes all and acknowledges nothing is never dropped, and nothing is acknowledged by
all of the set any more. Breaks S14b.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.broker.replication.ha_master import HaMaster
from maxq.reference.mutants import diverged, ran, replaced
from maxq.reference.records import BrokerId

FAMILY = "sync-state-set"
CLAIM = "S14b"
SOURCE = "RocketMQ AutoSwitchHAConnection: caught up is now whenever nothing is left to send (9)"


@contextmanager
def mutant() -> Iterator[None]:
    """Look at what was sent."""
    honest = HaMaster._lags

    def _lags(self: HaMaster, now_ns: int, member: BrokerId) -> bool:
        ran(__name__)
        link = self._link_of(member)
        if link is not None and link.acked is not None and link.next >= self.end:
            if honest(self, now_ns, member):
                diverged(__name__)
            return False
        return honest(self, now_ns, member)

    with replaced(HaMaster, "_lags", _lags):
        yield
