"""A name server that forgets a whole group when one of its members goes.

Its tables are keyed by the broker's name, and the one that is removed belongs to all of them. The
others are not informed, and come back one by one, each at its next turn. Breaks N6, S13.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.mutants import diverged, ran, replaced
from maxq.reference.namesrv.routes import Routes

FAMILY = "namesrv"
CLAIM = "N6"
SOURCE = "RocketMQ removes topics by broker name (removeTopicByBrokerName), whoever else has it"


@contextmanager
def mutant() -> Iterator[None]:
    """Remove by name."""
    honest = Routes.unregister

    def unregister(self: Routes, broker_name: str, address: str) -> None:
        ran(__name__)
        group = self.groups.get(broker_name)
        others = [] if group is None else sorted(set(group.addresses.values()) - {address})
        known = group is not None and address in group.addresses.values()
        honest(self, broker_name, address)
        for other in others if known else ():
            diverged(__name__)
            honest(self, broker_name, other)

    with replaced(Routes, "unregister", unregister):
        yield
