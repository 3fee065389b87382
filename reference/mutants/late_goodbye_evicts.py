"""A name server that takes a broker's goodbye for that of anyone who has its address now.

A broker that is stopped while it is cut off says goodbye without success, and its kernel goes on
saying it. It is started again, and registers over another connection, before the cut heals; then
the goodbye arrives, and evicts a healthy broker until its next turn. Breaks S13.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.mutants import diverged, ran, replaced
from maxq.reference.namesrv.server import Namesrv
from maxq.reference.rpc import Connection, Reply
from maxq.reference.wire import node_headers as headers
from maxq.reference.wire.codes import ResponseCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.headers import from_ext

FAMILY = "namesrv"
CLAIM = "S13"
SOURCE = "this reference until its directed schedules; RocketMQ unregisters by address alone (104)"


@contextmanager
def mutant() -> Iterator[None]:
    """Look at the address, not at the connection."""

    def _unregister(self: Namesrv, request: Frame, connection: Connection) -> Reply:
        ran(__name__)
        header = from_ext(headers.BrokerRequest, request.ext)
        if self._is_late(connection, header.broker_addr):
            diverged(__name__)
        self._routes.unregister(header.broker_name, header.broker_addr)
        self._owner.pop(header.broker_addr, None)
        self._tell_min_ids()
        return request.answer(ResponseCode.SUCCESS)

    with replaced(Namesrv, "_unregister", _unregister):
        yield
