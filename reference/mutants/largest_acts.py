"""The slave with the largest id acts, and not the smallest, which clients are shown.

Breaks A1: who is shown in the master's place does not know that it leads, and another one acts.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.broker.membership import acting
from maxq.reference.mutants import diverged, replaced

FAMILY = "acting"
CLAIM = "A1"
SOURCE = "RIP-32's rule of the smallest id, the other way round"


@contextmanager
def mutant() -> Iterator[None]:
    """Act with the largest id of those that are left."""
    honest = acting.Acting.step

    def step(self: acting.Acting, event: acting.Event) -> list[acting.Effect]:
        effects = honest(self, event)
        alone = self.min_id != acting.MASTER_ID and self.me != acting.MASTER_ID
        acts = alone and self.me == max(self.members, default=-1)
        if acts != self.acts:
            diverged(__name__)
            self.acts = acts
        return effects

    with replaced(acting.Acting, "step", step):
        yield
