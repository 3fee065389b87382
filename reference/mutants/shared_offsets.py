"""A container whose brokers have one table of consumer offsets, as one process has one static map.

How far half messages are settled is such an offset: a master goes on where its neighbour's master
is, and skips what it has yet to ask for. Breaks E4.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.broker.store.topics import Tables
from maxq.reference.container.logs import NamedHost
from maxq.reference.mutants import diverged, replaced
from maxq.reference.wire.bodies import ConsumerOffsets

FAMILY = "container"
CLAIM = "E4"
SOURCE = "docs/spec/acting-master.md 2.4: no table is shared; one that was static would be"


@contextmanager
def mutant() -> Iterator[None]:
    """Let what a slave copies, and what a group commits, count for all brokers of the process."""
    commits, adopts = Tables.commit_offset, Tables.adopt_offsets
    beside: dict[int, list[Tables]] = {}  # by host

    def others(tables: Tables) -> list[Tables]:
        if not isinstance(tables._host, NamedHost):
            return []
        found = beside.setdefault(id(tables._host._host), [])
        if tables not in found:
            found.append(tables)
        return [one for one in found if one is not tables]

    def put(tables: Tables, key: str, queue_id: int, offset: int) -> None:
        queues = tables.offsets.setdefault(key, {})
        if queues.get(queue_id, offset) != offset:
            diverged(__name__)
        queues[queue_id] = offset

    def commit_offset(self: Tables, topic: str, group: str, queue_id: int, offset: int) -> None:
        commits(self, topic, group, queue_id, offset)
        for other in others(self):
            put(other, f"{topic}@{group}", queue_id, offset)

    def adopt_offsets(self: Tables, theirs: ConsumerOffsets) -> None:
        adopts(self, theirs)
        for other in others(self):
            for key, queues in theirs.offset_table.items():
                for queue_id, offset in queues.items():
                    put(other, key, queue_id, offset)

    with (
        replaced(Tables, "commit_offset", commit_offset),
        replaced(Tables, "adopt_offsets", adopt_offsets),
    ):
        yield
