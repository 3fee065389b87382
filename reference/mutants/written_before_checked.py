"""A slave that writes what its master sends before it looks whether that is a log.

The master's disk gives another bit than it has. The slaves write what comes, and acknowledge it;
the one that is elected finds no record behind that place, and cuts there. Breaks S6.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.broker.store.incoming import Incoming
from maxq.reference.mutants import diverged, ran, replaced
from maxq.reference.records import PhyOffset, RemoteProtocolError
from maxq.reference.wire.message import Message

FAMILY = "replication"
CLAIM = "S6"
SOURCE = "RocketMQ: a slave appends the bytes of a transfer as they are (AutoSwitchHAClient)"


@contextmanager
def mutant() -> Iterator[None]:
    """Append what is refused as well, and leave the index at the last sound record."""
    honest = Incoming.sound

    def sound(self: Incoming, whole: PhyOffset) -> Iterator[tuple[Message | None, PhyOffset]]:
        ran(__name__)
        try:
            yield from honest(self, whole)
        except RemoteProtocolError:
            diverged(__name__)

    with replaced(Incoming, "sound", sound):
        yield
