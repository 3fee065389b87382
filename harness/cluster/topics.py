"""The topics of a run: they are made before it begins, and are where they must be.

Asked from the observers' address, in RocketMQ's own requests. Units: seconds.
"""

from collections.abc import Collection
from functools import partial

from maxq.harness.client.probes import PROBE_TIMEOUT_S, probing, until
from maxq.harness.cluster.processes import START_TIMEOUT_S, Nodes
from maxq.harness.cluster.queries import Inquiry, SetupFailed, leads_now
from maxq.harness.contracts.environment import Environment, Role
from maxq.reference.records import RemoteProtocolError
from maxq.reference.rpc import Pool
from maxq.reference.wire.codes import RequestCode, ResponseCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.headers import to_ext
from maxq.reference.wire.node_headers import CreateTopicRequest, TopicRequest
from maxq.reference.wire.route import TopicRouteData

TOPIC_TIMEOUT_S = 30.0
COPY_TIMEOUT_S = 15.0  # slaves copy tables every 12 s
# RocketMQ's of a pair copy them for the first time 60 to 63 s after they were started: topics, and
# within milliseconds all others. That they have is asked without a pull (11): of 5.5.0 a master
# whose slave was pulled from is never online again after its next start.
FIRST_COPY_S = 90


class Topics:
    """Makes topics.

    Args:
        environment: how brokers are asked.
        nodes: who is asked.
        inquiry: what the cluster says of itself.
    """

    def __init__(self, environment: Environment, nodes: Nodes, inquiry: Inquiry) -> None:
        self._environment = environment
        self._nodes = nodes
        self._inquiry = inquiry
        self._made: list[str] = []

    def made(self) -> list[str]:
        """The topics that there are."""
        return list(self._made)

    async def create(
        self, topics: dict[str, int], attributes: str, alone: Collection[str] = ()
    ) -> None:
        """Create topics on every broker that runs, and wait until every name server routes to them.
        Slaves may refuse, as they do up to 5.1.3: they copy their master's. Without controllers
        they are not asked, and must have copied them: until then one that acts has no tables.

        Args:
            topics: how many queues each has.
            attributes: of all of them, as ``+message.type=NORMAL``.
            alone: those that only the first broker set gets.

        Raises:
            SetupFailed: a master refuses, routes do not appear, or a slave of a pair lacks one.
        """
        sets = sorted({n.broker_set for n in self._inquiry.by_role(Role.BROKER)})
        async with probing(self._environment.observer_dial) as pool:
            left: dict[str, list[str]] = {}
            for topic, queues in topics.items():
                header = CreateTopicRequest(
                    topic=topic,
                    default_topic="TBW102",
                    read_queue_nums=queues,
                    write_queue_nums=queues,
                    perm=6,
                    topic_filter_type="SINGLE_TAG",
                    attributes=attributes or None,
                )
                request = Frame(code=RequestCode.UPDATE_AND_CREATE_TOPIC, ext=to_ext(header))
                of_topic = sets[:1] if topic in alone else sets
                left[topic] = await self._create_on_each(pool, request, of_topic)
                if not self._inquiry.pairs:
                    # A set whose master dies before its slaves have copied the topic has lost it.
                    await until(partial(self._known, pool, left[topic], topic), COPY_TIMEOUT_S)
                if not await until(partial(self._routed, pool, topic, of_topic), START_TIMEOUT_S):
                    raise SetupFailed(
                        f"topic {topic} is not routed to broker sets {', '.join(of_topic)} after "
                        f"{START_TIMEOUT_S:.0f} s"
                    )

            self._made += topics
            for topic, slaves in left.items() if self._inquiry.pairs else ():
                if not await until(partial(self._known, pool, slaves, topic), FIRST_COPY_S):
                    raise SetupFailed(f"not every slave knows topic {topic} after {FIRST_COPY_S} s")

    async def _create_on_each(self, pool: Pool, request: Frame, sets: Collection[str]) -> list[str]:
        """Create a topic on all brokers of some sets that make it themselves; the others of them
        are returned."""
        left = []
        for broker in self._inquiry.running_brokers():
            if broker.broker_set not in sets:
                continue
            slave = self._inquiry.pairs and broker.replica
            if slave or not await self._create_topic(pool, broker.name, request):
                left.append(broker.name)
        return left

    async def _create_topic(self, pool: Pool, broker: str, request: Frame) -> bool:
        """Create a topic on one broker; false where a slave leaves that to its master."""
        address = self._nodes.address(broker)
        try:
            answer = await pool.call(address, request, timeout_s=TOPIC_TIMEOUT_S)
            made = answer.code == ResponseCode.SUCCESS
            refused = not made and await leads_now(pool, address)
        except (OSError, RemoteProtocolError) as error:
            what = f"cannot make a topic: {type(error).__name__} {error}"
            raise SetupFailed(await self._nodes.told(broker, what)) from None
        if refused:
            what = f"refuses a topic: {answer.code} {answer.remark}"
            raise SetupFailed(await self._nodes.told(broker, what))
        return made

    async def _known(self, pool: Pool, brokers: list[str], topic: str) -> bool:
        """Whether brokers have a topic."""
        request = Frame(code=RequestCode.GET_TOPIC_CONFIG, ext=to_ext(TopicRequest(topic=topic)))
        try:
            for broker in brokers:
                address = self._nodes.address(broker)
                answer = await pool.call(address, request, timeout_s=PROBE_TIMEOUT_S)
                if answer.code != ResponseCode.SUCCESS:
                    return False
        except (OSError, RemoteProtocolError):
            return False
        return True

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
