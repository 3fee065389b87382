"""A name server that knows no slave of a set before it knows its master.

Started again while the master is away it lists nobody, and no slave can act. Breaks N11.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.mutants import diverged, ran, replaced
from maxq.reference.namesrv.routes import Master, Refused, Registration, Routes
from maxq.reference.wire.route import MASTER_ID

FAMILY = "routes"
CLAIM = "N11"
SOURCE = "before acting masters only a master's registration brought topics (RIP-32)"


@contextmanager
def mutant() -> Iterator[None]:
    """Answer a first slave as if it were taken."""
    honest = Routes.register

    def register(self: Routes, now_ns: int, r: Registration) -> Master | Refused:
        ran(__name__)
        if r.broker_id != MASTER_ID and r.broker_name not in self.groups:
            diverged(__name__)
            return Master()
        return honest(self, now_ns, r)

    with replaced(Routes, "register", register):
        yield
