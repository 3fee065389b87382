"""A name server in which a group's master is replaced only once it has gone by itself.

A master that was cut off is still there when its successor registers, whose registration is
answered with success and changes nothing. When the old one becomes a slave, the group has no
master until the successor's next turn. Breaks S13.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.mutants import diverged, ran, replaced
from maxq.reference.namesrv.routes import Registration, Routes
from maxq.reference.wire.route import MASTER_ID

FAMILY = "namesrv"
CLAIM = "S13"
SOURCE = (
    "claim N10 turned round: the older master is held for the newer one "
    "(docs/spec/acting-master.md 8.1)"
)


@contextmanager
def mutant() -> Iterator[None]:
    """Take every master that lives for newer."""
    honest = Routes._is_newer

    def _is_newer(self: Routes, address: str, r: Registration) -> bool:
        ran(__name__)
        if r.broker_id == MASTER_ID and address in self.live and not honest(self, address, r):
            diverged(__name__)
            return True
        return honest(self, address, r)

    with replaced(Routes, "_is_newer", _is_newer):
        yield
