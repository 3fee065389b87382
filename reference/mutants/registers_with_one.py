"""A broker that renews its registration with the first of its name servers only.

It tells all of them what changes. Another one that forgets it, as it could not hear it for
a while, does not list it again, and what clients find depends on whom they ask. Breaks N9.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.broker.membership.namesrvs import Namesrvs
from maxq.reference.mutants import diverged, ran, replaced

FAMILY = "routes"
CLAIM = "N9"
SOURCE = "no name server tells another (docs/spec/acting-master.md 1): each must hear it itself"


@contextmanager
def mutant() -> Iterator[None]:
    """Of those that are due leave out whom it has told."""
    honest = Namesrvs.register_where_due
    told: set[tuple[int, str]] = set()

    async def register_where_due(self: Namesrvs) -> None:
        ran(__name__)
        told.update((id(self), n) for n in self.addresses[1:] if n in self._settled)
        for namesrv in [n for n in self.addresses if (id(self), n) in told]:
            if namesrv not in self._settled:
                diverged(__name__)
            self._due[namesrv] = float("inf")
        await honest(self)

    with replaced(Namesrvs, "register_where_due", register_where_due):
        yield
