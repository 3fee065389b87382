"""A controller that keeps a broker's new address in the leader's memory, out of the log.

A broker with a new address has registered it everywhere, as it believes. When another controller
leads, the set's master has its old address again: slaves look for it where it is not, and name
servers and controllers do not agree any more. (A broker that is named as master at an address of
former times registers again; here it does not.) Breaks S14, and S2b.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.broker.membership.controlled import ControlledMembership
from maxq.reference.controller.registry import OK, Command, RegisterBroker, Registry, Result
from maxq.reference.controller.server import Controller
from maxq.reference.mutants import diverged, ran, replaced

FAMILY = "registration"
CLAIM = "S14"
SOURCE = (
    "RocketMQ's controllers hold heartbeat data (address, epoch, offset) unreplicated "
    "(docs/spec/controller-ha.md 2.6)"
)


@contextmanager
def mutant() -> Iterator[None]:
    """Propose a registration, and apply its address here alone."""
    honest, honest_propose = Registry._register, Controller._propose

    def _register(self: Registry, c: RegisterBroker) -> Result:
        ran(__name__)
        known = self.sets.get(c.broker_set)
        if known is not None and c.broker_id in known.replicas:
            return OK
        return honest(self, c)

    async def _propose(self: Controller, command: Command) -> Result:
        result = await honest_propose(self, command)
        if isinstance(command, RegisterBroker) and result.code == OK.code:
            replica = self._registry.sets[command.broker_set].replicas[command.broker_id]
            if replica.address != command.address:
                diverged(__name__)
                replica.address = command.address
        return result

    def led_elsewhere(self: ControlledMembership, address: str | None) -> bool:
        return False

    with (
        replaced(Registry, "_register", _register),
        replaced(Controller, "_propose", _propose),
        replaced(ControlledMembership, "_led_elsewhere", led_elsewhere),
    ):
        yield
