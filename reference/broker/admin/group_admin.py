"""Groups, as operators and tools see them: their settings, how far they are, who is connected."""

from collections.abc import Mapping, Sequence

from maxq.reference.broker.client_calls.clients import Clients, Member, Producer
from maxq.reference.broker.client_calls.made_topics import QUEUES_MAX
from maxq.reference.broker.client_calls.record_reads import stored_before
from maxq.reference.broker.store.store import Store
from maxq.reference.broker.store.topics import Tables
from maxq.reference.config import BrokerConfig
from maxq.reference.names import group_name_fault
from maxq.reference.rpc import Connection, Handler, Reply
from maxq.reference.wire import node_headers as headers
from maxq.reference.wire.bodies import (
    ClientConnection,
    ConsumerConnections,
    ConsumeStats,
    GroupList,
    MessageQueue,
    OffsetWrapper,
    ProducerConnections,
    SubscriptionGroupConfig,
    SubscriptionGroupList,
)
from maxq.reference.wire.codes import RequestCode, ResponseCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.headers import ConsumerGroupRequest, from_ext, to_ext

CLIENT_TIMEOUT_S = 10.0  # that a client may take to say how it is


class GroupAdmin:
    """Handlers of requests about producer and consumer groups."""

    def __init__(
        self, config: BrokerConfig, store: Store, tables: Tables, clients: Clients
    ) -> None:
        self._config = config
        self._store = store
        self._tables = tables
        self._clients = clients

    def handlers(self) -> dict[int, Handler]:
        return {
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: self._put_one,
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: self._put_list,
            RequestCode.DELETE_SUBSCRIPTIONGROUP: self._delete,
            RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: self._get,
            RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: self._all,
            RequestCode.GET_CONSUME_STATS: self._stats,
            RequestCode.GET_CONSUMER_CONNECTION_LIST: self._consumers,
            RequestCode.GET_PRODUCER_CONNECTION_LIST: self._producers,
            RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: self._groups_of,
            RequestCode.GET_CONSUMER_RUNNING_INFO: self._running_info,
        }

    # Settings.

    async def _put_one(self, request: Frame, connection: Connection) -> Reply:
        return await self._put(request, [SubscriptionGroupConfig.from_json(request.body)])

    async def _put_list(self, request: Frame, connection: Connection) -> Reply:
        groups = SubscriptionGroupList.from_json(request.body).group_config_list
        return await self._put(request, groups)

    async def _put(self, request: Frame, groups: Sequence[SubscriptionGroupConfig]) -> Reply:
        """Create or change groups, all or none."""
        faults = (_group_fault(g) for g in groups)
        fault = next((f for f in faults if f is not None), None)
        if fault is not None:
            return request.answer(ResponseCode.INVALID_PARAMETER, fault)
        await self._tables.put_groups(groups)
        return request.answer(ResponseCode.SUCCESS)

    async def _delete(self, request: Frame, connection: Connection) -> Reply:
        h = from_ext(headers.DeleteGroupRequest, request.ext)
        await self._tables.delete_group(h.group_name, clean_offsets=bool(h.clean_offset))
        return request.answer(ResponseCode.SUCCESS)

    def _get(self, request: Frame, connection: Connection) -> Reply:
        name = from_ext(headers.GroupRequest, request.ext).group
        group = self._tables.groups.get(name)
        if group is None:
            why = f"No group in this broker. group: {name}"
            return request.answer(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, why)
        return request.answer(ResponseCode.SUCCESS, body=group.to_json())

    def _all(self, request: Frame, connection: Connection) -> Reply:
        asked = from_ext(headers.AllGroupConfigRequest, request.ext)
        table = self._tables.group_table()
        # As with topics (21): pages are asked for, all is taken at once.
        count = None if asked.group_seq is None else len(table.subscription_group_table)
        ext = to_ext(headers.AllGroupConfigResponse(total_group_num=count))
        return request.answer(ResponseCode.SUCCESS, ext=ext, body=table.to_json())

    # Progress.

    def _stats(self, request: Frame, connection: Connection) -> Reply:
        h = from_ext(ConsumerGroupRequest, request.ext)
        topics = (h.topic,) if h.topic else self._tables.topics_of(h.consumer_group)
        table: dict[str, OffsetWrapper] = {}
        for topic in topics:
            known = self._tables.topics.get(topic)
            for queue_id in range(known.read_queue_nums if known else 0):
                queue = MessageQueue(
                    broker_name=self._config.broker_name, queue_id=queue_id, topic=topic
                )
                table[queue.key()] = self._progress(h.consumer_group, topic, queue_id)
        body = ConsumeStats(offset_table=table)  # rates are not measured here
        return request.answer(ResponseCode.SUCCESS, body=body.to_json())

    def _progress(self, group: str, topic: str, queue_id: int) -> OffsetWrapper:
        offset = self._tables.offset(topic, group, queue_id) or 0
        pulled = self._tables.pulled.get(f"{topic}@{group}", {}).get(queue_id, 0)
        return OffsetWrapper(
            broker_offset=self._store.bounds(topic, queue_id)[1],
            consumer_offset=offset,
            last_timestamp=stored_before(self._store, topic, queue_id, offset) or 0,
            pull_offset=max(offset, pulled),
        )

    # Connections.

    def _consumers(self, request: Frame, connection: Connection) -> Reply:
        name = from_ext(ConsumerGroupRequest, request.ext).consumer_group
        newest = self._clients.newest(name)
        if newest is None:
            why = f"the consumer group[{name}] not online"
            return request.answer(ResponseCode.CONSUMER_NOT_ONLINE, why)
        body = ConsumerConnections(
            connection_set=_connections(self._clients.members(name)),
            consume_from_where=newest.consume_from_where,
            consume_type=newest.consume_type,
            message_model=newest.message_model,
            subscription_table=self._clients.subscriptions(name),
        )
        return request.answer(ResponseCode.SUCCESS, body=body.to_json())

    def _producers(self, request: Frame, connection: Connection) -> Reply:
        name = from_ext(headers.ProducerGroupRequest, request.ext).producer_group
        known = self._clients.producers.get(name)
        if known is None:
            why = f"the producer group[{name}] not exist"
            return request.answer(ResponseCode.SYSTEM_ERROR, why)
        body = ProducerConnections(connection_set=_connections(known))
        return request.answer(ResponseCode.SUCCESS, body=body.to_json())

    def _groups_of(self, request: Frame, connection: Connection) -> Reply:
        topic = from_ext(headers.TopicRequest, request.ext).topic
        groups = {*self._clients.groups_of(topic), *self._tables.groups_in(topic)}
        body = GroupList(group_list=tuple(sorted(groups)))
        return request.answer(ResponseCode.SUCCESS, body=body.to_json())

    async def _running_info(self, request: Frame, connection: Connection) -> Reply:
        """Ask a client how it is, and pass its answer on."""
        h = from_ext(headers.ConsumerClientRequest, request.ext)
        member = self._clients.members(h.consumer_group).get(h.client_id)
        if member is None or not isinstance(member.channel, Connection):
            why = f"The Consumer <{h.consumer_group}> <{h.client_id}> not online"
            return request.answer(ResponseCode.SYSTEM_ERROR, why)
        question = Frame(code=request.code, ext=request.ext, body=request.body)
        try:
            said = await member.channel.call(question, timeout_s=CLIENT_TIMEOUT_S)
        except TimeoutError:
            why = f"consumer <{h.consumer_group}> <{h.client_id}> Timeout"
            return request.answer(ResponseCode.CONSUME_MSG_TIMEOUT, why)
        except OSError as error:
            why = f"invoke consumer <{h.consumer_group}> <{h.client_id}> Exception: {error}"
            return request.answer(ResponseCode.SYSTEM_ERROR, why)
        return request.answer(said.code, said.remark, ext=said.ext, body=said.body)


def _connections(members: Mapping[str, Member | Producer]) -> tuple[ClientConnection, ...]:
    return tuple(
        ClientConnection(
            client_addr=m.channel.remote if isinstance(m.channel, Connection) else None,
            client_id=client_id,
            language=m.language,
            version=m.version,
        )
        for client_id, m in sorted(members.items())
    )


def _group_fault(group: SubscriptionGroupConfig) -> str | None:
    """Why a group cannot be made; None if it can. With no queues to try again from, it tries no
    second time."""
    fault = group_name_fault(group.group_name or "")
    if fault is None and group.retry_queue_nums > QUEUES_MAX:
        fault = f"retryQueueNums {group.retry_queue_nums} is more than {QUEUES_MAX}"
    return fault
