"""Topics, as operators and tools see them: create, delete, look at, and how full they are.

A topic that is deleted leaves its messages in the log and its queues as they are: an offset never
comes to mean another message (S11), so a topic made again under the name goes on where it was.
Java drops the queues, and starts again from 0.
"""

from collections.abc import Sequence

from maxq.reference.broker.client_calls.made_topics import QUEUES_MAX
from maxq.reference.broker.client_calls.record_reads import stored_before
from maxq.reference.broker.membership.membership import Membership
from maxq.reference.broker.store.store import Store
from maxq.reference.broker.store.topics import Tables
from maxq.reference.config import BrokerConfig
from maxq.reference.names import FORBIDDEN_TOPICS, is_system_topic, topic_name_fault
from maxq.reference.rpc import Connection, Handler, Reply
from maxq.reference.wire import node_headers as headers
from maxq.reference.wire.bodies import MessageQueue, TopicConfigList, TopicOffset, TopicStats
from maxq.reference.wire.codes import RequestCode, ResponseCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.headers import from_ext, to_ext
from maxq.reference.wire.route import TopicConfig


class TopicAdmin:
    """Handlers of requests about topics."""

    def __init__(
        self, config: BrokerConfig, store: Store, tables: Tables, membership: Membership
    ) -> None:
        self._config = config
        self._store = store
        self._tables = tables
        self._membership = membership

    def handlers(self) -> dict[int, Handler]:
        return {
            RequestCode.UPDATE_AND_CREATE_TOPIC: self._put_one,
            RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: self._put_list,
            RequestCode.DELETE_TOPIC_IN_BROKER: self._delete,
            RequestCode.GET_TOPIC_CONFIG: self._get,
            RequestCode.GET_ALL_TOPIC_CONFIG: self._all,
            RequestCode.GET_TOPIC_STATS_INFO: self._stats,
        }

    async def _put_one(self, request: Frame, connection: Connection) -> Reply:
        h = from_ext(headers.CreateTopicRequest, request.ext)
        topic = TopicConfig(
            topic_name=h.topic,
            read_queue_nums=h.read_queue_nums,
            write_queue_nums=h.write_queue_nums,
            perm=h.perm,
            topic_filter_type=h.topic_filter_type,
            topic_sys_flag=h.topic_sys_flag or 0,
            order=h.order,
            attributes=attributes(h.attributes),
        )
        return await self._put(request, [topic])

    async def _put_list(self, request: Frame, connection: Connection) -> Reply:
        return await self._put(request, TopicConfigList.from_json(request.body).topic_config_list)

    async def _put(self, request: Frame, topics: Sequence[TopicConfig]) -> Reply:
        """Create or change topics, all or none."""
        fault = next((f for f in map(topic_fault, topics) if f is not None), None)
        if fault is not None:
            return request.answer(ResponseCode.INVALID_PARAMETER, fault)
        await self._tables.put_topics(topics)
        await self._membership.register_everywhere()
        return request.answer(ResponseCode.SUCCESS)

    async def _delete(self, request: Frame, connection: Connection) -> Reply:
        name = from_ext(headers.TopicRequest, request.ext).topic
        if not name.strip():
            return request.answer(ResponseCode.SYSTEM_ERROR, "The specified topic is blank.")
        own = (self._config.broker_cluster_name, self._config.broker_name)
        if is_system_topic(name) or name in own:
            why = f"The topic[{name}] is conflict with system topic."
            return request.answer(ResponseCode.INVALID_PARAMETER, why)
        await self._tables.delete_topic(name)
        await self._membership.register_everywhere()
        return request.answer(ResponseCode.SUCCESS)

    def _get(self, request: Frame, connection: Connection) -> Reply:
        name = from_ext(headers.TopicRequest, request.ext).topic
        topic = self._tables.topics.get(name)
        if topic is None:
            return _unknown(request, f"No topic in this broker. topic: {name}")
        return request.answer(ResponseCode.SUCCESS, body=topic.to_json())

    def _all(self, request: Frame, connection: Connection) -> Reply:
        asked = from_ext(headers.AllTopicConfigRequest, request.ext)
        table = self._tables.table()
        # Slaves of 5.4.0 and later ask for pages, take all at once, and want to know how many.
        count = None if asked.topic_seq is None else len(table.topic_config_table)
        ext = to_ext(headers.AllTopicConfigResponse(total_topic_num=count))
        return request.answer(ResponseCode.SUCCESS, ext=ext, body=table.to_json())

    def _stats(self, request: Frame, connection: Connection) -> Reply:
        name = from_ext(headers.TopicRequest, request.ext).topic
        topic = self._tables.topics.get(name)
        if topic is None:
            return _unknown(request, f"topic[{name}] not exist")
        table: dict[str, TopicOffset] = {}
        for queue_id in range(max(topic.read_queue_nums, topic.write_queue_nums)):
            first, end = self._store.bounds(name, queue_id)
            key = MessageQueue(
                broker_name=self._config.broker_name, queue_id=queue_id, topic=name
            ).key()
            table[key] = TopicOffset(
                last_update_timestamp=stored_before(self._store, name, queue_id, end) or 0,
                max_offset=end,
                min_offset=first,
            )
        body = TopicStats(offset_table=table, topic_put_tps=0.0)  # rates are not measured here
        return request.answer(ResponseCode.SUCCESS, body=body.to_json())


def topic_fault(topic: TopicConfig) -> str | None:
    """Why a topic cannot be made; None if it can."""
    fault = topic_name_fault(topic.topic_name)
    if fault is None and topic.topic_name in FORBIDDEN_TOPICS:
        fault = f"The topic[{topic.topic_name}] is conflict with system topic."
    queues = (topic.read_queue_nums, topic.write_queue_nums)
    if fault is None and not all(0 < n <= QUEUES_MAX for n in queues):
        fault = f"queue numbers {queues} are not within 1..{QUEUES_MAX}"
    return fault


def attributes(text: str | None) -> dict[str, str]:
    """Read ``+key=value,-key``; removals mean nothing for a topic that is written whole."""
    pairs = (part.strip() for part in (text or "").split(","))
    added = (p[1:].partition("=") for p in pairs if p.startswith("+") and "=" in p)
    return {key: value for key, _, value in added}


def _unknown(request: Frame, why: str) -> Reply:
    return request.answer(ResponseCode.TOPIC_NOT_EXIST, why)
