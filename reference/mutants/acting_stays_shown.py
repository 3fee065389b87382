"""A name server that goes on showing a slave as master, though the master is registered again.

Another name server that had lost nobody shows the master, so that of two clients each follows the
route that it was given, and each holds the lock of one queue. Breaks L4.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from maxq.reference.mutants import diverged, ran, replaced
from maxq.reference.namesrv.routes import Routes
from maxq.reference.wire.route import MASTER_ID, PERM_WRITE, BrokerData, TopicRouteData

FAMILY = "routes"
CLAIM = "L4"
SOURCE = "a hazard of routes that are derived once and kept: nothing derives them again"


@contextmanager
def mutant() -> Iterator[None]:
    """Keep what a group was without its master."""
    honest = Routes.route

    def route(self: Routes, topic: str) -> TopicRouteData | None:
        found = honest(self, topic)
        if found is None:
            return None
        ran(__name__)
        kept: dict[str, BrokerData] = vars(self).setdefault("_kept", {})
        kept |= {d.broker_name: d for d in found.broker_datas if MASTER_ID not in d.broker_addrs}
        if not any(data.broker_name in kept for data in found.broker_datas):
            return found
        shown = tuple(kept.get(data.broker_name, data) for data in found.broker_datas)
        if shown != found.broker_datas:
            diverged(__name__)
        queues = tuple(
            msgspec.structs.replace(q, perm=q.perm & ~PERM_WRITE) if q.broker_name in kept else q
            for q in found.queue_datas
        )
        return msgspec.structs.replace(found, broker_datas=shown, queue_datas=queues)

    with replaced(Routes, "route", route):
        yield
