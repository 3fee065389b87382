"""Who is alive: the last heartbeat of every broker, known to this controller only.

Not replicated: brokers send heartbeats to every controller. Times are ns of this node's monotonic
clock. Source: RocketMQ ``DefaultBrokerHeartbeatManager``.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field

from maxq.reference.controller.election import Candidate
from maxq.reference.records import BrokerId, Record

CLAIM_NS = 3_000_000_000  # from a registration to the first heartbeat, at most


class Heartbeat(Record):
    """What a broker says of itself once a second (request 904)."""

    broker_set: str
    broker_id: BrokerId
    timeout_ms: int
    epoch: int
    max_offset: int
    confirm_offset: int
    priority: int
    address: str = ""
    incarnation: str = ""  # of the process; empty where it names none, as RocketMQ's


@dataclass(slots=True)
class Seen:
    """The last heartbeat of a broker: when, what, and over which channel."""

    at_ns: int
    beat: Heartbeat
    channel: Hashable
    serial: int  # of the channel


class Claim(Record):
    """A registration: its sender lives, whose first heartbeat comes a moment later."""

    until_ns: int
    address: str
    incarnation: str


@dataclass(slots=True)
class Liveness:
    """Heartbeats by (broker set, id). `since_ns` is when this controller began to lead: a broker
    that it never heard gets one time-out of grace from then on before it counts as dead."""

    since_ns: int = 0
    _seen: dict[tuple[str, int], Seen] = field(default_factory=dict)
    _claims: dict[tuple[str, int], Claim] = field(default_factory=dict)

    def on_heartbeat(
        self, now_ns: int, beat: Heartbeat, channel: Hashable = None, serial: int = 0
    ) -> None:
        """Note a sign of life.

        A broker has one connection at a time. What still arrives over one that was accepted before
        another that it has used since is late: after a cut, or when an address comes back, the
        kernel delivers what it could not before, and then the end of that connection.
        """
        key = beat.broker_set, beat.broker_id
        known = self._seen.get(key)
        if known is None or serial >= known.serial:
            self._seen[key] = Seen(now_ns, beat, channel, serial)

    def rival(
        self, now_ns: int, broker_set: str, broker_id: int, address: str, incarnation: str
    ) -> str:
        """The address of another living owner of an id; empty if there is none.

        A process that moves has its incarnation at the new address as well. One that was started
        anew is another, and has the id only if it is at the same address or the former is silent:
        else the store is a copy, and both would acknowledge messages as one broker.
        """
        key = broker_set, broker_id
        claim, seen = self._claims.get(key), self._seen.get(key)
        if claim is not None and now_ns <= claim.until_ns:
            owner = claim.address, claim.incarnation
        elif seen is not None and self.is_alive(now_ns, broker_set, broker_id):
            owner = seen.beat.address, seen.beat.incarnation
        else:
            return ""
        same = incarnation and owner[1] == incarnation
        return "" if same or owner[0] == address else owner[0]

    def on_register(
        self, now_ns: int, broker_set: str, broker_id: int, address: str, incarnation: str
    ) -> None:
        """Note that an owner registers, which has no rival."""
        until = now_ns + CLAIM_NS
        claim = Claim(until_ns=until, address=address, incarnation=incarnation)
        self._claims[broker_set, broker_id] = claim

    def on_close(self, channel: Hashable) -> list[tuple[str, int]]:
        """A connection ended: brokers whose last heartbeat came over it are gone; return them."""
        gone = [key for key, seen in sorted(self._seen.items()) if seen.channel is channel]
        for key in gone:
            # Remembered as silent since for ever: to forget it would give it a grace.
            self._seen[key].at_ns = -(10**18)
        return gone

    def is_alive(self, now_ns: int, broker_set: str, broker_id: int) -> bool:
        """Whether a broker was heard lately."""
        seen = self._seen.get((broker_set, broker_id))
        return seen is not None and now_ns <= seen.at_ns + seen.beat.timeout_ms * 1_000_000

    def is_dead(self, now_ns: int, broker_set: str, broker_id: int, timeout_ms: int) -> bool:
        """Whether a broker was silent for too long, also counted from when this node leads."""
        seen = self._seen.get((broker_set, broker_id))
        if seen is None:
            return now_ns > self.since_ns + timeout_ms * 1_000_000
        return not self.is_alive(now_ns, broker_set, broker_id)

    def candidates(self, now_ns: int, broker_set: str) -> tuple[Candidate, ...]:
        """The living brokers of a set, in order of id."""
        return tuple(
            Candidate(
                broker_id=seen.beat.broker_id,
                epoch=seen.beat.epoch,
                max_offset=seen.beat.max_offset,
                priority=seen.beat.priority,
            )
            for (name, broker_id), seen in sorted(self._seen.items(), key=lambda e: e[0])
            if name == broker_set and self.is_alive(now_ns, name, broker_id)
        )

    def alive_ids(self, now_ns: int, broker_set: str) -> tuple[BrokerId, ...]:
        """Ids of the living brokers of a set, ascending."""
        return tuple(c.broker_id for c in self.candidates(now_ns, broker_set))
