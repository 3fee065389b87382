"""A master that restarts within its epoch and goes on in it.

A loss of power has taken the end of its log, and a slave has that end. The master writes other
bytes there, under the same epoch: nothing distinguishes the two any more, and no truncation finds
the difference. Breaks S8.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.broker.replication import epochs as policy
from maxq.reference.broker.replication.epochs import Epochs
from maxq.reference.mutants import diverged, ran, replaced
from maxq.reference.records import MasterEpoch, PhyOffset

FAMILY = "election"
CLAIM = "S8"
SOURCE = "RocketMQ: a master that restarts gets its old masterEpoch (1003) and leads in it"


@contextmanager
def mutant() -> Iterator[None]:
    """Let an epoch that the log knows already begin again."""
    honest = policy.append

    def append(epochs: Epochs, epoch: MasterEpoch, start: PhyOffset) -> Epochs | None:
        ran(__name__)
        if epochs and epoch == policy.last_epoch(epochs):
            diverged(__name__)
            return epochs
        return honest(epochs, epoch, start)

    def predates(epoch: MasterEpoch, registered: int | None) -> bool:
        return False

    with replaced(policy, "append", append), replaced(policy, "predates", predates):
        yield
