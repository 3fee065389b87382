"""A controller that takes an emptied Raft log for a young one.

It votes again in terms in which it has voted, and for nodes that lack what it had acknowledged:
decisions that brokers act upon are taken back, and epochs given out again. Breaks S3.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.mutants import diverged, ran, replaced
from maxq.reference.raft.server import Raft
from maxq.reference.raft.watermark import Reached

FAMILY = "raft"
CLAIM = "S3"
SOURCE = "DLedger and jRaft: a lost log is an empty one (docs/spec/controller-ha.md 7)"


@contextmanager
def mutant() -> Iterator[None]:
    """Look at the log alone."""
    honest = Raft._lost

    def lost(self: Raft, term: int, index: int) -> Reached | None:
        ran(__name__)
        if honest(self, term, index) is not None:
            diverged(__name__)
        return None

    with replaced(Raft, "_lost", lost):
        yield
