"""What clients, brokers and tools ask of a name server: routes, topic lists, settings.

Brokers' own words (registration, signs of life, goodbye) are in `server`.
"""

import msgspec

from maxq.reference.config import NamesrvConfig
from maxq.reference.namesrv.kv import ORDER_TOPICS, Kv
from maxq.reference.namesrv.route_view import in_zone, with_acting_masters
from maxq.reference.namesrv.routes import Routes
from maxq.reference.node import now_ns
from maxq.reference.rpc import Connection, Handler, Reply
from maxq.reference.settings import Settings
from maxq.reference.wire import node_headers as headers
from maxq.reference.wire.codes import RequestCode, ResponseCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.headers import BadHeader, from_ext, to_ext
from maxq.reference.wire.route import (
    BrokerMemberGroup,
    KVTable,
    MemberGroupBody,
    TopicList,
    TopicRouteData,
)

# Read anew at every use.
LIVE_KEYS = frozenset(
    {"orderMessageEnable", "returnOrderTopicConfigToBroker", "deleteTopicWithBrokerRegistration",
     "supportActingMaster", "notifyMinBrokerIdChanged", "needWaitForService",
     "waitSecondsForService", "enableAllTopicList", "enableTopicList"}
)  # fmt: skip
BLACK_LIST = frozenset({"configBlackList", "configStorePath", "kvConfigPath"})


