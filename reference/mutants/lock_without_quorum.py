"""A broker that grants a queue's lock alone, also in strict mode.

Stands for RocketMQ without ``lockInStrictMode``: two brokers of a set, one of which was master a
moment ago, lock one queue for two consumers, and ordered messages are consumed twice and out of
order. Breaks L1, L2.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from maxq.reference.broker.locks.lock_quorum import Locks, _granted
from maxq.reference.mutants import diverged, replaced
from maxq.reference.node import now_ns
from maxq.reference.rpc import Reply
from maxq.reference.wire.bodies import MessageQueue
from maxq.reference.wire.codes import ResponseCode
from maxq.reference.wire.frame import Frame

FAMILY = "locks"
CLAIM = "L1"
SOURCE = "RocketMQ without lockInStrictMode"


@contextmanager
def mutant() -> Iterator[None]:
    """Ask no peer."""

    async def _win(
        self: Locks, request: Frame, group: str, client_id: str, queues: Iterable[MessageQueue]
    ) -> Reply:
        diverged(__name__)
        granted = self._table.lock(now_ns(), group, client_id, queues)
        return request.answer(ResponseCode.SUCCESS, body=_granted(granted))

    with replaced(Locks, "_win", _win):
        yield
