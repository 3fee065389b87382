"""The name server: answers where topics live, and forgets brokers that fell silent."""

import asyncio
from collections.abc import Callable

from reference import rpc
from reference.config import NamesrvConfig, render_config
from reference.host import Host
from reference.namesrv.routes import EXPIRY_MS, Refused, Registration, Routes
from reference.node import dispatcher, every, now_ns
from reference.rpc import Connection, Reply
from reference.wire import node_headers as headers
from reference.wire.codes import RequestCode, ResponseCode
from reference.wire.frame import Frame
from reference.wire.headers import from_ext, to_ext
from reference.wire.registration import decode_compressed
from reference.wire.route import (
    DataVersion,
    MemberGroupBody,
    RegisterBrokerBody,
    TopicList,
    body_crc32,
)


class Namesrv:
    """One name server; keeps everything in memory, as RocketMQ's does."""

    def __init__(self, config: NamesrvConfig, host: Host) -> None:
        self._config = config
        self._host = host
        self._routes = Routes()
        self._connections: dict[Connection, tuple[str, str]] = {}  # broker name, address
        self._handle = dispatcher(
            {
                RequestCode.GET_ROUTEINFO_BY_TOPIC: self._route,
                RequestCode.GET_BROKER_CLUSTER_INFO: self._cluster_info,
                RequestCode.REGISTER_BROKER: self._register,
                RequestCode.UNREGISTER_BROKER: self._unregister,
                RequestCode.QUERY_DATA_VERSION: self._query_version,
                RequestCode.BROKER_HEARTBEAT: self._heartbeat,
                RequestCode.GET_BROKER_MEMBER_GROUP: self._member_group,
                RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: self._topics,
                RequestCode.GET_NAMESRV_CONFIG: self._get_config,
            }
        )

    async def run(self, ready: Callable[[], None]) -> None:
        """Serve until cancelled."""
        async with asyncio.TaskGroup() as group:
            server = await rpc.serve(
                self._config.bind_address, self._config.listen_port, self._handle, group=group
            )
            self._host.log("namesrv.started", port=self._config.listen_port)
            ready()
            try:
                await every(self._config.scan_not_active_broker_interval / 1000, self._expire)
            finally:
                server.close()

    def _expire(self) -> None:
        for address in self._routes.expire(now_ns()):
            self._host.log("namesrv.broker.expired", address=address)

    def _route(self, request: Frame, connection: Connection) -> Reply:
        topic = from_ext(headers.TopicRequest, request.ext).topic
        route = self._routes.route(topic)
        if route is None:
            return request.answer(
                ResponseCode.TOPIC_NOT_EXIST,
                f"No topic route info in name server for the topic: {topic}",
            )
        # Quoted keys serve every reader; Java's old unquoted form is never needed.
        return request.answer(ResponseCode.SUCCESS, body=route.to_json())

    def _cluster_info(self, request: Frame, connection: Connection) -> Reply:
        return request.answer(ResponseCode.SUCCESS, body=self._routes.cluster_info().to_json())

    def _register(self, request: Frame, connection: Connection) -> Reply:
        header = from_ext(headers.RegisterBrokerRequest, request.ext)
        content = request.body or b""
        if header.body_crc32 and header.body_crc32 != body_crc32(content):
            return request.answer(ResponseCode.SYSTEM_ERROR, "crc32 not match")
        if not content:
            body = RegisterBrokerBody()
        elif header.compressed:
            body = decode_compressed(content)
        else:
            body = RegisterBrokerBody.from_json(content)
        known = self._routes.has(header.broker_name, header.broker_addr)
        answer = self._routes.register(
            now_ns(),
            Registration(
                cluster=header.cluster_name,
                broker_name=header.broker_name,
                broker_id=header.broker_id,
                address=header.broker_addr,
                ha_address=header.ha_server_addr,
                timeout_ms=header.heartbeat_timeout_millis or EXPIRY_MS,
                acting_master=header.enable_acting_master,
                data_version=body.data_version,
                topics=body.topics,
            ),
        )
        if isinstance(answer, Refused):
            return request.answer(ResponseCode.SYSTEM_ERROR, answer.remark)
        self._watch(connection, header.broker_name, header.broker_addr)
        if not known and self._routes.has(header.broker_name, header.broker_addr):
            self._host.log(
                "namesrv.broker.registered",
                name=header.broker_name, id=header.broker_id, address=header.broker_addr,
            )  # fmt: skip
        reply = headers.RegisterBrokerResponse(
            ha_server_addr=answer.ha_address or None, master_addr=answer.address or None
        )
        return request.answer(ResponseCode.SUCCESS, ext=to_ext(reply))

    def _watch(self, connection: Connection, name: str, address: str) -> None:
        """A broker whose connection closes is gone at once."""
        if connection not in self._connections:
            connection.on_close(self._lost)
        self._connections[connection] = (name, address)

    def _lost(self, connection: Connection) -> None:
        name, address = self._connections.pop(connection)
        if (name, address) in self._connections.values():
            return  # it has connected anew before the old connection's end was seen
        self._routes.forget(address)
        self._host.log("namesrv.broker.lost", name=name, address=address)

    def _unregister(self, request: Frame, connection: Connection) -> Reply:
        header = from_ext(headers.BrokerRequest, request.ext)
        self._routes.unregister(header.broker_name, header.broker_addr)
        return request.answer(ResponseCode.SUCCESS)

    def _query_version(self, request: Frame, connection: Connection) -> Reply:
        header = from_ext(headers.BrokerRequest, request.ext)
        asked = DataVersion.from_json(request.body)
        known = self._routes.version(header.broker_addr)
        self._routes.heard(now_ns(), header.broker_addr)
        return request.answer(
            ResponseCode.SUCCESS,
            ext=to_ext(headers.DataVersionResponse(changed=known != asked)),
            body=None if known is None else known.to_json(),
        )

    def _heartbeat(self, request: Frame, connection: Connection) -> Reply:
        header = from_ext(headers.BrokerHeartbeat, request.ext)
        self._routes.heard(now_ns(), header.broker_addr)
        return request.answer(ResponseCode.SUCCESS)

    def _member_group(self, request: Frame, connection: Connection) -> Reply:
        header = from_ext(headers.MemberGroupRequest, request.ext)
        group = self._routes.member_group(header.broker_name)
        return request.answer(
            ResponseCode.SUCCESS, body=MemberGroupBody(broker_member_group=group).to_json()
        )

    def _topics(self, request: Frame, connection: Connection) -> Reply:
        return request.answer(
            ResponseCode.SUCCESS, body=TopicList(topic_list=self._routes.topics()).to_json()
        )

    def _get_config(self, request: Frame, connection: Connection) -> Reply:
        return request.answer(ResponseCode.SUCCESS, body=render_config(self._config).encode())
