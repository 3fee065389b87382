"""A name server that compares a registration's epoch with the last one of the same broker.

A deposed master never registers with a lower epoch than its own, so it takes the place of its
successor, whose entry nobody looks at. Breaks N13.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.mutants import diverged, ran, replaced
from maxq.reference.namesrv.routes import Registration, Routes

FAMILY = "namesrv"
CLAIM = "N13"
SOURCE = "RocketMQ compares with the holder of the id (docs/spec/acting-master.md 1.3), got wrong"


@contextmanager
def mutant() -> Iterator[None]:
    """Ask about the sender's address."""
    honest = Routes._is_newer

    def _is_newer(self: Routes, address: str, r: Registration) -> bool:
        ran(__name__)
        newer = honest(self, r.address, r)
        if newer != honest(self, address, r):
            diverged(__name__)
        return newer

    with replaced(Routes, "_is_newer", _is_newer):
        yield
