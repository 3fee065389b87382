"""A slave that shows its consumers all that it has copied.

It copies what its master has not confirmed yet, and what the next master may not have. Breaks S10.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.broker.replication.ha_slave import HaSlave
from maxq.reference.broker.replication.ha_slave_events import Confirm, Effect
from maxq.reference.mutants import diverged, ran, replaced
from maxq.reference.wire.ha import Transfer

FAMILY = "confirm"
CLAIM = "S10"
SOURCE = (
    "RocketMQ with allAckInSyncStateSet=false: a slave's confirmOffset is its end "
    "(docs/spec/controller-ha.md 5.3)"
)


@contextmanager
def mutant() -> Iterator[None]:
    """Confirm the end of the log."""
    honest = HaSlave._on_transfer

    def _on_transfer(self: HaSlave, now_ns: int, frame: Transfer) -> list[Effect]:
        ran(__name__)
        effects = honest(self, now_ns, frame)
        if self.phase == "transfer" and self.confirm < self.end:
            diverged(__name__)
            self.confirm = self.end
            effects.append(Confirm(offset=self.end))
        return effects

    with replaced(HaSlave, "_on_transfer", _on_transfer):
        yield
