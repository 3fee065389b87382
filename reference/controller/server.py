"""The controller: hands out broker ids, records masters, and answers who is who.

A group of controllers replicates the registry by Raft; only the one that leads, and knows what is
committed, answers about it: the others say CONTROLLER_NOT_LEADER (2007), and 1005 names the leader.
A write is answered once it is applied, a read once leadership is proven. Who is alive is known to
each controller for itself, from heartbeats that brokers send to all of them.
"""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from maxq.reference import rpc
from maxq.reference.bounds import Bounds
from maxq.reference.config import ConfigError, ControllerConfig
from maxq.reference.controller import registry
from maxq.reference.controller.election import Candidate
from maxq.reference.controller.liveness import Heartbeat, Liveness
from maxq.reference.controller.registry import (
    AlterSyncStateSet,
    ApplyBrokerId,
    BrokerSet,
    CleanBrokerData,
    Command,
    ElectMaster,
    Machine,
    RegisterBroker,
    Result,
)
from maxq.reference.host import Host
from maxq.reference.node import dispatcher, every, now_ns
from maxq.reference.raft.core import Timing
from maxq.reference.raft.server import NotLeader, OutcomeUnknown, Raft
from maxq.reference.records import BrokerId
from maxq.reference.rpc import Connection, Handler, Reply
from maxq.reference.settings import Settings
from maxq.reference.wire import node_headers as headers
from maxq.reference.wire.bodies import (
    BrokerReplicasInfo,
    ElectMasterBody,
    ReplicaIdentity,
    ReplicasInfo,
    SyncStateSet,
    broker_names,
)
from maxq.reference.wire.codes import ID_IN_USE, RAFT, RequestCode, ResponseCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.headers import from_ext, to_ext
from maxq.reference.wire.route import BrokerMemberGroup

ANY_BROKER = -1
HEARTBEAT_TIMEOUT_MS = 10_000  # where a heartbeat names none
# Settings that are read anew at every use.
LIVE_KEYS = frozenset({"enableElectUncleanMaster", "notifyBrokerRoleChanged"})
BLACK_LIST = frozenset({"configBlackList", "configStorePath", "rocketmqHome"})
HEARTBEATS_IN_ELECTION = 5  # a leader is heard so often before a follower grows impatient


