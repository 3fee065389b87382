"""A broker that is somebody else wherever it has another address.

It keeps its address beside its identity, and takes an identity that was won at another address for
a copied store: it removes it and applies anew. In RocketMQ 5.0 and 5.1.0 the address was the
identity. Breaks S2.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from reference.broker.membership.membership import Membership
from reference.host import read_file, replace_file
from reference.mutants import diverged, ran, replaced

FAMILY = "registration"
CLAIM = "S2"
SOURCE = "RocketMQ 5.0.0 and 5.1.0: a controller knew brokers by their address"


@contextmanager
def mutant() -> Iterator[None]:
    """Compare the address with that of the last start."""
    honest = Membership._join

    async def _join(self: Membership) -> None:
        ran(__name__)
        disk, path = self._host.disk, self._config.identity_path
        before = read_file(disk, path + "-address")
        if before is not None and before != self.address.encode():
            diverged(__name__)
            disk.unlink(path)
        await replace_file(disk, path + "-address", self.address.encode())
        await honest(self)

    with replaced(Membership, "_join", _join):
        yield
