"""A container that starts all its brokers again when one is added.

Clients of the others lose their connections, and name servers unlist them for a while. Breaks B5.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.container.inner import Inner
from maxq.reference.container.server import Container
from maxq.reference.mutants import diverged, replaced

FAMILY = "container"
CLAIM = "B5"
SOURCE = "RIP-31: an addition is no restart of the container"


@contextmanager
def mutant() -> Iterator[None]:
    """End the neighbours, and start them again."""
    honest = Container._added

    async def added(self: Container, path: str) -> Inner:
        new = await honest(self, path)
        for inner in self.brokers:
            if inner is not new:
                diverged(__name__)
                await inner.end()
                await self._begin(inner.file).started()
        return new

    with replaced(Container, "_added", added):
        yield
