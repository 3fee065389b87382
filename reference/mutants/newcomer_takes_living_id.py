"""A controller that registers anyone who comes with an id, wherever its owner lives.

A copy of a store is started beside the original. The controller replaces the address of the id,
and the copy finds that the master is its own id: both are master of one epoch, and acknowledge
different messages at the same offsets. Breaks S5.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.broker.membership.controlled import ControlledMembership
from maxq.reference.controller.liveness import Liveness
from maxq.reference.mutants import diverged, ran, replaced

FAMILY = "registration"
CLAIM = "S5"
SOURCE = (
    "RocketMQ replaces the address of an id and does not ask for its check code "
    "(docs/spec/controller-ha.md 2.4)"
)


@contextmanager
def mutant() -> Iterator[None]:
    """Know of no other owner, in the controller and in the broker."""
    honest = Liveness.rival

    def rival(
        self: Liveness, now_ns: int, broker_set: str, broker_id: int, address: str, incarnation: str
    ) -> str:
        ran(__name__)
        if honest(self, now_ns, broker_set, broker_id, address, incarnation):
            diverged(__name__)
        return ""

    def led_elsewhere(self: ControlledMembership, address: str | None) -> bool:
        return False

    with (
        replaced(Liveness, "rival", rival),
        replaced(ControlledMembership, "_led_elsewhere", led_elsewhere),
    ):
        yield
