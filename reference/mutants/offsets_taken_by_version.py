"""A slave that takes its master's offsets only where their version is another one.

A version moves with one commit in some hundred, so what groups commit stays with the master, and is
gone when that is. Breaks P6.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.broker.store.topics import Tables
from maxq.reference.mutants import diverged, ran, replaced
from maxq.reference.wire.bodies import ConsumerOffsets

FAMILY = "pair"
CLAIM = "P6"
SOURCE = "hazard: other tables are taken by version (docs/spec/controller-ha.md 6.4)"


@contextmanager
def mutant() -> Iterator[None]:
    """Leave offsets of a version that is known."""
    honest = Tables.adopt_offsets

    def adopt(self: Tables, offsets: ConsumerOffsets) -> None:
        ran(__name__)
        if offsets.data_version == self.offset_version:
            diverged(__name__)
        else:
            honest(self, offsets)

    with replaced(Tables, "adopt_offsets", adopt):
        yield
