"""A container that answers a removal when it begins, a second before the broker is gone.

The operator moves its store meanwhile, under a broker that writes. Breaks B4.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.container.inner import Inner
from maxq.reference.mutants import diverged, replaced

FAMILY = "container"
CLAIM = "B4"
SOURCE = "docs/spec/acting-master.md 2: a removal is answered once the ports are free"
LATER_S = 1.0


@contextmanager
def mutant() -> Iterator[None]:
    """End a broker later, unless its container ends."""
    honest = Inner.end

    async def end(self: Inner) -> None:
        if self._ending:
            await honest(self)
            return
        diverged(__name__)
        self._group.create_task(_later(self))

    with replaced(Inner, "end", end):
        yield


async def _later(inner: Inner) -> None:
    await asyncio.sleep(LATER_S)
    inner.cancel()
