"""A container that answers an addition before name servers know the broker.

The first registration comes with the first period, and until then nobody finds a broker that was
added. Breaks B3.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.broker.membership.namesrvs import Namesrvs
from maxq.reference.container.inner import Inner
from maxq.reference.mutants import diverged, replaced
from maxq.reference.node import now_ns

FAMILY = "container"
CLAIM = "B3"
SOURCE = "docs/spec/acting-master.md 2: an addition is answered once the broker is listed"
LATER_NS = 1_000_000_000


@contextmanager
def mutant() -> Iterator[None]:
    """Wait for nothing, and let a broker of a container register later."""
    honest, first_ns = Namesrvs.register_where_due, dict[int, int]()

    async def placed(self: Inner) -> None:
        diverged(__name__)
        await self._raise_failure()

    async def register(self: Namesrvs) -> None:
        began_ns = first_ns.setdefault(id(self), now_ns())
        if now_ns() - began_ns >= LATER_NS:
            await honest(self)

    with replaced(Inner, "placed", placed), replaced(Namesrvs, "register_where_due", register):
        yield
