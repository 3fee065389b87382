"""A broker's place in its cluster: its id, its role, and who must be told.

With a controller: find it, win or prove the persistent id, register the address, learn or ask for
a master, then poll. Until a role is known the broker is *fenced*: it takes no message. Without a
controller the configured role holds from the start. In both cases the name servers are told at
every change of role or topics, and periodically, since a name server forgets the silent.

Every step that fails is tried again, at the latest after `RETRY_S`; nothing is given up. Units:
seconds.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from functools import partial
from typing import Any, Literal, TypeVar

from reference.broker.membership.identity import (
    Claimed,
    IdentityFiles,
    New,
    Owned,
    State,
    check_code,
)
from reference.broker.replication.epochs import EpochFile, last_epoch
from reference.broker.replication.ha_master import Answered as HaAnswered
from reference.broker.replication.ha_master import Known as HaKnown
from reference.broker.replication.ha_master import MasterSettings
from reference.broker.replication.ha_slave import SlaveTiming
from reference.broker.replication.replication import Replication
from reference.broker.replication.sync_state_set import NO_TERM, ProposeSyncStateSet
from reference.broker.store.store import Store
from reference.broker.store.topics import Tables
from reference.config import BrokerConfig
from reference.host import Host
from reference.node import every
from reference.records import BrokerId, MasterEpoch, PhyOffset, RemoteProtocolError, some
from reference.rpc import Connection, NotSent, Pool, split_address
from reference.wire import node_headers as headers
from reference.wire.bodies import SyncStateSet
from reference.wire.codes import RequestCode, ResponseCode
from reference.wire.frame import Frame
from reference.wire.headers import Header, from_ext, to_ext
from reference.wire.message import Message
from reference.wire.message import host as host_bytes
from reference.wire.route import RegisterBrokerBody, body_crc32

CALL_TIMEOUT_S = 3.0
RETRY_S = 1.0
FIRST_RETRY_S = 0.1  # of a broker that joins, doubled up to RETRY_S: controllers may start as well
MASTER_ROLE_ID = 0
MARK_TOPIC = "SELF_TEST_TOPIC"  # every release has it, and no client may send to it
NS_PER_MS = 1_000_000

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
        store: the messages; replicated where there is a controller.
    """

    def __init__(
        self,
        config: BrokerConfig,
        host: Host,
        tables: Tables,
        pool: Pool,
        store: Store,
    ) -> None:
        self._config = config
        self._host = host
        self._tables = tables
        self._pool = pool
        self._store = store
        self.address, self.ha_address = self._addresses(config.broker_ip1 or host.addresses()[0])
        self._controllers = [a for a in config.controller_addr.split(";") if a]
        self._namesrvs = [a for a in config.namesrv_addr.split(";") if a]
        self._leader = ""
        self._watched: dict[Connection, str] = {}  # to name servers that know us
        self._due: dict[str, float] = {}  # name server -> loop time of the next registration
        self.broker_id = BrokerId(config.broker_id)  # the persistent id; -1 until known
        self.role: RoleName = "fenced"
        self.master_address = ""
        self.master_epoch = MasterEpoch(0)
        self.replication: Replication | None = None  # once the id is known
        self._ha_address = ""  # of the master that is followed, as a name server tells
        self._members: frozenset[BrokerId] = frozenset()
        self._changing = False  # a change of role is under way
        self._in_doubt = NO_TERM  # the epoch whose SyncStateSet cannot be known any more
        self._is_told = True  # the controller knows the address
        self._former: tuple[Connection, ...] = ()  # connections from former addresses

    def _addresses(self, ip: str) -> tuple[str, str]:
        """Where clients and slaves reach this broker."""
        c = self._config
        ha_port = c.ha_listen_port or c.listen_port + 1
        return f"{ip}:{c.listen_port}", f"{c.broker_ip2 or ip}:{ha_port}"

    @property
    def role_id(self) -> int:
        """The id shown to name servers: 0 while master."""
        return MASTER_ROLE_ID if self.role == "master" else self.broker_id

    def followed(self) -> str:
        """Address of the master that this broker follows; empty while it follows nobody."""
        return self.master_address if self.role == "slave" else ""

    async def run(self, group: asyncio.TaskGroup) -> None:
        """Take part in the cluster until cancelled."""
        if self._config.enable_controller_mode:
            await self._join()
            self.replication = await self._replicate(group)
            beat = self._config.broker_heartbeat_interval / 1000
            for controller in self._controllers:  # apart: a dead one must not delay the others
                group.create_task(every(beat, partial(self._heartbeat, controller)))
            group.create_task(
                every(self._config.sync_broker_metadata_period / 1000, self.poll_master)
            )
        else:
            slave = self._config.broker_role == "SLAVE"
            self.role = "slave" if slave else "master"
            self.broker_id = BrokerId(max(self._config.broker_id, int(slave)))
        beat = self._config.broker_heartbeat_interval / 1000
        group.create_task(every(beat, self._look_at_address))
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
        retry_s = FIRST_RETRY_S
        while not (isinstance(state, Owned) and await self._tried(self._register_id(state))):
            after = await self._advance(files, state)
            if after is None:
                await asyncio.sleep(retry_s)
                retry_s = min(2 * retry_s, RETRY_S)
            else:
                state, retry_s = after, FIRST_RETRY_S
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
            epoch=self._last_epoch(),
            max_offset=self._store.end,
            confirm_offset=self._store.confirm_offset,
            heartbeat_timeout_mills=self._config.controller_heart_beat_timeout_mills,
            election_priority=self._config.broker_election_priority,
        )
        frame = Frame(code=RequestCode.BROKER_HEARTBEAT, ext=to_ext(beat))
        try:
            await self._pool.oneway(controller, frame)
        except NotSent as error:
            self._host.log("broker.heartbeat.failed", to=controller, why=str(error))

    def _last_epoch(self) -> int:
        epochs = () if self.replication is None else self.replication.epochs
        return last_epoch(epochs) or -1

    async def _replicate(self, group: asyncio.TaskGroup) -> Replication:
        """Open the epoch file and the HA port."""
        c = self._config
        replication = Replication(
            self.broker_id,
            self._store,
            EpochFile(self._host.disk, c.epoch_path),
            settings=MasterSettings(
                file_size=c.mapped_file_size_commit_log,
                all_ack=c.all_ack_in_sync_state_set,
                in_sync_replicas=c.in_sync_replicas,
                min_in_sync_replicas=c.min_in_sync_replicas,
                heartbeat_ns=c.ha_send_heartbeat_interval * NS_PER_MS,
                housekeeping_ns=c.ha_housekeeping_interval * NS_PER_MS,
                not_catchup_ns=c.ha_max_time_slave_not_catchup * NS_PER_MS,
                check_ns=c.check_sync_state_set_period * NS_PER_MS,
                wait_ns=c.slave_timeout * NS_PER_MS,
            ),
            timing=SlaveTiming(
                heartbeat_ns=c.ha_send_heartbeat_interval * NS_PER_MS,
                housekeeping_ns=c.ha_housekeeping_interval * NS_PER_MS,
            ),
            durable=c.flush_disk_type == "SYNC_FLUSH",
            async_learner=c.async_learner,
            propose=self._propose,
            confirmed=self._store.confirm,
            log=self._host.log,
        )
        await replication.recover(PhyOffset(0))
        _, port = split_address(self.ha_address)
        group.create_task(replication.run(group, c.bind_address, port))
        return replication

    async def _propose(self, proposal: ProposeSyncStateSet) -> HaKnown | HaAnswered:
        """Ask the controller for another SyncStateSet."""
        header = headers.AlterSyncStateSetRequest(
            broker_name=self._config.broker_name,
            master_broker_id=self.broker_id,
            master_epoch=proposal.master_epoch,
            invoke_time=self._host.wall_ms(),
        )
        body = SyncStateSet(
            sync_state_set=proposal.members, sync_state_set_epoch=proposal.sync_state_set_epoch
        )
        try:
            answer = await self._ask(
                RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET,
                header,
                body=body.to_json(),
                allow=tuple(ResponseCode),
            )
            if answer.code == ResponseCode.SUCCESS:
                return self._ha_known(proposal.master_epoch, answer)
        except (OSError, Refused, RemoteProtocolError) as error:
            self._host.log("broker.propose.failed", why=str(error))
            return HaAnswered(number=proposal.number, outcome="unknown")
        # A controller that does not lead, or lost its lead, cannot tell whether it was applied.
        sure = answer.code >= ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH
        refused = sure and answer.code != ResponseCode.CONTROLLER_NOT_LEADER
        replication = some(self.replication, "who proposes has its replication")
        if refused and replication.master.stands_on(proposal.number):
            self._in_doubt = self.master_epoch
        return HaAnswered(number=proposal.number, outcome="refused" if refused else "unknown")

    def _ha_known(
        self, master_epoch: MasterEpoch, answer: Frame, set_epoch: int | None = None
    ) -> HaKnown:
        told = SyncStateSet.from_json(answer.body)
        return HaKnown(
            master_epoch=master_epoch,
            sync_state_set_epoch=told.sync_state_set_epoch if set_epoch is None else set_epoch,
            members=frozenset(BrokerId(i) for i in told.sync_state_set),
        )

    async def poll_master(self) -> None:
        """Ask who is master, and follow; ask to be it where nobody is."""
        # A controller that knows this broker from before may tell it of a new master before it has
        # joined again: it has no log to lead or follow with, and will ask by itself.
        if not self._changing and self.replication is not None:
            await self._tried(self._look())

    async def _look(self) -> None:
        if self.role == "master" and self._in_doubt == self.master_epoch:
            # What was proposed and lost may yet be applied, but not in the next epoch.
            self._in_doubt = NO_TERM
            self._host.log("broker.role.doubt", epoch=self.master_epoch)
            await self._stand()
        request = headers.ReplicaInfoRequest(broker_name=self._config.broker_name)
        answer = await self._ask(RequestCode.CONTROLLER_GET_REPLICA_INFO, request)
        known: Known = from_ext(headers.ReplicaInfoResponse, answer.ext)
        set_epoch: int | None = None
        if not known.master_address:
            answer = await self._stand()
            known = from_ext(headers.MasterResponse, answer.ext)
            set_epoch = known.sync_state_set_epoch  # the body of this answer does not tell
        epoch = MasterEpoch(known.master_epoch or 0)
        if self._changing or not known.master_address or epoch < self.master_epoch:
            return  # somebody else has asked meanwhile, and changes the role now
        self._changing = True
        try:
            if known.master_broker_id == self.broker_id:
                await self._lead(epoch, self._ha_known(epoch, answer, set_epoch))
            else:
                await self._follow(epoch, known, answer)
        finally:
            self._changing = False

    async def _stand(self) -> Frame:
        """Ask the controller to be master."""
        elect = headers.ElectMasterRequest(
            cluster_name=self._config.broker_cluster_name,
            broker_name=self._config.broker_name,
            broker_id=self.broker_id,
            invoke_time=self._host.wall_ms(),
        )
        told = (ResponseCode.SUCCESS, ResponseCode.CONTROLLER_MASTER_STILL_EXIST)
        return await self._ask(RequestCode.CONTROLLER_ELECT_MASTER, elect, allow=told)

    async def _lead(self, epoch: MasterEpoch, told: HaKnown) -> None:
        """Become master in `epoch`, or stay it."""
        replication = some(self.replication, "a broker with a role has its replication")
        if self.role == "master" and epoch == self.master_epoch:
            if told.sync_state_set_epoch > replication.master.sync_state_set_epoch:
                replication.known(told)
            return
        self.role = "fenced"  # nothing is appended while the log changes hands
        if not await replication.lead(epoch, told.members, told.sync_state_set_epoch):
            # This log knows of that epoch: a restart within it. Only a new one makes it safe.
            self._host.log("broker.role.stands", epoch=epoch)
            await self._stand()
            return
        self.master_address, self._ha_address = self.address, ""
        self._mark(epoch)
        await self._settled("master", epoch)

    def _mark(self, epoch: MasterEpoch) -> None:
        """Begin the epoch with a record of its own, so that the next one starts elsewhere.

        A Java slave does not record an epoch that starts where its last one does, and would hold
        bytes of two masters under one entry (docs/spec/controller-ha.md 6.4 (H2)); nor does it
        record any while its log is empty.
        """
        mark = Message(
            topic=MARK_TOPIC,
            body=f"epoch {epoch}".encode(),
            born_timestamp=self._host.wall_ms(),
            born_host=host_bytes(*split_address(self.address)),
            store_host=host_bytes(*split_address(self.address)),
        )
        try:
            self._store.put([mark])
        except OSError as error:  # the disk is full; without Java slaves nothing needs the mark
            self._host.log("broker.epoch.unmarked", epoch=epoch, why=str(error))

    async def _follow(self, epoch: MasterEpoch, known: Known, answer: Frame) -> None:
        """Copy the log of another master, once a name server tells where its HA port is."""
        replication = some(self.replication, "a broker with a role has its replication")
        members = self._ha_known(epoch, answer).members
        moved = known.master_address != self.master_address
        new = self.role != "slave" or epoch != self.master_epoch or moved
        if not new and members == self._members:
            return
        self._members = members
        if new:
            self.role = "fenced"
            self.master_address, self._ha_address = known.master_address or "", ""
        await replication.follow(
            self._ha_address, epoch, in_sync_state_set=self.broker_id in members
        )
        if new:
            await self._settled("slave", epoch)

    async def _settled(self, role: RoleName, epoch: MasterEpoch) -> None:
        self.role, self.master_epoch = role, epoch
        self._tables.adopt_epoch(epoch)
        self._host.log("broker.role", role=role, epoch=epoch)
        await self.register_everywhere()

    async def _look_at_address(self) -> None:
        """Notice that this machine has another address, and tell everybody; the id stays.

        With brokerIP1 set nothing changes: the broker is away until the old address returns.
        """
        now, config = self._host.addresses(), self._config
        ip, port = split_address(self.address)
        if not config.broker_ip1 and ip not in now and not now[0].startswith("127."):
            self.address, self.ha_address = self._addresses(now[0])
            self._host.log("broker.address.changed", before=f"{ip}:{port}", now=self.address)
            self._former = (*self._former, *self._pool.release())
            self._is_told = False
            self._due.clear()
        if self._is_told:
            for connection in self._former:  # a beat later: the last one's end is taken for a death
                connection.close()
            self._former = ()
        elif not config.enable_controller_mode or await self._tried(self._told_again()):
            self._is_told = True
            if self.role == "master":
                self.master_address = self.address
            elif self.role == "slave":
                await self._dial_again()
            await self.register_everywhere()

    async def _told_again(self) -> bool:
        await self._register_id(Owned(broker_id=self.broker_id))
        for controller in self._controllers:
            await self._heartbeat(controller)
        return True

    async def _dial_again(self) -> None:
        """Leave the connection to the master for a new one."""
        replication = self.replication
        if replication is None:  # without a controller nothing is replicated
            return
        member = self.broker_id in self._members
        for address in ("", self._ha_address):
            await replication.follow(address, self.master_epoch, in_sync_state_set=member)

    async def _heard_of_master(self, answer: Frame) -> None:
        """A name server's answer to a slave says where its master's HA port is."""
        told = from_ext(headers.RegisterBrokerResponse, answer.ext)
        if self.role != "slave" or told.master_addr != self.master_address:
            return
        if told.ha_server_addr and told.ha_server_addr != self._ha_address:
            self._ha_address = told.ha_server_addr
            replication = some(self.replication, "a slave has its replication")
            await replication.follow(
                self._ha_address,
                self.master_epoch,
                in_sync_state_set=self.broker_id in self._members,
            )

    async def _ask(
        self,
        code: RequestCode,
        header: Header,
        *,
        body: bytes | None = None,
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
            leader, Frame(code=code, ext=to_ext(header), body=body), timeout_s=CALL_TIMEOUT_S
        )
        if answer.code not in allow:
            raise Refused(f"{code.name}: {answer.code} {answer.remark or ''}")
        if answer.code != ResponseCode.CONTROLLER_NOT_LEADER:
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
            heard = heard and (self.role != "slave" or bool(self._ha_address))
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

    def _namesrv_lost(self, connection: Connection) -> None:
        self._due[self._watched.pop(connection)] = 0.0

    async def _tell(self, namesrv: str, frame: Frame) -> bool:
        try:
            connection = await self._pool.get(namesrv)
            answer = await connection.call(frame, timeout_s=CALL_TIMEOUT_S)
        except OSError as error:
            self._host.log("broker.namesrv.failed", to=namesrv, why=str(error))
            return False
        if connection not in self._watched:
            # A name server that closes has forgotten us, or died; RocketMQ waits for the period.
            self._watched[connection] = namesrv
            connection.on_close(self._namesrv_lost)
        if answer.code != ResponseCode.SUCCESS:
            self._host.log("broker.namesrv.refused", to=namesrv, why=answer.remark)
            return False
        if frame.code == RequestCode.REGISTER_BROKER:
            await self._heard_of_master(answer)
        return True
