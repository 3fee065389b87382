"""Topics that a broker makes by itself: when first sent to, and for groups and transactions."""

import asyncio

from maxq.reference.broker.membership.membership import Membership
from maxq.reference.broker.store.topics import Tables
from maxq.reference.rpc import spawn
from maxq.reference.wire.route import TopicConfig

QUEUES_MAX = 10_000  # of a topic, whoever asks for it; RocketMQ's defaults are 1 to 16


class MadeTopics:
    """Makes topics and registers them.

    Args:
        tables: the topics.
        membership: registers them with the name servers.
        group: where that goes on after the request that has made one is answered.
    """

    def __init__(self, tables: Tables, membership: Membership, group: asyncio.TaskGroup) -> None:
        self._tables = tables
        self._membership = membership
        self._group = group

    async def put(self, topic: TopicConfig) -> None:
        """Make a topic; durable when this returns."""
        await self._tables.put_topic(topic)
        spawn(self._group, self._membership.register_everywhere())

    async def known(self, name: str, *, queues: int = 1) -> TopicConfig:
        """A topic that belongs to a group, or to this broker, made where there is none yet. Groups
        of a store, or of a master, may ask for more queues than one may have."""
        if name not in self._tables.topics:
            queues = min(queues, QUEUES_MAX)
            await self.put(
                TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues)
            )
        return self._tables.topics[name]
