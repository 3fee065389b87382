"""Delivers delayed messages when their time has come, on a master.

Each level has a queue of the schedule topic, in the order of delivery. The broker reads it as far
as it is confirmed, stores a copy of each message that is due where it was meant to go, and
remembers in ``delayOffset.json`` how far it is; slaves copy that table (45).

What is remembered may be too low, and then messages are delivered twice: after a kill, and after a
fail-over to a slave that copied the table seconds ago. It is never too high, or a message would
be lost: a position counts only once the copy that it stands for is confirmed by the replicas and
synced. (Java remembers as soon as the copy is written; a slave may learn that before the copy
reaches it, be elected, and never deliver.)

Offsets are message indices of the schedule topic's queues; times are ms of the wall clock.
Source: RocketMQ ``ScheduleMessageService``.
"""

from collections import deque

from maxq.reference.broker.membership.membership import Membership
from maxq.reference.broker.store.delay import Levels, delivered
from maxq.reference.broker.store.store import Store
from maxq.reference.broker.store.topics import Tables
from maxq.reference.host import Host
from maxq.reference.names import SCHEDULE_TOPIC
from maxq.reference.records import PhyOffset, QueueOffset
from maxq.reference.wire.message import decode

TICK_S = 0.1  # between two looks, as in RocketMQ
AT_ONCE_MAX = 200  # deliveries of a level in one look: requests want their turn as well
FLYING_MAX = 10_000  # copies of a level that wait for replicas and disk


class Schedule:
    """Delivery by one broker; `tick` every `TICK_S`.

    Args:
        host: clock and log.
        store: where delayed messages are, and where their copies go.
        tables: remembers how far each level is.
        membership: whether this broker is master, and its address.
        levels: the delays.
    """

    def __init__(
        self, host: Host, store: Store, tables: Tables, membership: Membership, levels: Levels
    ) -> None:
        self._host = host
        self._store = store
        self._tables = tables
        self._membership = membership
        self._levels = levels
        self._term: int | None = None  # the master epoch that the rest is of; None: no master
        self._next: dict[int, QueueOffset] = {}  # level -> what is looked at next
        self._flying: dict[int, deque[tuple[PhyOffset, int]]] = {}  # log end, position behind it
        self._nothing_until: PhyOffset | None = None  # nothing waits in a log that ends here

    def tick(self) -> None:
        """Deliver what is due, and remember what is delivered for good."""
        if self._membership.role != "master" or self._membership.isolated:
            self._term = None  # others may be further
            return
        if self._term != self._membership.master_epoch:
            self._begin()
        if self._store.end == self._nothing_until:
            return
        for level in range(1, len(self._levels) + 1):
            self._remember(level)
            self._deliver(level)
        waits = any(self._waits(level) for level in range(1, len(self._levels) + 1))
        self._nothing_until = None if waits else self._store.end

    def _waits(self, level: int) -> bool:
        """Whether a level has messages, or copies, that are not done with."""
        end = self._store.written(SCHEDULE_TOPIC, level - 1)
        return bool(self._flying[level]) or self._next[level] < end

    def progress(self) -> dict[int, tuple[int, int]]:
        """For each level that was used: how far delivery is, and the end of its queue."""
        reached = self._tables.delay.offset_table
        ends = {
            level: self._store.bounds(SCHEDULE_TOPIC, level - 1)[1]
            for level in range(1, len(self._levels) + 1)
        }
        return {n: (reached.get(n, 0), end) for n, end in ends.items() if end or n in reached}

    def _begin(self) -> None:
        """Go on where the last master is known to have been.

        A position behind the end of the queue is of messages that were lost in an unclean election.
        """
        self._term, self._nothing_until = self._membership.master_epoch, None
        reached = self._tables.delay.offset_table
        for level in range(1, len(self._levels) + 1):
            end = self._store.written(SCHEDULE_TOPIC, level - 1)
            first, _ = self._store.bounds(SCHEDULE_TOPIC, level - 1)
            self._next[level] = QueueOffset(max(first, min(reached.get(level, 0), end)))
            self._flying[level] = deque()
            if reached.get(level, 0) > end:
                self._tables.deliver_from(level, end)

    def _deliver(self, level: int) -> None:
        now, flying = self._host.wall_ms(), self._flying[level]
        if len(flying) >= FLYING_MAX:
            return
        units = self._store.units(SCHEDULE_TOPIC, level - 1, self._next[level])
        for _, (offset, unit) in zip(range(AT_ONCE_MAX), units, strict=False):
            # A time too far ahead is of a clock that has been set back since.
            if now < unit.tags_code <= now + self._levels[level - 1]:
                return
            end = self._copy(self._store.record(unit))
            if end is None:
                return
            self._next[level] = QueueOffset(offset + 1)
            flying.append((end, offset + 1))

    def _copy(self, record: bytes) -> PhyOffset | None:
        """Store what a delayed record stands for; gives the log's end behind it, None if that
        failed for now."""
        waiting, _ = decode(record)
        copy = delivered(waiting, self._membership.host)
        if copy is None:
            self._host.log("broker.schedule.lost", at=waiting.physical_offset)
            return self._store.end
        try:
            (stored,) = self._store.put([copy])
        except ValueError as error:  # it does not fit, and never will
            self._host.log("broker.schedule.lost", at=waiting.physical_offset, why=str(error))
            return self._store.end
        except OSError as error:
            self._host.log("broker.schedule.failed", why=str(error))
            return None
        return stored.end

    def _remember(self, level: int) -> None:
        """Remember what replicas and disk have."""
        safe = min(self._store.confirm_offset, self._store.durable)
        flying, position = self._flying[level], None
        while flying and flying[0][0] <= safe:
            _, position = flying.popleft()
        if position is not None:
            self._tables.deliver_from(level, position)
