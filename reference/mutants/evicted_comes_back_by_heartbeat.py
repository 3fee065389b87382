"""A name server to which a heartbeat brings an evicted broker back as it was.

The address is listed again with the data version that it had, so its next registration changes
nothing: the topics of its set stay without the permission to write. Its connection is left open,
as it would register at once over a new one. Breaks N8.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.mutants import diverged, ran, replaced
from maxq.reference.namesrv.routes import Live, Routes

FAMILY = "routes"
CLAIM = "N8"
SOURCE = (
    "RocketMQ: 904 and 322 refresh an entry and never make one (docs/spec/acting-master.md 1.4)"
)


@contextmanager
def mutant() -> Iterator[None]:
    """Remember who was evicted, and under which id."""
    honest_unregister, honest = Routes.unregister, Routes.heard
    honest_expire = Routes.expire
    gone: dict[tuple[int, str], tuple[str, int, Live]] = {}

    def unregister(self: Routes, broker_name: str, address: str) -> None:
        group, live = self.groups.get(broker_name), self.live.get(address)
        if group is not None and live is not None:
            for number in [i for i, a in group.addresses.items() if a == address]:
                gone[id(self), address] = broker_name, number, live
        honest_unregister(self, broker_name, address)

    def heard(self: Routes, now_ns: int, address: str) -> None:
        ran(__name__)
        if address not in self.live and (id(self), address) in gone:
            name, number, live = gone[id(self), address]
            group = self.groups.get(name)
            if group is not None and number not in group.addresses:
                diverged(__name__)
                group.addresses[number] = address
                self.live[address] = live
        honest(self, now_ns, address)

    def expire(self: Routes, now_ns: int) -> list[str]:
        honest_expire(self, now_ns)
        return []  # so that no connection is closed, and heartbeats go on over it

    with (
        replaced(Routes, "unregister", unregister),
        replaced(Routes, "heard", heard),
        replaced(Routes, "expire", expire),
    ):
        yield
