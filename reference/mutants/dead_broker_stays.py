"""A name server that waits for the silence of a broker whose connection has ended.

Clients are sent to a dead broker for two minutes, until its entry expires. Breaks N5.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.mutants import diverged, replaced
from maxq.reference.namesrv.server import Namesrv
from maxq.reference.rpc import Connection

FAMILY = "namesrv"
CLAIM = "N5"
SOURCE = (
    "RocketMQ: of a killed container all brokers but one stay listed (docs/spec/acting-master.md "
    "1.6)"
)


@contextmanager
def mutant() -> Iterator[None]:
    """Let the end of a connection say nothing."""

    def _lost(self: Namesrv, connection: Connection) -> None:
        self._watched.pop(connection, None)
        if self._owned(connection):
            diverged(__name__)

    with replaced(Namesrv, "_lost", _lost):
        yield
