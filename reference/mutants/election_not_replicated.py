"""A controller that elects in its own memory, without a majority of the others.

Its answers are fast and right, until another one leads, who has never heard of the election: the
master epoch goes back, and its number is given to another broker. Breaks S3, S5.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.controller.registry import Command, ElectMaster, Result
from maxq.reference.controller.server import Controller
from maxq.reference.mutants import diverged, replaced

FAMILY = "election"
CLAIM = "S3"
SOURCE = (
    "for elections: RocketMQ's leader builds the event from its own state "
    "(docs/spec/controller-ha.md 2.3 and 6.4 (H11))"
)


@contextmanager
def mutant() -> Iterator[None]:
    """Apply an election here, and nowhere else."""
    honest = Controller._propose

    async def _propose(self: Controller, command: Command) -> Result:
        if not isinstance(command, ElectMaster):
            return await honest(self, command)
        diverged(__name__)
        return self._registry.apply(command)

    with replaced(Controller, "_propose", _propose):
        yield
