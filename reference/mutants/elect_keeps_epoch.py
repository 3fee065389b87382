"""A controller that elects another master and does not count the master epoch up.

Stands for every fencing token that is not renewed (Kafka's KAFKA-9144 is of this kind): two masters
write under one epoch, and nothing distinguishes their bytes. Breaks S5.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.controller.registry import ElectMaster, Registry, Result
from maxq.reference.mutants import diverged, replaced
from maxq.reference.records import MasterEpoch

FAMILY = "election"
CLAIM = "S5"
SOURCE = "Kafka KAFKA-9144: a fencing epoch that is not renewed"


@contextmanager
def mutant() -> Iterator[None]:
    """Elect under the epoch that there was, from the second election of a set on."""
    honest = Registry._elect

    def _elect(self: Registry, command: ElectMaster) -> Result:
        known = self.sets.get(command.broker_set)
        before = MasterEpoch(0) if known is None else known.master_epoch
        result = honest(self, command)
        known = self.sets.get(command.broker_set)
        if known is not None and before and known.master_epoch > before:
            diverged(__name__)
            known.master_epoch = before
        return result

    with replaced(Registry, "_elect", _elect):
        yield
