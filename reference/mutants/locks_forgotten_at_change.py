"""A broker that forgets its locks when a member of its group comes or goes.

The new master has its own table, it holds, and so does everybody else. The broker that led
all the while grants a queue to a second consumer while the first one reads it. Breaks L3.
"""

from collections.abc import Awaitable, Iterator
from contextlib import contextmanager

from maxq.reference.broker.locks.lock_quorum import Locks
from maxq.reference.broker.membership.pairs import PairMembership
from maxq.reference.mutants import diverged, ran, replaced
from maxq.reference.rpc import Connection, Reply
from maxq.reference.wire.frame import Frame

FAMILY = "acting"
CLAIM = "L3"
SOURCE = "a hazard: what was derived of a group, thrown away at each change of its members"


@contextmanager
def mutant() -> Iterator[None]:
    """Begin anew with each list of members."""
    honest = Locks._lock

    def _lock(self: Locks, request: Frame, connection: Connection) -> Reply | Awaitable[Reply]:
        ran(__name__)
        if isinstance(self._me, PairMembership):
            members = dict(self._me._acting.members)
            before = vars(self).setdefault("_members_before", members)
            if members != before:
                vars(self)["_members_before"] = members
                if self._table._leases:
                    diverged(__name__)
                self._table._leases.clear()
        return honest(self, request, connection)

    with replaced(Locks, "_lock", _lock):
        yield