class Controller:
    """One controller node."""

    def __init__(self, config: ControllerConfig, host: Host) -> None:
        self._peers, self._raft_peers = config.peers(), config.raft_addresses()
        self._me = config.controller_dleger_self_id
        if self._me not in self._peers:
            raise ConfigError(f"controllerDLegerPeers {sorted(self._peers)} lacks {self._me!r}")
        self._settings = Settings(config, live=LIVE_KEYS, black_list=BLACK_LIST)
        self._host = host
        self._machine = Machine()
        self._liveness = Liveness()
        self._raft: Raft | None = None
        self._pool: rpc.Pool | None = None
        self._tasks: asyncio.TaskGroup | None = None
        self._scan_wanted = False
        self._watched: dict[Connection, None] = {}

    @property
    def _config(self) -> ControllerConfig:
        return self._settings.now

    @property
    def leads(self) -> bool:
        """Whether this node answers about the registry."""
        return self._raft is not None and self._raft.ready

    @property
    def _registry(self) -> registry.Registry:
        return self._machine.registry

    def _handlers(self) -> dict[int, Handler]:
        leading = self._leading
        return {
            RequestCode.BROKER_HEARTBEAT: self._heartbeat,
            RequestCode.CONTROLLER_GET_METADATA_INFO: self._metadata,
            RequestCode.GET_CONTROLLER_CONFIG: self._get_config,
            RequestCode.UPDATE_CONTROLLER_CONFIG: self._update_config,
            RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET: leading(self._alter),
            RequestCode.CONTROLLER_ELECT_MASTER: leading(self._elect),
            RequestCode.CONTROLLER_REGISTER_BROKER: leading(self._register),
            RequestCode.CONTROLLER_GET_REPLICA_INFO: leading(self._replica_info),
            RequestCode.CONTROLLER_GET_SYNC_STATE_DATA: leading(self._sync_state_data),
            RequestCode.CLEAN_BROKER_DATA: leading(self._clean),
            RequestCode.CONTROLLER_GET_NEXT_BROKER_ID: leading(self._next_broker_id),
            RequestCode.CONTROLLER_APPLY_BROKER_ID: leading(self._apply_broker_id),
        }

    async def run(self, ready: Callable[[], None]) -> None:
        """Serve until cancelled.

        Raises:
            CorruptRaftLog: the stored log or snapshot must not be used.
            BlockingIOError: another controller uses the store.
        """
        self._host.disk.lock(f"{self._config.controller_store_path}/lock")
        try:
            async with asyncio.TaskGroup() as group:
                await self._serve(group, ready)
        finally:
            # Only now: a message that comes with the end of this node is still written.
            if self._raft is not None:
                self._raft.close()

    async def _serve(self, group: asyncio.TaskGroup, ready: Callable[[], None]) -> None:
        self._tasks = group
        bounds: Bounds[Connection] = Bounds(self._host.log)
        pool = self._pool = rpc.Pool(group, bounds=bounds)
        election_ns = self._config.j_raft_election_timeout_ms * 1_000_000
        raft = self._raft = Raft(
            self._host,
            f"{self._config.controller_store_path}/raft",
            group=self._config.controller_dleger_group,
            me=self._me,
            peers=self._raft_peers,
            machine=self._machine,
            tasks=group,
            bounds=bounds,
            timing=Timing(
                election_ns=election_ns, heartbeat_ns=election_ns // HEARTBEATS_IN_ELECTION
            ),
            snapshot_s=self._config.j_raft_snapshot_interval_secs,
        )
        await raft.load()
        bind, port = self._config.bind_address, rpc.split_address(self._peers[self._me])[1]
        raft_port = rpc.split_address(self._raft_peers[self._me])[1]
        for_peers, for_clients = dispatcher({RAFT: raft.handle}), dispatcher(self._handlers())
        servers = [
            await rpc.serve(bind, raft_port, for_peers, group=group, bounds=bounds),
            await rpc.serve(bind, port, for_clients, group=group, bounds=bounds),
        ]
        self._host.log("controller.started", port=port, sets=len(self._registry.sets))
        group.create_task(raft.run())
        ready()
        try:
            await every(self._config.scan_not_active_broker_interval / 1000, self._scan)
        finally:
            self._tasks = None  # from here on a lost connection starts nothing
            for server in servers:
                server.close()
            pool.close()

    # Leading.

    def _leading(self, handler: Callable[[Frame], Awaitable[Reply]]) -> Handler:
        """Let only the leader answer, and only with what is committed."""

        async def answer(request: Frame) -> Reply:
            try:
                await self._group.read()
                return await handler(request)
            except (NotLeader, OutcomeUnknown) as error:
                return request.answer(ResponseCode.CONTROLLER_NOT_LEADER, str(error))

        def handle(request: Frame, connection: Connection) -> Reply | Awaitable[Reply]:
            if not self._group.ready:
                why = f"leader is {self._group.leader or 'not known'}"
                return request.answer(ResponseCode.CONTROLLER_NOT_LEADER, why)
            return answer(request)

        return handle

    @property
    def _group(self) -> Raft:
        if self._raft is None:
            raise NotLeader(None)
        return self._raft

    async def _propose(self, command: Command) -> Result:
        """Replicate and apply a command.

        Raises:
            NotLeader, OutcomeUnknown: as `Raft.propose`.
        """
        result = await self._group.propose(registry.encode_command(command))
        if not isinstance(result, Result):
            raise OutcomeUnknown(f"a command was applied as something else: {result!r}")
        self._host.log(
            "controller.applied",
            command=type(command).__name__,
            code=int(result.code),
            detail=msgspec.to_builtins(command),
        )
        return result

    def _scan_soon(self) -> None:
        """Look for dead masters now, not at the next turn; not twice at a time."""
        if not self._scan_wanted and self._tasks is not None:
            self._scan_wanted = rpc.spawn(self._tasks, self._scan())

    async def _scan(self) -> None:
        """Replace every recorded master that is dead, if another broker can take its place."""
        self._scan_wanted = False
        raft = self._group
        if not raft.ready:
            self._liveness.since_ns = now_ns()
            return
        for name in sorted(self._registry.sets):
            known = self._registry.sets[name]
            if known.master is None or not self._is_dead(name, known.master):
                continue
            if not self._liveness.alive_ids(now_ns(), name):
                continue
            try:
                result = await self._choose(name, preferred=None, designate=False)
            except (NotLeader, OutcomeUnknown) as error:
                self._host.log("controller.elect.failed", set=name, why=str(error))
                return
            if result.code != ResponseCode.SUCCESS:
                self._host.log("controller.elect.refused", set=name, why=result.remark)

    def _is_dead(self, name: str, broker_id: int) -> bool:
        return self._liveness.is_dead(now_ns(), name, broker_id, HEARTBEAT_TIMEOUT_MS)

    async def _choose(self, name: str, *, preferred: BrokerId | None, designate: bool) -> Result:
        """Elect a master for a set, and notify every living broker if there is a new one."""
        alive = self._liveness.candidates(now_ns(), name)
        heard = any(c.broker_id == preferred for c in alive)
        if preferred is not None and not designate and not heard:
            # Who asks is alive, whether or not its first heartbeat has come yet.
            alive = (*alive, Candidate(broker_id=preferred))
        result = await self._propose(
            ElectMaster(
                broker_set=name,
                preferred=preferred,
                designate=designate,
                alive=alive,
                unclean=self._config.enable_elect_unclean_master,
            )
        )
        if result.code == ResponseCode.SUCCESS and self._config.notify_broker_role_changed:
            self._notify(self._registry.sets[name])
        return result

    def _notify(self, known: BrokerSet) -> None:
        """Notify every living broker of a set of its master; one that misses it finds out by
        polling."""
        header = headers.RoleChanged(
            master_address=known.master_address,
            master_epoch=known.master_epoch,
            sync_state_set_epoch=known.sync_state_set_epoch,
            master_broker_id=known.master,
        )
        frame = Frame(
            code=RequestCode.NOTIFY_BROKER_ROLE_CHANGED,
            ext=to_ext(header),
            body=_sync_state_set(known).to_json(),
        )
        for broker_id in self._liveness.alive_ids(now_ns(), known.name):
            replica = known.replicas.get(broker_id)
            if replica is not None and self._pool is not None:
                self._pool.post(replica.address, frame)

    # Requests that every controller answers.

    def _heartbeat(self, request: Frame, connection: Connection) -> Reply:
        h = from_ext(headers.BrokerHeartbeat, request.ext)
        if h.broker_id is None:
            return request.answer(
                ResponseCode.CONTROLLER_INVALID_REQUEST, "heartbeat without a broker id"
            )
        beat = Heartbeat(
            broker_set=h.broker_name,
            broker_id=BrokerId(h.broker_id),
            timeout_ms=h.heartbeat_timeout_mills or HEARTBEAT_TIMEOUT_MS,
            epoch=-1 if h.epoch is None else h.epoch,
            max_offset=-1 if h.max_offset is None else h.max_offset,
            confirm_offset=-1 if h.confirm_offset is None else h.confirm_offset,
            priority=2**31 - 1 if h.election_priority is None else h.election_priority,
            address=h.broker_addr,
            incarnation=h.incarnation or "",
        )
        known = self._registry.sets.get(beat.broker_set)
        if known is None or beat.broker_id not in known.replicas:
            # Only brokers that can be elected are remembered as alive: this bounds the memory.
            why = f"broker {beat.broker_set}:{beat.broker_id} must apply for an id first"
            return request.answer(ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED, why)
        who = beat.broker_set, beat.broker_id, beat.address, beat.incarnation
        rival = self._liveness.rival(now_ns(), *who)
        if rival and self._pool is not None:  # the older owner keeps the id
            self._pool.post(beat.address, Frame(code=ID_IN_USE, remark=rival))
            why = f"broker id {beat.broker_id} is that of {rival}, which is alive"
            return request.answer(ResponseCode.CONTROLLER_BROKER_ID_INVALID, why)
        self._liveness.on_heartbeat(now_ns(), beat, connection, connection.serial)
        if connection not in self._watched:
            self._watched[connection] = None
            connection.on_close(self._lost)
        return request.answer(ResponseCode.SUCCESS, "Heart beat success")

    async def _next_broker_id(self, request: Frame) -> Reply:
        h = from_ext(headers.NextBrokerIdRequest, request.ext)
        answer = headers.NextBrokerIdResponse(
            next_broker_id=self._registry.next_broker_id(h.broker_name),
            cluster_name=h.cluster_name,
            broker_name=h.broker_name,
        )
        return request.answer(ResponseCode.SUCCESS, ext=to_ext(answer))

    async def _apply_broker_id(self, request: Frame) -> Reply:
        h = from_ext(headers.ApplyBrokerIdRequest, request.ext)
        result = await self._propose(
            ApplyBrokerId(
                cluster=h.cluster_name,
                broker_set=h.broker_name,
                broker_id=BrokerId(h.applied_broker_id),
                check_code=h.register_check_code,
                address=h.register_check_code.partition(";")[0],
            )
        )
        answer = headers.ApplyBrokerIdResponse(
            cluster_name=h.cluster_name, broker_name=h.broker_name
        )
        return request.answer(result.code, result.remark or None, ext=to_ext(answer))

    async def _register(self, request: Frame) -> Reply:
        h = from_ext(headers.RegisterToControllerRequest, request.ext)
        who = h.broker_name, h.broker_id, h.broker_address, h.incarnation or ""
        rival = self._liveness.rival(now_ns(), *who)
        if not rival and h.incarnation:  # RocketMQ's brokers name no process, and may have moved
            self._liveness.on_register(now_ns(), *who)
        result = await self._propose(
            RegisterBroker(
                cluster=h.cluster_name,
                broker_set=h.broker_name,
                broker_id=BrokerId(h.broker_id),
                address=h.broker_address,
                rival=rival,
            )
        )
        if result.code != ResponseCode.SUCCESS:
            return request.answer(result.code, result.remark)
        known = self._registry.sets[h.broker_name]
        master = known.master
        live = master is not None and self._liveness.is_alive(now_ns(), known.name, master)
        answer = headers.RegisterToControllerResponse(
            cluster_name=h.cluster_name,
            broker_name=h.broker_name,
            master_broker_id=master if live else None,
            master_address=known.master_address if live else None,
            master_epoch=known.master_epoch if live else None,
            epoch_before=known.master_epoch,
            sync_state_set_epoch=known.sync_state_set_epoch if live else None,
        )
        return request.answer(
            ResponseCode.SUCCESS, ext=to_ext(answer), body=_sync_state_set(known).to_json()
        )

    async def _elect(self, request: Frame) -> Reply:
        h = from_ext(headers.ElectMasterRequest, request.ext)
        wanted = None if h.broker_id in (None, ANY_BROKER) else BrokerId(h.broker_id or 0)
        result = await self._choose(h.broker_name, preferred=wanted, designate=h.designate_elect)
        either = (ResponseCode.SUCCESS, ResponseCode.CONTROLLER_MASTER_STILL_EXIST)
        if result.code not in either:
            return request.answer(result.code, result.remark)
        known = self._registry.sets[h.broker_name]
        answer = headers.MasterResponse(
            master_broker_id=known.master,
            master_address=known.master_address,
            master_epoch=known.master_epoch,
            sync_state_set_epoch=known.sync_state_set_epoch,
        )
        group = BrokerMemberGroup(
            broker_addrs={i: r.address for i, r in sorted(known.replicas.items())},
            broker_name=known.name,
            cluster=known.cluster,
        )
        body = ElectMasterBody(
            broker_member_group=group if result.code == ResponseCode.SUCCESS else None,
            sync_state_set=known.sync_state_set,
        )
        return request.answer(
            result.code, result.remark or None, ext=to_ext(answer), body=body.to_json()
        )

    async def _alter(self, request: Frame) -> Reply:
        h = from_ext(headers.AlterSyncStateSetRequest, request.ext)
        wanted = SyncStateSet.from_json(request.body)
        result = await self._propose(
            AlterSyncStateSet(
                broker_set=h.broker_name,
                master=BrokerId(h.master_broker_id),
                master_epoch=h.master_epoch,
                sync_state_set=wanted.sync_state_set,
                sync_state_set_epoch=wanted.sync_state_set_epoch,
                alive=self._liveness.alive_ids(now_ns(), h.broker_name),
            )
        )
        if result.code != ResponseCode.SUCCESS:
            none = to_ext(headers.AlterSyncStateSetResponse())
            return request.answer(result.code, result.remark, ext=none)
        known = self._registry.sets[h.broker_name]
        answer = headers.AlterSyncStateSetResponse(
            new_sync_state_set_epoch=known.sync_state_set_epoch
        )
        return request.answer(
            ResponseCode.SUCCESS, ext=to_ext(answer), body=_sync_state_set(known).to_json()
        )

    async def _clean(self, request: Frame) -> Reply:
        h = from_ext(headers.CleanBrokerDataRequest, request.ext)
        words = [w for w in (h.broker_controller_ids_to_clean or "").split(";") if w.strip()]
        if not all(w.strip().isascii() and w.strip().isdigit() for w in words):
            return request.answer(
                ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA, f"not broker ids: {words}"
            )
        result = await self._propose(
            CleanBrokerData(
                broker_set=h.broker_name,
                ids=tuple(int(w) for w in words) or None,
                living=h.is_clean_living_broker,
                alive=self._liveness.alive_ids(now_ns(), h.broker_name),
            )
        )
        return request.answer(result.code, result.remark or None)

    async def _replica_info(self, request: Frame) -> Reply:
        h = from_ext(headers.ReplicaInfoRequest, request.ext)
        known = self._registry.sets.get(h.broker_name)
        if known is None:
            return request.answer(
                ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST,
                f"unknown broker set {h.broker_name}",
            )
        answer = headers.ReplicaInfoResponse(
            master_broker_id=known.master,
            master_address=known.master_address,
            master_epoch=known.master_epoch,
        )
        return request.answer(
            ResponseCode.SUCCESS, ext=to_ext(answer), body=_sync_state_set(known).to_json()
        )

    def _lost(self, connection: Connection) -> None:
        """A broker's connection closed: it is gone until it is heard again."""
        self._watched.pop(connection, None)
        gone = self._liveness.on_close(connection)
        if gone:
            self._host.log("controller.broker.lost", brokers=gone)
            self._scan_soon()

    def _metadata(self, request: Frame, connection: Connection) -> Reply:
        leader = self._group.leader
        answer = headers.MetadataResponse(
            group=self._config.controller_dleger_group,
            controller_leader_id=leader,
            controller_leader_address=None if leader is None else self._peers[leader],
            is_leader=self._group.ready,
            peers="".join(f"{peer}:{address};" for peer, address in self._peers.items()),
        )
        return request.answer(ResponseCode.SUCCESS, ext=to_ext(answer))

    async def _sync_state_data(self, request: Frame) -> Reply:
        names = broker_names(request.body)
        table = {n: self._replicas_info(self._registry.sets[n])
                 for n in names if n in self._registry.sets}  # fmt: skip
        return request.answer(
            ResponseCode.SUCCESS, body=BrokerReplicasInfo(replicas_info_table=table).to_json()
        )

    def _replicas_info(self, known: BrokerSet) -> ReplicasInfo:
        replicas = {
            i: ReplicaIdentity(
                alive=self._liveness.is_alive(now_ns(), known.name, i),
                broker_address=r.address,
                broker_id=i,
                broker_name=known.name,
            )
            for i, r in sorted(known.replicas.items())
        }
        return ReplicasInfo(
            in_sync_replicas=tuple(r for i, r in replicas.items() if i in known.sync_state_set),
            master_address=known.master_address,
            master_broker_id=known.master,
            master_epoch=known.master_epoch,
            not_in_sync_replicas=tuple(
                r for i, r in replicas.items() if i not in known.sync_state_set
            ),
            sync_state_set_epoch=known.sync_state_set_epoch,
        )

    def _get_config(self, request: Frame, connection: Connection) -> Reply:
        return self._settings.answer_get(request)

    def _update_config(self, request: Frame, connection: Connection) -> Reply:
        """Of this controller alone: the others keep theirs until they are asked as well."""
        return self._settings.answer_update(request)


def _sync_state_set(known: BrokerSet) -> SyncStateSet:
    return SyncStateSet(
        sync_state_set=known.sync_state_set, sync_state_set_epoch=known.sync_state_set_epoch
    )
