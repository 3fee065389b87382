"""A container that looks up who is to be removed by cluster and id, and by no name.

Operators remove the one master of a machine, and another one goes. Breaks B4.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from maxq.reference.container.registry import Identity, Registry
from maxq.reference.mutants import diverged, replaced

FAMILY = "container"
CLAIM = "B4"
SOURCE = "RIP-31: an identity is cluster, name and id"


@contextmanager
def mutant() -> Iterator[None]:
    """Take the first of the id."""
    honest = Registry.find

    def find(
        self: Registry, wanted: Identity, id_now: Callable[[Identity], int]
    ) -> Identity | None:
        found = honest(self, wanted, id_now)
        if found is None:
            return None
        same = (m.identity for m in self.members if m.identity.broker_id == found.broker_id)
        first = next(same, found)
        if first != found:
            diverged(__name__)
        return first

    with replaced(Registry, "find", find):
        yield
