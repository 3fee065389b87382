"""A slave that never acts for its master.

Stands for enableSlaveActingMaster=false on the brokers under name servers that show acting masters:
clients are sent to a slave that does not know that it leads. Breaks A1.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.broker.membership import acting
from maxq.reference.mutants import diverged, replaced

FAMILY = "acting"
CLAIM = "A1"
SOURCE = "RocketMQ with enableSlaveActingMaster on its name servers alone (supportActingMaster)"


@contextmanager
def mutant() -> Iterator[None]:
    """Never begin."""
    honest = acting.Acting.step

    def step(self: acting.Acting, event: acting.Event) -> list[acting.Effect]:
        effects = honest(self, event)
        if self.acts:
            diverged(__name__)
            self.acts = False
        return [e for e in effects if not isinstance(e, acting.Act)]

    with replaced(acting.Acting, "step", step):
        yield
