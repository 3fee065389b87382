"""A broker that gives a lock back at home and passes it on to nobody.

The other members keep the lock for its lease, and Anyone who wants it next is refused until then.
Breaks L9.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from maxq.reference.broker.locks.lock_quorum import Locks
from maxq.reference.mutants import diverged, replaced
from maxq.reference.wire.bodies import MessageQueue

FAMILY = "locks"
CLAIM = "L9"
SOURCE = "RocketMQ forwards an unlock to every member (docs/spec/acting-master.md 6.4)"


@contextmanager
def mutant() -> Iterator[None]:
    """Pass nothing on."""

    def _pass_on(
        self: Locks, group: str, client_id: str, ended: Mapping[str, tuple[MessageQueue, ...]]
    ) -> None:
        if ended and self._others():
            diverged(__name__)

    with replaced(Locks, "_pass_on", _pass_on):
        yield
