"""A name server for which a broker is gone when any connection ends that it ever registered over.

After a cut the end of an old connection arrives behind the registration over a new one, and evicts
a healthy broker until its next turn. Breaks S13.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.mutants import diverged, ran, replaced
from maxq.reference.namesrv.server import Namesrv
from maxq.reference.rpc import Connection

FAMILY = "namesrv"
CLAIM = "S13"
SOURCE = "seen in this reference: after a cut a kernel delivers the end of an old connection late"


@contextmanager
def mutant() -> Iterator[None]:
    """Remember every connection of an address, and forget the address with each of them."""
    honest_watch, honest = Namesrv._watch, Namesrv._owned
    ever: list[tuple[Namesrv, Connection, str]] = []

    def _watch(self: Namesrv, connection: Connection, address: str) -> None:
        ever.append((self, connection, address))
        honest_watch(self, connection, address)

    def _owned(self: Namesrv, connection: Connection) -> list[str]:
        ran(__name__)
        right = honest(self, connection)
        found = [a for n, c, a in ever if n is self and c is connection and a in self._owner]
        if set(found) - set(right):
            diverged(__name__)
        return list(dict.fromkeys([*right, *found]))

    with replaced(Namesrv, "_watch", _watch), replaced(Namesrv, "_owned", _owned):
        yield
