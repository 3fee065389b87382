"""A broker's place in its cluster: its role, its master, its address; what every broker has of it.

How a role comes about differs: from controllers (`maxq.reference.broker.membership.controlled`), or
from the settings, for life (`maxq.reference.broker.membership.pairs`). Until a role is known the
broker is *fenced*: it takes no message. In both cases the broker registers with the name servers at
every change of role or topics, and periodically (`maxq.reference.broker.membership.namesrvs`).

Every step that fails is tried again, at the latest after `RETRY_S`; nothing is given up. Units:
seconds.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from maxq.reference.broker.membership import ha_address
from maxq.reference.broker.membership.joining import RETRY_S
from maxq.reference.broker.membership.namesrvs import Namesrvs
from maxq.reference.broker.replication.ha_link import HaPort
from maxq.reference.broker.replication.ha_slave import HaSlave
from maxq.reference.broker.replication.plain.plain_slave import PlainSlave
from maxq.reference.broker.replication.replication import Replication
from maxq.reference.broker.store.store import Store
from maxq.reference.broker.store.topics import Tables
from maxq.reference.config import BrokerConfig
from maxq.reference.host import Host
from maxq.reference.node import every
from maxq.reference.records import BrokerId, MasterEpoch, PhyOffset, Record
from maxq.reference.rpc import Connection, Pool, split_address
from maxq.reference.wire import node_headers as headers
from maxq.reference.wire.message import host as host_bytes
from maxq.reference.wire.node_headers import HaInfo

MASTER_ROLE_ID = 0
NS_PER_MS = 1_000_000

RoleName = Literal["fenced", "master", "slave"]


class CopyLink(Record):
    """One slave's connection, as its master sees it; offsets are bytes of the log."""

    address: str  # the slave's end
    acked: PhyOffset
    next: PhyOffset  # that is to be sent
    in_sync: bool


class Links(NamedTuple):
    """Who copies from a broker; and, of one that leads nobody, how itself copies."""

    slaves: tuple[CopyLink, ...]
    copying: HaSlave | PlainSlave | None


