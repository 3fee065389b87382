"""The broker: one process that stores messages and answers clients, and its way through life.

This module owns the start, the ports, the periodic work and the stop. The requests themselves are
in `sends`, `pulls`, `heartbeats`, `send_back`, `transactions`, `offsets` and `lock_quorum`
(clients), `admin`, `topic_admin`, `group_admin`, `offset_reset` and `lookup` (operators) and
`metadata` (slaves); `schedule` delivers what is delayed; what a slave
that acts does instead is in `acting_services`.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Protocol

import msgspec

from maxq.reference import rpc
from maxq.reference.bounds import Bounds
from maxq.reference.broker.admin.admin import BLACK_LIST, LIVE_KEYS, Admin
from maxq.reference.broker.admin.group_admin import GroupAdmin
from maxq.reference.broker.admin.ha_admin import HaAdmin
from maxq.reference.broker.admin.topic_admin import TopicAdmin
from maxq.reference.broker.client_calls.clients import Clients
from maxq.reference.broker.client_calls.heartbeats import Heartbeats
from maxq.reference.broker.client_calls.lookup import Lookup
from maxq.reference.broker.client_calls.made_topics import MadeTopics
from maxq.reference.broker.client_calls.offset_reset import OffsetReset
from maxq.reference.broker.client_calls.offsets import Offsets
from maxq.reference.broker.client_calls.pulls import Pulls
from maxq.reference.broker.client_calls.schedule import TICK_S as DELIVERY_TICK_S
from maxq.reference.broker.client_calls.schedule import Schedule
from maxq.reference.broker.client_calls.send_back import SendBack, TakeBack
from maxq.reference.broker.client_calls.sends import Sends
from maxq.reference.broker.client_calls.slave_refusals import refusing, refusing_isolated
from maxq.reference.broker.client_calls.transactions import Transactions
from maxq.reference.broker.escape.acting_services import TICK_S as ACTING_TICK_S
from maxq.reference.broker.escape.acting_services import ActingServices
from maxq.reference.broker.escape.escape import Target
from maxq.reference.broker.locks.lock_quorum import Locks
from maxq.reference.broker.membership.controlled import ControlledMembership
from maxq.reference.broker.membership.membership import Membership
from maxq.reference.broker.membership.metadata import Metadata, of_known
from maxq.reference.broker.membership.metadata_sync import TICK_S, MetadataSync
from maxq.reference.broker.membership.namesrvs import addresses_of
from maxq.reference.broker.membership.pairs import PairMembership
from maxq.reference.broker.ports import Ports
from maxq.reference.broker.store.cleaner import Cleaner
from maxq.reference.broker.store.metrics import SAMPLE_S
from maxq.reference.broker.store.pool import Commits
from maxq.reference.broker.store.store import Store, Unflushed
from maxq.reference.broker.store.topics import Tables
from maxq.reference.config import BrokerConfig
from maxq.reference.host import Host
from maxq.reference.node import as_task_of, every, now_ns
from maxq.reference.node_file import check_broker
from maxq.reference.records import some
from maxq.reference.rpc import Handler, Reply, answered
from maxq.reference.settings import Settings
from maxq.reference.wire.codes import ResponseCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.headers import SendBackRequest
from maxq.reference.wire.message import Message
from maxq.reference.wire.route import PERM_WRITE

STOP_TIMEOUT_S = 5.0
NO_NEIGHBOUR = "the master along with this broker has ended"


class Neighbours(Protocol):
    """The other brokers of a broker's container, as far as they store what it cannot."""

    def target(self, topic: str, queue_id: int) -> Target | None:
        """That queue at a master; None if no master here takes messages of it."""
        ...

    def taker(self) -> TakeBack | None:
        """Where what a consumer sends back is stored; None if no master is here."""
        ...


