"""What producers and consumers ask of a broker: send, pull, heartbeats."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from zlib import crc32

import msgspec

from reference.broker.client_calls.acknowledgement import reached
from reference.broker.client_calls.clients import Clients
from reference.broker.membership.membership import Membership
from reference.broker.messages import pull, send
from reference.broker.messages.refusal import Refusal
from reference.broker.store.store import Store
from reference.broker.store.topics import DLQ_PREFIX, RETRY_PREFIX, Tables, name_fault
from reference.config import BrokerConfig
from reference.host import Host
from reference.node import now_ns
from reference.records import QueueOffset, some
from reference.rpc import Connection, Handler, NotSent, Reply, spawn, split_address
from reference.settings import Settings
from reference.wire import headers
from reference.wire import property as props
from reference.wire.bodies import (
    ConsumerList,
    HeartbeatBody,
    SubscriptionGroupConfig,
)
from reference.wire.codes import RequestCode, ResponseCode
from reference.wire.frame import Frame
from reference.wire.headers import from_ext, from_short_ext, to_ext
from reference.wire.message import host, offset_msg_id
from reference.wire.route import PERM_READ, PERM_WRITE, TopicConfig

Answer = Reply | Awaitable[Reply]


class Requests:
    """Handlers of client requests.

    Args:
        settings: the broker's; some change while it runs.
        node: clock and randomness.
        store: the messages.
        tables: topics, groups, offsets.
        membership: role and replicas.
        group: where the work goes that outlives a request.
        is_ordered: whether a consumer group holds locks of queues now.
    """

    def __init__(
        self,
        settings: Settings[BrokerConfig],
        node: Host,
        store: Store,
        tables: Tables,
        membership: Membership,
        group: asyncio.TaskGroup,
        *,
        is_ordered: Callable[[str], bool],
    ) -> None:
        self._settings = settings
        self._node = node
        self._store = store
        self._tables = tables
        self._membership = membership
        self._group = group
        self._is_ordered = is_ordered
        self._levels = settings.now.delay_levels()
        self.clients = Clients()
        self._watched: dict[Connection, None] = {}

    def handlers(self) -> dict[int, Handler]:
        return {
            RequestCode.SEND_MESSAGE: self._send,
            RequestCode.SEND_MESSAGE_V2: self._send,
            RequestCode.SEND_BATCH_MESSAGE: self._send,
            RequestCode.PULL_MESSAGE: self._pull,
            RequestCode.LITE_PULL_MESSAGE: self._pull,
            RequestCode.HEART_BEAT: self._heartbeat,
            RequestCode.UNREGISTER_CLIENT: self._unregister,
            RequestCode.GET_CONSUMER_LIST_BY_GROUP: self._consumer_list,
        }

    @property
    def _config(self) -> BrokerConfig:
        return self._settings.now  # some of them change while the broker runs

    # Sending.

    def _send(self, request: Frame, connection: Connection) -> Answer:
        long = request.code == RequestCode.SEND_MESSAGE
        h = from_ext(headers.SendRequest, request.ext) if long else from_short_ext(request.ext)
        situation = self.situation()
        refusal = send.role_fault(situation)
        topic = self._tables.topics.get(h.topic)
        if refusal is None and topic is not None and topic.order and not self._allows(PERM_WRITE):
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
        topic = await self.known_topic(name, queues=1)
        properties = props.decode((h.properties or "").encode())
        undelayed = props.encode({k: v for k, v in properties.items() if k != props.DELAY})
        dead = msgspec.structs.replace(h, topic=name, queue_id=0, properties=undelayed.decode())
        situation = self.situation()  # another by now, maybe
        refusal = send.role_fault(situation)
        if refusal is not None:
            return self._refused(request, refusal)
        answer = self._store_sent(request, connection, dead, topic, situation)
        return answer if isinstance(answer, Frame | None) else await answer

    async def known_topic(self, name: str, *, queues: int = 1) -> TopicConfig:
        """A topic that belongs to a group, or to this broker, made where there is none yet."""
        if name not in self._tables.topics:
            await self._tables.put_topic(
                TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues)
            )
            spawn(self._group, self._membership.register_everywhere())
        return self._tables.topics[name]

    async def _send_first(
        self, request: Frame, connection: Connection, h: headers.SendRequest
    ) -> Reply:
        topic = send.created_topic(h, self._tables.topics)
        if topic is None:
            why = f"topic[{h.topic}] not exist, apply first please!"
            return self._refused(request, Refusal(code=ResponseCode.TOPIC_NOT_EXIST, remark=why))
        await self._tables.put_topic(topic)
        spawn(self._group, self._membership.register_everywhere())
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
            born_host=host_of(connection.remote),
            store_host=host_of(self._membership.address),
        )
        if isinstance(accepted, Refusal):
            return self._refused(request, accepted)
        try:
            stored = self._store.put(accepted.messages)
        except ValueError as error:
            refusal = Refusal(code=ResponseCode.MESSAGE_ILLEGAL, remark=str(error))
            return self._refused(request, refusal)
        answer = headers.SendResponse(
            msg_id=",".join(
                offset_msg_id(host_of(self._membership.address), s.physical_offset) for s in stored
            ),
            queue_id=queue_id,
            queue_offset=stored[0].queue_offset,
            transaction_id=accepted.transaction_id,
            **self._region(),
        )
        if not accepted.waits:
            return request.answer(ResponseCode.SUCCESS, ext=to_ext(answer))
        return reached(
            self._config,
            self._store,
            self._membership,
            stored[-1].end,
            lambda code, why: request.answer(code, why or None, ext=to_ext(answer)),
        )

    def situation(self) -> send.Situation:
        return send.Situation(
            role=self._membership.role,
            configured_slave=self._config.broker_role == "SLAVE",
            in_sync_count=self._in_sync_count(),
            in_sync_count_min=self._config.min_in_sync_replicas,
            body_bytes_max=self._config.max_message_size,
        )

    def enough_in_sync(self) -> bool:
        """Whether the SyncStateSet has as many members as ``minInSyncReplicas`` asks for."""
        return self._in_sync_count() >= self._config.min_in_sync_replicas

    def _in_sync_count(self) -> int:
        """Members of the SyncStateSet, as its master knows it; alone a master is in sync."""
        replication = self._membership.replication
        return 1 if replication is None else replication.master.in_sync_count

    def _allows(self, permission: int) -> bool:
        return bool(self._config.broker_permission & permission)

    def _additions(self, identity: str) -> dict[str, str]:
        # A message that is sent twice is two messages: the time tells them apart.
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

    # Pulling.

    def _pull(self, request: Frame, connection: Connection) -> Answer:
        h = from_ext(headers.PullRequest, request.ext)
        role = self._role_fault_of_pull()
        new = h.consumer_group not in self._tables.groups and self._may_create(h.consumer_group)
        if role is None and (new or self._is_forgotten(h)):
            return self._pull_first(request, connection, h)
        refusal = role or pull.fault(
            h,
            group=self._tables.groups.get(h.consumer_group),
            topic=self._tables.topics.get(h.topic),
            known=self.clients.subscription(h.consumer_group, h.topic),
        )
        if refusal is not None:
            return request.answer(refusal.code, refusal.remark)
        wanted = h.subscription
        if not h.sys_flag & pull.SUBSCRIPTION:
            known = self.clients.subscription(h.consumer_group, h.topic)
            wanted = some(known, "checked just above").sub_string
        if pull.wanted_codes(wanted) == frozenset():
            why = "parse the consumer's subscription failed"
            return request.answer(ResponseCode.SUBSCRIPTION_PARSE_FAILED, why)
        if h.sys_flag & pull.COMMIT_OFFSET and self._membership.role == "master":
            self._tables.commit_offset(h.topic, h.consumer_group, h.queue_id, h.commit_offset)
        self._tables.on_pull(h.topic, h.consumer_group, h.queue_id, h.queue_offset)
        found = self._find(h, wanted)
        if found.code == ResponseCode.PULL_NOT_FOUND and h.sys_flag & pull.SUSPEND:
            return self._hold(request, h, wanted)
        return self._found(request, h, found)

    def _role_fault_of_pull(self) -> Refusal | None:
        """Why nobody may read from this broker now."""
        unreadable = self._membership.role == "slave" or (
            self._membership.role == "fenced" and self._config.broker_role == "SLAVE"
        )
        if unreadable and not self._config.slave_read_enable:
            why = "[REJECTREQUEST]system busy, start flow control for a while"
            return Refusal(code=ResponseCode.SYSTEM_BUSY, remark=why)
        if not self._allows(PERM_READ):
            why = f"the broker[{self._membership.address}] pulling message is forbidden"
            return Refusal(code=ResponseCode.NO_PERMISSION, remark=why)
        return None

    def _may_create(self, group: str) -> bool:
        return self._config.auto_create_subscription_group and name_fault(group) is None

    def _is_forgotten(self, h: headers.PullRequest) -> bool:
        """Whether this is a group's own topic that a former master has made, and did not live to
        tell: its messages are in the log, dead letters among them."""
        known = h.topic in self._tables.topics
        own = h.topic.startswith((RETRY_PREFIX, DLQ_PREFIX))
        return own and not known and self._store.written(h.topic, h.queue_id) > 0

    async def _pull_first(
        self, request: Frame, connection: Connection, h: headers.PullRequest
    ) -> Reply:
        if h.consumer_group not in self._tables.groups and self._may_create(h.consumer_group):
            await self._tables.put_group(SubscriptionGroupConfig(group_name=h.consumer_group))
        if self._is_forgotten(h):
            await self.known_topic(h.topic, queues=h.queue_id + 1)
        answer = self._pull(request, connection)
        return answer if isinstance(answer, Frame | None) else await answer

    def _find(self, h: headers.PullRequest, wanted: str | None) -> pull.Found:
        return pull.find(
            h.queue_offset,
            self._store.bounds(h.topic, h.queue_id),
            self._store.units(h.topic, h.queue_id, QueueOffset(h.queue_offset)),
            count_max=h.max_msg_nums,
            codes=pull.wanted_codes(wanted),
        )

    async def _hold(self, request: Frame, h: headers.PullRequest, wanted: str | None) -> Reply:
        """Long polling: answer when a wanted message comes, or when the client's time is up."""
        limit = h.suspend_timeout_millis
        if not self._config.long_polling_enable:
            limit = self._config.short_polling_time_mills
        found = self._find(h, wanted)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(max(limit, 0), pull.HOLD_MS_MAX) / 1000):
                while self._is_all_seen(h, found):
                    await self._store.wait(h.topic, h.queue_id)
                    found = self._find(h, wanted)
        return self._found(request, h, found)

    def _is_all_seen(self, h: headers.PullRequest, found: pull.Found) -> bool:
        """Whether the queue holds nothing more, but maybe messages that the filter dropped."""
        if found.code == ResponseCode.PULL_RETRY_IMMEDIATELY:
            return found.next_offset == self._store.bounds(h.topic, h.queue_id)[1]
        return found.code == ResponseCode.PULL_NOT_FOUND

    def _found(self, request: Frame, h: headers.PullRequest, found: pull.Found) -> Reply:
        first, end = self._store.bounds(h.topic, h.queue_id)
        code, next_offset = found.code, found.next_offset
        if code != ResponseCode.SUCCESS and not self.knows_the_end():
            # Who is not master never says that nothing is there: the master may know more. Nor
            # does a master that does not know yet what of its log was confirmed before its term.
            code, next_offset = ResponseCode.PULL_RETRY_IMMEDIATELY, QueueOffset(h.queue_offset)
        answer = headers.PullResponse(
            suggest_which_broker_id=0,
            next_begin_offset=next_offset,
            min_offset=first,
            max_offset=end,
        )
        body = b"".join(self._store.record(unit) for unit in found.units)
        self._store.figures.on_pull(len(found.units))
        return request.answer(code, found.remark, ext=to_ext(answer), body=body or None)

    def knows_the_end(self) -> bool:
        """Whether this is a master that knows what was confirmed before its term."""
        replication = self._membership.replication
        if self._membership.role != "master" or replication is None:
            return self._membership.role == "master"
        return replication.master.confirm >= replication.master.began

    # Clients.

    async def _heartbeat(self, request: Frame, connection: Connection) -> Reply:
        body = HeartbeatBody.from_json(request.body)
        for consumer in body.consumer_data_set:
            fault = name_fault(RETRY_PREFIX + (consumer.group_name or " "))
            if fault is not None:
                return request.answer(ResponseCode.INVALID_PARAMETER, fault)
        if connection.closed:
            return None  # its end has been seen already, and would not be seen again
        changed = self.clients.on_heartbeat(
            now_ns(),
            connection,
            body,
            language=request.language or "OTHER",
            version=request.version,
        )
        if connection not in self._watched:
            self._watched[connection] = None
            connection.on_close(self._lost)
        for consumer in body.consumer_data_set:
            await self._know_group(consumer.group_name or "")
        self._notify(changed)
        reply = headers.HeartbeatResponse(
            is_support_heart_beat_v2=False, is_sub_change=bool(changed)
        )
        return request.answer(ResponseCode.SUCCESS, ext=to_ext(reply))

    async def _know_group(self, group: str) -> None:
        """A consumer group brings its retry topic along."""
        if group not in self._tables.groups and self._config.auto_create_subscription_group:
            await self._tables.put_group(SubscriptionGroupConfig(group_name=group))
        known = self._tables.groups.get(group)
        queues = 1 if known is None else max(1, known.retry_queue_nums)
        await self.known_topic(RETRY_PREFIX + group, queues=queues)

    def _unregister(self, request: Frame, connection: Connection) -> Reply:
        h = from_ext(headers.UnregisterClientRequest, request.ext)
        if h.consumer_group:
            self._notify(self.clients.on_leave(h.client_id, h.consumer_group))
        if h.producer_group:
            self.clients.on_producer_leave(h.client_id, h.producer_group)
        return request.answer(ResponseCode.SUCCESS)

    def _consumer_list(self, request: Frame, connection: Connection) -> Reply:
        h = from_ext(headers.ConsumerGroupRequest, request.ext)
        members = self.clients.members(h.consumer_group)
        if not members:
            why = f"no consumer for this group, {h.consumer_group}"
            return request.answer(ResponseCode.SYSTEM_ERROR, why)
        ids = ConsumerList(consumer_id_list=tuple(sorted(members)))
        return request.answer(ResponseCode.SUCCESS, body=ids.to_json())

    def expire_clients(self) -> None:
        """Forget clients that fell silent."""
        self._notify(self.clients.expire(now_ns()))

    def _lost(self, connection: Connection) -> None:
        self._watched.pop(connection, None)
        self._notify(self.clients.on_close(connection))

    def _notify(self, groups: list[str]) -> None:
        """Tell the members of changed groups, so that they rebalance."""
        for group in groups:
            known = self._tables.groups.get(group)
            if known is not None and not known.notify_consumer_ids_changed_enable:
                continue
            ext = to_ext(headers.ConsumerGroupRequest(consumer_group=group))
            notice = Frame(code=RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, ext=ext)
            for member in self.clients.members(group).values():
                if isinstance(member.channel, Connection):
                    try:
                        member.channel.oneway(notice)
                    except NotSent:
                        continue  # its end will be seen, and notified, on its own


def host_of(address: str) -> bytes:
    """An ``ip:port`` as records carry it."""
    return host(*split_address(address))
