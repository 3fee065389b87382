"""An addition that fails because of a port, and leaves its name in the container's table.

The operator corrects the file, and hears that the broker has been added already. Breaks B6.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.container.registry import Member, NotAdmitted, Registry
from maxq.reference.mutants import diverged, replaced

FAMILY = "container"
CLAIM = "B6"
SOURCE = "RocketMQ keeps what a failed addition had reserved (BrokerContainer.addBroker)"


@contextmanager
def mutant() -> Iterator[None]:
    """Keep who was refused."""
    honest = Registry.admit

    def admit(self: Registry, member: Member) -> None:
        try:
            honest(self, member)
        except NotAdmitted as error:
            if error.key == "listenPort":
                diverged(__name__)
                self._members[member.identity] = member
            raise

    with replaced(Registry, "admit", admit):
        yield
