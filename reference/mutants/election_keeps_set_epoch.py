"""A controller whose elections change the SyncStateSet without a new number for it.

Two sets have one SyncStateSet epoch, so a proposal that was made on top of the old one is accepted
on top of the new. Breaks S4.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.controller.registry import OK, ElectMaster, Registry, Result
from maxq.reference.mutants import diverged, replaced

FAMILY = "sync-state-set"
CLAIM = "S4"
SOURCE = "MongoDB before 4.4: configurations had a version and no term, so two could share one"


@contextmanager
def mutant() -> Iterator[None]:
    """Count elections, not the sets that they make."""
    honest = Registry._elect

    def _elect(self: Registry, command: ElectMaster) -> Result:
        result = honest(self, command)
        known = self.sets.get(command.broker_set)
        if result.code == OK.code and known is not None and known.sync_state_set_epoch > 1:
            diverged(__name__)
            known.sync_state_set_epoch -= 1
        return result

    with replaced(Registry, "_elect", _elect):
        yield