class Membership(ABC):
    """Registration and role of one broker.

    Args:
        config: the broker's settings.
        host: disk, clock, addresses.
        tables: the topics that are registered.
        pool: connections to controllers and name servers.
        store: the messages.
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
        self._namesrvs = Namesrvs(config, host, pool, tables, self, self._on_registered)
        self.address, self.ha_address = self._addresses(config.broker_ip1 or host.addresses()[0])
        self.broker_id = BrokerId(config.broker_id)  # the persistent id; -1 until known
        self.role: RoleName = "fenced"
        self.master_address = ""
        self.master_epoch = MasterEpoch(0)
        self.replication: Replication | None = None  # with controllers, once the id is known
        self.master_ha_address = ""  # of the master that is followed, as a name server says
        self._is_registered = True  # the controller knows the address
        self._former: tuple[Connection, ...] = ()  # connections from former addresses
        self.turns = 0  # how often it became another's task to serve the group's queues
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
    def acts(self) -> bool:
        """Whether this slave answers for its master, which is gone."""
        return False

    @property
    def isolated(self) -> bool:
        """Whether this broker must not be shown to anybody, nor answer for its group."""
        return False

    @property
    def returns(self) -> bool:
        """Whether name servers that have dropped this broker must not list it at once again."""
        return False

    @property
    def namesrvs(self) -> Sequence[str]:
        """The name servers that are to list this broker."""
        return self._namesrvs.addresses

    async def reach(self, namesrvs: Sequence[str]) -> None:
        """Have these name servers list this broker, and no others."""
        await self._namesrvs.reach(namesrvs)

    async def placed(self) -> None:
        """Return once every name server was asked to list this broker, and one does; or at once,
        if there are none, or if its group has to take it back before any may."""
        if self.namesrvs and not (self.isolated or self.returns):
            await self._namesrvs.listed.wait()

    async def on_dropped(self) -> None:
        """A name server lists the group without this broker, which was listed."""
        return  # and is again

    @property
    def hands_over(self) -> bool:
        """Whether a master on its way back has this broker's tables."""
        return False

    @property
    def is_ahead(self) -> bool:
        """Whether this slave may have later offsets than the broker that it follows."""
        return False

    def took_commit(self) -> None:
        """A consumer has committed an offset to this broker."""
        return  # nobody asks where a controller says who is master

    @property
    def host(self) -> bytes:
        """The address as records carry it."""
        return host_bytes(*split_address(self.address))

    def followed(self) -> str:
        """Address of the master that this broker follows; empty while it follows none."""
        return self.master_address if self.role == "slave" else ""

    # What depends on where the role comes from.

    @property
    @abstractmethod
    def in_sync_count(self) -> int:
        """Replicas that are in sync, this broker counted."""

    @property
    @abstractmethod
    def copies_needed(self) -> int:
        """How many must be in sync for a send to be taken."""

    @property
    @abstractmethod
    def knows_the_end(self) -> bool:
        """Whether this broker may say that nothing follows in a queue."""

    @abstractmethod
    def copied(self) -> PhyOffset:
        """The first byte of the log that must not be deleted."""

    @abstractmethod
    async def trim(self, start: PhyOffset) -> None:
        """Let the log begin with the file that begins at `start`. Raises OSError."""

    @abstractmethod
    def written(self) -> None:
        """The log has grown, or what is synced of it has."""

    @abstractmethod
    def when_acknowledged(
        self, end: PhyOffset, master_epoch: MasterEpoch, then: Callable[[str], None]
    ) -> None:
        """Call `then` once the replicas have the log up to `end`, with an empty string; or, when
        that is given up, with the reason. Call it in the step that appended, of `master_epoch`."""

    @abstractmethod
    async def run(self, group: asyncio.TaskGroup, ha_port: HaPort) -> None:
        """Take part in the cluster until cancelled; the HA port is bound already."""

    async def poll_master(self) -> None:
        """Ask who is master, where there is somebody to ask."""
        return  # nobody

    async def announced(self, change: headers.MinBrokerIdChange) -> None:
        """A name server says that the smallest id of the group is another one (905)."""
        return  # of no use to a broker that controllers rule

    async def offered(self, master: HaInfo) -> None:
        """A broker says that it is the group's master (906)."""
        return  # the controller names it

    def register_again(self) -> None:
        """Register with the controllers again, where there are any."""
        return  # without them there is nothing to do

    @abstractmethod
    def ha_info(self) -> HaInfo | None:
        """Where this master's HA port is, and where its log ended when it began; None if it leads
        nobody."""

    @abstractmethod
    def links(self) -> Links | None:
        """Who copies from whom; None until that is known."""

    def told(self) -> dict[str, str]:
        """What an operator is told beside the role (28)."""
        return {}

    @abstractmethod
    async def _copy_from(self, address: str) -> None:
        """Copy the log of the master whose HA port is at `address`; of nobody, if it is empty."""

    # Registration.

    async def _stay_registered(self, group: asyncio.TaskGroup) -> None:
        beat = self._config.broker_heartbeat_interval / 1000
        group.create_task(every(beat, self._look_at_address))
        await every(RETRY_S, self._namesrvs.register_where_due)

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
        elif await self._announce_address():
            self._is_registered = True
            if self.role == "master":
                self.master_address = self.address
            elif self.role == "slave":
                await self._dial_again()
            await self.register_everywhere()

    async def _announce_address(self) -> bool:
        """Tell the new address to whoever must know it first; false if that failed."""
        return True

    async def _dial_again(self) -> None:
        """Leave the connection to the master for a new one."""
        for address in ("", self._copied_from):
            await self._copy_from(address)

    async def _on_registered(self, answer: headers.RegisterBrokerResponse, asked_ns: int) -> None:
        """A name server's answer to a slave says where its master's HA port is."""
        if self.role != "slave" or answer.master_addr != self.master_address:
            return
        await self._look_for_ha(answer.ha_server_addr or "")

    async def _look_for_ha(self, said: str) -> None:
        """Take an HA address for the master's, if the master does."""
        master = self.master_address  # none, if it was left while its HA address was asked for
        if master and said and said != self.master_ha_address:
            fault = await ha_address.confirmed(self._pool, master, said)
            if fault:
                self._host.log("broker.ha.unconfirmed", master=master, said=said, why=fault)
            if fault or (self.role, self.master_address) != ("slave", master):
                return
            self.master_ha_address = said
            await self.copy()

    @property
    def _copied_from(self) -> str:
        """The HA port to dial; none before the tables are known, and the ends of the queues: a
        member of the SyncStateSet without them may be elected, and would serve no topic, or give
        offsets a second time."""
        known = self._tables.known and self._store.ends_known
        return self.master_ha_address if known else ""

    async def copy(self) -> None:
        """Copy the log of the master that is followed, if nothing is missing for that any more."""
        if self.role == "slave":
            await self._copy_from(self._copied_from)

    async def begun(self) -> None:
        """The log begins anew, above 0: ask for the ends of the queues, and copy no more before."""
        await self.copy()
        self.on_follow()

    async def register_everywhere(self) -> None:
        """Register role, address and topics with every name server; a fenced broker does not."""
        await self._namesrvs.register_everywhere()

    async def unregister(self) -> None:
        """Say goodbye on a clean stop; who never registered has nothing to say."""
        await self._namesrvs.unregister()
