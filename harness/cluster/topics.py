"""The topics and consumer groups of a run: they are made before it begins, and are where they must
be, whatever brokers would make of themselves (`autoCreateTopicEnable`,
`autoCreateSubscriptionGroup`).

Asked from the observers' address, in RocketMQ's own requests. Units: seconds.
"""

import asyncio
from collections.abc import Awaitable, Collection, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, TypeVar

from maxq.harness.client.probes import PROBE_TIMEOUT_S, probing, until
from maxq.harness.client.topic_calls import creation, question
from maxq.harness.cluster.processes import Nodes
from maxq.harness.cluster.queries import Inquiry, SetupFailed, leads_now
from maxq.harness.contracts.environment import Environment, Role
from maxq.harness.contracts.error_classes import error_of
from maxq.reference.records import RemoteProtocolError
from maxq.reference.rpc import Pool
from maxq.reference.wire.bodies import SubscriptionGroupConfig
from maxq.reference.wire.codes import RequestCode, ResponseCode, response_name
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.headers import to_ext
from maxq.reference.wire.node_headers import GroupRequest, TopicRequest
from maxq.reference.wire.route import TopicRouteData

T = TypeVar("T")
TOPIC_TIMEOUT_S = 30.0
COPY_TIMEOUT_S = 15.0  # slaves copy tables every 12 s
# RocketMQ's of a pair copy them for the first time 60 to 63 s after they were started: topics, and
# within milliseconds all others. That they have is asked without a pull (11): of 5.5.0 a master
# whose slave was pulled from is never online again after its next start.
FIRST_COPY_S = 90


FEW, AT_ONCE = 16, 64  # topics that are made one after the other; how many of more at once


class Left(NamedTuple):
    """What some brokers leave to their masters to make: ``topic T`` or ``consumer group G``."""

    what: str
    brokers: list[str]


def _at_once(every: Sequence[T]) -> Iterator[Sequence[T]]:
    size = 1 if len(every) <= FEW else AT_ONCE
    return (every[first : first + size] for first in range(0, len(every), size))


