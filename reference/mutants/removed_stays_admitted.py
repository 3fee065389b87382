"""A container that keeps the name of a broker that it has removed.

The operator adds it again, and hears that it has been added already. Breaks B3.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from maxq.reference.container.registry import Identity, Registry
from maxq.reference.mutants import diverged, replaced

FAMILY = "container"
CLAIM = "B3"
SOURCE = "RocketMQ removes from three tables, one for each role (BrokerContainer.removeBroker)"


@contextmanager
def mutant() -> Iterator[None]:
    """Let go of nobody, and find who is kept no more than before."""
    honest, kept = Registry.find, set[Identity]()

    def remove(self: Registry, identity: Identity) -> None:
        diverged(__name__)
        kept.add(identity)

    def find(
        self: Registry, wanted: Identity, id_now: Callable[[Identity], int]
    ) -> Identity | None:
        return None if wanted in kept else honest(self, wanted, id_now)

    with replaced(Registry, "remove", remove), replaced(Registry, "find", find):
        yield
