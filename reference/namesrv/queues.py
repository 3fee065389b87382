"""Which queues each topic has on each broker name. Pure.

The second half of a name server's tables; the first, who lives where, is in `routes`. Permissions
are edited here and only here: at a registration, at the loss of a master, and by operators.
Source: RocketMQ ``RouteInfoManager.topicQueueTable``.
"""

from collections.abc import Callable, Iterable, Mapping

import msgspec

from maxq.reference.wire.route import PERM_READ, PERM_WRITE, QueueData, TopicConfig


class Queues:
    """Topic, then broker name, then its queues."""

    def __init__(self) -> None:
        self._table: dict[str, dict[str, QueueData]] = {}

    def take(
        self, broker: str, topics: Mapping[str, TopicConfig], *, replace: bool, keep: int
    ) -> None:
        """Take the topics that a broker registered.

        Args:
            broker: its name.
            topics: its table.
            replace: whether what is known already is overwritten.
            keep: mask of the permission bits that are taken.
        """
        for name, topic in topics.items():
            known = self._table.setdefault(name, {})
            if replace or broker not in known:
                known[broker] = QueueData(
                    broker_name=broker,
                    perm=topic.perm & keep,
                    read_queue_nums=topic.read_queue_nums,
                    topic_sys_flag=topic.topic_sys_flag,
                    write_queue_nums=topic.write_queue_nums,
                )

    def put(self, topic: str, queues: Iterable[QueueData]) -> None:
        """Set a topic's queues on some brokers, just as given."""
        for data in queues:
            self._table.setdefault(topic, {})[data.broker_name] = data

    def of(self, topic: str) -> tuple[QueueData, ...]:
        """A topic's queues, by broker name; empty if it is unknown."""
        known = self._table.get(topic, {})
        return tuple(known[name] for name in sorted(known))

    def topics(self) -> tuple[str, ...]:
        return tuple(sorted(self._table))

    def topics_of(self, brokers: Iterable[str]) -> tuple[str, ...]:
        """Topics that any of some broker names serves."""
        wanted = set(brokers)
        return tuple(t for t in sorted(self._table) if wanted & self._table[t].keys())

    def drop(self, broker: str, *, keep: Iterable[str] = ()) -> None:
        """Forget a broker name's queues, but for those of some topics."""
        kept = frozenset(keep)
        for topic in [t for t in self._table if t not in kept]:
            self._remove(topic, broker)

    def delete(self, topic: str, brokers: Iterable[str] | None = None) -> None:
        """Forget a topic, or just its queues on some broker names."""
        for broker in tuple(self._table.get(topic, {})) if brokers is None else brokers:
            self._remove(topic, broker)

    def _remove(self, topic: str, broker: str) -> None:
        known = self._table.get(topic, {})
        if known.pop(broker, None) is not None and not known:
            del self._table[topic]

    def wipe_write(self, broker: str) -> int:
        """Take the write permission from every queue of a broker name; returns of how many topics,
        changed or not."""
        return self._permit(broker, lambda perm: perm & ~PERM_WRITE)

    def add_write(self, broker: str) -> int:
        """Let every queue of a broker name be read and written, and nothing else, as RocketMQ does;
        returns of how many topics."""
        return self._permit(broker, lambda _: PERM_READ | PERM_WRITE)

    def _permit(self, broker: str, change: Callable[[int], int]) -> int:
        count = 0
        for known in self._table.values():
            if broker in known:
                data = known[broker]
                known[broker] = msgspec.structs.replace(data, perm=change(data.perm))
                count += 1
        return count
