"""A slave that gives half messages up: what no target takes after six tries counts as moved.

Nobody asks about it any more, the returned master neither, which goes on from where the slave was.
Breaks E4.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.broker.escape.half_escape import HalfEscape
from maxq.reference.mutants import diverged, ran, replaced

FAMILY = "escape"
CLAIM = "E4"
SOURCE = "RocketMQ, TransactionalMessageServiceImpl.check, which skips after eleven tries in 5.5 s"
TRIES = 6  # with the reference's pauses as long


@contextmanager
def mutant() -> Iterator[None]:
    """Skip what was tried often."""
    honest = HalfEscape.tick

    def tick(self: HalfEscape) -> None:
        ran(__name__)
        for offset, held in list(self._attempts._held.items()):
            if held.tries >= TRIES and not held.flying:
                diverged(__name__)
                self._attempts.drop(offset)
                self._reader.core.on_moved(offset)
        honest(self)

    with replaced(HalfEscape, "tick", tick):
        yield