class Topics:
    """Makes topics and consumer groups.

    Args:
        environment: how brokers are asked.
        nodes: who is asked.
        inquiry: what the cluster says of itself.
        route_s: how long routes may take to appear.
    """

    def __init__(
        self, environment: Environment, nodes: Nodes, inquiry: Inquiry, route_s: float
    ) -> None:
        self._environment = environment
        self._nodes = nodes
        self._inquiry = inquiry
        self._route_s = route_s
        self._made: list[str] = []

    def made(self) -> list[str]:
        """The topics that there are."""
        return list(self._made)

    async def create(
        self,
        topics: dict[str, int],
        attributes: str,
        alone: Collection[str] = (),
        groups: Collection[str] = (),
    ) -> dict[str, Any]:
        """Create topics on every broker that runs, and wait until every name server routes to them;
        create consumer groups as well.
        Slaves may refuse, as they do up to 5.1.3: they copy their master's. Without controllers
        they are not asked, and must have copied them: until then one that acts has no tables.

        Args:
            topics: how many queues each has.
            attributes: of all of them, as ``+message.type=NORMAL``.
            alone: those that only the first broker set gets.
            groups: of consumers.

        Returns:
            What slaves of pairs answered that lack a topic all the same, by name, as the proof of
            an act (`maxq.histories.fault_facts.KNOW_TOPICS`); empty if none does.

        Raises:
            SetupFailed: a master refuses, routes do not appear, or a slave does not answer.
        """
        sets = sorted({n.broker_set for n in self._inquiry.by_role(Role.BROKER)})
        async with probing(self._environment.observer_dial) as pool:

            def made(topic: str, queues: int) -> Awaitable[Left]:
                request = creation(topic, queues, attributes)
                return self._make(pool, topic, request, sets[:1] if topic in alone else sets)

            left: list[Left] = []
            for some in _at_once([*topics.items()]):
                left += await asyncio.gather(*(made(topic, queues) for topic, queues in some))

            self._made += topics
            for group in groups:
                body = SubscriptionGroupConfig(group_name=group).to_json()
                request = Frame(code=RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)
                left.append(await self._create(pool, f"consumer group {group}", request, sets))
            for slaves in left if self._inquiry.pairs else ():
                if not await until(partial(self._known, pool, slaves), FIRST_COPY_S):
                    lacking = await self._lacking(pool, slaves)
                    topic = slaves.what.removeprefix("topic ")
                    seen = {"holds": False, "topic": topic, "attributes": attributes}
                    return {slave: {**seen, "answer": said} for slave, said in lacking.items()}
            return {}

    async def _make(self, pool: Pool, topic: str, request: Frame, sets: Collection[str]) -> Left:
        """Create a topic on all brokers of some sets, and wait until every name server routes to
        it."""
        left = await self._create(pool, f"topic {topic}", request, sets)
        if not await until(partial(self._routed, pool, topic, sets), self._route_s):
            raise SetupFailed(
                f"topic {topic} is not routed to broker sets {', '.join(sets)} after "
                f"{self._route_s:.0f} s"
            )
        return left

    async def _create(self, pool: Pool, what: str, request: Frame, sets: Collection[str]) -> Left:
        """Create something on all brokers of some sets that make it themselves. Of the others, if
        there are controllers, it is awaited that they have copied it: a set whose master dies
        before has lost it."""
        left = Left(what, await self._create_on_each(pool, what, request, sets))
        if not self._inquiry.pairs:
            await until(partial(self._known, pool, left), COPY_TIMEOUT_S)
        return left

    async def _create_on_each(
        self, pool: Pool, what: str, request: Frame, sets: Collection[str]
    ) -> list[str]:
        """Create something on all brokers of some sets that make it themselves; the others of them
        are returned."""
        left = []
        for broker in self._inquiry.running_brokers():
            if broker.broker_set not in sets:
                continue
            slave = self._inquiry.pairs and broker.replica
            if slave or not await self._create_on(pool, broker.name, what, request):
                left.append(broker.name)
        return left

    async def _create_on(self, pool: Pool, broker: str, what: str, request: Frame) -> bool:
        """Create something on one broker; false where a slave leaves that to its master."""
        address = self._nodes.address(broker)
        try:
            answer = await pool.call(address, request, timeout_s=TOPIC_TIMEOUT_S)
            made = answer.code == ResponseCode.SUCCESS
            refused = not made and await leads_now(pool, address)
        except (OSError, RemoteProtocolError) as error:
            why = f"cannot make {what}: {type(error).__name__} {error}"
            raise SetupFailed(await self._nodes.told(broker, why)) from None
        if refused:
            why = f"refuses {what}: {response_name(answer.code)} {answer.remark}"
            raise SetupFailed(await self._nodes.told(broker, why))
        return made

    async def _known(self, pool: Pool, left: Left) -> bool:
        """Whether brokers have what was left to their masters."""
        try:
            for broker in left.brokers:
                if (await self._config(pool, broker, left)).code != ResponseCode.SUCCESS:
                    return False
        except (OSError, RemoteProtocolError):
            return False
        return True

    async def _config(self, pool: Pool, broker: str, left: Left) -> Frame:
        """What a broker answers that is asked for it."""
        kind, _, name = left.what.rpartition(" ")
        if kind == "topic":
            request = question(name)
        else:
            group = to_ext(GroupRequest(group=name))
            request = Frame(code=RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, ext=group)
        return await pool.call(self._nodes.address(broker), request, timeout_s=PROBE_TIMEOUT_S)

    async def _lacking(self, pool: Pool, left: Left) -> dict[str, str]:
        """What slaves answer that do not have it although they had time to copy it.

        Raises:
            SetupFailed: none answers that, or it is no topic.
        """
        found: dict[str, str] = {}
        for slave in left.brokers:
            with suppress(OSError, RemoteProtocolError):
                answer = await self._config(pool, slave, left)
                if answer.code != ResponseCode.SUCCESS:
                    found[slave] = ": ".join(filter(None, error_of(answer.code, answer.remark)))
        if not found or not left.what.startswith("topic "):
            raise SetupFailed(f"not every slave knows {left.what} after {FIRST_COPY_S} s")
        return found

    async def _routed(self, pool: Pool, topic: str, sets: Collection[str]) -> bool:
        request = Frame(
            code=RequestCode.GET_ROUTEINFO_BY_TOPIC, ext=to_ext(TopicRequest(topic=topic))
        )
        try:
            for namesrv in self._inquiry.addresses(Role.NAMESRV):
                answer = await pool.call(namesrv, request, timeout_s=PROBE_TIMEOUT_S)
                if answer.code != ResponseCode.SUCCESS:
                    return False
                route = TopicRouteData.from_json(answer.body)
                if {q.broker_name for q in route.queue_datas} != set(sets):
                    return False
        except (OSError, RemoteProtocolError):
            return False
        return True
