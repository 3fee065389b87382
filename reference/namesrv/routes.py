"""Route tables: which brokers live where, and which topics they serve. Pure.

Rules are those of RocketMQ's ``RouteInfoManager`` (``spec`` of the remoting protocol, 4.2): the
topics of a broker name come from its master, or from its smallest id where brokers say that they
know acting masters; a stale master, by the epoch in its data version, cannot displace a newer one.
Times are ns of this node's monotonic clock.
"""

from dataclasses import dataclass, field

from reference.records import Record
from reference.wire.route import (
    MASTER_ID,
    PERM_WRITE,
    BrokerData,
    BrokerMemberGroup,
    ClusterInfo,
    DataVersion,
    QueueData,
    TopicConfig,
    TopicRouteData,
)

EXPIRY_MS = 120_000  # where a registration names none


class Registration(Record):
    """What a broker said of itself (request 103)."""

    cluster: str
    broker_name: str
    broker_id: int
    address: str
    ha_address: str
    data_version: DataVersion
    topics: dict[str, TopicConfig]
    timeout_ms: int = EXPIRY_MS
    acting_master: bool | None = None  # None: a broker from before acting masters


class Refused(Record):
    """A registration that is not taken; RocketMQ's remark."""

    remark: str


class Master(Record):
    """What a slave learns from its registration; both empty where there is no master."""

    address: str = ""
    ha_address: str = ""


@dataclass(slots=True)
class Live:
    """A registered address that was heard of."""

    heard_ns: int
    timeout_ms: int
    data_version: DataVersion
    ha_address: str


@dataclass(slots=True)
class Group:
    """All brokers of one name."""

    cluster: str
    addresses: dict[int, str] = field(default_factory=dict)
    acting_master: bool = False


class Routes:
    """The tables of one name server."""

    def __init__(self) -> None:
        self.groups: dict[str, Group] = {}
        self.live: dict[str, Live] = {}
        self._queues: dict[str, dict[str, QueueData]] = {}  # topic -> broker name

    def register(self, now_ns: int, r: Registration) -> Master | Refused:
        """Take a registration, or say why not; answers the master to a slave."""
        group = self.groups.get(r.broker_name)
        if group is None:
            group = Group(r.cluster)
        before = group.addresses.get(r.broker_id)
        if before is not None and before != r.address and self._is_newer(before, r):
            return Master()  # a stale master: answered as if nothing was known
        if before is None and len(r.topics) == 1:
            return Refused(remark="register broker failed")  # an update before any full table
        self.groups[r.broker_name] = group
        for other in [i for i, a in group.addresses.items() if a == r.address]:
            del group.addresses[other]
        changed = before is None or self._changed(r)
        group.addresses[r.broker_id] = r.address
        group.acting_master = bool(r.acting_master)
        self.live[r.address] = Live(now_ns, r.timeout_ms, r.data_version, r.ha_address)
        prime = r.acting_master is not None and r.broker_id == min(group.addresses)
        if r.broker_id == MASTER_ID or prime:
            # Who acts for an absent master is read from, never written to.
            keep = ~PERM_WRITE if r.broker_id != MASTER_ID and r.acting_master else ~0
            self._take_topics(r, all_of_them=changed, keep=keep)
        master = group.addresses.get(MASTER_ID)
        if r.broker_id == MASTER_ID or master is None or master not in self.live:
            return Master()
        return Master(address=master, ha_address=self.live[master].ha_address)

    def has(self, broker_name: str, address: str) -> bool:
        """Whether an address is registered under a name."""
        group = self.groups.get(broker_name)
        return group is not None and address in group.addresses.values()

    def _is_newer(self, address: str, r: Registration) -> bool:
        known = self.live.get(address)
        return known is not None and (
            known.data_version.state_version > r.data_version.state_version
        )

    def _changed(self, r: Registration) -> bool:
        known = self.live.get(r.address)
        return known is None or known.data_version != r.data_version

    def _take_topics(self, r: Registration, *, all_of_them: bool, keep: int) -> None:
        for name, topic in r.topics.items():
            queues = self._queues.setdefault(name, {})
            if all_of_them or r.broker_name not in queues:
                queues[r.broker_name] = QueueData(
                    broker_name=r.broker_name,
                    perm=topic.perm & keep,
                    read_queue_nums=topic.read_queue_nums,
                    topic_sys_flag=topic.topic_sys_flag,
                    write_queue_nums=topic.write_queue_nums,
                )

    def heard(self, now_ns: int, address: str) -> None:
        """A broker showed that it lives, without registering."""
        if address in self.live:
            self.live[address].heard_ns = now_ns

    def version(self, address: str) -> DataVersion | None:
        """The data version that an address registered last."""
        known = self.live.get(address)
        return None if known is None else known.data_version

    def unregister(self, broker_name: str, address: str) -> None:
        """Forget an address; the last one takes its broker name and queues along."""
        self.live.pop(address, None)
        group = self.groups.get(broker_name)
        if group is None:
            return
        for broker_id in [i for i, a in group.addresses.items() if a == address]:
            del group.addresses[broker_id]
        if not group.addresses:
            del self.groups[broker_name]
            for topic in list(self._queues):
                self._queues[topic].pop(broker_name, None)
                if not self._queues[topic]:
                    del self._queues[topic]

    def expire(self, now_ns: int) -> list[str]:
        """Forget every address that was silent for too long; return them."""
        gone = [a for a, live in self.live.items()
                if now_ns - live.heard_ns > live.timeout_ms * 1_000_000]  # fmt: skip
        for address in gone:
            self.forget(address)
        return gone

    def forget(self, address: str) -> None:
        """Unregister an address under whatever names it has."""
        for name in [n for n, g in self.groups.items() if address in g.addresses.values()]:
            self.unregister(name, address)
        self.live.pop(address, None)

    def route(self, topic: str) -> TopicRouteData | None:
        """Where a topic is served; None if nowhere."""
        queues = self._queues.get(topic)
        if not queues:
            return None
        names = sorted(queues)
        return TopicRouteData(
            broker_datas=tuple(self._data(n) for n in names if n in self.groups),
            queue_datas=tuple(queues[n] for n in names),
        )

    def cluster_info(self) -> ClusterInfo:
        """All brokers by name, and their names by cluster."""
        names = sorted(self.groups)
        clusters: dict[str, tuple[str, ...]] = {}
        for name in names:
            cluster = self.groups[name].cluster
            clusters[cluster] = (*clusters.get(cluster, ()), name)
        return ClusterInfo(
            broker_addr_table={n: self._data(n) for n in names}, cluster_addr_table=clusters
        )

    def member_group(self, broker_name: str) -> BrokerMemberGroup | None:
        group = self.groups.get(broker_name)
        if group is None:
            return None
        return BrokerMemberGroup(
            broker_addrs=dict(sorted(group.addresses.items())),
            broker_name=broker_name,
            cluster=group.cluster,
        )

    def topics(self) -> tuple[str, ...]:
        return tuple(sorted(self._queues))

    def _data(self, name: str) -> BrokerData:
        group = self.groups[name]
        return BrokerData(
            broker_addrs=dict(sorted(group.addresses.items())),
            broker_name=name,
            cluster=group.cluster,
            enable_acting_master=group.acting_master,
        )
