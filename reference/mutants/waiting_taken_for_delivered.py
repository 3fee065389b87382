"""A returning master that takes all its delayed messages for delivered.

The slave that acted has sent on what was due, it holds, and begins behind the last one; but what no
slave had copied only the master can deliver, and what was not due yet nobody has. Breaks E3.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from maxq.reference.broker.membership import pre_online
from maxq.reference.mutants import diverged, replaced

FAMILY = "pre-online"
CLAIM = "E3"
SOURCE = "a hazard of progress beyond what its owner has seen (docs/spec/acting-master.md 5.3)"


@contextmanager
def mutant() -> Iterator[None]:
    """Go to the end of each level's queue."""
    honest = pre_online.clamped

    def clamped(progress: Mapping[int, int], ends: Mapping[int, int]) -> dict[int, int]:
        right = honest(progress, ends)
        found = {level: ends[level] for level in right}
        if found != right:
            diverged(__name__)
        return found

    with replaced(pre_online, "clamped", clamped):
        yield
