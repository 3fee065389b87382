"""The place of a broker with controllers: they name the master, and decide on the SyncStateSet.

Join (`maxq.reference.broker.membership.joining`), learn or ask for a master, then poll. Units:
seconds.
"""

import asyncio
from collections.abc import Callable
from functools import partial

from maxq.reference.broker.membership import comparison
from maxq.reference.broker.membership.controllers import Controllers, Refused
from maxq.reference.broker.membership.joining import Joining
from maxq.reference.broker.membership.membership import (
    NS_PER_MS,
    CopyLink,
    Links,
    Membership,
    RoleName,
)
from maxq.reference.broker.replication import epochs
from maxq.reference.broker.replication.epochs import EpochFile
from maxq.reference.broker.replication.ha_link import HaPort
from maxq.reference.broker.replication.ha_master_events import Answered as HaAnswered
from maxq.reference.broker.replication.ha_master_events import Known as HaKnown
from maxq.reference.broker.replication.ha_settings import MasterSettings, SlaveTiming
from maxq.reference.broker.replication.replication import Replication
from maxq.reference.broker.replication.sync_state_set import NO_TERM, ProposeSyncStateSet
from maxq.reference.broker.store.store import Store
from maxq.reference.broker.store.topics import Tables
from maxq.reference.config import BrokerConfig
from maxq.reference.host import Host
from maxq.reference.names import MARK_TOPIC
from maxq.reference.node import every
from maxq.reference.records import BrokerId, MasterEpoch, PhyOffset, RemoteProtocolError, some
from maxq.reference.rpc import Pool
from maxq.reference.wire import node_headers as headers
from maxq.reference.wire.bodies import SyncStateSet
from maxq.reference.wire.codes import RequestCode, ResponseCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.headers import from_ext
from maxq.reference.wire.message import Message
from maxq.reference.wire.node_headers import HaInfo

Known = headers.ReplicaInfoResponse | headers.MasterResponse  # either says who is master


