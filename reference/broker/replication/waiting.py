"""Sends that wait for replicas: answered in the order of the log, given up in the order of time.

Times are ns; offsets are bytes of the commit log. Source: RocketMQ ``GroupTransferService``, which
waits for one send at a time, so that a stuck one delays all behind it.
"""

import heapq
from collections import deque
from dataclasses import dataclass, field

from maxq.reference.records import PhyOffset


@dataclass(slots=True)
class Waiting:
    """The tickets of all sends that wait. A ticket is used once."""

    wait_ns: int
    _ends: dict[int, PhyOffset] = field(default_factory=dict)  # those not answered yet
    _by_end: list[tuple[PhyOffset, int]] = field(default_factory=list)  # a heap
    _by_time: deque[tuple[int, int]] = field(default_factory=deque)  # (deadline, ticket)

    def __bool__(self) -> bool:
        return bool(self._ends)

    def add(self, now_ns: int, ticket: int, end: PhyOffset) -> None:
        """A send waits for the replicas to have the log up to `end`."""
        self._ends[ticket] = end
        heapq.heappush(self._by_end, (end, ticket))
        self._by_time.append((now_ns + self.wait_ns, ticket))

    def reached(self, offset: int) -> list[int]:
        """Take out those that wait for no more than `offset`."""
        tickets = []
        while self._by_end and self._by_end[0][0] <= offset:
            _, ticket = heapq.heappop(self._by_end)
            if self._ends.pop(ticket, None) is not None:
                tickets.append(ticket)
        self._sweep()
        return tickets

    def expired(self, now_ns: int) -> list[int]:
        """Take out those that have waited long enough."""
        tickets = []
        while self._by_time and now_ns >= self._by_time[0][0]:
            _, ticket = self._by_time.popleft()
            if self._ends.pop(ticket, None) is not None:
                tickets.append(ticket)
        self._sweep()
        return tickets

    def clear(self) -> list[int]:
        """Take out all."""
        tickets = list(self._ends)
        self._ends.clear()
        self._sweep()
        return tickets

    def next_deadline_ns(self) -> int | None:
        """When `expired` has something to take out."""
        return self._by_time[0][0] if self._by_time else None

    def _sweep(self) -> None:
        """Forget who is answered, in so far as they are next: that bounds both queues."""
        while self._by_time and self._by_time[0][1] not in self._ends:
            self._by_time.popleft()
        while self._by_end and self._by_end[0][1] not in self._ends:
            heapq.heappop(self._by_end)
