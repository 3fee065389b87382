"""A slave that acknowledges what it has in memory, under SYNC_FLUSH as well.

When all lose their power, and the slave is back first, it is elected without the end of its log,
which was acknowledged. Breaks S6.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from maxq.reference.broker.replication.replication import Replication
from maxq.reference.mutants import diverged, ran, replaced

FAMILY = "replication"
CLAIM = "S6"
SOURCE = (
    "RocketMQ's slave acknowledges before its sync, reportSlaveMaxOffset "
    "(docs/spec/controller-ha.md 6.3)"
)


@contextmanager
def mutant() -> Iterator[None]:
    """Wait for no disk."""
    honest = Replication.__init__

    def begin(self: Replication, *given: Any, **named: Any) -> None:
        ran(__name__)
        honest(self, *given, **named)
        if self.slave.durable:
            diverged(__name__)
            self.slave.durable = False

    with replaced(Replication, "__init__", begin):
        yield
