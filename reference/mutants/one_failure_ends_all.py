"""A container that lets the failure of one broker end the process.

A disk fails one broker, and its neighbours are gone as well. Breaks B14.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.container.inner import Inner
from maxq.reference.mutants import diverged, replaced

FAMILY = "container"
CLAIM = "B14"
SOURCE = "docs/spec/acting-master.md 2.7: who fails ends alone"


@contextmanager
def mutant() -> Iterator[None]:
    """Raise to the container what a broker that had started failed with."""
    honest = Inner._run

    async def run(self: Inner) -> None:
        await honest(self)
        if self.failure is not None and self._started.is_set():
            diverged(__name__)
            raise self.failure

    with replaced(Inner, "_run", run):
        yield