class Handlers:
    """Handlers of everything but brokers' registrations.

    Args:
        settings: the name server's settings.
        routes: its tables.
        kv: its stored settings.
        started_ns: when it began to listen, on its monotonic clock.
    """

    def __init__(
        self, settings: Settings[NamesrvConfig], routes: Routes, kv: Kv, *, started_ns: int
    ) -> None:
        self._settings = settings
        self._routes = routes
        self._kv = kv
        self._started_ns = started_ns

    def by_code(self) -> dict[int, Handler]:
        return {
            RequestCode.GET_ROUTEINFO_BY_TOPIC: self._route,
            RequestCode.GET_BROKER_CLUSTER_INFO: self._cluster_info,
            RequestCode.GET_BROKER_MEMBER_GROUP: self._member_group,
            RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: self._topics,
            RequestCode.GET_TOPICS_BY_CLUSTER: self._topics_of_cluster,
            RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: self._system_topics,
            RequestCode.REGISTER_TOPIC_IN_NAMESRV: self._register_topic,
            RequestCode.DELETE_TOPIC_IN_NAMESRV: self._delete_topic,
            RequestCode.WIPE_WRITE_PERM_OF_BROKER: self._wipe_write,
            RequestCode.ADD_WRITE_PERM_OF_BROKER: self._add_write,
            RequestCode.PUT_KV_CONFIG: self._put_kv,
            RequestCode.GET_KV_CONFIG: self._get_kv,
            RequestCode.DELETE_KV_CONFIG: self._delete_kv,
            RequestCode.GET_KVLIST_BY_NAMESPACE: self._list_kv,
            RequestCode.GET_NAMESRV_CONFIG: self._get_config,
            RequestCode.UPDATE_NAMESRV_CONFIG: self._update_config,
        }

    # Routes.

    def _route(self, request: Frame, connection: Connection) -> Reply:
        config = self._settings.now
        age_ns = now_ns() - self._started_ns
        if config.need_wait_for_service and age_ns < config.wait_seconds_for_service * 10**9:
            return request.answer(ResponseCode.SYSTEM_ERROR, "name server not ready")
        topic = from_ext(headers.TopicRequest, request.ext).topic
        route = self._routes.route(topic)
        if route is None:
            return request.answer(
                ResponseCode.TOPIC_NOT_EXIST,
                f"No topic route info in name server for the topic: {topic}",
            )
        if config.support_acting_master:
            route = with_acting_masters(topic, route)
        if config.order_message_enable:
            order = self._kv.get(ORDER_TOPICS, topic)
            route = msgspec.structs.replace(route, order_topic_conf=order)
        # Quoted keys serve every reader; Java's old unquoted form is never needed.
        return request.answer(ResponseCode.SUCCESS, body=in_zone(route, request.ext).to_json())

    def _cluster_info(self, request: Frame, connection: Connection) -> Reply:
        return request.answer(ResponseCode.SUCCESS, body=self._routes.cluster_info().to_json())

    def _member_group(self, request: Frame, connection: Connection) -> Reply:
        header = from_ext(headers.MemberGroupRequest, request.ext)
        group = self._routes.member_group(header.broker_name) or BrokerMemberGroup(
            broker_name=header.broker_name
        )
        group = msgspec.structs.replace(group, cluster=header.cluster_name)  # echoed, as in Java
        return request.answer(
            ResponseCode.SUCCESS, body=MemberGroupBody(broker_member_group=group).to_json()
        )

    # Topics.

    def _topics(self, request: Frame, connection: Connection) -> Reply:
        if not self._settings.now.enable_all_topic_list:
            return request.answer(ResponseCode.SYSTEM_ERROR, "disable")
        body = TopicList(topic_list=self._routes.topics())
        return request.answer(ResponseCode.SUCCESS, body=body.to_json())

    def _topics_of_cluster(self, request: Frame, connection: Connection) -> Reply:
        if not self._settings.now.enable_topic_list:
            return request.answer(ResponseCode.SYSTEM_ERROR, "disable")
        header = from_ext(headers.ClusterRequest, request.ext)
        body = TopicList(topic_list=self._routes.topics_in(header.cluster))
        return request.answer(ResponseCode.SUCCESS, body=body.to_json())

    def _system_topics(self, request: Frame, connection: Connection) -> Reply:
        names, address = self._routes.system_names()
        body = TopicList(broker_addr=address, topic_list=names)
        return request.answer(ResponseCode.SUCCESS, body=body.to_json())

    def _register_topic(self, request: Frame, connection: Connection) -> Reply:
        header = from_ext(headers.TopicRequest, request.ext)
        if request.body is not None:
            queues = TopicRouteData.from_json(request.body).queue_datas
            self._routes.register_topic(header.topic, queues)
        return request.answer(ResponseCode.SUCCESS)

    def _delete_topic(self, request: Frame, connection: Connection) -> Reply:
        header = from_ext(headers.TopicRequest, request.ext)
        self._routes.delete_topic(header.topic, header.cluster_name or None)
        return request.answer(ResponseCode.SUCCESS)

    def _wipe_write(self, request: Frame, connection: Connection) -> Reply:
        header = from_ext(headers.PermRequest, request.ext)
        count = self._routes.queues.wipe_write(header.broker_name)
        ext = to_ext(headers.WipePermResponse(wipe_topic_count=count))
        return request.answer(ResponseCode.SUCCESS, ext=ext)

    def _add_write(self, request: Frame, connection: Connection) -> Reply:
        header = from_ext(headers.PermRequest, request.ext)
        count = self._routes.queues.add_write(header.broker_name)
        ext = to_ext(headers.AddPermResponse(add_topic_count=count))
        return request.answer(ResponseCode.SUCCESS, ext=ext)

    # Stored settings.

    async def _put_kv(self, request: Frame, connection: Connection) -> Reply:
        header = from_ext(headers.KvRequest, request.ext)
        if header.value is None:
            raise BadHeader("bad KvRequest: missing required field `value`")
        await self._kv.put(header.namespace, _key(header), header.value)
        return request.answer(ResponseCode.SUCCESS)

    def _get_kv(self, request: Frame, connection: Connection) -> Reply:
        header = from_ext(headers.KvRequest, request.ext)
        value = self._kv.get(header.namespace, _key(header))
        if value is None:
            why = f"No config item, Namespace: {header.namespace} Key: {header.key}"
            return request.answer(ResponseCode.QUERY_NOT_FOUND, why)
        return request.answer(ResponseCode.SUCCESS, ext=to_ext(headers.KvResponse(value=value)))

    async def _delete_kv(self, request: Frame, connection: Connection) -> Reply:
        header = from_ext(headers.KvRequest, request.ext)
        await self._kv.delete(header.namespace, _key(header))
        return request.answer(ResponseCode.SUCCESS)

    def _list_kv(self, request: Frame, connection: Connection) -> Reply:
        header = from_ext(headers.KvRequest, request.ext)
        table = self._kv.namespace(header.namespace)
        if table is None:
            why = f"No config item, Namespace: {header.namespace}"
            return request.answer(ResponseCode.QUERY_NOT_FOUND, why)
        return request.answer(ResponseCode.SUCCESS, body=KVTable(table=dict(table)).to_json())

    # The name server's own settings.

    def _get_config(self, request: Frame, connection: Connection) -> Reply:
        return self._settings.answer_get(request)

    def _update_config(self, request: Frame, connection: Connection) -> Reply:
        return self._settings.answer_update(request)


def _key(header: headers.KvRequest) -> str:
    if header.key is None:
        raise BadHeader("bad KvRequest: missing required field `key`")
    return header.key
