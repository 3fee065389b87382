"""Who is connected: producer and consumer groups by heartbeat, and their subscriptions. Pure.

A member leaves with its connection, by its word, or by silence. Times are ns of this node's
monotonic clock. Source: RocketMQ ``ConsumerManager``, ``ProducerManager``.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import TypeVar

from maxq.reference.wire.bodies import ConsumerData, HeartbeatBody, SubscriptionData

SILENCE_NS = 120_000_000_000


@dataclass(slots=True)
class Member:
    """One client in one consumer group."""

    channel: Hashable
    data: ConsumerData
    heard_ns: int
    language: str = "OTHER"
    version: int = 0


@dataclass(slots=True)
class Producer:
    """One client in one producer group."""

    channel: Hashable
    heard_ns: int
    language: str = "OTHER"
    version: int = 0


@dataclass(slots=True)
class Clients:
    """Groups by name, then members by client id."""

    groups: dict[str, dict[str, Member]] = field(default_factory=dict)
    producers: dict[str, dict[str, Producer]] = field(default_factory=dict)

    def on_heartbeat(
        self,
        now_ns: int,
        channel: Hashable,
        body: HeartbeatBody,
        *,
        language: str = "OTHER",
        version: int = 0,
    ) -> list[str]:
        """Take a heartbeat; returns the consumer groups whose members changed."""
        changed = []
        for data in body.consumer_data_set:
            members = self.groups.setdefault(data.group_name or "", {})
            if body.client_id not in members:
                changed.append(data.group_name or "")
            members[body.client_id] = Member(channel, data, now_ns, language, version)
        for group in body.producer_data_set:
            known = self.producers.setdefault(group.group_name, {})
            known[body.client_id] = Producer(channel, now_ns, language, version)
        return changed

    def on_leave(self, client_id: str, group: str) -> list[str]:
        """A client says goodbye to a consumer group; returns the groups whose members changed."""
        members = self.groups.get(group, {})
        if members.pop(client_id, None) is None:
            return []
        if not members:
            del self.groups[group]
        return [group]

    def on_producer_leave(self, client_id: str, group: str) -> None:
        """A client says goodbye to a producer group."""
        known = self.producers.get(group, {})
        if known.pop(client_id, None) is not None and not known:
            del self.producers[group]

    def on_close(self, channel: Hashable) -> list[str]:
        """A connection ended; returns the consumer groups whose members changed."""
        return self._drop(lambda m: m.channel is channel)

    def expire(self, now_ns: int) -> list[str]:
        """Forget the silent; returns the consumer groups whose members changed."""
        return self._drop(lambda m: now_ns - m.heard_ns > SILENCE_NS)

    def _drop(self, gone: Callable[[Member | Producer], bool]) -> list[str]:
        _drop_members(self.producers, gone)
        return _drop_members(self.groups, gone)

    def members(self, group: str) -> dict[str, Member]:
        return self.groups.get(group, {})

    def groups_of(self, topic: str) -> tuple[str, ...]:
        """The groups whose members want messages of a topic."""
        return tuple(sorted(g for g in self.groups if topic in self.subscriptions(g)))

    def newest(self, group: str) -> ConsumerData | None:
        """What the member said that was heard last; None where there is none."""
        members = self.members(group).values()
        return max(members, key=lambda m: m.heard_ns).data if members else None

    def subscription(self, group: str, topic: str) -> SubscriptionData | None:
        """What a group wants of a topic, by its newest heartbeat."""
        return self.subscriptions(group).get(topic)

    def subscriptions(self, group: str) -> dict[str, SubscriptionData]:
        """What a group wants of each topic, by its newest heartbeat."""
        found: dict[str, SubscriptionData] = {}
        for member in self.members(group).values():
            for s in member.data.subscription_data_set:
                known = found.get(s.topic or "")
                if known is None or s.sub_version > known.sub_version:
                    found[s.topic or ""] = s
        return found


M = TypeVar("M", Member, Producer)


def _drop_members(groups: dict[str, dict[str, M]], gone: Callable[[M], bool]) -> list[str]:
    """Forget members; returns the groups that lost any."""
    changed = []
    for group, members in list(groups.items()):
        lost = [c for c, m in members.items() if gone(m)]
        for client_id in lost:
            del members[client_id]
        if lost:
            changed.append(group)
        if not members:
            del groups[group]
    return changed
