"""A name server to which a heartbeat of one broker counts for all of its set.

A broker that is held stays listed for as long as any other of its set lives, and clients go on
waiting for it. Breaks N4.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.mutants import diverged, ran, replaced
from maxq.reference.namesrv.routes import Routes

FAMILY = "routes"
CLAIM = "N4"
SOURCE = "904 names cluster, broker name and address, and only the address counts"

SILENT_NS = 1_500_000_000  # longer than a broker that lives is, by default


@contextmanager
def mutant() -> Iterator[None]:
    """Go by the broker name."""
    honest = Routes.heard
    beat_ns: dict[tuple[int, str], int] = {}

    def heard(self: Routes, now_ns: int, address: str) -> None:
        ran(__name__)
        honest(self, now_ns, address)
        beat_ns[id(self), address] = now_ns
        for group in self.groups.values():
            if address in group.addresses.values():
                for other in [a for a in group.addresses.values() if a in self.live]:
                    honest(self, now_ns, other)
                    if now_ns - beat_ns.get((id(self), other), now_ns) > SILENT_NS:
                        diverged(__name__)

    with replaced(Routes, "heard", heard):
        yield
