"""A broker's place in its cluster: its id, its role, and who must be told.

With a controller: find it, win or prove the persistent id, register the address, learn or ask for
a master, then poll. Until a role is known the broker is *fenced*: it takes no message. Without a
controller the configured role holds from the start. In both cases the name servers are told at
every change of role or topics, and periodically, since a name server forgets the silent.

Every step that fails is tried again after `RETRY_S`; nothing is given up. Units: seconds.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Literal, TypeVar

from reference.broker.identity import Claimed, IdentityFiles, New, Owned, State, check_code
from reference.broker.topics import Tables
from reference.config import BrokerConfig
from reference.host import Host
from reference.node import every
from reference.records import BrokerId, RemoteProtocolError
from reference.rpc import NotSent, Pool
from reference.wire import node_headers as headers
from reference.wire.codes import RequestCode, ResponseCode
from reference.wire.frame import Frame
from reference.wire.headers import Header, from_ext, to_ext
from reference.wire.route import RegisterBrokerBody, body_crc32

CALL_TIMEOUT_S = 3.0
RETRY_S = 1.0
MASTER_ROLE_ID = 0

T = TypeVar("T")
Known = headers.ReplicaInfoResponse | headers.MasterResponse  # who is master, by whom it is told
RoleName = Literal["fenced", "master", "slave"]


class Refused(Exception):
    """A controller or name server answered, and not what was hoped for."""


class Membership:
    """Registration and role of one broker.

    Args:
        config: the broker's settings.
        host: disk, clock, addresses.
        tables: the topics that are registered.
        pool: connections to controllers and name servers.
        log_end: end of the commit log now, for heartbeats.
    """

    def __init__(
        self,
        config: BrokerConfig,
        host: Host,
        tables: Tables,
        pool: Pool,
        log_end: Callable[[], int],
    ) -> None:
        self._config = config
        self._host = host
        self._tables = tables
        self._pool = pool
        self._log_end = log_end
        ip = config.broker_ip1 or host.addresses()[0]
        self.address = f"{ip}:{config.listen_port}"
        ha_port = config.ha_listen_port or config.listen_port + 1
        self.ha_address = f"{config.broker_ip2 or ip}:{ha_port}"
        self._controllers = [a for a in config.controller_addr.split(";") if a]
        self._namesrvs = [a for a in config.namesrv_addr.split(";") if a]
        self._leader = ""
        self._due: dict[str, float] = {}  # name server -> loop time of the next registration
        self.broker_id = BrokerId(config.broker_id)  # the persistent id; -1 until known
        self.role: RoleName = "fenced"
        self.master_address = ""
        self.master_epoch = 0

    @property
    def role_id(self) -> int:
        """The id shown to name servers: 0 while master."""
        return MASTER_ROLE_ID if self.role == "master" else self.broker_id

    async def run(self, group: asyncio.TaskGroup) -> None:
        """Take part in the cluster until cancelled."""
        if self._config.enable_controller_mode:
            await self._join()
            beat = self._config.broker_heartbeat_interval / 1000
            for controller in self._controllers:  # apart: a dead one must not delay the others
                group.create_task(every(beat, partial(self._heartbeat, controller)))
            group.create_task(
                every(self._config.sync_broker_metadata_period / 1000, self._poll_master)
            )
        else:
            slave = self._config.broker_role == "SLAVE"
            self.role = "slave" if slave else "master"
            self.broker_id = BrokerId(max(self._config.broker_id, int(slave)))
        await every(RETRY_S, self._register_where_due)

    # Controller.

    async def _join(self) -> None:
        """Win an id and register it. Raises IdentityError, which ends the broker."""
        files = IdentityFiles(
            self._host.disk,
            self._config.identity_path,
            cluster=self._config.broker_cluster_name,
            broker_name=self._config.broker_name,
        )
        state = files.load()
        while not (isinstance(state, Owned) and await self._tried(self._register_id(state))):
            after = await self._advance(files, state)
            if after is None:
                await asyncio.sleep(RETRY_S)
            else:
                state = after
        # A heartbeat first: the controller elects only brokers that it knows to live.
        for controller in self._controllers:
            await self._heartbeat(controller)

    async def _advance(self, files: IdentityFiles, state: State) -> State | None:
        """One step towards an id; None if it failed for now."""
        if isinstance(state, New):
            return await self._tried(self._claim(files))
        if isinstance(state, Claimed):
            return await self._tried(self._prove(files, state))
        return None

    async def _claim(self, files: IdentityFiles) -> Claimed:
        request = headers.NextBrokerIdRequest(
            cluster_name=self._config.broker_cluster_name, broker_name=self._config.broker_name
        )
        answer = await self._ask(RequestCode.CONTROLLER_GET_NEXT_BROKER_ID, request)
        next_id = from_ext(headers.NextBrokerIdResponse, answer.ext).next_broker_id
        if next_id < 1:
            raise Refused(f"the controller offers id {next_id}")
        claim = Claimed(
            broker_id=BrokerId(next_id),
            check_code=check_code(self.address, self._host.wall_ms()),
        )
        await files.save_claim(claim)
        return claim

    async def _prove(self, files: IdentityFiles, claim: Claimed) -> New | Owned:
        request = headers.ApplyBrokerIdRequest(
            cluster_name=self._config.broker_cluster_name,
            broker_name=self._config.broker_name,
            applied_broker_id=claim.broker_id,
            register_check_code=claim.check_code,
        )
        taken = (ResponseCode.SUCCESS, ResponseCode.CONTROLLER_BROKER_ID_INVALID)
        answer = await self._ask(RequestCode.CONTROLLER_APPLY_BROKER_ID, request, allow=taken)
        if answer.code == ResponseCode.CONTROLLER_BROKER_ID_INVALID:
            await files.drop_claim()
            return New()
        await files.settle(claim.broker_id)
        self._host.log("broker.id.won", id=claim.broker_id)
        return Owned(broker_id=claim.broker_id)

    async def _register_id(self, owned: Owned) -> bool:
        self.broker_id = owned.broker_id
        request = headers.RegisterToControllerRequest(
            cluster_name=self._config.broker_cluster_name,
            broker_name=self._config.broker_name,
            broker_id=owned.broker_id,
            broker_address=self.address,
            invoke_time=self._host.wall_ms(),
        )
        await self._ask(RequestCode.CONTROLLER_REGISTER_BROKER, request)
        return True

    async def _heartbeat(self, controller: str) -> None:
        beat = headers.BrokerHeartbeat(
            cluster_name=self._config.broker_cluster_name,
            broker_addr=self.address,
            broker_name=self._config.broker_name,
            broker_id=self.broker_id,
            epoch=self.master_epoch or -1,
            max_offset=self._log_end(),
            confirm_offset=self._log_end(),
            heartbeat_timeout_mills=self._config.controller_heart_beat_timeout_mills,
            election_priority=self._config.broker_election_priority,
        )
        frame = Frame(code=RequestCode.BROKER_HEARTBEAT, ext=to_ext(beat))
        try:
            await self._pool.oneway(controller, frame)
        except NotSent as error:
            self._host.log("broker.heartbeat.failed", to=controller, why=str(error))

    async def _poll_master(self) -> None:
        """Ask who is master, and follow; ask to be it where nobody is."""
        known = await self._tried(self._find_master())
        if known is None or not known.master_address:
            return
        if (known.master_epoch or 0) > self.master_epoch:
            await self._follow(known)

    async def _find_master(self) -> Known:
        request = headers.ReplicaInfoRequest(broker_name=self._config.broker_name)
        answer = await self._ask(RequestCode.CONTROLLER_GET_REPLICA_INFO, request)
        known = from_ext(headers.ReplicaInfoResponse, answer.ext)
        if known.master_address:
            return known
        elect = headers.ElectMasterRequest(
            cluster_name=self._config.broker_cluster_name,
            broker_name=self._config.broker_name,
            broker_id=self.broker_id,
            invoke_time=self._host.wall_ms(),
        )
        told = (ResponseCode.SUCCESS, ResponseCode.CONTROLLER_MASTER_STILL_EXIST)
        answer = await self._ask(RequestCode.CONTROLLER_ELECT_MASTER, elect, allow=told)
        return from_ext(headers.MasterResponse, answer.ext)

    async def _follow(self, known: Known) -> None:
        self.master_epoch = known.master_epoch or 0
        self.master_address = known.master_address or ""
        self.role = "master" if known.master_broker_id == self.broker_id else "slave"
        self._tables.adopt_epoch(self.master_epoch)
        self._host.log("broker.role", role=self.role, epoch=self.master_epoch)
        await self.register_everywhere()

    async def _ask(
        self,
        code: RequestCode,
        header: Header,
        *,
        allow: tuple[ResponseCode, ...] = (ResponseCode.SUCCESS,),
    ) -> Frame:
        """Ask the leading controller, found first where it is not known.

        Raises:
            Refused: an answer with another code than `allow`.
            OSError, TimeoutError: no controller answered.
        """
        if not self._leader:
            self._leader = await self._find_leader()
        leader, self._leader = self._leader, ""  # forgotten unless it answers well
        answer = await self._pool.call(
            leader, Frame(code=code, ext=to_ext(header)), timeout_s=CALL_TIMEOUT_S
        )
        if answer.code not in allow:
            raise Refused(f"{code.name}: {answer.code} {answer.remark or ''}")
        self._leader = leader
        return answer

    async def _find_leader(self) -> str:
        for controller in self._controllers:
            try:
                answer = await self._pool.call(
                    controller,
                    Frame(code=RequestCode.CONTROLLER_GET_METADATA_INFO, ext={}),
                    timeout_s=CALL_TIMEOUT_S,
                )
            except (OSError, TimeoutError):
                continue
            leader = from_ext(headers.MetadataResponse, answer.ext).controller_leader_address
            if answer.code == ResponseCode.SUCCESS and leader:
                return leader
        raise Refused(f"no controller of {self._controllers} names a leader")

    async def _tried(self, work: Coroutine[Any, Any, T]) -> T | None:
        try:
            return await work
        except (OSError, TimeoutError, Refused, RemoteProtocolError) as error:
            self._host.log("broker.controller.failed", why=f"{type(error).__name__}: {error}")
            return None

    # Name servers.

    async def register_everywhere(self) -> None:
        """Tell every name server role, address and topics; a fenced broker says nothing."""
        await self._register(self._namesrvs)

    async def _register_where_due(self) -> None:
        """Tell the name servers whose time has come, and those that did not hear the last time."""
        now = asyncio.get_running_loop().time()
        await self._register([n for n in self._namesrvs if now >= self._due.get(n, now)])

    async def _register(self, namesrvs: Sequence[str]) -> None:
        if self.role == "fenced" or not namesrvs:
            return
        body = RegisterBrokerBody(topic_config_serialize_wrapper=self._tables.wrapper()).to_json()
        header = headers.RegisterBrokerRequest(
            broker_name=self._config.broker_name,
            broker_addr=self.address,
            cluster_name=self._config.broker_cluster_name,
            ha_server_addr=self.ha_address,
            broker_id=self.role_id,
            enable_acting_master=False,
            body_crc32=body_crc32(body),
        )
        frame = Frame(code=RequestCode.REGISTER_BROKER, ext=to_ext(header), body=body)
        for namesrv in namesrvs:
            heard = await self._tell(namesrv, frame)
            wait_s = self._config.register_name_server_period / 1000 if heard else RETRY_S
            self._due[namesrv] = asyncio.get_running_loop().time() + wait_s

    async def unregister(self) -> None:
        """Say goodbye on a clean stop; who never registered has nothing to say."""
        if self.role == "fenced":
            return
        header = headers.BrokerRequest(
            broker_name=self._config.broker_name,
            broker_addr=self.address,
            cluster_name=self._config.broker_cluster_name,
            broker_id=self.role_id,
        )
        for namesrv in self._namesrvs:
            await self._tell(namesrv, Frame(code=RequestCode.UNREGISTER_BROKER, ext=to_ext(header)))

    async def _tell(self, namesrv: str, frame: Frame) -> bool:
        try:
            answer = await self._pool.call(namesrv, frame, timeout_s=CALL_TIMEOUT_S)
        except OSError as error:
            self._host.log("broker.namesrv.failed", to=namesrv, why=str(error))
            return False
        if answer.code != ResponseCode.SUCCESS:
            self._host.log("broker.namesrv.refused", to=namesrv, why=answer.remark)
        return answer.code == ResponseCode.SUCCESS
