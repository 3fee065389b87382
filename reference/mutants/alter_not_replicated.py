"""A controller that changes a SyncStateSet in its own memory, without a majority of the others.

Another leader holds the older set: a member that had been dropped, and lacks messages, can be
elected again. Breaks S4, then S7 and S6.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.controller.registry import AlterSyncStateSet, Command, Result
from maxq.reference.controller.server import Controller
from maxq.reference.mutants import diverged, replaced

FAMILY = "sync-state-set"
CLAIM = "S4"
SOURCE = (
    "for 1001: RocketMQ judges a change on the leader's own state before the log "
    "(docs/spec/controller-ha.md 2.3 and 6.4 (H11))"
)


@contextmanager
def mutant() -> Iterator[None]:
    """Apply a change here, and nowhere else."""
    honest = Controller._propose

    async def _propose(self: Controller, command: Command) -> Result:
        if not isinstance(command, AlterSyncStateSet):
            return await honest(self, command)
        diverged(__name__)
        return self._registry.apply(command)

    with replaced(Controller, "_propose", _propose):
        yield
