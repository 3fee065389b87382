"""A broker that takes another identity with every new address.

It keeps its address beside its identity, and takes an identity that was won at another address for
a copied store: it removes it and applies again. In RocketMQ 5.0 and 5.1.0 the address was the
identity. Breaks S2.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.broker.membership.identity import IdentityFiles
from maxq.reference.broker.membership.joining import Joining
from maxq.reference.host import read_file, replace_file
from maxq.reference.mutants import diverged, ran, replaced
from maxq.reference.records import BrokerId

FAMILY = "registration"
CLAIM = "S2"
SOURCE = "RocketMQ 5.0.0 and 5.1.0: a controller knew brokers by their address"


@contextmanager
def mutant() -> Iterator[None]:
    """Compare the address with that of the last start."""
    honest = Joining.win

    async def win(self: Joining, address: str) -> BrokerId:
        ran(__name__)
        disk, path = self._host.disk, self._config.identity_path
        before = read_file(disk, path + "-address")
        if before is not None and before != address.encode():
            diverged(__name__)
            disk.unlink(path)
        await replace_file(disk, path + "-address", address.encode())
        return await honest(self, address)

    def lost(self: IdentityFiles) -> None:
        """It was removed on purpose."""

    with replaced(Joining, "win", win), replaced(IdentityFiles, "_refuse_lost", lost):
        yield
