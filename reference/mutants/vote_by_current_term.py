"""A controller that votes for anyone who has the newest term, not the newest log.

A node that was cut off and comes back with a high term and an old log is elected, and overwrites
what a majority had committed. Breaks S3, S4.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from maxq.reference.mutants import diverged, ran, replaced
from maxq.reference.raft.core import Core, Effect
from maxq.reference.raft.message import Vote

FAMILY = "raft"
CLAIM = "S4"
SOURCE = "Raft 5.4.1, the election restriction; a bug of many first implementations"


@contextmanager
def mutant() -> Iterator[None]:
    """Take the candidate's log for as new as this one."""
    honest = Core._on_vote

    def _on_vote(self: Core, now_ns: int, m: Vote) -> list[Effect]:
        ran(__name__)
        mine = (self.log.last_term, self.log.last_index)
        if (m.last_term, m.last_index) < mine and m.term >= self.term:
            diverged(__name__)
            m = msgspec.structs.replace(m, last_term=mine[0], last_index=mine[1])
        return honest(self, now_ns, m)

    with replaced(Core, "_on_vote", _on_vote):
        yield
