"""A SYNC_MASTER that acknowledges what it has itself.

Stands for a pair that believes itself copied: RocketMQ without enableSlaveActingMaster waits for no
slave unless inSyncReplicas says so, and an operator who reads SYNC_MASTER believes that it does.
Breaks A8.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from maxq.reference.broker.replication.plain.plain_replication import PlainReplication
from maxq.reference.mutants import diverged, replaced
from maxq.reference.records import PhyOffset

FAMILY = "pair"
CLAIM = "A8"
SOURCE = "RocketMQ's ASYNC_MASTER semantics under SYNC_MASTER"


@contextmanager
def mutant() -> Iterator[None]:
    """Wait for no slave."""

    def when_acknowledged(
        self: PlainReplication, end: PhyOffset, copies: int, then: Callable[[str], None]
    ) -> None:
        diverged(__name__)
        then("")

    with replaced(PlainReplication, "when_acknowledged", when_acknowledged):
        yield
