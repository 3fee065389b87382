"""A slave that acts for its master grants locks alone.

The acting slave leads, it holds, and asks nobody. The master that goes on, and the slaves that
nobody asked, grant the same lock to another client. Breaks L2.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.broker.locks.lock_quorum import Locks
from maxq.reference.broker.membership.pairs import PairMembership
from maxq.reference.mutants import diverged, ran, replaced

FAMILY = "acting"
CLAIM = "L2"
SOURCE = "RIP-32 without lockInStrictMode at the acting master"


@contextmanager
def mutant() -> Iterator[None]:
    """Need nobody while acting."""

    def polls(self: Locks) -> bool:
        ran(__name__)
        right = self._strict and self._needed > 1
        if right and isinstance(self._me, PairMembership) and self._me.acts:
            diverged(__name__)
            return False
        return right

    with replaced(Locks, "polls", property(polls)):
        yield
