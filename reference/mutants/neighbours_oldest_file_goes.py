"""A broker beyond its share makes room on the disk where it finds some: at a neighbour.

Whose messages are the oldest in the container loses them first, though it wrote little. Breaks B10.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakSet

from maxq.reference.broker.store.cleaner import Cleaner
from maxq.reference.container.logs import NamedHost
from maxq.reference.mutants import diverged, replaced
from maxq.reference.records import PhyOffset

FAMILY = "container"
CLAIM = "B10"
SOURCE = "RocketMQ deletes files of every broker where the partition is 85 % full, whoever fills it"


def _beside(one: Cleaner, other: Cleaner) -> bool:
    """Whether two brokers are in one container that runs."""
    hosts = one._host, other._host
    named = [host for host in hosts if isinstance(host, NamedHost)]
    return one is not other and len(named) == len(hosts) and named[0]._host is named[1]._host


@contextmanager
def mutant() -> Iterator[None]:
    """Let a neighbour's oldest file go before one's own do."""
    honest, everybody = Cleaner.tick, WeakSet[Cleaner]()

    async def tick(self: Cleaner) -> None:
        everybody.add(self)
        own = self._trim

        async def trim(start: PhyOffset) -> None:
            for other in [c for c in everybody if _beside(self, c)]:
                files = other._store.log_files()
                if len(files) > 1 and files[1][0] <= other._held_from():
                    diverged(__name__)
                    await other._trim(files[1][0])
            await own(start)

        self._trim = trim
        try:
            await honest(self)
        finally:
            self._trim = own

    with replaced(Cleaner, "tick", tick):
        yield
