"""A master that acknowledges what it has itself, whatever its replicas have.

Stands for a set that believes itself replicated and is not: RocketMQ with ASYNC_MASTER semantics
under a profile that promises more. A master that is cut off from its replicas goes on
acknowledging until it hears of its successor, which may take minutes, and all of that is truncated.
Breaks S6.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from maxq.reference.broker.replication.ha import HaServer
from maxq.reference.mutants import diverged, replaced
from maxq.reference.records import MasterEpoch, PhyOffset

FAMILY = "confirm"
CLAIM = "S6"
SOURCE = "RocketMQ's ASYNC_MASTER semantics under a profile that promises more"


@contextmanager
def mutant() -> Iterator[None]:
    """Wait for no replica."""

    def when_acknowledged(
        self: HaServer, end: PhyOffset, master_epoch: MasterEpoch, then: Callable[[str], None]
    ) -> None:
        diverged(__name__)
        then("")

    with replaced(HaServer, "when_acknowledged", when_acknowledged):
        yield
