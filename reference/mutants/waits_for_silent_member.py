"""A broker that waits for every member of its set before it answers who wants a lock, and for two
seconds.

One silent member is enough: its client has given up by then, anyone who else has granted. Breaks
L6.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.broker.locks import lock_quorum
from maxq.reference.broker.locks.locks import Tally
from maxq.reference.mutants import diverged, ran, replaced

FAMILY = "locks"
CLAIM = "L6"
SOURCE = "RocketMQ RebalanceLockManager: 2 s for all members (docs/spec/acting-master.md 6.3)"
WAIT_S = 2.0


@contextmanager
def mutant() -> Iterator[None]:
    """Decide when everybody has answered, or was given up."""

    def decided(self: Tally) -> bool:
        ran(__name__)
        early = len(self.won) + len(self.lost) == len(self.mine)
        if early and self._answered < self.asked:
            diverged(__name__)
        return self._answered >= self.asked or not self.mine

    with (
        replaced(Tally, "decided", property(decided)),
        replaced(lock_quorum, "PEER_TIMEOUT_S", WAIT_S),
    ):
        yield
