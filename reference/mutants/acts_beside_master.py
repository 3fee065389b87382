"""A slave that has acted once goes on, though its master is back.

Stands for special services whose end is lost: RocketMQ stops them in one place, at the change of
the smallest id, and nothing looks again. Breaks A3.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.broker.membership import acting
from maxq.reference.mutants import diverged, replaced

FAMILY = "acting"
CLAIM = "A3"
SOURCE = "RocketMQ's changeSpecialServiceStatus, called once and not repeated"


@contextmanager
def mutant() -> Iterator[None]:
    """Never end."""
    honest = acting.Acting.step

    def step(self: acting.Acting, event: acting.Event) -> list[acting.Effect]:
        before = self.acts
        effects = honest(self, event)
        if before and not self.acts:
            diverged(__name__)
            self.acts = True
        return effects

    with replaced(acting.Acting, "step", step):
        yield
