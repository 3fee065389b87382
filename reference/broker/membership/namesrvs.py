"""A broker's registration with the name servers: at every change, and again before they forget it.

Units: seconds of the loop's clock. Source: docs/spec/acting-master.md 1.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from maxq.reference.broker.membership.controllers import CALL_TIMEOUT_S
from maxq.reference.broker.membership.joining import RETRY_S
from maxq.reference.broker.store.topics import Tables
from maxq.reference.config import BrokerConfig
from maxq.reference.host import Host
from maxq.reference.rpc import Connection, Pool
from maxq.reference.wire import node_headers as headers
from maxq.reference.wire.codes import RequestCode, ResponseCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.headers import from_ext, to_ext
from maxq.reference.wire.route import RegisterBrokerBody, body_crc32


class Self(Protocol):
    """Who this broker is now; its `Membership`."""

    @property
    def role(self) -> str: ...
    @property
    def role_id(self) -> int: ...
    @property
    def address(self) -> str: ...
    @property
    def ha_address(self) -> str: ...
    @property
    def master_ha_address(self) -> str: ...


class Namesrvs:
    """The name servers that one broker registers with.

    Args:
        config: the broker's settings.
        host: its log.
        pool: connections.
        tables: the topics that are registered.
        me: who this broker is.
        on_registered: called with each answer to a registration.
    """

    def __init__(
        self,
        config: BrokerConfig,
        host: Host,
        pool: Pool,
        tables: Tables,
        me: Self,
        on_registered: Callable[[headers.RegisterBrokerResponse], Awaitable[None]],
    ) -> None:
        self._config = config
        self._host = host
        self._pool = pool
        self._tables = tables
        self._me = me
        self._on_registered = on_registered
        self._addresses = [a for a in config.namesrv_addr.split(";") if a]
        self._watched: dict[Connection, str] = {}  # to name servers that know this broker
        self._due: dict[str, float] = {}  # name server -> loop time of the next registration

    async def register_everywhere(self) -> None:
        """Register role, address and topics with every name server; a fenced broker does not."""
        await self._register(self._addresses)

    async def register_where_due(self) -> None:
        """Register where the period has passed, and where the last attempt failed."""
        now = asyncio.get_running_loop().time()
        await self._register([n for n in self._addresses if now >= self._due.get(n, now)])

    def forget_registrations(self) -> None:
        """Every name server is due: what they know of this broker is out of date."""
        self._due.clear()

    async def unregister(self) -> None:
        """Say goodbye on a clean stop; who never registered has nothing to say."""
        if self._me.role == "fenced":
            return
        header = headers.BrokerRequest(
            broker_name=self._config.broker_name,
            broker_addr=self._me.address,
            cluster_name=self._config.broker_cluster_name,
            broker_id=self._me.role_id,
        )
        for namesrv in self._addresses:
            await self._call(namesrv, Frame(code=RequestCode.UNREGISTER_BROKER, ext=to_ext(header)))

    async def _register(self, namesrvs: Sequence[str]) -> None:
        me = self._me
        if me.role == "fenced" or not namesrvs:
            return
        body = RegisterBrokerBody(topic_config_serialize_wrapper=self._tables.wrapper()).to_json()
        header = headers.RegisterBrokerRequest(
            broker_name=self._config.broker_name,
            broker_addr=me.address,
            cluster_name=self._config.broker_cluster_name,
            ha_server_addr=me.ha_address,
            broker_id=me.role_id,
            enable_acting_master=False,
            body_crc32=body_crc32(body),
        )
        frame = Frame(code=RequestCode.REGISTER_BROKER, ext=to_ext(header), body=body)
        for namesrv in namesrvs:
            registered = await self._call(namesrv, frame)
            registered = registered and (me.role != "slave" or bool(me.master_ha_address))
            wait_s = self._config.register_name_server_period / 1000 if registered else RETRY_S
            self._due[namesrv] = asyncio.get_running_loop().time() + wait_s

    async def _call(self, namesrv: str, frame: Frame) -> bool:
        try:
            connection = await self._pool.get(namesrv)
            answer = await connection.call(frame, timeout_s=CALL_TIMEOUT_S)
        except OSError as error:
            self._host.log("broker.namesrv.failed", to=namesrv, why=str(error))
            return False
        if connection not in self._watched:
            # A name server that closes has forgotten us, or died; RocketMQ waits for the period.
            self._watched[connection] = namesrv
            connection.on_close(self._lost)
        if answer.code != ResponseCode.SUCCESS:
            self._host.log("broker.namesrv.refused", to=namesrv, why=answer.remark)
            return False
        if frame.code == RequestCode.REGISTER_BROKER:
            await self._on_registered(from_ext(headers.RegisterBrokerResponse, answer.ext))
        return True

    def _lost(self, connection: Connection) -> None:
        self._due[self._watched.pop(connection)] = 0.0
