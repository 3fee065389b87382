"""A broker's place in its cluster: its role, its master, its address.

With a controller: join (`maxq.reference.broker.membership.joining`), learn or ask for a master,
then poll. Until a role is known the broker is *fenced*: it takes no message. Without a controller
the configured role holds from the start. In both cases the broker registers with the name servers
at every change of role or topics, and periodically (`maxq.reference.broker.membership.namesrvs`).

Every step that fails is tried again, at the latest after `RETRY_S`; nothing is given up. Units:
seconds.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Literal

from maxq.reference.broker.membership import comparison, ha_address
from maxq.reference.broker.membership.controllers import Controllers, Refused
from maxq.reference.broker.membership.joining import RETRY_S, Joining
from maxq.reference.broker.membership.namesrvs import Namesrvs
from maxq.reference.broker.replication import epochs
from maxq.reference.broker.replication.epochs import EpochFile
from maxq.reference.broker.replication.ha_master_events import Answered as HaAnswered
from maxq.reference.broker.replication.ha_master_events import Known as HaKnown
from maxq.reference.broker.replication.ha_settings import MasterSettings, SlaveTiming
from maxq.reference.broker.replication.replication import Replication
from maxq.reference.broker.replication.sync_state_set import NO_TERM, ProposeSyncStateSet
from maxq.reference.broker.store.store import Store
from maxq.reference.broker.store.topics import Tables
from maxq.reference.config import BrokerConfig
from maxq.reference.host import Host
from maxq.reference.node import every
from maxq.reference.records import BrokerId, MasterEpoch, PhyOffset, RemoteProtocolError, some
from maxq.reference.rpc import Connection, Pool, split_address
from maxq.reference.wire import node_headers as headers
from maxq.reference.wire.bodies import SyncStateSet
from maxq.reference.wire.codes import RequestCode, ResponseCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.headers import from_ext
from maxq.reference.wire.message import Message
from maxq.reference.wire.message import host as host_bytes

MASTER_ROLE_ID = 0
MARK_TOPIC = "SELF_TEST_TOPIC"  # every release has it, and no client may send to it
NS_PER_MS = 1_000_000

Known = headers.ReplicaInfoResponse | headers.MasterResponse  # either says who is master
RoleName = Literal["fenced", "master", "slave"]


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
        addresses = tuple(a for a in config.controller_addr.split(";") if a)
        self._controllers = Controllers(host, pool, addresses)
        self._joining = Joining(config, host, self._controllers)
        self._namesrvs = Namesrvs(config, host, pool, tables, self, self._on_registered)
        self.address, self.ha_address = self._addresses(config.broker_ip1 or host.addresses()[0])
        self.broker_id = BrokerId(config.broker_id)  # the persistent id; -1 until known
        self.role: RoleName = "fenced"
        self.master_address = ""
        self.master_epoch = MasterEpoch(0)
        self.replication: Replication | None = None  # once the id is known
        self.master_ha_address = ""  # of the master that is followed, as a name server says
        self._members: frozenset[BrokerId] = frozenset()
        self._changing = False  # a change of role is under way
        self._in_doubt = NO_TERM  # the epoch whose SyncStateSet cannot be known any more
        self._is_registered = True  # the controller knows the address
        self._former: tuple[Connection, ...] = ()  # connections from former addresses
        self.on_follow: Callable[[], object] = lambda: None  # called with each master that is new

    def _addresses(self, ip: str) -> tuple[str, str]:
        """Where clients and slaves reach this broker."""
        c = self._config
        ha_port = c.ha_listen_port or c.listen_port + 1
        return f"{ip}:{c.listen_port}", f"{c.broker_ip2 or ip}:{ha_port}"

    @property
    def role_id(self) -> int:
        """The id shown to name servers: 0 while master."""
        return MASTER_ROLE_ID if self.role == "master" else self.broker_id

    @property
    def host(self) -> bytes:
        """The address as records carry it."""
        return host_bytes(*split_address(self.address))

    @property
    def in_sync_count(self) -> int:
        """Members of the SyncStateSet, as its master knows it; alone a master is in sync."""
        return 1 if self.replication is None else self.replication.master.in_sync_count

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
        """Let the log begin with the file that begins at `start`. Raises OSError."""
        await (self._store if self.replication is None else self.replication).trim(start)

    def followed(self) -> str:
        """Address of the master that this broker follows; empty while it follows none."""
        return self.master_address if self.role == "slave" else ""

    async def run(self, group: asyncio.TaskGroup) -> None:
        """Take part in the cluster until cancelled."""
        if self._config.enable_controller_mode:
            self.broker_id = await self._joining.win(self.address)
            await self._joining.register_at_last(self.broker_id, self.address)
            # A heartbeat first: the controller elects only brokers that it knows to live.
            await self._heartbeat_everywhere()
            self.replication = await self._replicate(group)
            beat = self._config.broker_heartbeat_interval / 1000
            # Each by itself: a dead one must not delay the others.
            for controller in self._controllers.addresses:
                group.create_task(every(beat, partial(self._heartbeat, controller)))
            group.create_task(
                every(self._config.sync_broker_metadata_period / 1000, self.poll_master)
            )
        else:
            slave = self._config.broker_role == "SLAVE"
            self.role = "slave" if slave else "master"
            self._tables.known |= not slave
            self.broker_id = BrokerId(max(self._config.broker_id, int(slave)))
        beat = self._config.broker_heartbeat_interval / 1000
        group.create_task(every(beat, self._look_at_address))
        await every(RETRY_S, self._namesrvs.register_where_due)

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
            sync_from_last_file=c.sync_from_last_file,
            propose=self._propose,
            compare=self._compare,
            confirmed=self._store.confirm,
            log=self._host.log,
        )
        await replication.recover(PhyOffset(0))
        _, port = split_address(self.ha_address)
        group.create_task(replication.run(group, c.bind_address, port))
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
            self._tables.known = True
        await self.register_everywhere()

    async def _look_at_address(self) -> None:
        """Notice that this machine has another address, and register it; the id stays.

        With brokerIP1 set nothing changes: the broker is unreachable until the old address returns.
        """
        now, config = self._host.addresses(), self._config
        ip, port = split_address(self.address)
        if not config.broker_ip1 and ip not in now and not now[0].startswith("127."):
            self.address, self.ha_address = self._addresses(now[0])
            self._host.log("broker.address.changed", before=f"{ip}:{port}", now=self.address)
            self._former = (*self._former, *self._pool.release())
            self._is_registered = False
            self._namesrvs.forget_registrations()
        if self._is_registered:
            for connection in self._former:  # a beat later: the last one's end is taken for a death
                connection.close()
            self._former = ()
        elif not config.enable_controller_mode or await self._controllers.tried(
            self._register_address()
        ):
            self._is_registered = True
            if self.role == "master":
                self.master_address = self.address
            elif self.role == "slave":
                await self._dial_again()
            await self.register_everywhere()

    def register_again(self) -> None:
        """Register at the next look at the address: another broker may have this one's id."""
        self._is_registered = False

    async def _register_address(self) -> bool:
        if not await self._joining.register(self.broker_id, self.address):
            self.role = "fenced"
            return False
        await self._heartbeat_everywhere()
        return True

    async def _dial_again(self) -> None:
        """Leave the connection to the master for a new one."""
        replication = self.replication
        if replication is None:  # without a controller nothing is replicated
            return
        member = self.broker_id in self._members
        for address in ("", self._copied_from):
            await replication.follow(address, self.master_epoch, in_sync_state_set=member)

    async def _on_registered(self, answer: headers.RegisterBrokerResponse) -> None:
        """A name server's answer to a slave says where its master's HA port is."""
        if self.role != "slave" or answer.master_addr != self.master_address:
            return
        said, master = answer.ha_server_addr, self.master_address
        if said and said != self.master_ha_address:
            fault = await ha_address.confirmed(self._pool, master, said)
            if fault:
                self._host.log("broker.ha.unconfirmed", master=master, said=said, why=fault)
            if fault or (self.role, self.master_address) != ("slave", master):
                return
            self.master_ha_address = said
            await self.copy()

    @property
    def _copied_from(self) -> str:
        """The HA port to dial; none before the tables are known: a member of the SyncStateSet
        without them may be elected, and would serve no topic."""
        return self.master_ha_address if self._tables.known else ""

    async def copy(self) -> None:
        """Copy the log of the master that is followed, if nothing is missing for that any more."""
        if self.role == "slave" and self.replication is not None:
            member = self.broker_id in self._members
            await self.replication.follow(
                self._copied_from, self.master_epoch, in_sync_state_set=member
            )

    async def register_everywhere(self) -> None:
        """Register role, address and topics with every name server; a fenced broker does not."""
        await self._namesrvs.register_everywhere()

    async def unregister(self) -> None:
        """Say goodbye on a clean stop; who never registered has nothing to say."""
        await self._namesrvs.unregister()
