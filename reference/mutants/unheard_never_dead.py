"""A controller that looks for dead brokers in its table of heartbeats, and nowhere else.

A controller that has just started has never heard the master that died before: it is in no table,
so it is not dead, and keeps its office for ever, beside members that could lead. Breaks S13b.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.controller.liveness import Liveness
from maxq.reference.mutants import diverged, ran, replaced

FAMILY = "election"
CLAIM = "S13b"
SOURCE = (
    "RocketMQ's scan walks brokerLiveTable; whoever never beat is not in it "
    "(docs/spec/controller-ha.md 2.6 and 6.4 (H14))"
)


@contextmanager
def mutant() -> Iterator[None]:
    """Take a broker that was never heard for alive."""
    honest = Liveness.is_dead

    def is_dead(
        self: Liveness, now_ns: int, broker_set: str, broker_id: int, timeout_ms: int
    ) -> bool:
        ran(__name__)
        dead = honest(self, now_ns, broker_set, broker_id, timeout_ms)
        if dead and (broker_set, broker_id) not in self._seen:
            diverged(__name__)
            return False
        return dead

    with replaced(Liveness, "is_dead", is_dead):
        yield
