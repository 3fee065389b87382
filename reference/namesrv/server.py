"""The name server: answers where topics live, and forgets brokers that fell silent.

This module owns its life and what brokers say of themselves; what is asked of it is in
`maxq.reference.namesrv.handlers`. An address belongs to the connection that registered it last and
is forgotten when that connection ends, as are all addresses of a connection (Java forgets only one
of them, so that of a killed container the others stay in the routes until they expire).
"""

import asyncio
from collections.abc import Callable

from maxq.reference import rpc
from maxq.reference.bounds import Bounds
from maxq.reference.config import NamesrvConfig
from maxq.reference.host import Host
from maxq.reference.names import broker_name_fault, topic_name_fault
from maxq.reference.namesrv.handlers import BLACK_LIST, LIVE_KEYS, Handlers
from maxq.reference.namesrv.kv import ORDER_TOPICS, Kv
from maxq.reference.namesrv.routes import EXPIRY_MS, MinIdChanged, Refused, Registration, Routes
from maxq.reference.node import dispatcher, every, now_ns
from maxq.reference.rpc import Connection, Pool, Reply
from maxq.reference.settings import Settings
from maxq.reference.wire import node_headers as headers
from maxq.reference.wire.codes import RequestCode, ResponseCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.headers import from_ext, to_ext
from maxq.reference.wire.registration import decode_compressed
from maxq.reference.wire.route import DataVersion, KVTable, RegisterBrokerBody, body_crc32

NOTICES_MAX = 1000  # waiting to be sent; older ones are overtaken by the next poll of the brokers
NOTICE_TIMEOUT_S = 0.3


