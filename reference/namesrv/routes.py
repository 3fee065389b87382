"""Route tables: which brokers live where, and which topics they serve. Pure.

Rules are those of RocketMQ's ``RouteInfoManager`` (docs/spec/remoting.md 4.2): the
topics of a broker name come from its master, or from its smallest id where brokers say that they
know acting masters; a stale master, by the epoch in its data version, cannot displace a newer one.
Two things differ from Java's: a refused first registration leaves nothing behind (not an empty
group), and a table of one topic, which is an update, never removes the other topics. Times are ns
of this node's monotonic clock.
"""

from dataclasses import dataclass, field

from maxq.reference.namesrv.queues import Queues
from maxq.reference.records import Record
from maxq.reference.wire.route import (
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
    zone: str | None = None
    only_these_topics: bool = False  # deleteTopicWithBrokerRegistration


class Refused(Record):
    """A registration that is not taken; RocketMQ's remark."""

    remark: str


class Master(Record):
    """What a slave learns from its registration; both empty where there is no master."""

    address: str = ""
    ha_address: str = ""


class MinIdChanged(Record):
    """The smallest id of a group is another one: what to send to whom (905)."""

    to: tuple[str, ...]
    broker_id: int
    address: str
    offline_address: str | None = None  # of the old smallest id, where it is gone
    ha_address: str | None = None  # of the new one, where it came


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
    zone: str | None = None


class Routes:
    """The tables of one name server."""

    def __init__(self) -> None:
        self.groups: dict[str, Group] = {}
        self.live: dict[str, Live] = {}
        self.queues = Queues()
        self._changed_mins: list[MinIdChanged] = []

    # Changes.

    def register(self, now_ns: int, r: Registration) -> Master | Refused:
        """Take a registration, or say why not; answers the master to a slave."""
        group = self.groups.get(r.broker_name) or Group(r.cluster)
        before = group.addresses.get(r.broker_id)
        if before is not None and before != r.address and self._is_newer(before, r):
            # A stale master is answered as if nothing was known; it is no slave any more either.
            _drop(group, r.address)
            self.live.pop(r.address, None)
            return Master()
        if before is None and len(r.topics) == 1:
            return Refused(remark="register broker failed")  # an update before any full table
        self.groups[r.broker_name] = group
        smallest = min(group.addresses, default=MASTER_ID)
        _drop(group, r.address)
        changed = before is None or self._changed(r)
        group.addresses[r.broker_id] = r.address
        group.acting_master, group.zone = bool(r.acting_master), r.zone
        self.live[r.address] = Live(now_ns, r.timeout_ms, r.data_version, r.ha_address)
        prime = r.acting_master is not None and r.broker_id == min(group.addresses)
        if r.broker_id == MASTER_ID or prime:
            self._take_topics(r, replace=changed)
        if r.broker_id < smallest:
            self._note(group, ha_address=r.ha_address)
        master = group.addresses.get(MASTER_ID)
        if r.broker_id == MASTER_ID or master is None or master not in self.live:
            return Master()
        return Master(address=master, ha_address=self.live[master].ha_address)

    def _is_newer(self, address: str, r: Registration) -> bool:
        known = self.live.get(address)
        return known is not None and (
            known.data_version.state_version > r.data_version.state_version
        )

    def _changed(self, r: Registration) -> bool:
        known = self.live.get(r.address)
        return known is None or known.data_version != r.data_version

    def _take_topics(self, r: Registration, *, replace: bool) -> None:
        if r.only_these_topics and len(r.topics) != 1:
            self.queues.drop(r.broker_name, keep=r.topics)
        # Who acts for an absent master is read from, never written to.
        keep = ~PERM_WRITE if r.broker_id != MASTER_ID and r.acting_master else ~0
        self.queues.take(r.broker_name, r.topics, replace=replace, keep=keep)

    def heard(self, now_ns: int, address: str) -> None:
        """A broker showed that it lives, without registering."""
        if address in self.live:
            self.live[address].heard_ns = now_ns

    def unregister(self, broker_name: str, address: str) -> None:
        """Forget an address; the last one takes its broker name and queues along."""
        self.live.pop(address, None)
        group = self.groups.get(broker_name)
        if group is None or address not in group.addresses.values():
            return
        smallest = min(group.addresses)
        _drop(group, address)
        if not group.addresses:
            del self.groups[broker_name]
            self.queues.drop(broker_name)
            return
        if group.acting_master:
            if MASTER_ID not in group.addresses:
                self.queues.wipe_write(broker_name)
            if smallest not in group.addresses:
                self._note(group, offline_address=address)

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

    def register_topic(self, topic: str, queues: tuple[QueueData, ...]) -> None:
        """Set a topic's queues as asked (217); nothing where any broker name is unknown."""
        if all(q.broker_name in self.groups for q in queues):
            self.queues.put(topic, queues)

    def delete_topic(self, topic: str, cluster: str | None) -> None:
        """Forget a topic (216), everywhere or in one cluster."""
        self.queues.delete(topic, None if cluster is None else self._names(cluster))

    def _note(
        self, group: Group, *, offline_address: str | None = None, ha_address: str | None = None
    ) -> None:
        smallest = min(group.addresses)
        # Who has just come as the smallest knows it, unless no other is there to be notified.
        knows = offline_address is None and len(group.addresses) > 1
        recipients = tuple(
            group.addresses[i] for i in sorted(group.addresses) if not (knows and i == smallest)
        )
        self._changed_mins.append(
            MinIdChanged(
                to=recipients,
                broker_id=smallest,
                address=group.addresses[smallest],
                offline_address=offline_address,
                ha_address=ha_address,
            )
        )

    def take_notices(self) -> list[MinIdChanged]:
        """What has changed since the last call, in order."""
        notices, self._changed_mins = self._changed_mins, []
        return notices

    # Questions.

    def has(self, broker_name: str, address: str) -> bool:
        """Whether an address is registered under a name."""
        group = self.groups.get(broker_name)
        return group is not None and address in group.addresses.values()

    def version(self, address: str) -> DataVersion | None:
        """The data version that an address registered last."""
        known = self.live.get(address)
        return None if known is None else known.data_version

    def route(self, topic: str) -> TopicRouteData | None:
        """Where a topic is served; None if nowhere."""
        queues = [q for q in self.queues.of(topic) if q.broker_name in self.groups]
        if not queues:
            return None
        return TopicRouteData(
            broker_datas=tuple(self._data(q.broker_name) for q in queues),
            queue_datas=tuple(queues),
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
        return self.queues.topics()

    def topics_in(self, cluster: str) -> tuple[str, ...]:
        """Topics that some broker of a cluster serves."""
        return self.queues.topics_of(self._names(cluster))

    def system_names(self) -> tuple[tuple[str, ...], str | None]:
        """Names of clusters and brokers, each a topic of its own, and the address of any broker."""
        if not self.groups:
            return (), None
        clusters = {g.cluster for g in self.groups.values()}
        addresses = self.groups[min(self.groups)].addresses
        return tuple(sorted(clusters | self.groups.keys())), addresses[min(addresses)]

    def _names(self, cluster: str) -> list[str]:
        return [n for n, g in self.groups.items() if g.cluster == cluster]

    def _data(self, name: str) -> BrokerData:
        group = self.groups[name]
        return BrokerData(
            broker_addrs=dict(sorted(group.addresses.items())),
            broker_name=name,
            cluster=group.cluster,
            enable_acting_master=group.acting_master,
            zone_name=group.zone,
        )


def _drop(group: Group, address: str) -> None:
    """An address has one id of a name: forget what it had."""
    for broker_id in [i for i, a in group.addresses.items() if a == address]:
        del group.addresses[broker_id]