class ControlledMembership(Membership):
    """Registration and role of one broker that controllers rule; arguments as `Membership`."""

    def __init__(
        self,
        config: BrokerConfig,
        host: Host,
        tables: Tables,
        pool: Pool,
        store: Store,
    ) -> None:
        super().__init__(config, host, tables, pool, store)
        addresses = tuple(a for a in config.controller_addr.split(";") if a)
        self._controllers = Controllers(host, pool, addresses)
        self._joining = Joining(config, host, self._controllers)
        self._members: frozenset[BrokerId] = frozenset()
        self._changing = False  # a change of role is under way
        self._in_doubt = NO_TERM  # the epoch whose SyncStateSet cannot be known any more

    @property
    def in_sync_count(self) -> int:
        """Members of the SyncStateSet, as its master knows it; alone a master is in sync."""
        return 1 if self.replication is None else self.replication.master.in_sync_count

    @property
    def copies_needed(self) -> int:
        return self._config.min_in_sync_replicas

    @property
    def knows_the_end(self) -> bool:
        """Whether this is a master that knows what was confirmed before its term."""
        if self.role != "master" or self.replication is None:
            return self.role == "master"
        return self.replication.master.confirm >= self.replication.master.began

    def copied(self) -> PhyOffset:
        """The first byte of the log that must not be deleted: what is not confirmed yet, or what a
        member of the SyncStateSet still copies."""
        stored = self._store.confirm_offset
        return stored if self.replication is None else min(stored, self.replication.copied)

    async def trim(self, start: PhyOffset) -> None:
        await (self._store if self.replication is None else self.replication).trim(start)

    def written(self) -> None:
        if self.replication is not None:
            self.replication.written()

    def when_acknowledged(
        self, end: PhyOffset, master_epoch: MasterEpoch, then: Callable[[str], None]
    ) -> None:
        replication = some(self.replication, "who takes messages has its replication")
        replication.when_acknowledged(end, master_epoch, then)

    def ha_info(self) -> HaInfo | None:
        if self.role != "master" or self.replication is None:
            return None
        return HaInfo(
            master_ha_address=self.ha_address,
            master_flush_offset=self.replication.master.began,
            master_address=self.address,
        )

    def links(self) -> Links | None:
        if self.replication is None:
            return None
        core = self.replication.master
        slaves = (
            CopyLink(
                address=address,
                acked=link.acked or PhyOffset(0),
                next=link.next,
                in_sync=link.slave in core.members,
            )
            for address, link in self.replication.slaves()
        )
        return Links(tuple(slaves), None if core.leading else self.replication.slave)

    async def run(self, group: asyncio.TaskGroup, ha_port: HaPort) -> None:
        self.broker_id = await self._joining.win(self.address)
        await self._joining.register_at_last(self.broker_id, self.address)
        # A heartbeat first: the controller elects only brokers that it knows to live.
        await self._heartbeat_everywhere()
        self.replication = await self._replicate()
        group.create_task(self.replication.run(group, ha_port))
        beat = self._config.broker_heartbeat_interval / 1000
        # Each by itself: a dead one must not delay the others.
        for controller in self._controllers.addresses:
            group.create_task(every(beat, partial(self._heartbeat, controller)))
        if self._config.enable_slave_acting_master:  # the time-out that it registers is short
            group.create_task(every(beat, self._namesrvs.heartbeat))
        group.create_task(every(self._config.sync_broker_metadata_period / 1000, self.poll_master))
        await self._stay_registered(group)

    # Controller.

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
            incarnation=self._joining.incarnation,
        )
        await self._controllers.heartbeat(controller, beat)

    async def _heartbeat_everywhere(self) -> None:
        for controller in self._controllers.addresses:
            await self._heartbeat(controller)

    def _last_epoch(self) -> int:
        known = () if self.replication is None else self.replication.epochs
        return epochs.last_epoch(known) or -1

    async def _replicate(self) -> Replication:
        """Open the epoch file."""
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
            sync_from_last_file=c.sync_from_last_file,
            propose=self._propose,
            compare=self._compare,
            start_of=self._start_of,
            confirmed=self._store.confirm,
            log=self._host.log,
        )
        await replication.recover(PhyOffset(0))
        return replication

    async def _compare(self, ha_address: str, their_end: PhyOffset) -> tuple[PhyOffset, PhyOffset]:
        """Compare the log with that of the master at an HA address, while it is followed there."""
        address = self.master_address

        async def read(offset: PhyOffset) -> bytes | None:
            if (self.role, self.master_address, self.master_ha_address) != (
                "slave", address, ha_address,
            ):  # fmt: skip
                raise OSError(f"{address} is not followed any more")
            return await comparison.record_of(self._pool, address, offset)

        start, whole = await comparison.start_of(self._pool, address), self._store.whole_end()
        return await comparison.equal_end(self._store, read, start, their_end), whole

    async def _start_of(self, ha_address: str) -> PhyOffset:
        """Ask the master at an HA address where its log begins, while it is followed there."""
        if self.master_ha_address != ha_address:
            raise OSError(f"{ha_address} is not followed any more")
        return await comparison.start_of(self._pool, self.master_address)

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
            answer = await self._controllers.ask(
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
        # A controller that does not lead, or lost its lead, does not know whether it was applied.
        sure = answer.code >= ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH
        refused = sure and answer.code != ResponseCode.CONTROLLER_NOT_LEADER
        replication = some(self.replication, "who proposes has its replication")
        if refused and replication.master.stands_on(proposal.number):
            self._in_doubt = self.master_epoch
        return HaAnswered(number=proposal.number, outcome="refused" if refused else "unknown")

    def _ha_known(
        self, master_epoch: MasterEpoch, answer: Frame, set_epoch: int | None = None
    ) -> HaKnown:
        body = SyncStateSet.from_json(answer.body)
        return HaKnown(
            master_epoch=master_epoch,
            sync_state_set_epoch=body.sync_state_set_epoch if set_epoch is None else set_epoch,
            members=frozenset(BrokerId(i) for i in body.sync_state_set),
        )

    async def poll_master(self) -> None:
        """Ask who is master, and follow; stand for election where there is none, unless this is a
        learner."""
        # A controller that knows this broker from before may name it a new master before it has
        # joined again: it has no log to lead or follow with, and will ask by itself.
        if not self._changing and self.replication is not None:
            await self._controllers.tried(self._look())

    async def _look(self) -> None:
        if self.role == "master" and self._in_doubt == self.master_epoch:
            # What was proposed and lost may yet be applied, but not in the next epoch.
            self._in_doubt = NO_TERM
            self._host.log("broker.role.doubt", epoch=self.master_epoch)
            await self._stand()
        request = headers.ReplicaInfoRequest(broker_name=self._config.broker_name)
        answer = await self._controllers.ask(RequestCode.CONTROLLER_GET_REPLICA_INFO, request)
        known: Known = from_ext(headers.ReplicaInfoResponse, answer.ext)
        set_epoch: int | None = None
        if not known.master_address:
            if self._config.async_learner:
                return  # it follows whoever is elected, and may have less than that one
            answer = await self._stand()
            known = from_ext(headers.MasterResponse, answer.ext)
            set_epoch = known.sync_state_set_epoch  # the body of this answer has none
        epoch = MasterEpoch(known.master_epoch or 0)
        if self._changing or not known.master_address or epoch < self.master_epoch:
            return  # another task has asked meanwhile, and changes the role now
        self._changing = True
        try:
            if known.master_broker_id == self.broker_id:
                if self._led_elsewhere(known.master_address):
                    self.register_again()
                    return
                await self._lead(epoch, self._ha_known(epoch, answer, set_epoch))
            else:
                await self._follow(epoch, known, answer)
        finally:
            self._changing = False

    def _led_elsewhere(self, address: str | None) -> bool:
        """Whether another broker with this one's id may be meant by a master's address."""
        return address != self.address

    async def _stand(self) -> Frame:
        """Ask the controller to be master."""
        elect = headers.ElectMasterRequest(
            cluster_name=self._config.broker_cluster_name,
            broker_name=self._config.broker_name,
            broker_id=self.broker_id,
            invoke_time=self._host.wall_ms(),
        )
        either = (ResponseCode.SUCCESS, ResponseCode.CONTROLLER_MASTER_STILL_EXIST)
        return await self._controllers.ask(RequestCode.CONTROLLER_ELECT_MASTER, elect, allow=either)

    async def _lead(self, epoch: MasterEpoch, known: HaKnown) -> None:
        """Become master in `epoch`, or stay it."""
        replication = some(self.replication, "a broker with a role has its replication")
        if self.role == "master" and epoch == self.master_epoch:
            if known.sync_state_set_epoch > replication.master.sync_state_set_epoch:
                replication.known(known)
            return
        self.role = "fenced"  # nothing is appended while the log changes hands
        # An epoch that began before this process registered was another one's, maybe on a copy of
        # this store that the log knows nothing of.
        late = epochs.predates(epoch, self._joining.epoch_before)
        if late or not await replication.lead(epoch, known.members, known.sync_state_set_epoch):
            # A restart within the epoch. Only a new one makes it safe.
            self._host.log("broker.role.stands", epoch=epoch)
            await self._stand()
            return
        self.master_address, self.master_ha_address = self.address, ""
        self._mark(epoch)
        await self._take_role("master", epoch)

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
            born_host=self.host,
            store_host=self.host,
        )
        try:
            self._store.put([mark])
        except OSError as error:  # the disk is full; without Java slaves nothing needs the mark
            self._host.log("broker.epoch.unmarked", epoch=epoch, why=str(error))

    async def _follow(self, epoch: MasterEpoch, known: Known, answer: Frame) -> None:
        """Copy the log of another master, once a name server says where its HA port is."""
        replication = some(self.replication, "a broker with a role has its replication")
        members = self._ha_known(epoch, answer).members
        moved = known.master_address != self.master_address
        new = self.role != "slave" or epoch != self.master_epoch or moved
        if not new and members == self._members:
            return
        self._members = members
        if new:
            self.role = "fenced"
            self.master_address, self.master_ha_address = known.master_address or "", ""
        await replication.follow(
            self._copied_from, epoch, in_sync_state_set=self.broker_id in members
        )
        if new:
            await self._take_role("slave", epoch)

    async def _take_role(self, role: RoleName, epoch: MasterEpoch) -> None:
        self.role, self.master_epoch = role, epoch
        self._tables.adopt_epoch(epoch)
        self._host.log("broker.role", role=role, epoch=epoch)
        if role == "slave":
            self.on_follow()
        else:
            self._tables.known = self._store.ends_known = True
        await self.register_everywhere()

    def register_again(self) -> None:
        """Register at the next look at the address: another broker may have this one's id."""
        self._is_registered = False

    async def _announce_address(self) -> bool:
        return bool(await self._controllers.tried(self._register_address()))

    async def _register_address(self) -> bool:
        if not await self._joining.register(self.broker_id, self.address):
            self.role = "fenced"
            return False
        await self._heartbeat_everywhere()
        return True

    async def _copy_from(self, address: str) -> None:
        replication = some(self.replication, "a broker with a role has its replication")
        member = self.broker_id in self._members
        await replication.follow(address, self.master_epoch, in_sync_state_set=member)
