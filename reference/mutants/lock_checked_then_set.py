"""A broker that looks into its lock table, waits a moment, and then grants.

Between the look and the grant another client has looked as well: both are granted the queue, by one
broker, or by a quorum of them. Breaks L1, L2.
"""

import asyncio
from collections.abc import Awaitable, Iterable, Iterator
from contextlib import contextmanager

from maxq.reference.broker.locks.lock_quorum import ATTEMPT, Locks, _granted, _who
from maxq.reference.mutants import diverged, ran, replaced
from maxq.reference.node import now_ns
from maxq.reference.rpc import Connection, Reply
from maxq.reference.wire.bodies import LockRequest, MessageQueue
from maxq.reference.wire.codes import ResponseCode
from maxq.reference.wire.frame import Frame

FAMILY = "locks"
CLAIM = "L1"
SOURCE = (
    "RocketMQ RebalanceLockManager: isLocked is asked outside of the lock that guards the table"
)
PAUSE_S = 0.3


@contextmanager
def mutant() -> Iterator[None]:
    """Check, wait, set."""
    honest = Locks._lock

    async def late(
        self: Locks, request: Frame, group: str, client_id: str, queues: Iterable[MessageQueue]
    ) -> Reply:
        table, free = self._table, []
        if now_ns() < table.closed_until_ns:
            return request.answer(ResponseCode.SUCCESS, body=_granted(()))
        for queue in queues:
            if table.owner(now_ns(), group, queue) in (None, client_id):
                free.append(queue)
        await asyncio.sleep(PAUSE_S)
        for queue in free:
            owner = table.owner(now_ns(), group, queue)
            if owner not in (None, client_id):
                diverged(__name__)
                table.unlock(group, owner or "", (queue,))
        mark = (request.ext or {}).get(ATTEMPT)
        granted = table.lock(now_ns(), group, client_id, free, attempt=mark)
        echo = None if mark is None else {ATTEMPT: mark}
        return request.answer(ResponseCode.SUCCESS, ext=echo, body=_granted(granted))

    def _lock(self: Locks, request: Frame, connection: Connection) -> Reply | Awaitable[Reply]:
        body = LockRequest.from_json(request.body)
        if not body.only_this_broker:
            return honest(self, request, connection)
        ran(__name__)
        group, client_id = _who(body)
        return late(self, request, group, client_id, body.mq_set)

    with replaced(Locks, "_lock", _lock):
        yield
