"""Who is connected: producer and consumer groups by heartbeat, and their subscriptions. Pure.

A member leaves with its connection, by its word, or by silence. Times are ns of this node's
monotonic clock. Source: RocketMQ ``ConsumerManager``, ``ProducerManager``.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from reference.wire.bodies import ConsumerData, HeartbeatBody, SubscriptionData

SILENCE_NS = 120_000_000_000


@dataclass(slots=True)
class Member:
    """One client in one consumer group."""

    channel: Hashable
    data: ConsumerData
    heard_ns: int


@dataclass(slots=True)
class Clients:
    """Consumer groups by name, then members by client id."""

    groups: dict[str, dict[str, Member]] = field(default_factory=dict)

    def on_heartbeat(self, now_ns: int, channel: Hashable, body: HeartbeatBody) -> list[str]:
        """Take a heartbeat; returns the groups whose members changed."""
        changed = []
        for data in body.consumer_data_set:
            members = self.groups.setdefault(data.group_name or "", {})
            if body.client_id not in members:
                changed.append(data.group_name or "")
            members[body.client_id] = Member(channel, data, now_ns)
        return changed

    def on_leave(self, client_id: str, group: str) -> list[str]:
        """A client says goodbye to a group; returns the groups whose members changed."""
        members = self.groups.get(group, {})
        if members.pop(client_id, None) is None:
            return []
        if not members:
            del self.groups[group]
        return [group]

    def on_close(self, channel: Hashable) -> list[str]:
        """A connection ended; returns the groups whose members changed."""
        return self._drop(lambda m: m.channel is channel)

    def expire(self, now_ns: int) -> list[str]:
        """Forget the silent; returns the groups whose members changed."""
        return self._drop(lambda m: now_ns - m.heard_ns > SILENCE_NS)

    def _drop(self, gone: Callable[[Member], bool]) -> list[str]:
        changed = []
        for group, members in list(self.groups.items()):
            lost = [c for c, m in members.items() if gone(m)]
            for client_id in lost:
                del members[client_id]
            if lost:
                changed.append(group)
            if not members:
                del self.groups[group]
        return changed

    def members(self, group: str) -> dict[str, Member]:
        return self.groups.get(group, {})

    def subscription(self, group: str, topic: str) -> SubscriptionData | None:
        """What a group wants of a topic, by its newest heartbeat."""
        found: SubscriptionData | None = None
        for member in self.members(group).values():
            for s in member.data.subscription_data_set:
                if s.topic == topic and (found is None or s.sub_version > found.sub_version):
                    found = s
        return found
