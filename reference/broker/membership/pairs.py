"""The place of a broker without controllers: its settings say whether it is master or slave.

A slave learns who its master is from name servers, as `maxq.reference.broker.membership.acting`
decides, and from there where the HA port is, unless ``haMasterAddress`` says it. With
``enableSlaveActingMaster`` it acts for a master that is gone: it is shown to clients in its place,
and serves what a slave can. What waits there to be delivered or settled leaves by
``reference/broker/escape``. Where somebody may have acted for it a broker is not registered before
it has what its group has (`maxq.reference.broker.membership.returning`). Units: seconds.
Source: RocketMQ ``BrokerController``, ``DefaultHAService``; docs/spec/acting-master.md 3.
"""

import asyncio
from collections.abc import Callable
from typing import assert_never

from maxq.reference.broker.membership import comparison
from maxq.reference.broker.membership.acting import (
    Act,
    Acting,
    Announced,
    Event,
    Follow,
    Leave,
    Named,
    Offered,
    Online,
    Polled,
)
from maxq.reference.broker.membership.ha_address import asked_of, info_of
from maxq.reference.broker.membership.membership import NS_PER_MS, CopyLink, Links, Membership
from maxq.reference.broker.membership.pre_online import PreOnline
from maxq.reference.broker.membership.returning import TICK_S, Returning
from maxq.reference.broker.replication.ha_link import HaPort
from maxq.reference.broker.replication.plain.plain_events import PlainSettings
from maxq.reference.broker.replication.plain.plain_replication import PlainReplication
from maxq.reference.broker.store.store import Store
from maxq.reference.broker.store.topics import Tables
from maxq.reference.config import BrokerConfig
from maxq.reference.host import Host
from maxq.reference.node import every, now_ns
from maxq.reference.records import BrokerId, MasterEpoch, PhyOffset, RemoteProtocolError
from maxq.reference.rpc import Pool
from maxq.reference.wire import node_headers as headers
from maxq.reference.wire.node_headers import HaInfo


