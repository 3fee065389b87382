"""Topics that come into being during a run, and what brokers know of them after the last heal.

Either the first message to a topic makes it, at the broker that takes the message
(``autoCreateTopicEnable``), or an operator makes it at the master of each broker set, as RocketMQ's
tools do. Slaves copy it every ten seconds, and RocketMQ promises no more: a fail-over before that
leaves a master that does not know the topic, whose messages nobody can read until it is made again.
Operations, of an operator:

    create-topic  {"key", "topic", "node"}   ok: the master of that broker set has made it
    find-topic    {"key", "topic", "node"}   ok: "master" and "known" {broker: does it know it?}

Source: docs/spec/controller-ha.md 6.4 (H17), RocketMQ ``MQClientInstance
.updateTopicRouteInfoFromNameServer``, ``TopicConfigManager.createTopicInSendMessageMethod``.
"""

import asyncio
from collections.abc import Sequence

import msgspec

from maxq.harness.client.session import QueueName, RouteBook
from maxq.harness.client.topic_calls import TopicSession
from maxq.harness.contracts.cluster import Cluster, Made
from maxq.harness.contracts.outcome import Fail, Ok, Outcome
from maxq.histories.op import Op

TOPIC = "maxq-queue"
QUEUES = 1  # of each broker set, of a topic that an operator makes


def value_of(key: int, queue: QueueName) -> dict[str, int | str]:
    """Of an operation on the topic of a key."""
    return {"key": key, "topic": queue.topic, "node": queue.broker_set}


class Topics(msgspec.Struct, frozen=True):
    """The topics of the workload queue: how many, when all but the first are made, with which
    attributes an operator makes them, and the `name` of the first."""

    count: int = 1
    made: Made = "before"
    attributes: str = ""
    name: str = TOPIC

    @property
    def there(self) -> int:
        """How many there are before the run."""
        return self.count if self.made == "before" else 1

    @property
    def probed(self) -> "Topics":
        """Those whose queues are probed at the end."""
        return msgspec.structs.replace(ONE, name=self.name) if self.made == "before" else self


ONE = Topics()


class TopicMaker:
    """An operator, and an observer of topics.

    Args:
        cluster: where.
        routes: who leads; masters are found by those of the first queue's topic.
        group: the run's tasks.
        keys: the queues; an operation names one by its index.
        attributes: of the topics.
    """

    def __init__(
        self,
        cluster: Cluster,
        routes: RouteBook,
        group: asyncio.TaskGroup,
        keys: Sequence[QueueName],
        attributes: str = "",
    ) -> None:
        self._cluster = cluster
        self._routes = routes
        self._home = keys[0].topic
        self._keys = keys
        self._session = TopicSession(cluster.dial, group, attributes)

    def close(self) -> None:
        self._session.close()

    def _master(self, queue: QueueName) -> str | None:
        master = self._routes.master(self._home, queue.broker_set)
        if master is None:
            self._routes.nudge(self._home)
        return master

    async def create(self, op: Op) -> Outcome:
        """Make a topic at the master of a broker set."""
        queue = self._keys[op.value["key"]]
        master = self._master(queue)
        if master is None:
            return Fail("no-route")
        made = await self._session.create(master, queue.topic, QUEUES)
        self._routes.nudge(queue.topic if isinstance(made, Ok) else self._home)
        return Ok(op.value, ext=made.ext) if isinstance(made, Ok) else made

    async def find(self, op: Op) -> Outcome:
        """Ask all brokers of a set for a topic."""
        queue = self._keys[op.value["key"]]
        master = self._master(queue)
        nodes = [n.name for n in self._cluster.nodes
                 if n.broker_set == queue.broker_set and not n.spare]  # fmt: skip
        brokers = {name: self._cluster.address(name) for name in nodes}
        leads = next((name for name, at in brokers.items() if at == master), None)
        if leads is None:
            return Fail("no-route")
        known = await self._session.known(brokers, queue.topic)
        if leads not in known:
            return Fail("no-answer")
        return Ok({**op.value, "master": leads, "known": known})
