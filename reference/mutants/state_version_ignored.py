"""A name server that takes a registration as master from anyone who sends it last.

A deposed master that does not know it registers itself again at its next turn, and displaces its
successor, whose own turn comes much later. Breaks S13.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.mutants import diverged, ran, replaced
from maxq.reference.namesrv.routes import Registration, Routes

FAMILY = "namesrv"
CLAIM = "S13"
SOURCE = "RocketMQ before 5.1.1: no stateVersion in registrations (docs/spec/releases.md 3)"


@contextmanager
def mutant() -> Iterator[None]:
    """Compare no epochs."""
    honest = Routes._is_newer

    def _is_newer(self: Routes, address: str, r: Registration) -> bool:
        ran(__name__)
        if honest(self, address, r):
            diverged(__name__)
        return False

    with replaced(Routes, "_is_newer", _is_newer):
        yield
