"""Consumers send back what they could not handle (36): it comes again later, or is given up.

Java answers 0 once the copy is in its own log. The consumer then counts the original as consumed,
so a fail-over in that moment loses the message. Here 0 means what it means for a send: disk and
replicas have the copy, and there are as many replicas as ``minInSyncReplicas`` asks for. Otherwise
the answer is 1 with RocketMQ's name of the reason, and the client tries again by a send of its
own: the message may come twice.

A slave reads the original in its own log, and the copy goes to a master of the same container, as
if it had been sent back there; a slave that has no such neighbour refuses.

Source: RocketMQ ``AbstractSendMessageProcessor.consumerSendMsgBack``.
"""

from collections.abc import Awaitable, Callable

from maxq.reference.broker.client_calls.acknowledgement import reached
from maxq.reference.broker.client_calls.made_topics import MadeTopics
from maxq.reference.broker.client_calls.record_reads import record_at
from maxq.reference.broker.membership.membership import Membership
from maxq.reference.broker.messages import send
from maxq.reference.broker.messages.refusal import Refusal
from maxq.reference.broker.store import delay
from maxq.reference.broker.store.store import Store, TakesNothing
from maxq.reference.broker.store.topics import Tables
from maxq.reference.config import BrokerConfig
from maxq.reference.host import Host
from maxq.reference.names import DLQ_PREFIX, RETRY_PREFIX, group_name_fault
from maxq.reference.rpc import Connection, Handler, Reply
from maxq.reference.settings import Settings
from maxq.reference.wire.bodies import SubscriptionGroupConfig
from maxq.reference.wire.codes import RequestCode, ResponseCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.headers import SendBackRequest, from_ext
from maxq.reference.wire.message import Message, decode
from maxq.reference.wire.route import PERM_WRITE, TopicConfig

# A neighbour's `SendBack.take_back`.
TakeBack = Callable[[Frame, SendBackRequest, Message], Awaitable[Reply]]


class SendBack:
    """Handler of 36.

    Args:
        settings: the broker's.
        host: randomness.
        store: where originals and copies are.
        tables: groups and their topics.
        membership: role and replicas.
        topics: makes topics of groups.
        local: a master in the same process that takes what is sent back to a slave, if there is
            one.
    """

    def __init__(
        self,
        settings: Settings[BrokerConfig],
        host: Host,
        store: Store,
        tables: Tables,
        membership: Membership,
        topics: MadeTopics,
        local: Callable[[], TakeBack | None],
    ) -> None:
        self._local = local
        self._settings = settings
        self._store = store
        self._tables = tables
        self._membership = membership
        self._topics = topics
        self._levels = settings.now.delay_levels()
        self._host = host

    def handlers(self) -> dict[int, Handler]:
        return {RequestCode.CONSUMER_SEND_MSG_BACK: self._send_back}

    async def _send_back(self, request: Frame, connection: Connection) -> Reply:
        h = from_ext(SendBackRequest, request.ext)
        take_back = self._local() if self._membership.role == "slave" else None
        refusal = self._fault(h) if take_back is None else None
        if refusal is not None:
            return request.answer(refusal.code, refusal.remark)
        original = self._original(h.offset)
        if original is None:
            return _failed(request, f"look message by offset failed, {h.offset}")
        if take_back is not None:
            return await take_back(request, h, original)
        return await self.take_back(request, h, original)

    async def take_back(self, request: Frame, h: SendBackRequest, original: Message) -> Reply:
        """Store a copy of what is sent back, here or at a slave of this process."""
        refusal = self._fault(h)
        if refusal is not None:
            return request.answer(refusal.code, refusal.remark)
        if h.group not in self._tables.groups:  # which RocketMQ makes by this as well
            await self._tables.put_group(SubscriptionGroupConfig(group_name=h.group))
        group = self._tables.groups[h.group]
        if group.retry_queue_nums <= 0:  # a group that wants no second tries
            return request.answer(ResponseCode.SUCCESS)
        times_max = group.retry_max_times
        if request.version >= delay.MAX_RECONSUME_VERSION and h.max_reconsume_times is not None:
            times_max = h.max_reconsume_times
        dead = delay.is_dead(original.reconsume_times, h.delay_level, times_max)
        name = (DLQ_PREFIX if dead else RETRY_PREFIX) + h.group
        topic = await self._topics.known(name, queues=1 if dead else group.retry_queue_nums)
        if not topic.perm & PERM_WRITE:
            why = f"the topic[{name}] sending message is forbidden"
            return request.answer(ResponseCode.NO_PERMISSION, why)
        refusal = self._fault(h)  # once more: there was time to become another's slave
        if refusal is not None:
            return request.answer(refusal.code, refusal.remark)
        copy = delay.sent_back(
            original,
            h.group,
            h.delay_level,
            dead=dead,
            queue_id=self._queue_of(original, h.group, topic),
            store_host=self._membership.host,
        )
        return await self._put(request, copy)

    def _fault(self, h: SendBackRequest) -> Refusal | None:
        situation = send.situation(self._settings.now, self._membership)
        refusal = send.role_fault(situation)
        if refusal is not None and refusal.code != ResponseCode.SYSTEM_BUSY:
            return Refusal(code=ResponseCode.SYSTEM_ERROR, remark="SERVICE_NOT_AVAILABLE")
        if refusal is not None:
            return refusal
        illegal = group_name_fault(h.group)  # a store may hold groups from before that was checked
        if illegal is not None:
            return Refusal(code=ResponseCode.INVALID_PARAMETER, remark=illegal)
        makes = self._settings.now.auto_create_subscription_group
        if h.group not in self._tables.groups and not makes:
            why = f"subscription group not exist, {h.group}"
            return Refusal(code=ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark=why)
        if not self._settings.now.broker_permission & PERM_WRITE:
            why = f"the broker[{self._membership.address}] sending message is forbidden"
            return Refusal(code=ResponseCode.NO_PERMISSION, remark=why)
        if situation.in_sync_count < situation.in_sync_count_min:
            return Refusal(code=ResponseCode.SYSTEM_ERROR, remark="IN_SYNC_REPLICAS_NOT_ENOUGH")
        return None

    def _queue_of(self, original: Message, group: str, topic: TopicConfig) -> int:
        """A queue for one more try of a message, drawn for the message and the try."""
        identity = f"{group}/{original.physical_offset}/{original.reconsume_times}"
        return self._host.rng(f"broker.retry/{identity}").randrange(topic.write_queue_nums or 1)

    def _original(self, offset: int) -> Message | None:
        record = record_at(self._store, offset)
        return None if record is None else decode(record)[0]

    async def _put(self, request: Frame, copy: Message) -> Reply:
        try:
            level = delay.level_of(copy.property_map())
            waiting = delay.scheduled(copy, level, self._levels) if level else copy
            (stored,) = self._store.put([waiting])
        except ValueError as error:  # the properties have grown too long
            return _failed(request, f"MESSAGE_ILLEGAL: {error}")
        except TakesNothing:
            return _failed(request, ResponseCode.SERVICE_NOT_AVAILABLE.name)
        config = self._settings.now
        code = await reached(
            config, self._store, self._membership, stored.end, lambda code, _: code
        )
        if code != ResponseCode.SUCCESS:
            return _failed(request, code.name)
        return request.answer(ResponseCode.SUCCESS)


def _failed(request: Frame, why: str) -> Reply:
    return request.answer(ResponseCode.SYSTEM_ERROR, why)
