"""A broker's registration with the name servers: at every change, and again before they forget it.

Units: seconds of the loop's clock. Source: docs/spec/acting-master.md 1.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

from maxq.reference.broker.membership.controllers import CALL_TIMEOUT_S
from maxq.reference.broker.membership.joining import RETRY_S
from maxq.reference.broker.store.topics import Tables
from maxq.reference.config import BrokerConfig
from maxq.reference.host import Host
from maxq.reference.member_group import members_of, preferred
from maxq.reference.node import now_ns
from maxq.reference.records import RemoteProtocolError
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
    @property
    def isolated(self) -> bool: ...
    @property
    def returns(self) -> bool: ...

    async def on_dropped(self) -> None: ...


class Namesrvs:
    """The name servers that one broker registers with.

    Args:
        config: the broker's settings.
        host: its log.
        pool: connections.
        tables: the topics that are registered.
        me: who this broker is.
        on_registered: called with each answer to a registration, and when it was asked for (ns).
    """

    def __init__(
        self,
        config: BrokerConfig,
        host: Host,
        pool: Pool,
        tables: Tables,
        me: Self,
        on_registered: Callable[[headers.RegisterBrokerResponse, int], Awaitable[None]],
    ) -> None:
        self._config = config
        self._host = host
        self._pool = pool
        self._tables = tables
        self._me = me
        self._on_registered = on_registered
        self.addresses: Sequence[str] = addresses_of(config.namesrv_addr)
        self._answered = ""  # who has, last, when asked for the group
        self._watched: dict[Connection, str] = {}  # to name servers that know this broker
        self._due: dict[str, float] = {}  # name server -> loop time of the next registration
        # Those that know this broker, or have told it whom it has to hear before they do, and the
        # loop time at which they did. After an eviction time they may know it no more.
        self._settled: dict[str, float] = {}
        self.listed = asyncio.Event()  # all were asked for a registration, and one has it
        self._listed_at = -math.inf  # loop time of the last question whose answer lists this broker

    async def register_everywhere(self) -> None:
        """Register role, address and topics with every name server; a fenced broker does not."""
        await self._register(self.addresses)

    async def register_where_due(self) -> None:
        """Register where the period has passed, and where the last attempt failed."""
        now = _now()
        await self._register([n for n in self.addresses if now >= self._due.get(n, now)])

    async def heartbeat(self) -> None:
        """Tell every name server that knows this broker that it lives; none answers."""
        me, config = self._me, self._config
        if self._hidden:
            return
        who = headers.BrokerRequest(
            broker_name=config.broker_name,
            broker_addr=me.address,
            cluster_name=config.broker_cluster_name,
            broker_id=me.role_id,
        )
        if config.compatible_with_old_name_srv:
            body = self._tables.version.to_json()
            beat = Frame(code=RequestCode.QUERY_DATA_VERSION, ext=to_ext(who), body=body)
        else:
            ext = {k: v for k, v in to_ext(who).items() if k != "brokerId"}  # as RocketMQ's
            beat = Frame(code=RequestCode.BROKER_HEARTBEAT, ext=ext)
        sent = (self._beat(namesrv, beat) for namesrv in self.addresses)
        await asyncio.gather(*sent)  # a dead one must not delay the others

    async def _beat(self, namesrv: str, beat: Frame) -> None:
        try:
            async with asyncio.timeout(self._config.send_heartbeat_timeout_millis / 1000):
                await self._pool.oneway(namesrv, beat)
        except (OSError, TimeoutError) as error:
            why = f"{type(error).__name__}: {error}"
            self._host.log("broker.heartbeat.failed", to=namesrv, why=why)

    @property
    def _hidden(self) -> bool:
        """Whether name servers are to hear nothing of this broker now."""
        return self._me.role == "fenced" or self._me.isolated

    async def group(self) -> dict[int, str] | None:
        """The group's members, as the first name server says that answers; it is asked first the
        next time. Empty where it knows none, None if none answers."""
        for namesrv in preferred(self.addresses, self._answered):
            found = await self._members(namesrv)
            if found is not None:
                self._answered = namesrv
                return found
        return None

    async def groups(self) -> list[dict[int, str]]:
        """The group's members, as each name server says that answers. A registration that follows
        takes nobody by surprise there."""
        self._settled.clear()
        asked, namesrvs = _now(), self.addresses
        answers = await asyncio.gather(*map(self._members, namesrvs))
        said = dict(zip(namesrvs, answers, strict=True))
        self._settle(asked, *(namesrv for namesrv, found in said.items() if found is not None))
        return [found for found in said.values() if found is not None]

    def go_online(self) -> None:
        """Whom this broker had to hear it has heard, however long that took."""
        self._settle(_now(), *self._settled)

    def _settle(self, at: float, *namesrvs: str) -> None:
        self._settled |= dict.fromkeys(namesrvs, at)

    def _is_settled(self, namesrv: str) -> bool:
        return self._is_recent(self._settled.get(namesrv, -math.inf))

    def _is_recent(self, asked: float) -> bool:
        """Whether what was asked then still holds: who was listed cannot have been evicted since.
        A process that was paused gets answers to what it had asked before."""
        return _now() - asked < self._config.broker_not_active_timeout_millis / 1000

    async def _members(self, namesrv: str) -> dict[int, str] | None:
        config, asked = self._config, _now()
        try:
            found = await members_of(
                self._pool,
                namesrv,
                config.broker_cluster_name,
                config.broker_name,
                by_route=config.compatible_with_old_name_srv,
            )
        except (OSError, TimeoutError, RemoteProtocolError) as error:
            why = f"{type(error).__name__}: {error}"
            self._host.log("broker.group.failed", of=namesrv, why=why)
            return None
        if self._is_in(found):
            self._listed_at = max(self._listed_at, asked)
        return found

    def _is_in(self, group: Mapping[int, str]) -> bool:
        """At an address that it had before it is listed as well."""
        return self._me.role_id in group or self._me.address in group.values()

    def forget_registrations(self) -> None:
        """Every name server is due: what they know of this broker is out of date."""
        self._due.clear()

    async def unregister(self) -> None:
        """Say goodbye on a clean stop; who never registered has nothing to say."""
        await self._leave(self.addresses)

    async def reach(self, namesrvs: Sequence[str]) -> None:
        """Register with these name servers from now on, and say goodbye to all others."""
        left = [namesrv for namesrv in self.addresses if namesrv not in namesrvs]
        self.addresses = tuple(namesrvs)
        for namesrv in left:
            self._due.pop(namesrv, None)
            self._settled.pop(namesrv, None)
        await self._leave(left)
        await self.register_where_due()

    async def _leave(self, namesrvs: Sequence[str]) -> None:
        if self._hidden:
            return
        header = headers.BrokerRequest(
            broker_name=self._config.broker_name,
            broker_addr=self._me.address,
            cluster_name=self._config.broker_cluster_name,
            broker_id=self._me.role_id,
        )
        for namesrv in namesrvs:
            await self._call(namesrv, Frame(code=RequestCode.UNREGISTER_BROKER, ext=to_ext(header)))

    async def _register(self, namesrvs: Sequence[str]) -> None:
        me, config = self._me, self._config
        if self._hidden or not namesrvs:
            return
        body = RegisterBrokerBody(topic_config_serialize_wrapper=self._tables.wrapper()).to_json()
        header = headers.RegisterBrokerRequest(
            broker_name=config.broker_name,
            broker_addr=me.address,
            cluster_name=config.broker_cluster_name,
            ha_server_addr=me.ha_address,
            broker_id=me.role_id,
            enable_acting_master=config.enable_slave_acting_master,
            heartbeat_timeout_millis=config.broker_not_active_timeout_millis
            if config.enable_slave_acting_master
            else None,
            body_crc32=body_crc32(body),
        )
        frame = Frame(code=RequestCode.REGISTER_BROKER, ext=to_ext(header), body=body)
        for namesrv in sorted(namesrvs, key=lambda n: n not in self._settled):
            listed = await self._lists(namesrv)
            if listed is False:
                self._host.log("broker.dropped", by=namesrv)
                await me.on_dropped()
                return
            registered = listed is True and await self._call(namesrv, frame)
            registered = registered and (me.role != "slave" or bool(me.master_ha_address))
            wait_s = self._config.register_name_server_period / 1000 if registered else RETRY_S
            self._due[namesrv] = _now() + wait_s
        if self._listed_at > -math.inf and self._due.keys() >= set(self.addresses):
            self.listed.set()

    async def _lists(self, namesrv: str) -> bool | None:
        """Whether this broker may register there. Not (False) where others of the group are listed
        and this one is not: it must hear them first, a slave may act there. Nor where nobody is, if
        none has listed this one for so long that a slave may have acted. None: no answer."""
        if self._is_settled(namesrv) or not self._me.returns:
            return True
        found = await self._members(namesrv)
        if found is None:
            return None
        return self._is_in(found) if found else self._is_recent(self._listed_at)

    async def _call(self, namesrv: str, frame: Frame) -> bool:
        asked_ns = now_ns()
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
            asked = asked_ns / 1e9
            self._settle(asked, namesrv)
            self._listed_at = max(self._listed_at, asked)
            named = from_ext(headers.RegisterBrokerResponse, answer.ext)
            await self._on_registered(named, asked_ns)
        return True

    def _lost(self, connection: Connection) -> None:
        namesrv = self._watched.pop(connection)
        self._settled.pop(namesrv, None)
        self._due[namesrv] = 0.0


def addresses_of(namesrv_addr: str) -> tuple[str, ...]:
    """The name servers of RocketMQ's key namesrvAddr."""
    return tuple(address for address in namesrv_addr.split(";") if address)


def _now() -> float:
    return asyncio.get_running_loop().time()
