"""The controller: hands out broker ids, records masters, and answers who is who.

One controller, not replicated yet: a command is applied to a copy of the state, the copy is
synced to disk, and only then does it become the state and the answer leave. A crash at any instant
leaves the old state or the new one.
"""

import asyncio
from collections.abc import Callable

import msgspec

from reference import rpc
from reference.config import ConfigError, ControllerConfig, render_config
from reference.controller import registry
from reference.controller.liveness import Heartbeat, Liveness
from reference.controller.registry import (
    ApplyBrokerId,
    BrokerSet,
    Command,
    ElectMaster,
    RegisterBroker,
    Registry,
    Result,
)
from reference.host import Host, read_file, replace_file
from reference.node import dispatcher, every, now_ns
from reference.records import BrokerId, RemoteProtocolError
from reference.rpc import Connection, Reply
from reference.wire import node_headers as headers
from reference.wire.bodies import (
    BrokerReplicasInfo,
    ElectMasterBody,
    ReplicaIdentity,
    ReplicasInfo,
    SyncStateSet,
    broker_names,
)
from reference.wire.codes import RequestCode, ResponseCode
from reference.wire.frame import Frame
from reference.wire.headers import from_ext, to_ext
from reference.wire.route import BrokerMemberGroup

ANY_BROKER = -1
HEARTBEAT_TIMEOUT_MS = 10_000  # where a heartbeat names none


class CorruptState(Exception):
    """The stored state cannot be read; the controller refuses to start rather than forget ids."""


class Controller:
    """One controller node."""

    def __init__(self, config: ControllerConfig, host: Host) -> None:
        peers = config.peers()
        if list(peers) != [config.controller_dleger_self_id]:
            raise ConfigError(
                "one controller only: controllerDLegerPeers must hold controllerDLegerSelfId "
                f"and nobody else, not {sorted(peers)}"
            )
        self._config = config
        self._host = host
        self._address = peers[config.controller_dleger_self_id]
        self._path = f"{config.controller_store_path}/registry.json"
        self._registry = Registry()
        self._liveness = Liveness()
        self._write = asyncio.Lock()
        self._handle = dispatcher(
            {
                RequestCode.BROKER_HEARTBEAT: self._heartbeat,
                RequestCode.CONTROLLER_ELECT_MASTER: self._elect,
                RequestCode.CONTROLLER_REGISTER_BROKER: self._register,
                RequestCode.CONTROLLER_GET_REPLICA_INFO: self._replica_info,
                RequestCode.CONTROLLER_GET_METADATA_INFO: self._metadata,
                RequestCode.CONTROLLER_GET_SYNC_STATE_DATA: self._sync_state_data,
                RequestCode.GET_CONTROLLER_CONFIG: self._get_config,
                RequestCode.CONTROLLER_GET_NEXT_BROKER_ID: self._next_broker_id,
                RequestCode.CONTROLLER_APPLY_BROKER_ID: self._apply_broker_id,
            }
        )

    async def run(self, ready: Callable[[], None]) -> None:
        """Serve until cancelled.

        Raises:
            CorruptState: the stored state cannot be read.
            BlockingIOError: another controller uses the store.
        """
        self._host.disk.lock(f"{self._config.controller_store_path}/lock")
        self._load()
        port = rpc.split_address(self._address)[1]
        async with asyncio.TaskGroup() as group:
            server = await rpc.serve(self._config.bind_address, port, self._handle, group=group)
            self._host.log("controller.started", port=port, sets=len(self._registry.sets))
            ready()
            try:
                await every(self._config.scan_not_active_broker_interval / 1000, self._expire)
            finally:
                server.close()

    def _load(self) -> None:
        stored = read_file(self._host.disk, self._path)
        if stored is None:
            return
        try:
            self._registry = registry.from_bytes(stored)
        except RemoteProtocolError as error:
            raise CorruptState(f"{self._path}: {error}; restore it from a backup") from None

    async def _propose(self, command: Command) -> Result:
        """Apply a command; returns once its effect is durable."""
        async with self._write:
            before = registry.to_bytes(self._registry)
            changed = registry.from_bytes(before)
            result = changed.apply(command, unclean=self._config.enable_elect_unclean_master)
            after = registry.to_bytes(changed)
            if after != before:
                await replace_file(self._host.disk, self._path, after)
                self._registry = changed
                self._host.log("controller.applied", command=type(command).__name__,
                               detail=msgspec.to_builtins(command))  # fmt: skip
            return result

    def _expire(self) -> None:
        for broker_set, broker_id in self._liveness.expire(now_ns()):
            self._host.log("controller.broker.silent", set=broker_set, id=broker_id)

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
        )
        known = self._registry.sets.get(beat.broker_set)
        if known is None or beat.broker_id not in known.replicas:
            # Nobody's life is remembered who cannot be elected: this bounds the memory.
            why = f"broker {beat.broker_set}:{beat.broker_id} must apply for an id first"
            return request.answer(ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED, why)
        self._liveness.on_heartbeat(now_ns(), beat)
        return request.answer(ResponseCode.SUCCESS, "Heart beat success")

    def _next_broker_id(self, request: Frame, connection: Connection) -> Reply:
        h = from_ext(headers.NextBrokerIdRequest, request.ext)
        answer = headers.NextBrokerIdResponse(
            next_broker_id=self._registry.next_broker_id(h.broker_name),
            cluster_name=h.cluster_name,
            broker_name=h.broker_name,
        )
        return request.answer(ResponseCode.SUCCESS, ext=to_ext(answer))

    async def _apply_broker_id(self, request: Frame, connection: Connection) -> Reply:
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

    async def _register(self, request: Frame, connection: Connection) -> Reply:
        h = from_ext(headers.RegisterToControllerRequest, request.ext)
        result = await self._propose(
            RegisterBroker(
                cluster=h.cluster_name,
                broker_set=h.broker_name,
                broker_id=BrokerId(h.broker_id),
                address=h.broker_address,
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
            sync_state_set_epoch=known.sync_state_set_epoch if live else None,
        )
        return request.answer(
            ResponseCode.SUCCESS, ext=to_ext(answer), body=_sync_state_set(known).to_json()
        )

    async def _elect(self, request: Frame, connection: Connection) -> Reply:
        h = from_ext(headers.ElectMasterRequest, request.ext)
        wanted = None if h.broker_id in (None, ANY_BROKER) else BrokerId(h.broker_id or 0)
        result = await self._propose(
            ElectMaster(
                broker_set=h.broker_name,
                preferred=wanted,
                designate=h.designate_elect,
                alive=self._liveness.candidates(now_ns(), h.broker_name),
            )
        )
        told = (ResponseCode.SUCCESS, ResponseCode.CONTROLLER_MASTER_STILL_EXIST)
        if result.code not in told:
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

    def _replica_info(self, request: Frame, connection: Connection) -> Reply:
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

    def _metadata(self, request: Frame, connection: Connection) -> Reply:
        me = self._config.controller_dleger_self_id
        answer = headers.MetadataResponse(
            group=self._config.controller_dleger_group,
            controller_leader_id=me,
            controller_leader_address=self._address,
            is_leader=True,
            peers=f"{me}:{self._address};",
        )
        return request.answer(ResponseCode.SUCCESS, ext=to_ext(answer))

    def _sync_state_data(self, request: Frame, connection: Connection) -> Reply:
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
        return request.answer(ResponseCode.SUCCESS, body=render_config(self._config).encode())


def _sync_state_set(known: BrokerSet) -> SyncStateSet:
    return SyncStateSet(
        sync_state_set=known.sync_state_set, sync_state_set_epoch=known.sync_state_set_epoch
    )
