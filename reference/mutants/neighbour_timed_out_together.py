"""A name server that takes the end of one broker's connection for the end of its whole machine.

A broker leaves a container, and its neighbours are unlisted until they register again. Breaks B5.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.mutants import diverged, replaced
from maxq.reference.namesrv.server import Namesrv
from maxq.reference.rpc import Connection, split_address

FAMILY = "container"
CLAIM = "B5"
SOURCE = "RocketMQ RouteInfoManager: the brokers of a container share a channel, and go with it"


@contextmanager
def mutant() -> Iterator[None]:
    """Forget every broker of the host that a lost connection came from."""
    honest = Namesrv._lost

    def lost(self: Namesrv, connection: Connection) -> None:
        host, _ = split_address(connection.remote)
        for address, owner in list(self._owner.items()):
            if owner is not connection and split_address(address)[0] == host:
                diverged(__name__)
                del self._owner[address]
                self._routes.forget(address)
        honest(self, connection)

    with replaced(Namesrv, "_lost", lost):
        yield
