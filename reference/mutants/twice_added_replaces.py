"""A container that takes a second addition of a broker for a replacement of the first.

The broker that runs is ended, its clients lose it, and the operator hears that all is well.
Breaks B1.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.container.files import read_broker
from maxq.reference.container.inner import Inner
from maxq.reference.container.server import Container
from maxq.reference.mutants import diverged, replaced

FAMILY = "container"
CLAIM = "B1"
SOURCE = "docs/spec/acting-master.md 2: an addition of who is there is refused"


@contextmanager
def mutant() -> Iterator[None]:
    """End who is there, and begin anew."""
    honest = Container._added

    async def added(self: Container, path: str) -> Inner:
        file = read_broker(self._host.disk, path, self._settings.now)
        there = self._brokers.get(file.member.identity)
        if there is not None:
            diverged(__name__)
            await there.end()
        return await honest(self, path)

    with replaced(Container, "_added", added):
        yield
