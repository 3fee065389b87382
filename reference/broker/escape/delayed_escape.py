"""Delivers delayed messages elsewhere, while a slave acts for its master. A shell.

It reads its own copy of the schedule topic from where the master is known to have been, and sends
what is due to masters of other broker names. How far each level is goes into the table that a
master has as well (`maxq.reference.broker.client_calls.schedule`): before the first message that
no other broker has stored yet. So it may be too low, and never too high.

One object serves from the time when the slave begins to act until it ends; what was on its way
then changes nothing any more. Claims: E1, E2, E5. Source: RocketMQ ``ScheduleMessageService``;
docs/spec/acting-master.md 4.
"""

import asyncio

from maxq.reference.broker.escape.escape import Attempts, delayed_copy, reached
from maxq.reference.broker.escape.escape_bridge import EscapeBridge
from maxq.reference.broker.store.delay import Dues, Levels
from maxq.reference.broker.store.store import Store
from maxq.reference.broker.store.topics import Tables
from maxq.reference.host import Host
from maxq.reference.names import SCHEDULE_TOPIC
from maxq.reference.node import now_ns
from maxq.reference.records import QueueOffset
from maxq.reference.rpc import spawn
from maxq.reference.wire.message import Message, decode

AT_ONCE_MAX = 200  # units of a level in one look: requests want their turn as well


class _Level:
    """One level: what is read next, and what is on its way."""

    def __init__(self, number: int, start: QueueOffset, delay_ms: int) -> None:
        self.number = number
        self.next = start
        self.attempts = Attempts()
        self.dues = Dues(delay_ms)

    @property
    def queue(self) -> int:
        """Of the schedule topic."""
        return self.number - 1


class DelayedEscape:
    """The deliveries of one slave while it acts; `tick` every 100 ms.

    Args:
        host: clock and log.
        store: has the copy of the schedule topic.
        tables: remembers how far each level is.
        levels: the delays.
        bridge: the way out.
        group: the broker's tasks.
    """

    def __init__(
        self,
        host: Host,
        store: Store,
        tables: Tables,
        levels: Levels,
        bridge: EscapeBridge,
        group: asyncio.TaskGroup,
    ) -> None:
        self._host = host
        self._store = store
        self._tables = tables
        self._bridge = bridge
        self._group = group
        self._over = False
        self._levels = [
            _Level(number, self._start(number), delay_ms)
            for number, delay_ms in enumerate(levels, 1)
        ]

    def _start(self, number: int) -> QueueOffset:
        """Where the last one who delivered is known to have been."""
        known = self._tables.delay.offset_table.get(number, 0)
        first, end = self._store.bounds(SCHEDULE_TOPIC, number - 1)
        return QueueOffset(max(first, min(known, end)))

    def end(self) -> None:
        """The slave acts no more: what is on its way is remembered no more."""
        self._over = True

    def tick(self) -> None:
        """Send what is due, and what waits to be tried again."""
        for level in self._levels:
            self._read(level)
            for offset in level.attempts.take_due(now_ns()):
                self._send(level, offset)
            self._remember(level)

    def _read(self, level: _Level) -> None:
        now_ms, at_ns = self._host.wall_ms(), now_ns()
        first, end = self._store.bounds(SCHEDULE_TOPIC, level.queue)
        level.next = max(level.next, first)  # what was before has left the log
        units = self._store.units(SCHEDULE_TOPIC, level.queue, level.next)
        for _, (offset, unit) in zip(range(AT_ONCE_MAX), units, strict=False):
            at_ms = unit.tags_code
            due = level.dues.is_due(offset, at_ms, now_ms=now_ms, now_ns=at_ns, end=end)
            if not due or not level.attempts.room:
                return
            level.attempts.begin(offset)
            level.next = QueueOffset(offset + 1)

    def _send(self, level: _Level, offset: QueueOffset) -> None:
        unit = self._store.unit_of(SCHEDULE_TOPIC, level.queue, offset)
        waiting = None if unit is None else decode(self._store.record(unit))[0]
        made = None if waiting is None else delayed_copy(waiting)
        if made is None:
            self._host.log("broker.schedule.lost", level=level.number, offset=offset)
            level.attempts.drop(offset)
            return
        spawn(self._group, self._carry(level, offset, made))

    async def _carry(self, level: _Level, offset: QueueOffset, made: tuple[str, Message]) -> None:
        if await self._bridge.carry(level.attempts, offset, made) == "stored":
            self._host.log("broker.schedule.moved", level=level.number, offset=offset)
        self._remember(level)

    def _remember(self, level: _Level) -> None:
        """Remember what is stored elsewhere."""
        position = reached(level.next, level.attempts.first)
        known = self._tables.delay.offset_table.get(level.number, 0)
        if not self._over and position > known:
            self._tables.deliver_from(level.number, position)
