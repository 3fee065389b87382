"""A broker that answers the sends that wait with success when it is master no more.

In the way of a send the role is looked at twice: who was master at the first look and is slave at
the second has no replicas to wait for. The message is truncated a moment later. Breaks S6.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.broker.replication.ha_master import HaMaster
from maxq.reference.broker.replication.ha_master_events import Acknowledge, Await, Effect, GiveUp
from maxq.reference.mutants import diverged, ran, replaced

FAMILY = "confirm"
CLAIM = "S6"
SOURCE = (
    "needHandleHA is false once brokerRole has become SLAVE (docs/spec/controller-ha.md 6.4 (H7))"
)


@contextmanager
def mutant() -> Iterator[None]:
    """Need no replicas."""
    honest, honest_await = HaMaster._on_resign, HaMaster._on_await

    def answered(effects: list[Effect]) -> list[Effect]:
        ran(__name__)
        if any(isinstance(e, GiveUp) for e in effects):
            diverged(__name__)
        return [Acknowledge(ticket=e.ticket) if isinstance(e, GiveUp) else e for e in effects]

    def _on_resign(self: HaMaster) -> list[Effect]:
        return answered(honest(self))

    def _on_await(self: HaMaster, now_ns: int, event: Await) -> list[Effect]:
        return answered(honest_await(self, now_ns, event))

    with replaced(HaMaster, "_on_resign", _on_resign), replaced(HaMaster, "_on_await", _on_await):
        yield
