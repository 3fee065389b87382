"""A slave that was away until its master had deleted what comes next in its log waits for it.

Nobody ever sends that again, so it copies nothing for ever, and its master's log is the only one:
RocketMQ's slaves do the same. Breaks A11.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.broker.replication.plain.plain_events import Bounds
from maxq.reference.broker.replication.plain.plain_slave import PlainSlave
from maxq.reference.mutants import diverged, replaced

FAMILY = "pair"
CLAIM = "A11"
SOURCE = "apache/rocketmq#3388"


@contextmanager
def mutant() -> Iterator[None]:
    """Stay out, and ask again after a pause."""
    honest = PlainSlave._fault

    def fault(self: PlainSlave, master: Bounds) -> str:
        if not 0 < self.end < master.start:
            return honest(self, master)
        diverged(__name__)
        return f"this log ends at {self.end}, the master's begins at {master.start}"

    with replaced(PlainSlave, "_fault", fault):
        yield
