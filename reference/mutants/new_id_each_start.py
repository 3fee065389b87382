"""A broker that does not read its identity file, and applies for a new id at each start.

Stands for RocketMQ before 5.1.1, where a controller knew brokers by their address: whoever came
back under another one was somebody else, and the old id stayed in the controller's tables for ever.
Breaks S2.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from reference.broker.identity import IdentityFiles, New, State
from reference.mutants import replaced


@contextmanager
def mutant() -> Iterator[None]:
    """Find no identity."""

    def load(self: IdentityFiles) -> State:
        return New()

    with replaced(IdentityFiles, "load", load):
        yield
