"""A master that registers as soon as it has started, and takes its slaves' tables after that.

Clients are sent to it before it knows what was committed while it was away, and what it learns
meanwhile is mixed with that. Breaks P1.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.broker.membership.namesrvs import Namesrvs
from maxq.reference.mutants import diverged, replaced

FAMILY = "pre-online"
CLAIM = "P1"
SOURCE = "RocketMQ: isolation hides a master, and nothing else (docs/spec/acting-master.md 5)"


@contextmanager
def mutant() -> Iterator[None]:
    """Hide no master."""
    honest = Namesrvs._hidden

    def hidden(self: Namesrvs) -> bool:
        if self._me.role == "fenced":
            diverged(__name__)
            return False
        return bool(honest.__get__(self))

    with replaced(Namesrvs, "_hidden", property(hidden)):
        yield