class Namesrv:
    """One name server; of all that it knows, only the KV settings are on disk, as in RocketMQ."""

    def __init__(self, config: NamesrvConfig, host: Host) -> None:
        self._settings = Settings(config, live=LIVE_KEYS, black_list=BLACK_LIST)
        self._host = host
        self._routes = Routes()
        self._kv = Kv(host, config.kv_config_path)
        self._owner: dict[str, Connection] = {}  # address -> who registered it last
        self._watched: dict[Connection, None] = {}
        self._notices: list[MinIdChanged] = []  # not yet sent
        self._sending = False

    async def run(self, ready: Callable[[], None]) -> None:
        """Serve until cancelled.

        Raises:
            CorruptKv: the settings' file must not be used.
            BlockingIOError: another name server uses it.
        """
        await self._kv.load()
        config = self._settings.now
        async with asyncio.TaskGroup() as group:
            self._group = group
            bounds: Bounds[Connection] = Bounds(self._host.log)
            self._pool = Pool(group, bounds=bounds)
            handlers = Handlers(self._settings, self._routes, self._kv, started_ns=now_ns())
            handle = dispatcher(
                {
                    RequestCode.REGISTER_BROKER: self._register,
                    RequestCode.UNREGISTER_BROKER: self._unregister,
                    RequestCode.QUERY_DATA_VERSION: self._query_version,
                    RequestCode.BROKER_HEARTBEAT: self._heartbeat,
                    **handlers.by_code(),
                }
            )
            server = await rpc.serve(
                config.bind_address, config.listen_port, handle, group=group, bounds=bounds
            )
            self._host.log("namesrv.started", port=config.listen_port)
            ready()
            try:
                await every(config.scan_not_active_broker_interval / 1000, self._expire)
            finally:
                self._sending = True  # no group hears of the end: it is ours, not theirs
                server.close()
                self._pool.close()

    # What brokers say.

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
        fault = _name_fault(header, body)
        if fault is not None:
            return request.answer(ResponseCode.SYSTEM_ERROR, fault)
        if self._is_late(connection, header.broker_addr):
            return request.answer(ResponseCode.SUCCESS, ext={})
        known = self._routes.has(header.broker_name, header.broker_addr)
        answer = self._routes.register(now_ns(), self._registration(header, body))
        self._tell_min_ids()
        if isinstance(answer, Refused):
            return request.answer(ResponseCode.SYSTEM_ERROR, answer.remark)
        if self._routes.has(header.broker_name, header.broker_addr):
            self._watch(connection, header.broker_addr)
            if not known:
                self._host.log(
                    "namesrv.broker.registered",
                    name=header.broker_name, id=header.broker_id, address=header.broker_addr,
                )  # fmt: skip
        reply = headers.RegisterBrokerResponse(
            ha_server_addr=answer.ha_address or None, master_addr=answer.address or None
        )
        return request.answer(ResponseCode.SUCCESS, ext=to_ext(reply), body=self._order_topics())

    def _registration(
        self, header: headers.RegisterBrokerRequest, body: RegisterBrokerBody
    ) -> Registration:
        return Registration(
            cluster=header.cluster_name,
            broker_name=header.broker_name,
            broker_id=header.broker_id,
            address=header.broker_addr,
            ha_address=header.ha_server_addr,
            timeout_ms=header.heartbeat_timeout_millis or EXPIRY_MS,
            acting_master=header.enable_acting_master,
            data_version=body.data_version,
            topics=body.topics,
            zone=header.zone_name,
            only_these_topics=self._settings.now.delete_topic_with_broker_registration,
        )

    def _order_topics(self) -> bytes | None:
        """What a registration is answered with: the ordered topics, if there ever were any."""
        if not self._settings.now.return_order_topic_config_to_broker:
            return None
        table = self._kv.namespace(ORDER_TOPICS)
        return None if table is None else KVTable(table=dict(table)).to_json()

    def _unregister(self, request: Frame, connection: Connection) -> Reply:
        header = from_ext(headers.BrokerRequest, request.ext)
        # A goodbye of the process that was here before must not take away the one that is.
        if not self._is_late(connection, header.broker_addr):
            self._routes.unregister(header.broker_name, header.broker_addr)
            self._owner.pop(header.broker_addr, None)
            self._tell_min_ids()
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

    # Who is gone.

    def _watch(self, connection: Connection, address: str) -> None:
        """A broker whose connection closes is gone at once."""
        if not self._is_late(connection, address):
            self._owner[address] = connection
        if connection not in self._watched:
            self._watched[connection] = None
            connection.on_close(self._lost)

    def _is_late(self, connection: Connection, address: str) -> bool:
        """Whether a broker has spoken over a younger connection since.

        It has one at a time. After a cut, or when an address comes back, the kernel delivers what
        it could not before, and then the end of that connection: neither says anything any more.
        """
        owner = self._owner.get(address)
        return owner is not None and connection.serial < owner.serial

    def _lost(self, connection: Connection) -> None:
        self._watched.pop(connection, None)
        for address in self._owned(connection):
            del self._owner[address]
            self._routes.forget(address)
            self._host.log("namesrv.broker.lost", address=address)
        self._tell_min_ids()

    def _owned(self, connection: Connection) -> list[str]:
        return [a for a, owner in self._owner.items() if owner is connection]

    def _expire(self) -> None:
        for address in self._routes.expire(now_ns()):
            self._host.log("namesrv.broker.expired", address=address)
            connection = self._owner.pop(address, None)
            if connection is not None and not self._owned(connection):
                connection.close()  # no other broker speaks through it
        self._tell_min_ids()

    # Who must be notified.

    def _tell_min_ids(self) -> None:
        """Notify groups of their new smallest id; delivery is not checked."""
        notices = self._routes.take_notices()
        if self._settings.now.notify_min_broker_id_changed:
            self._notices = [*self._notices, *notices][-NOTICES_MAX:]
            if self._notices and not self._sending:
                self._sending = True
                self._group.create_task(self._notify())

    async def _notify(self) -> None:
        """Send the notices, one after the other, so that each group hears it in order."""
        while self._notices:
            notice = self._notices.pop(0)
            header = headers.MinBrokerIdChange(
                min_broker_id=notice.broker_id,
                min_broker_addr=notice.address,
                offline_broker_addr=notice.offline_address,
                ha_broker_addr=notice.ha_address,
            )
            frame = Frame(code=RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE, ext=to_ext(header))
            for address in notice.to:
                try:
                    async with asyncio.timeout(NOTICE_TIMEOUT_S):
                        await self._pool.oneway(address, frame)
                except (OSError, TimeoutError, ValueError) as error:  # an address is any text
                    why = f"{type(error).__name__}: {error}"
                    self._host.log("namesrv.notify.failed", to=address, why=why)
        self._sending = False


def _name_fault(header: headers.RegisterBrokerRequest, body: RegisterBrokerBody) -> str | None:
    """Which name of a registration is illegal, and why; None if none is.

    A broker's own name and its cluster's are topics of its table, and may have characters that
    other topics may not have.
    """
    for name in (header.broker_name, header.cluster_name):
        fault = broker_name_fault(name)
        if fault is not None:
            return f"the broker or cluster {name!r:.80} is {fault}"
    for topic in body.topics:
        fault = topic_name_fault(topic)
        if fault is not None and broker_name_fault(topic) is not None:
            return fault
    return None
