"""A name server that shows the second smallest id of a masterless group as its master.

Slaves go by the smallest, so the one that clients are sent to does not act. Breaks N3.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from maxq.reference.mutants import diverged, ran, replaced
from maxq.reference.namesrv import route_view
from maxq.reference.wire.route import MASTER_ID, BrokerData

FAMILY = "routes"
CLAIM = "N3"
SOURCE = "RIP-32's rule of the smallest id, off by one"


@contextmanager
def mutant() -> Iterator[None]:
    """Take the next one, where there is one."""
    honest = route_view._acting

    def _acting(data: BrokerData) -> BrokerData:
        ran(__name__)
        shown = honest(data)
        if shown is data or len(data.broker_addrs) < 2:
            return shown
        diverged(__name__)
        second = sorted(data.broker_addrs)[1]
        others = {i: a for i, a in data.broker_addrs.items() if i != second}
        addresses = {MASTER_ID: data.broker_addrs[second], **others}
        return msgspec.structs.replace(data, broker_addrs=addresses)

    with replaced(route_view, "_acting", _acting):
        yield
