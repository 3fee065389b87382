"""A slave that acts whenever its master is gone, anyone who else is there.

Each of a group's slaves then delivers and settles what only one may. Breaks A2.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.broker.membership import acting
from maxq.reference.mutants import diverged, replaced

FAMILY = "acting"
CLAIM = "A2"
SOURCE = "RIP-32's rule of the smallest id, left out"


@contextmanager
def mutant() -> Iterator[None]:
    """Act while id 0 is not the smallest."""
    honest = acting.Acting.step

    def step(self: acting.Acting, event: acting.Event) -> list[acting.Effect]:
        effects = honest(self, event)
        acts = self.enabled and self.me != acting.MASTER_ID and self.min_id != acting.MASTER_ID
        if acts != self.acts:
            diverged(__name__)
            self.acts = acts
        return effects

    with replaced(acting.Acting, "step", step):
        yield
