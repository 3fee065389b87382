"""What operators and tools ask of a broker: topics, groups, settings, runtime figures."""

from reference.broker.membership import Membership
from reference.broker.store import Store
from reference.broker.topics import FORBIDDEN_TOPICS, Tables, name_fault
from reference.config import BrokerConfig, render_config
from reference.host import Host
from reference.rpc import Connection, Handler, Reply
from reference.wire import node_headers as headers
from reference.wire.bodies import SubscriptionGroupConfig, SubscriptionGroups
from reference.wire.codes import RequestCode, ResponseCode
from reference.wire.frame import VERSION, Frame
from reference.wire.headers import from_ext, to_ext
from reference.wire.route import KVTable, TopicConfig

QUEUES_MAX = 10_000


class Admin:
    """Handlers of administrative requests."""

    def __init__(
        self,
        config: BrokerConfig,
        host: Host,
        store: Store,
        tables: Tables,
        membership: Membership,
        *,
        mutant: str,
    ) -> None:
        self._config = config
        self._host = host
        self._store = store
        self._tables = tables
        self._membership = membership
        self._mutant = mutant
        self._booted_ms = host.wall_ms()

    def handlers(self) -> dict[int, Handler]:
        return {
            RequestCode.UPDATE_AND_CREATE_TOPIC: self._put_topic,
            RequestCode.GET_TOPIC_CONFIG: self._get_topic,
            RequestCode.GET_ALL_TOPIC_CONFIG: self._all_topics,
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: self._put_group,
            RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: self._all_groups,
            RequestCode.GET_BROKER_CONFIG: self._get_config,
            RequestCode.GET_BROKER_RUNTIME_INFO: self._runtime_info,
        }

    async def _put_topic(self, request: Frame, connection: Connection) -> Reply:
        h = from_ext(headers.CreateTopicRequest, request.ext)
        fault = name_fault(h.topic)
        if fault is None and h.topic in FORBIDDEN_TOPICS:
            fault = f"The topic[{h.topic}] is conflict with system topic."
        queues = (h.read_queue_nums, h.write_queue_nums)
        if fault is None and not all(0 < n <= QUEUES_MAX for n in queues):
            fault = f"queue numbers {queues} are not within 1..{QUEUES_MAX}"
        if fault is not None:
            return request.answer(ResponseCode.INVALID_PARAMETER, fault)
        await self._tables.put_topic(
            TopicConfig(
                topic_name=h.topic,
                read_queue_nums=h.read_queue_nums,
                write_queue_nums=h.write_queue_nums,
                perm=h.perm,
                topic_filter_type=h.topic_filter_type,
                topic_sys_flag=h.topic_sys_flag or 0,
                order=h.order,
                attributes=_attributes(h.attributes),
            )
        )
        await self._membership.register_everywhere()
        return request.answer(ResponseCode.SUCCESS)

    def _get_topic(self, request: Frame, connection: Connection) -> Reply:
        name = from_ext(headers.TopicRequest, request.ext).topic
        topic = self._tables.topics.get(name)
        if topic is None:
            why = f"No topic in this broker. topic: {name}"
            return request.answer(ResponseCode.TOPIC_NOT_EXIST, why)
        return request.answer(ResponseCode.SUCCESS, body=topic.to_json())

    def _all_topics(self, request: Frame, connection: Connection) -> Reply:
        return request.answer(ResponseCode.SUCCESS, body=self._tables.wrapper().to_json())

    async def _put_group(self, request: Frame, connection: Connection) -> Reply:
        group = SubscriptionGroupConfig.from_json(request.body)
        fault = name_fault(group.group_name or "")
        if fault is not None:
            return request.answer(ResponseCode.INVALID_PARAMETER, fault)
        await self._tables.put_group(group)
        return request.answer(ResponseCode.SUCCESS)

    def _all_groups(self, request: Frame, connection: Connection) -> Reply:
        body = SubscriptionGroups(
            data_version=self._tables.group_version, subscription_group_table=self._tables.groups
        )
        return request.answer(ResponseCode.SUCCESS, body=body.to_json())

    def _get_config(self, request: Frame, connection: Connection) -> Reply:
        version = self._tables.version.to_json().decode()
        return request.answer(
            ResponseCode.SUCCESS,
            ext=to_ext(headers.BrokerConfigResponse(version=version)),
            body=render_config(self._config).encode(),
        )

    def _runtime_info(self, request: Frame, connection: Connection) -> Reply:
        table = {
            "bootTimestamp": str(self._booted_ms),
            "brokerActive": "true" if self._membership.role != "fenced" else "false",
            "brokerVersion": str(VERSION),
            "brokerVersionDesc": "V5_3_3",
            "commitLogMaxOffset": str(self._store.end),
            "commitLogMinOffset": "0",
            "maxq.brokerId": str(self._membership.broker_id),
            "maxq.masterEpoch": str(self._membership.master_epoch),
            "maxq.mutant": self._mutant,
            "maxq.role": self._membership.role,
        }
        return request.answer(ResponseCode.SUCCESS, body=KVTable(table=table).to_json())


def _attributes(text: str | None) -> dict[str, str]:
    """Read ``+key=value,-key``; removals mean nothing for a topic that is written whole."""
    pairs = (part.strip() for part in (text or "").split(","))
    added = (p[1:].partition("=") for p in pairs if p.startswith("+") and "=" in p)
    return {key: value for key, _, value in added}