class PairMembership(Membership):
    """Registration and role of one broker that no controller rules; arguments as `Membership`."""

    def __init__(
        self,
        config: BrokerConfig,
        host: Host,
        tables: Tables,
        pool: Pool,
        store: Store,
    ) -> None:
        super().__init__(config, host, tables, pool, store)
        self._leads = config.broker_role != "SLAVE"
        self._returns = waits_for_group(config)
        eviction_ns = config.broker_not_active_timeout_millis * NS_PER_MS * 3 // 2
        self._acting = Acting(
            me=BrokerId(0 if self._leads else max(config.broker_id, 1)),
            enabled=config.enable_slave_acting_master,
            eviction_ns=eviction_ns,
            isolated=self._returns and not self._leads,
        )
        self.plain = PlainReplication(
            store,
            leads=self._leads,
            settings=settings_of(config),
            durable=config.flush_disk_type == "SYNC_FLUSH",
            bounds=self._bounds,
            appended=store.confirm,
            log=host.log,
        )
        rest_ns = config.sync_broker_member_group_period * NS_PER_MS
        self._returning = Returning(
            PreOnline(eviction_ns=eviction_ns, rest_ns=rest_ns),
            host, pool, self._namesrvs, tables, store, self.plain, self._own_info, self._online,
        )  # fmt: skip

    @property
    def in_sync_count(self) -> int:
        """Logs that are in sync, as their slaves report, this one counted."""
        return self.plain.master.in_sync_count

    @property
    def copies_needed(self) -> int:
        return self.plain.master.copies_needed(self.in_sync_count)

    @property
    def knows_the_end(self) -> bool:
        return self.role == "master" or self.acts

    @property
    def acts(self) -> bool:
        return self._acting.acts

    @property
    def isolated(self) -> bool:
        return self._acting.isolated or self._returning.state.isolated

    @property
    def returns(self) -> bool:
        return self._returns and self._leads

    @property
    def hands_over(self) -> bool:
        return self._acting.hands_over(now_ns())

    @property
    def is_ahead(self) -> bool:
        return self._acting.is_ahead(now_ns())

    def took_commit(self) -> None:
        self._acting.took_commit(now_ns())

    def copied(self) -> PhyOffset:
        """The first byte of the log that must not be deleted: what a slave still copies."""
        return min(self._store.confirm_offset, self.plain.copied)

    async def trim(self, start: PhyOffset) -> None:
        self.plain.trimmed(start)
        await self._store.trim(start)

    def written(self) -> None:
        self.plain.written()

    def when_acknowledged(
        self, end: PhyOffset, master_epoch: MasterEpoch, then: Callable[[str], None]
    ) -> None:
        copies = self.copies_needed
        if copies > 1:
            self.plain.when_acknowledged(end, copies, then)
        else:
            then("")

    def ha_info(self) -> HaInfo | None:
        return self._own_info() if self._leads else None

    def _own_info(self) -> HaInfo:
        return HaInfo(
            master_ha_address=self.ha_address,
            master_flush_offset=self.plain.began,
            master_address=self.address,
        )

    def links(self) -> Links:
        core = self.plain.master
        slaves = (
            CopyLink(
                address=link.address,
                acked=link.acked or PhyOffset(0),
                next=link.next,
                in_sync=core.is_in_sync(link),
            )
            for _, link in sorted(core.links.items())
        )
        return Links(tuple(slaves), None if self._leads else self.plain.slave)

    def told(self) -> dict[str, str]:
        """Slaves that were turned away, by what they report, or why this one copies nothing."""
        refused = "; ".join(self.plain.master.refused.values())
        return {
            "maxq.refusedSlaves": refused,
            "maxq.outOfGroup": self.plain.slave.out,
            "maxq.acting": str(self.acts).lower(),
            "maxq.isolated": str(self.isolated).lower(),
            "maxq.copying": str(self.plain.slave.connected).lower(),
            "maxq.isolatedBy": self._returning.state.held_by(),
            "maxq.minBrokerId": str(self._acting.min_id),
        }

    async def run(self, group: asyncio.TaskGroup, ha_port: HaPort) -> None:
        self.broker_id = self._acting.me
        self._tables.known |= self._leads
        self.role = "master" if self._leads else "slave"
        if self.returns:
            await self.on_dropped()
            group.create_task(every(TICK_S, self._returning.tick))
            group.create_task(every(TICK_S, self._returning.look))
        group.create_task(self.plain.run(group, ha_port))
        config = self._config
        if config.enable_slave_acting_master:
            beat, poll = config.broker_heartbeat_interval, config.sync_broker_member_group_period
            group.create_task(every(beat / 1000, self._namesrvs.heartbeat))
            group.create_task(every(poll / 1000, self._poll_group))
        await self._stay_registered(group)

    # Who leads.

    async def _poll_group(self) -> None:
        asked_ns, members = now_ns(), await self._namesrvs.group()
        if members is None:
            return
        copying = self.plain.slave.connected
        await self._heard(Polled(asked_ns=asked_ns, members=members, copying=copying))

    async def announced(self, change: headers.MinBrokerIdChange) -> None:
        mine = change.broker_name in (None, self._config.broker_name)
        impostor = change.min_broker_id == self.role_id and change.min_broker_addr != self.address
        if change.min_broker_id is not None and mine and not impostor:
            event = Announced(
                at_ns=now_ns(),
                min_id=change.min_broker_id,
                min_address=change.min_broker_addr or "",
                offline_address=change.offline_broker_addr or "",
                ha_address=change.ha_broker_addr or "",
            )
            await self._heard(event)

    async def offered(self, master: HaInfo) -> None:
        """Believed if that broker says of itself that it is this master; whose group it is of, no
        request tells."""
        address, said = master.master_address or "", master.master_ha_address or ""
        if self._leads or not address:
            return
        try:
            own = await info_of(self._pool, address)
        except (OSError, TimeoutError, RemoteProtocolError, ValueError) as error:
            why = f"{type(error).__name__}: {error}"
            self._host.log("broker.offer.unconfirmed", master=address, why=why)
            return
        if (own.master_address, own.master_ha_address) == (address, said):
            copying = self.plain.slave.connected
            await self._heard(
                Offered(at_ns=now_ns(), master_address=address, ha_address=said, copying=copying)
            )

    async def on_dropped(self) -> None:
        self._host.log("broker.isolated")
        self.role = "fenced"
        self._returning.begin()

    async def _online(self) -> None:
        self._host.log("broker.online")
        self.role = "master"
        self._took_turn()
        self._namesrvs.go_online()
        await self.register_everywhere()

    def _took_turn(self) -> None:
        """Who waits for messages must ask again: another broker may be the one to ask now."""
        self.turns += 1
        self._store.wake_all()

    async def _on_registered(self, answer: headers.RegisterBrokerResponse, asked_ns: int) -> None:
        event = Named(
            asked_ns=asked_ns,
            master_address=answer.master_addr or "",
            ha_address=answer.ha_server_addr or "",
            copying=self.plain.slave.connected,
        )
        await self._heard(event)

    async def _heard(self, event: Event) -> None:
        if self.role == "fenced":
            return
        for effect in self._acting.step(event):
            match effect:
                case Act():
                    self._host.log("broker.acting", on=effect.on, min=self._acting.min_id)
                    self._took_turn()
                    await self.register_everywhere()
                case Leave():
                    await self._follow("", "")
                case Follow():
                    await self._follow(effect.address, effect.ha_address)
                case Online():
                    self._host.log("broker.online")
                    await self.register_everywhere()
                case _:
                    assert_never(effect)

    async def _follow(self, address: str, ha_address: str) -> None:
        if address != self.master_address:
            self._host.log("broker.master", address=address, before=self.master_address)
            self.master_address, self.master_ha_address = address, ""
            await self.copy()
        if address:
            self.on_follow()
        if address and not self._config.ha_master_address:
            await self._look_for_ha(ha_address or await asked_of(self._pool, address))

    async def _copy_from(self, address: str) -> None:
        if not self._leads:
            await self.plain.follow(address)

    @property
    def _ha_address_known(self) -> str:
        return self._config.ha_master_address or self.master_ha_address

    @property
    def _copied_from(self) -> str:
        known = self._tables.known and self._store.ends_known and self.master_address
        return self._ha_address_known if known else ""

    async def _bounds(self) -> tuple[PhyOffset, PhyOffset]:
        return await comparison.bounds_of(self._pool, self.master_address)


def waits_for_group(config: BrokerConfig) -> bool:
    """Whether a broker that starts has a group that may be ahead of it."""
    return (
        config.enable_slave_acting_master
        and config.total_replicas > 1
        and not config.skip_pre_online
    )


def settings_of(config: BrokerConfig) -> PlainSettings:
    """How a broker replicates."""
    return PlainSettings(
        file_size=config.mapped_file_size_commit_log,
        sync_master=config.broker_role == "SYNC_MASTER",
        in_sync_replicas=config.in_sync_replicas,
        min_in_sync_replicas=config.min_in_sync_replicas,
        auto=config.enable_auto_in_sync_replicas,
        gap_max=config.ha_max_gap_not_in_sync,
        heartbeat_ns=config.ha_send_heartbeat_interval * NS_PER_MS,
        housekeeping_ns=config.ha_housekeeping_interval * NS_PER_MS,
        wait_ns=config.slave_timeout * NS_PER_MS,
    )