class Broker:
    """One broker node."""

    def __init__(
        self,
        config: BrokerConfig,
        host: Host,
        *,
        mutant: str = "",
        neighbours: Neighbours | None = None,
    ) -> None:
        self._neighbours = neighbours
        self._lent: tuple[asyncio.TaskGroup, SendBack] | None = None  # while it serves
        self._config = config
        self._host = host
        self._mutant = mutant
        self.membership: Membership | None = None  # while it serves
        self.locks: Locks | None = None
        self._store = Store(
            host,
            root=config.store_path_root_dir,
            log_path=config.commit_log_path,
            log_file_size=config.mapped_file_size_commit_log,
            queue_file_size=config.mapped_file_size_consume_queue,
            replicated=config.enable_controller_mode,
            levels=config.delay_levels(),
            pool=Commits.of(config) if config.pools else None,
            on_growth=self._on_growth,
        )
        self._tables = Tables(
            host,
            f"{config.store_path_root_dir}/config",
            cluster=config.broker_cluster_name,
            broker_name=config.broker_name,
            auto_create=config.auto_create_topic_enable,
            default_queues=config.default_topic_queue_nums,
            in_group=config.enable_slave_acting_master,
            offset_step=config.consumer_offset_update_version_step,
            delay_step=config.delay_offset_update_version_step,
        )
        self._tables.permission = config.broker_permission

    async def run(self, ready: Callable[[], None]) -> None:
        """Serve until cancelled; then say goodbye and sync. Once this has ended nothing of the
        broker is left in the process: no port, no connection, no lock of its store.

        Raises:
            CorruptLog, CorruptTable, IdentityError: files that must not be used.
            BlockingIOError: another broker uses the store.
        """
        try:
            for _ in self._store.recovering():
                await asyncio.sleep(0)
            self._tables.load(self._store.queue_counts())
            await self._sync_recovered()
            self._host.log("broker.recovered", end=self._store.end)
            async with asyncio.TaskGroup() as group:
                await self._serve(group, ready)
        finally:
            self._lent = None
            self._store.close()

    async def _sync_recovered(self) -> None:
        """Make durable what was found: a process that was killed may have renamed a file and not
        synced its folder, and what this one does next stands on what it read there."""
        config, disk = self._config, self._host.disk
        await self._store.sync_recovered()
        files = (config.identity_path, config.epoch_path, self._tables.folder + "/")
        for folder in dict.fromkeys(path.rpartition("/")[0] for path in files):
            if disk.list(folder):
                await disk.sync_dir(folder)

    def _place(self, pool: rpc.Pool) -> Membership:
        kind = ControlledMembership if self._config.enable_controller_mode else PairMembership
        return kind(self._config, self._host, self._tables, pool, self._store)

    async def _serve(self, group: asyncio.TaskGroup, ready: Callable[[], None]) -> None:
        bounds: Bounds[rpc.Connection] = Bounds(self._host.log)
        pool = rpc.Pool(group, bounds=bounds)
        config, host, store, tables = self._config, self._host, self._store, self._tables
        settings = Settings(config, live=LIVE_KEYS, black_list=BLACK_LIST, check=check_broker)
        membership = self._place(pool)
        locks = Locks(config, host, membership, group)
        self.membership, self.locks = membership, locks
        topics, clients = MadeTopics(tables, membership, group), Clients()
        heartbeats = Heartbeats(settings, tables, topics, clients)
        schedule = Schedule(host, store, tables, membership, config.delay_levels())
        transactions = Transactions(config, host, store, tables, membership, topics, clients)
        contained = self._neighbours is not None
        send_back = SendBack(settings, host, store, tables, membership, topics, self._taker)
        parts = (
            Sends(settings, host, store, tables, membership, topics, is_ordered=locks.is_held),
            Pulls(settings, store, tables, membership, topics, clients, contained=contained),
            heartbeats,
            transactions,
            locks,
            send_back,
            Admin(settings, host, store, tables, membership, schedule, mutant=self._mutant),
            TopicAdmin(config, store, tables, membership),
            GroupAdmin(config, store, tables, clients),
            Offsets(store, tables),
            OffsetReset(config, store, tables, clients),
            Lookup(store, tables),
            Metadata(tables),
            HaAdmin(config, host, store, membership),
        )
        handlers = of_known(tables, {c: h for part in parts for c, h in part.handlers().items()})
        handlers = self._guarded(handlers, membership)
        ports = Ports(config, shares=contained)
        self._lent = group, send_back
        await ports.bind(handlers, group, bounds)
        try:
            self._keep_writing(group)
            group.create_task(every(DELIVERY_TICK_S, schedule.tick))
            group.create_task(every(SAMPLE_S, lambda: store.metrics.sample(now_ns())))
            group.create_task(every(10.0, heartbeats.expire))
            group.create_task(every(10.0, locks.expire))
            group.create_task(every(config.transaction_check_interval / 1000, transactions.tick))
            self._copy_tables(group, pool, membership)
            self._serve_for_master(group, pool, membership)
            if locks.polls:
                group.create_task(every(config.sync_broker_member_group_period / 1000, locks.poll))
            self._host.log("broker.started", name=config.broker_name, port=config.listen_port)
            await self._clean(group, settings, membership, ready)
            await membership.run(group, ports.ha)
        finally:
            ports.close()
            try:
                await self._goodbye(membership)
            finally:
                locks.close()
                pool.close()

    def _keep_writing(self, group: asyncio.TaskGroup) -> None:
        """Write to the disk what is new, now and then."""
        config = self._config
        group.create_task(every(config.flush_interval_commit_log / 1000, self._flush))
        if config.pools:
            commits = every(config.commit_interval_commit_log / 1000, self._store.pool.tick)
            group.create_task(commits)
        offsets = every(config.flush_consumer_offset_interval / 1000, self._save_offsets)
        group.create_task(offsets)
        group.create_task(every(config.flush_delay_offset_interval / 1000, self._save_delay))

    def _copy_tables(
        self, group: asyncio.TaskGroup, pool: rpc.Pool, membership: Membership
    ) -> None:
        """Copy the master's tables, now and then, and where it is another or its log has begun."""
        store, tables = self._store, self._tables
        master, known = membership.followed, membership.copy
        pull = MetadataSync(
            pool, tables, store, self._host, master, known, lambda: not membership.is_ahead
        ).tick
        store.on_begun = lambda: rpc.spawn(group, membership.begun())
        membership.on_follow = lambda: rpc.spawn(group, pull())
        group.create_task(every(TICK_S, pull))

    def _guarded(self, handlers: dict[int, Handler], membership: Membership) -> dict[int, Handler]:
        """The same handlers, with what a slave that may act for its master refuses, and who is not
        in its group."""
        if not self._config.enable_slave_acting_master:
            return handlers
        recalls = self._config.recall_message_enable
        takes_back = lambda: self._taker() is not None  # noqa: E731 - a question
        refused = refusing(handlers, membership, recalls=recalls, takes_back=takes_back)
        return refusing_isolated(refused, membership)

    # In a container.

    def _taker(self) -> TakeBack | None:
        return None if self._neighbours is None else self._neighbours.taker()

    def target(self, topic: str, queue_id: int) -> Target | None:
        """A queue of this broker, for a neighbour that has to store a message elsewhere; None if it
        is not master now, or the queue is not there or takes nothing."""
        known = self._tables.topics.get(topic)
        if not self.leads or known is None or not known.perm & PERM_WRITE:
            return None
        name, address = self._config.broker_name, some(self.membership, "it leads").address
        queues = known.write_queue_nums
        if queue_id >= queues or not self._tables.permission & PERM_WRITE:
            return None
        return Target(broker_name=name, address=address, queues=queues, queue_id=queue_id)

    def reach(self, namesrv_addr: str) -> None:
        """Have these name servers list it from now on, and no others."""
        self._config = msgspec.structs.replace(self._config, namesrv_addr=namesrv_addr)
        if self._lent is not None:
            membership = some(self.membership, "it serves")
            rpc.spawn(self._lent[0], membership.reach(addresses_of(namesrv_addr)))

    @property
    def leads(self) -> bool:
        """Whether it serves as a master now, and has its group's tables."""
        return self._lent is not None and some(self.membership, "it serves").role == "master"

    async def take_back(self, request: Frame, h: SendBackRequest, original: Message) -> Reply:
        """Store a copy of what a consumer sends back to a neighbour that is a slave. It is done in
        a task of this broker: what fails there is this one's failure."""
        if self._lent is None:
            return request.answer(ResponseCode.SYSTEM_ERROR, NO_NEIGHBOUR)
        group, send_back = self._lent
        answer = await as_task_of(
            group, answered(request, send_back.take_back(request, h, original))
        )
        return answer or request.answer(ResponseCode.SYSTEM_ERROR, NO_NEIGHBOUR)

    def _serve_for_master(
        self, group: asyncio.TaskGroup, pool: rpc.Pool, membership: Membership
    ) -> None:
        """Deliver and settle elsewhere what waits here, while this slave acts for its master."""
        config = self._config
        neighbours = self._neighbours
        escapes = config.enable_remote_escape or neighbours is not None
        if config.enable_slave_acting_master and escapes:
            local = None if neighbours is None else neighbours.target
            services = ActingServices(
                config, self._host, self._store, self._tables, membership, pool, group, local
            )
            group.create_task(every(ACTING_TICK_S, services.tick))

    async def _clean(
        self,
        group: asyncio.TaskGroup,
        settings: Settings[BrokerConfig],
        membership: Membership,
        ready: Callable[[], None],
    ) -> None:
        """Delete old files, now and then. First before the broker is ready: a partition that is
        full then takes no message."""
        held_from, trim = membership.copied, membership.trim
        cleaner = Cleaner(settings, self._host, self._store, held_from=held_from, trim=trim)
        await cleaner.tick()
        ready()
        group.create_task(every(self._config.clean_resource_interval / 1000, cleaner.tick))

    async def _goodbye(self, membership: Membership) -> None:
        """Say goodbye to who answers in time; what is stored gets to the disk in any case."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await membership.unregister()
        await self._save_offsets()
        await self._save_delay()
        await self._flush()

    def _on_growth(self) -> None:
        if self.membership is not None:
            self.membership.written()

    async def _flush(self) -> None:
        """Sync the log. A failed sync ends the broker, since what is on disk is unknown then;
        a full disk does not: consume queues can be rebuilt, and sends are refused until they are
        written."""
        await self._store.mark()
        try:
            self._store.flush_queues()
        except Unflushed as error:
            self._host.log("broker.queues.unwritten", why=str(error))

    async def _save_offsets(self) -> None:
        """Write the consumer offsets; a full disk delays it."""
        try:
            await self._tables.save_offsets()
        except OSError as error:
            self._host.log("broker.offsets.unwritten", why=str(error))

    async def _save_delay(self) -> None:
        """Write how far delayed messages are delivered; a full disk delays it."""
        try:
            await self._tables.save_delay()
        except OSError as error:
            self._host.log("broker.delay.unwritten", why=str(error))
