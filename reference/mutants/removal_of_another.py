"""A container that removes another broker where the one that is meant is not there.

The operator mistypes a name, hears that all is well, and has ended a broker that serves.
Breaks B2.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from maxq.reference.container.registry import Identity, Registry
from maxq.reference.mutants import diverged, replaced

FAMILY = "container"
CLAIM = "B2"
SOURCE = "docs/spec/acting-master.md 2: who is not there is answered with 211"


@contextmanager
def mutant() -> Iterator[None]:
    """Take whoever came last for who is meant."""
    honest = Registry.find

    def find(
        self: Registry, wanted: Identity, id_now: Callable[[Identity], int]
    ) -> Identity | None:
        found = honest(self, wanted, id_now)
        if found is None and self.members:
            diverged(__name__)
            return self.members[-1].identity
        return found

    with replaced(Registry, "find", find):
        yield
