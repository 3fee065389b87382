"""A broker that does not read its identity file, and applies for a new id at each start.

Stands for RocketMQ before 5.1.1, where a controller knew brokers by their address: a broker that
came back under another one was another broker, and the old id stayed in the controller's tables for
ever. Breaks S2.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.broker.membership.identity import IdentityFiles, New, State
from maxq.reference.mutants import diverged, replaced

FAMILY = "registration"
CLAIM = "S2"
SOURCE = "RocketMQ before 5.1.1: a broker was its address"


@contextmanager
def mutant() -> Iterator[None]:
    """Find no identity."""
    honest = IdentityFiles.load

    def load(self: IdentityFiles) -> State:
        if not isinstance(honest(self), New):
            diverged(__name__)
        return New()

    with replaced(IdentityFiles, "load", load):
        yield
