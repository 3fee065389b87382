"""A slave that acts and leaves the offsets of groups to its master.

It refuses to answer them and to take them, as it refuses to change a topic: consumers read on, and
nobody knows how far. Breaks A6.
"""

from collections.abc import Awaitable, Iterator
from contextlib import contextmanager

from maxq.reference.broker.client_calls import slave_refusals
from maxq.reference.broker.client_calls.slave_refusals import Self
from maxq.reference.mutants import diverged, replaced
from maxq.reference.rpc import Connection, Handler, Reply
from maxq.reference.wire.codes import RequestCode, ResponseCode
from maxq.reference.wire.frame import Frame

FAMILY = "acting"
CLAIM = "A6"
SOURCE = "hazard: RocketMQ's slave refuses resets of offsets so (docs/spec/acting-master.md 3)"

OFFSETS = (RequestCode.QUERY_CONSUMER_OFFSET, RequestCode.UPDATE_CONSUMER_OFFSET)


@contextmanager
def mutant() -> Iterator[None]:
    """Refuse both, with the answer to a reset."""
    honest, guarded = slave_refusals.REFUSED, slave_refusals._guarded

    def refused(
        handler: Handler,
        me: Self,
        code: ResponseCode,
        remark: str,
        request: Frame,
        connection: Connection,
    ) -> Reply | Awaitable[Reply]:
        if request.code in OFFSETS and me.role == "slave":
            diverged(__name__)
        return guarded(handler, me, code, remark, request, connection)

    table: dict[int, tuple[ResponseCode, str]] = dict(honest)
    table |= dict.fromkeys(OFFSETS, table[RequestCode.INVOKE_BROKER_TO_RESET_OFFSET])
    with (
        replaced(slave_refusals, "REFUSED", table),
        replaced(slave_refusals, "_guarded", refused),
    ):
        yield
