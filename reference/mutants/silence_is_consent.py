"""A broker that counts a peer which does not answer as one that grants.

anyone who is unreachable is dead, and the dead hold no locks: two parts of a set grant one queue
to two clients. Breaks L1, L2.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from maxq.reference.broker.locks.locks import Tally
from maxq.reference.mutants import diverged, ran, replaced
from maxq.reference.wire.bodies import MessageQueue

FAMILY = "locks"
CLAIM = "L1"
SOURCE = "Hazelcast 3.8: locks granted in both parts of a partition (Jepsen, 2017)"


@contextmanager
def mutant() -> Iterator[None]:
    """Take no answer for a yes. (A refusal names no queue either; it is taken for one as well.)"""
    honest = Tally.on_answer

    def on_answer(self: Tally, granted: Iterable[MessageQueue]) -> None:
        ran(__name__)
        named = tuple(granted)
        if not named and self.mine:
            diverged(__name__)
        honest(self, named or self.mine)

    with replaced(Tally, "on_answer", on_answer):
        yield
