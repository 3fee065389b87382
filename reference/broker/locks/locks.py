"""Locks of ordered queues: one broker's leases, and when a quorum of brokers has spoken. Pure.

A consumer of ordered messages holds the lock of a queue while it consumes. A lock is a lease that
its owner renews; only time and the owner end it. Leases live in memory only: in strict mode
a broker therefore grants and renews nothing for one lease after its start, since it may have
granted what it no longer knows (Java forgets, and two clients consume side by side: N = 3, A holds
{M, S1}; M restarts; B asks M, and M and S2 grant). Times are ns of this node's monotonic clock.

An attempt to get a quorum that failed should leave no leases behind, or every competitor waits for
them. But only leases that this very attempt has made may go: one that was there before may be part
of an older quorum, and its owner may still consume. So a lease remembers the attempt that made it,
and forgets it when it is renewed; `undo` removes what still bears the attempt's mark.

An unlock that is passed on to other brokers may come late, when the client holds the queue again.
It names the last two attempts that it ends, and `release` spares what another one has renewed. One
name would not do: the last attempt itself may come late, just before its unlock, and renew a lease
of a later quorum (a cut holds both back for ten seconds, and lets them through together).

Source: RocketMQ ``RebalanceLockManager``, ``AdminBrokerProcessor.lockBatchMQ``; claims L1 to L9.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from maxq.reference.wire.bodies import MessageQueue

LEASES_MAX = 200_000  # of one broker; beyond it no client gets a new one


@dataclass(slots=True)
class Lease:
    """A queue's owner."""

    client_id: str
    renewed_ns: int
    attempt: str | None  # that made it; None once renewed
    mark: str | None  # of the last attempt that made or renewed it
    before: str | None = None  # the mark before that one

    @property
    def last(self) -> str:
        """The last two marks."""
        return f"{self.before or ''}/{self.mark}"


@dataclass(slots=True)
class LockTable:
    """The leases of one broker.

    Args:
        lease_ns: how long a lease holds without renewal.
        closed_until_ns: before this time nothing is granted or renewed.
    """

    lease_ns: int
    closed_until_ns: int = 0
    _leases: dict[tuple[str, MessageQueue], Lease] = field(default_factory=dict)

    def lock(
        self,
        now_ns: int,
        group: str,
        client_id: str,
        queues: Iterable[MessageQueue],
        *,
        attempt: str | None = None,
    ) -> tuple[MessageQueue, ...]:
        """Grant or renew what no other client holds; returns it."""
        if now_ns < self.closed_until_ns:
            return ()
        return tuple(q for q in queues if self._lock(now_ns, group, client_id, q, attempt))

    def _lock(
        self, now_ns: int, group: str, client_id: str, queue: MessageQueue, attempt: str | None
    ) -> bool:
        held = self._leases.get((group, queue))
        live = held is not None and now_ns - held.renewed_ns <= self.lease_ns
        if held is not None and live:
            if held.client_id != client_id:
                return False
            held.renewed_ns, held.attempt = now_ns, None
            held.before, held.mark = held.mark, attempt
            return True
        if held is None and len(self._leases) >= LEASES_MAX:
            return False
        self._leases[group, queue] = Lease(client_id, now_ns, attempt, attempt)
        return True

    def unlock(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> None:
        """End a client's own leases."""
        for queue in queues:
            held = self._leases.get((group, queue))
            if held is not None and held.client_id == client_id:
                del self._leases[group, queue]

    def marks(
        self, group: str, client_id: str, queues: Iterable[MessageQueue]
    ) -> dict[str, tuple[MessageQueue, ...]]:
        """A client's own leases of these queues, by the last two attempts that made or renewed
        them."""
        found: dict[str, tuple[MessageQueue, ...]] = {}
        for queue in queues:
            held = self._leases.get((group, queue))
            if held is not None and held.client_id == client_id and held.mark is not None:
                found[held.last] = (*found.get(held.last, ()), queue)
        return found

    def release(
        self, group: str, client_id: str, queues: Iterable[MessageQueue], mark: str
    ) -> None:
        """End a client's leases that no attempt but those of `mark`, the last two of `marks`, has
        renewed."""
        same = [q for q in queues if (held := self._leases.get((group, q)))
                and held.last == mark]  # fmt: skip
        self.unlock(group, client_id, same)

    def undo(
        self, group: str, client_id: str, queues: Iterable[MessageQueue], attempt: str
    ) -> None:
        """End what an attempt has made, and nothing that was renewed since."""
        made = [q for q in queues if (held := self._leases.get((group, q)))
                and held.attempt == attempt]  # fmt: skip
        self.unlock(group, client_id, made)

    def expire(self, now_ns: int) -> None:
        """Forget leases that have run out; they bind no client."""
        for key in [k for k, v in self._leases.items() if now_ns - v.renewed_ns > self.lease_ns]:
            del self._leases[key]

    def is_held(self, now_ns: int, group: str) -> bool:
        """Whether a group holds any queue."""
        return any(
            name == group and now_ns - held.renewed_ns <= self.lease_ns
            for (name, _), held in self._leases.items()
        )

    def owner(self, now_ns: int, group: str, queue: MessageQueue) -> str | None:
        """Who holds a queue."""
        held = self._leases.get((group, queue))
        if held is None or now_ns - held.renewed_ns > self.lease_ns:
            return None
        return held.client_id


def quorum(total_replicas: int) -> int:
    """How many brokers of a set must grant, the one asked included."""
    return total_replicas // 2 + 1


@dataclass(slots=True)
class Tally:
    """Grants of one attempt, counted as the brokers of a set answer.

    Args:
        needed: grants that make a quorum, at least 1.
        mine: what the asked broker itself has granted; nothing else can be won.
        asked: how many other brokers were asked.
    """

    needed: int
    mine: tuple[MessageQueue, ...]
    asked: int
    _grants: dict[MessageQueue, int] = field(default_factory=dict)
    _answered: int = 0

    def on_answer(self, granted: Iterable[MessageQueue]) -> None:
        """Another broker has answered, or was given up (with nothing)."""
        self._answered += 1
        mine = frozenset(self.mine)
        for queue in dict.fromkeys(q for q in granted if q in mine):
            self._grants[queue] = self._grants.get(queue, 0) + 1

    @property
    def won(self) -> tuple[MessageQueue, ...]:
        """What has its quorum, in the order of the request."""
        return tuple(q for q in self.mine if 1 + self._grants.get(q, 0) >= self.needed)

    @property
    def lost(self) -> tuple[MessageQueue, ...]:
        """What cannot get a quorum any more."""
        left = self.asked - self._answered
        return tuple(q for q in self.mine if 1 + self._grants.get(q, 0) + left < self.needed)

    @property
    def decided(self) -> bool:
        """Whether further answers change nothing."""
        return len(self.won) + len(self.lost) == len(self.mine)
