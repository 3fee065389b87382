"""A container whose brokers have one progress of delayed messages.

What a slave copies of its own master's progress counts for the master beside it, which skips
messages that it has yet to deliver. Breaks P7.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from maxq.reference.broker.store.topics import Tables
from maxq.reference.container.logs import NamedHost
from maxq.reference.mutants import diverged, replaced
from maxq.reference.wire.bodies import DelayOffsets

FAMILY = "container"
CLAIM = "P7"
SOURCE = "docs/spec/acting-master.md 2.4: no table is shared; one that was static would be"


@contextmanager
def mutant() -> Iterator[None]:
    """Adopt for all brokers of the process."""
    honest, moved = Tables.adopt_delay, Tables.deliver_from
    beside: dict[int, list[Tables]] = {}  # by host

    def together(tables: Tables) -> list[Tables]:
        if not isinstance(tables._host, NamedHost):
            return [tables]
        found = beside.setdefault(id(tables._host._host), [])
        if tables not in found:
            found.append(tables)
        return found

    def deliver_from(self: Tables, level: int, offset: int) -> None:
        together(self)
        moved(self, level, offset)

    async def adopt_delay(self: Tables, theirs: DelayOffsets, valid: Callable[[], bool]) -> None:
        await honest(self, theirs, valid)
        for other in together(self):
            if other is not self and other.delay.offset_table != theirs.offset_table:
                diverged(__name__)
                other.delay = theirs

    with (
        replaced(Tables, "deliver_from", deliver_from),
        replaced(Tables, "adopt_delay", adopt_delay),
    ):
        yield
