"""A name server that shows acting masters of groups that know nothing of them.

Brokers with enableSlaveActingMaster=false do not act, whatever clients are sent. Breaks N3.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from maxq.reference.mutants import diverged, ran, replaced
from maxq.reference.namesrv import route_view
from maxq.reference.namesrv.routes import Routes
from maxq.reference.wire.route import MASTER_ID, BrokerData

FAMILY = "routes"
CLAIM = "N3"
SOURCE = (
    "RocketMQ before 5.2.0: a prime slave loses WRITE whether or not its group knows acting masters"
)


@contextmanager
def mutant() -> Iterator[None]:
    """Look at no flag."""
    honest, honest_unregister = route_view._acting, Routes.unregister

    def _acting(data: BrokerData) -> BrokerData:
        ran(__name__)
        flagged = msgspec.structs.replace(data, enable_acting_master=True)
        shown = honest(flagged)
        if shown is flagged or data.enable_acting_master:
            return honest(data)
        diverged(__name__)
        return msgspec.structs.replace(shown, enable_acting_master=False)

    def unregister(self: Routes, broker_name: str, address: str) -> None:
        honest_unregister(self, broker_name, address)
        group = self.groups.get(broker_name)
        if group is not None and MASTER_ID not in group.addresses:
            self.queues.wipe_write(broker_name)

    with (
        replaced(route_view, "_acting", _acting),
        replaced(Routes, "unregister", unregister),
    ):
        yield
