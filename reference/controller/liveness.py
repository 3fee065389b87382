"""Who is alive: the last heartbeat of every broker, known to this controller only.

Not replicated: brokers send heartbeats to every controller. Times are ns of this node's monotonic
clock. Source: RocketMQ ``DefaultBrokerHeartbeatManager``.
"""

from dataclasses import dataclass, field

from reference.controller.election import Candidate
from reference.records import BrokerId, Record


class Heartbeat(Record):
    """What a broker says of itself once a second (request 904)."""

    broker_set: str
    broker_id: BrokerId
    timeout_ms: int
    epoch: int
    max_offset: int
    confirm_offset: int
    priority: int


@dataclass(slots=True)
class Liveness:
    """Heartbeats by (broker set, id)."""

    _seen: dict[tuple[str, int], tuple[int, Heartbeat]] = field(default_factory=dict)

    def on_heartbeat(self, now_ns: int, beat: Heartbeat) -> None:
        self._seen[beat.broker_set, beat.broker_id] = (now_ns, beat)

    def is_alive(self, now_ns: int, broker_set: str, broker_id: int) -> bool:
        seen = self._seen.get((broker_set, broker_id))
        return seen is not None and now_ns <= seen[0] + seen[1].timeout_ms * 1_000_000

    def candidates(self, now_ns: int, broker_set: str) -> tuple[Candidate, ...]:
        """The living brokers of a set, in order of id."""
        return tuple(
            Candidate(
                broker_id=beat.broker_id,
                epoch=beat.epoch,
                max_offset=beat.max_offset,
                priority=beat.priority,
            )
            for (name, broker_id), (_, beat) in sorted(self._seen.items(), key=lambda e: e[0])
            if name == broker_set and self.is_alive(now_ns, name, broker_id)
        )

    def expire(self, now_ns: int) -> list[tuple[str, int]]:
        """Forget who was silent for too long; return them."""
        gone = [key for key in sorted(self._seen) if not self.is_alive(now_ns, *key)]
        for key in gone:
            del self._seen[key]
        return gone
