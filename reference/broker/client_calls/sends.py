"""What producers ask of a broker: to store messages (10, 310, 320)."""

from collections.abc import Awaitable, Callable
from zlib import crc32

import msgspec

from maxq.reference.broker.client_calls.acknowledgement import kept, reached
from maxq.reference.broker.client_calls.made_topics import MadeTopics
from maxq.reference.broker.membership.membership import Membership
from maxq.reference.broker.messages import send
from maxq.reference.broker.messages.refusal import Refusal
from maxq.reference.broker.store.store import Store, TakesNothing
from maxq.reference.broker.store.topics import Tables
from maxq.reference.config import BrokerConfig
from maxq.reference.host import Host
from maxq.reference.names import DLQ_PREFIX, RETRY_PREFIX
from maxq.reference.node import now_ns
from maxq.reference.rpc import Connection, Handler, Reply, split_address
from maxq.reference.settings import Settings
from maxq.reference.wire import headers
from maxq.reference.wire import property as props
from maxq.reference.wire.codes import RequestCode, ResponseCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.headers import from_ext, from_short_ext, to_ext
from maxq.reference.wire.message import host, offset_msg_id
from maxq.reference.wire.route import PERM_WRITE, TopicConfig

Answer = Reply | Awaitable[Reply]


class Sends:
    """Handlers of sends.

    Args:
        settings: the broker's; some change while it runs.
        node: clock and randomness.
        store: the messages.
        tables: topics and groups.
        membership: role and replicas.
        topics: makes topics that are first sent to.
        is_ordered: whether a consumer group holds locks of queues now.
    """

    def __init__(
        self,
        settings: Settings[BrokerConfig],
        node: Host,
        store: Store,
        tables: Tables,
        membership: Membership,
        topics: MadeTopics,
        *,
        is_ordered: Callable[[str], bool],
    ) -> None:
        self._settings = settings
        self._node = node
        self._store = store
        self._tables = tables
        self._membership = membership
        self._topics = topics
        self._is_ordered = is_ordered
        self._levels = settings.now.delay_levels()

    def handlers(self) -> dict[int, Handler]:
        return {
            RequestCode.SEND_MESSAGE: self._send,
            RequestCode.SEND_MESSAGE_V2: self._send,
            RequestCode.SEND_BATCH_MESSAGE: self._send,
        }

    @property
    def _config(self) -> BrokerConfig:
        return self._settings.now  # some of them change while the broker runs

    def _send(self, request: Frame, connection: Connection) -> Answer:
        long = request.code == RequestCode.SEND_MESSAGE
        h = from_ext(headers.SendRequest, request.ext) if long else from_short_ext(request.ext)
        situation = send.situation(self._config, self._membership)
        refusal = send.role_fault(situation)
        topic = self._tables.topics.get(h.topic)
        writable = self._config.broker_permission & PERM_WRITE
        if refusal is None and topic is not None and topic.order and not writable:
            why = f"the broker[{self._membership.address}] sending message is forbidden"
            refusal = Refusal(code=ResponseCode.NO_PERMISSION, remark=why)
        refusal = refusal or send.topic_fault(h.topic)
        if refusal is not None:
            return self._refused(request, refusal)
        if topic is None:
            return self._send_first(request, connection, h)
        if self._is_dead(request, h):
            return self._send_dead(request, connection, h)
        return self._store_sent(request, connection, h, topic, situation)

    def _is_dead(self, request: Frame, h: headers.SendRequest) -> bool:
        name = h.topic.removeprefix(RETRY_PREFIX)
        mine = name != h.topic and not h.batch  # a batch is refused later
        group = self._tables.groups.get(name) if mine else None
        return group is not None and send.is_dead(
            h, group, version=request.version, is_ordered=self._is_ordered(name)
        )

    async def _send_dead(
        self, request: Frame, connection: Connection, h: headers.SendRequest
    ) -> Reply:
        """Store among the dead letters what was tried often enough."""
        name = DLQ_PREFIX + h.topic.removeprefix(RETRY_PREFIX)
        topic = await self._topics.known(name, queues=1)
        properties = props.decode((h.properties or "").encode())
        undelayed = props.encode({k: v for k, v in properties.items() if k != props.DELAY})
        dead = msgspec.structs.replace(h, topic=name, queue_id=0, properties=undelayed.decode())
        situation = send.situation(self._config, self._membership)  # another by now, maybe
        refusal = send.role_fault(situation)
        if refusal is not None:
            return self._refused(request, refusal)
        answer = self._store_sent(request, connection, dead, topic, situation)
        return answer if isinstance(answer, Frame | None) else await answer

    async def _send_first(
        self, request: Frame, connection: Connection, h: headers.SendRequest
    ) -> Reply:
        topic = send.created_topic(h, self._tables.topics)
        if topic is None:
            why = f"topic[{h.topic}] not exist, apply first please!"
            return self._refused(request, Refusal(code=ResponseCode.TOPIC_NOT_EXIST, remark=why))
        await self._topics.put(topic)
        answer = self._send(request, connection)  # from the start: the role may be another by now
        return answer if isinstance(answer, Frame | None) else await answer

    def _store_sent(
        self,
        request: Frame,
        connection: Connection,
        h: headers.SendRequest,
        topic: TopicConfig,
        situation: send.Situation,
    ) -> Answer:
        queue_id = h.queue_id
        identity = f"{h.topic}/{h.born_timestamp}/{crc32(request.body or b'')}"
        if queue_id < 0:
            rng = self._node.rng(f"broker.queue/{identity}")
            queue_id = rng.randrange(max(1, topic.write_queue_nums))
        accepted = send.accept(
            h,
            request.body or b"",
            topic,
            situation,
            queue_id=queue_id,
            groups=None if self._config.auto_create_subscription_group else self._tables.groups,
            additions=self._additions(identity),
            levels=self._levels,
            born_host=host(*split_address(connection.remote)),
            store_host=self._membership.host,
        )
        if isinstance(accepted, Refusal):
            return self._refused(request, accepted)
        try:
            stored = self._store.put(accepted.messages)
        except ValueError as error:
            refusal = Refusal(code=ResponseCode.MESSAGE_ILLEGAL, remark=str(error))
            return self._refused(request, refusal)
        except TakesNothing as error:
            why = f"service not available now: {error}"
            refusal = Refusal(code=ResponseCode.SERVICE_NOT_AVAILABLE, remark=why)
            return self._refused(request, refusal)
        answer = headers.SendResponse(
            msg_id=",".join(
                offset_msg_id(self._membership.host, s.physical_offset) for s in stored
            ),
            queue_id=queue_id,
            queue_offset=stored[0].queue_offset,
            transaction_id=accepted.transaction_id,
            **self._region(),
        )
        if not accepted.waits and not accepted.moved:
            return request.answer(ResponseCode.SUCCESS, ext=to_ext(answer))
        return (kept if accepted.moved else reached)(
            self._config,
            self._store,
            self._membership,
            stored[-1].end,
            lambda code, why: request.answer(code, why or None, ext=to_ext(answer)),
        )

    def _additions(self, identity: str) -> dict[str, str]:
        # A message that is sent twice is two messages: the time distinguishes them.
        rng = self._node.rng(f"broker.uniq/{identity}/{now_ns()}")
        return {
            props.UNIQ_KEY: f"{rng.getrandbits(128):032X}",
            props.MSG_REGION: self._config.region_id,
            props.TRACE_ON: "true" if self._config.trace_on else "false",
            props.CLUSTER: self._config.broker_cluster_name,
        }

    def _region(self) -> dict[str, str]:
        trace = "true" if self._config.trace_on else "false"
        return {"msg_region": self._config.region_id, "trace_on": trace}

    def _refused(self, request: Frame, refusal: Refusal) -> Reply:
        trace = {"MSG_REGION": self._config.region_id, "TRACE_ON": self._region()["trace_on"]}
        return request.answer(refusal.code, refusal.remark, ext=trace)
