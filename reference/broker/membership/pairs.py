"""The place of a broker without controllers: its settings say whether it is master or slave.

A slave learns its master's address from the name servers' answers to its registration, and from
there where the HA port is, unless ``haMasterAddress`` says it. While it copies a master's log it
does not leave it for another address that some name server names: two of them may disagree, and
only one can be right. Units: seconds. Source: RocketMQ ``BrokerController``,
``DefaultHAService``; docs/spec/acting-master.md 3.
"""

import asyncio
from collections.abc import Callable

from maxq.reference.broker.membership import comparison
from maxq.reference.broker.membership.membership import NS_PER_MS, CopyLink, Links, Membership
from maxq.reference.broker.replication.plain.plain_events import PlainSettings
from maxq.reference.broker.replication.plain.plain_replication import PlainReplication
from maxq.reference.broker.store.store import Store
from maxq.reference.broker.store.topics import Tables
from maxq.reference.config import BrokerConfig
from maxq.reference.host import Host
from maxq.reference.records import BrokerId, MasterEpoch, PhyOffset
from maxq.reference.rpc import Pool, split_address
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
        self.plain = PlainReplication(
            store,
            leads=self._leads,
            settings=settings_of(config),
            durable=config.flush_disk_type == "SYNC_FLUSH",
            bounds=self._bounds,
            appended=store.confirm,
            log=host.log,
        )

    @property
    def in_sync_count(self) -> int:
        """Logs that are in sync, as their slaves report, this one counted."""
        return self.plain.master.in_sync_count

    @property
    def copies_needed(self) -> int:
        return self.plain.master.copies_needed(self.in_sync_count)

    @property
    def knows_the_end(self) -> bool:
        return self.role == "master"

    def copied(self) -> PhyOffset:
        """The first byte of the log that must not be deleted: what a slave still copies."""
        return min(self._store.confirm_offset, self.plain.copied)

    async def trim(self, start: PhyOffset) -> None:
        await self.plain.trimmed(start)
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
        if self.role != "master":
            return None
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
        return {"maxq.refusedSlaves": refused, "maxq.outOfGroup": self.plain.slave.out}

    async def run(self, group: asyncio.TaskGroup) -> None:
        self.broker_id = BrokerId(max(self._config.broker_id, int(not self._leads)))
        self._tables.known |= self._leads
        self.role = "master" if self._leads else "slave"
        _, port = split_address(self.ha_address)
        group.create_task(self.plain.run(group, self._config.bind_address, port))
        await self._stay_registered(group)

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

    async def _on_registered(self, answer: headers.RegisterBrokerResponse) -> None:
        said = answer.master_addr or ""
        if self.role != "slave" or not said:
            return
        if said != self.master_address:
            if self.plain.slave.connected:
                return
            self._host.log("broker.master", address=said, before=self.master_address)
            self.master_address, self.master_ha_address = said, ""
            await self.copy()
            self.on_follow()
        if not self._config.ha_master_address:
            await self._look_for_ha(answer.ha_server_addr or "")

    async def _bounds(self) -> tuple[PhyOffset, PhyOffset]:
        return await comparison.bounds_of(self._pool, self.master_address)


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
