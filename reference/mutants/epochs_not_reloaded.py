"""A broker that has no epochs after a restart, and then follows on behind whatever it has.

With an empty list there is nothing to compare, so nothing is truncated: a master that was killed
with messages that no other replica had keeps them, below those of its successor. As RocketMQ's, it
writes what comes whether or not it is a record there. Breaks S8, S9.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from maxq.reference.broker.replication import epochs as policy
from maxq.reference.broker.replication.epochs import EpochFile, Epochs
from maxq.reference.broker.store.incoming import Piece
from maxq.reference.broker.store.store import Store
from maxq.reference.mutants import diverged, ran, replaced
from maxq.reference.records import PhyOffset, RemoteProtocolError

FAMILY = "replication"
CLAIM = "S9"
SOURCE = (
    "an empty epoch cache makes RocketMQ's slave skip truncation (docs/spec/controller-ha.md 4.6 "
    "(step 1) and 6.4 (H3))"
)


@contextmanager
def mutant() -> Iterator[None]:
    """Begin with an empty list."""
    honest, honest_load = policy.truncation_point, EpochFile.load
    honest_checked = Store.checked

    def load(self: EpochFile) -> Epochs:
        ran(__name__)
        honest_load(self)
        return ()

    def truncation_point(
        mine: Epochs, my_end: PhyOffset, theirs: Epochs, their_end: PhyOffset
    ) -> PhyOffset | None:
        if my_end and not mine:
            diverged(__name__)
            return min(my_end, their_end)
        return honest(mine, my_end, theirs, their_end)

    def checked(self: Store, offset: PhyOffset, data: bytes) -> Callable[[], None]:
        try:
            return honest_checked(self, offset, data)
        except RemoteProtocolError:
            return partial(self._append, Piece(start=offset, data=data, records=(), whole=offset))

    with (
        replaced(Store, "checked", checked),
        replaced(EpochFile, "load", load),
        replaced(policy, "truncation_point", truncation_point),
    ):
        yield
