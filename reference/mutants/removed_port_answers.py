"""A broker that is removed from its container without its ports being closed.

Its clients go on sending to a store that nobody syncs or copies any more. Breaks B4.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.broker.ports import Ports
from maxq.reference.mutants import diverged, replaced

FAMILY = "container"
CLAIM = "B4"
SOURCE = "docs/spec/acting-master.md 2: a removal is answered once the ports are free"


@contextmanager
def mutant() -> Iterator[None]:
    """Keep the ports of a broker that shares its process."""
    honest = Ports.close

    def close(self: Ports) -> None:
        if self._turns is None:
            honest(self)
        elif self._servers:
            diverged(__name__)

    with replaced(Ports, "close", close):
        yield
