"""Moves half messages elsewhere, while a slave acts for its master. A shell.

Producers do not speak with an acting slave, so it asks none. The half messages that stay open are
sent to a master of another broker name, as a producer would; that one asks about them. First one
``transactionCheckInterval`` after the slave began to act, as in RocketMQ, and then each interval.

All ends are read before (RocketMQ reads 32 of them), and of the copies of one half message only the
newest moves. One that cannot be moved stays, and what is remembered does not pass it: the returned
master, or the next round, asks about it. (RocketMQ passes it after eleven tries.) One object serves
from the time when the slave begins to act until it ends. Claims: E4, E6, E8.
Source: RocketMQ ``TransactionalMessageServiceImpl.check``; docs/spec/acting-master.md 4.
"""

import asyncio

from maxq.reference.broker.client_calls.half_reader import HalfReader
from maxq.reference.broker.escape.escape import Attempts, half_copy
from maxq.reference.broker.escape.escape_bridge import EscapeBridge
from maxq.reference.broker.messages.transaction import QUEUE
from maxq.reference.broker.store.store import Store
from maxq.reference.broker.store.topics import Tables
from maxq.reference.config import BrokerConfig
from maxq.reference.host import Host
from maxq.reference.names import HALF_TOPIC
from maxq.reference.node import now_ns
from maxq.reference.records import QueueOffset
from maxq.reference.rpc import spawn
from maxq.reference.wire.message import Message


class HalfEscape:
    """The half messages of one slave while it acts; `tick` every 100 ms.

    Args:
        config: the broker's.
        host: clock and log.
        store: has copies of both topics.
        tables: remembers how far they are settled.
        bridge: the way out.
        group: the broker's tasks.
    """

    def __init__(
        self,
        config: BrokerConfig,
        host: Host,
        store: Store,
        tables: Tables,
        bridge: EscapeBridge,
        group: asyncio.TaskGroup,
    ) -> None:
        self._config = config
        self._host = host
        self._store = store
        self._bridge = bridge
        self._group = group
        self._reader = HalfReader(store, tables)
        self._attempts = Attempts()
        self._over = False
        self._round_ns = now_ns() + self._period_ns

    @property
    def _period_ns(self) -> int:
        return self._config.transaction_check_interval * 1_000_000

    def end(self) -> None:
        """The slave acts no more: what is on its way is remembered no more."""
        self._over = True

    def tick(self) -> None:
        """Send what is open for too long, and what waits to be tried again."""
        if self._reader.read_some():
            return  # nothing moves before all ends are read
        self._reader.core.forget(self._store.bounds(HALF_TOPIC, QUEUE)[0])
        if now_ns() >= self._round_ns:
            self._round_ns = now_ns() + self._period_ns
            self._begin()
        for offset in self._attempts.take_due(now_ns()):
            self._send(offset)
        if not self._over:
            self._reader.remember()

    def _begin(self) -> None:
        due = self._reader.core.due(self._host.wall_ms(), self._config.transaction_time_out)
        for half in due:
            if not self._attempts.room:
                return
            self._attempts.begin(half.offset)

    def _send(self, offset: QueueOffset) -> None:
        core = self._reader.core
        waiting = self._reader.waiting(offset) if offset in core.open else None
        if waiting is None:  # it has ended meanwhile, or has a newer copy
            self._attempts.drop(offset)
            return
        made = half_copy(waiting)
        if made is None:
            self._host.log("broker.transaction.lost", offset=offset, why="no topic to go to")
            self._attempts.drop(offset)
            core.on_moved(offset)
            return
        spawn(self._group, self._carry(offset, made))

    async def _carry(self, offset: QueueOffset, made: tuple[str, Message]) -> None:
        if await self._bridge.carry(self._attempts, offset, made) == "stored":
            self._reader.core.on_moved(offset)
            self._host.log("broker.transaction.moved", offset=offset)
