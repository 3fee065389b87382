"""A container that cleans up after a refused addition, and takes the broker that is there for its
remains.

That one serves on, and no name server lists it. Breaks B1.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.container.files import read_broker
from maxq.reference.container.inner import Inner
from maxq.reference.container.registry import NotAdmitted
from maxq.reference.container.server import Container
from maxq.reference.mutants import diverged, replaced

FAMILY = "container"
CLAIM = "B1"
SOURCE = "docs/spec/acting-master.md 2: the broker that is there goes on"


@contextmanager
def mutant() -> Iterator[None]:
    """Say goodbye for who has the name that was refused."""
    honest = Container._added

    async def added(self: Container, path: str) -> Inner:
        try:
            return await honest(self, path)
        except NotAdmitted:
            file = read_broker(self._host.disk, path, self._settings.now)
            there = self._brokers.get(file.member.identity)
            if there is not None and there.broker.membership is not None:
                diverged(__name__)
                await there.broker.membership.unregister()
            raise

    with replaced(Container, "_added", added):
        yield
