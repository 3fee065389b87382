"""What a target is: how to configure and start each role of one system under test.

Both targets, our reference and Apache RocketMQ, take the same configuration keys, RocketMQ's own;
a target only adds what its own processes need.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

import msgspec

from maxq.harness.contracts.environment import DISK, Machine, Role
from maxq.harness.contracts.layouts import LayoutKind

Timing = Literal["fast", "stock"]
Profile = Literal[
    "P-SAFE", "P-ALL", "P-NUM", "P-DEFAULT", "P-UNCLEAN", "P-SYNC", "P-AUTO", "P-ASYNC", "P-SHIPPED"
]
SHIPPED: Profile = "P-SHIPPED"  # nothing but what is set one by one, in either mode
NAMESRV_PORT, CONTROLLER_PORT, BROKER_PORT = 9876, 9878, 10911
NODE_FILE = "node.conf"  # a node's settings, in its folder
CONTAINER_PORT, PORTS_APART = 10811, 10  # of brokers in one container, each of which has three


def inner_folder(data: str, broker: str) -> str:
    """Where a broker in a container has what is its own: on the machine's disk, as the store of any
    other node is; `data` is the machine's folder."""
    return f"{data}/{DISK}/{broker}"


class Topology(msgspec.Struct, frozen=True, kw_only=True):
    """How many of what. Names of machines follow: ``n0``, ``c0``, ``b0-0`` (set 0, replica 0),
    ``r0`` (a spare: a broker set of its own). Without controllers replica 0 of each set is its
    master, and the others are its slaves, for good."""

    namesrvs: int = 1
    controllers: int = 1
    broker_sets: int = 3
    replicas: int = 1
    spares: int = 0
    embedded: bool = False  # controllers are in name servers, of which there are as many at least
    learners: int = 0  # of the replicas of each set, the last ones: they copy, and are no members
    layout: LayoutKind | None = None  # of brokers in containers; None: each is alone
    guests: bool = False  # each container has one: a spare that can be added to it
    nodes: "tuple[Node, ...]" = ()  # of a cluster that runs already; the counts above are of them


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A name server, controller or broker: what it is and where it runs. It has a process and a
    machine of its own, but for the brokers of a `container`, who share them.

    `replica` is which of its set's it is: without controllers 0 is the master, for good.
    `broker_set` is RocketMQ's brokerName, empty for what is no broker. A `spare` is a broker that a
    workload owns: it is not started with the cluster, holds none of its topics, and nothing waits
    for it; no fault chooses it. One that `embeds` is a name server with a controller in it. A
    `learner` copies its master's log (asyncLearner=true) and belongs to no SyncStateSet.
    """

    name: str
    role: Role
    port: int
    broker_set: str = ""
    spare: bool = False
    embeds: bool = False
    learner: bool = False
    container: str = ""
    replica: int = 0

    @property
    def process(self) -> str:
        """The name of its process, and of its machine."""
        return self.container or self.name

    @property
    def guest(self) -> bool:
        """Whether it is a spare that its container adds and removes."""
        return self.spare and bool(self.container)

    @property
    def roles(self) -> tuple[Role, ...]:
        """All that the process is, `role` first."""
        return (self.role, Role.CONTROLLER) if self.embeds else (self.role,)

    def port_of(self, role: Role) -> int:
        """Where it answers as one of its roles."""
        return CONTROLLER_PORT if role is Role.CONTROLLER else self.port


PortClass = Literal["ha", "raft", "remoting"]


def listening(node: Node, settings: "Settings") -> dict[PortClass, frozenset[int]]:
    """Where others connect to a node. Controllers of RocketMQ that agree by DLedger do so at the
    port of their service, all others at the next one."""
    found: dict[PortClass, frozenset[int]] = {"remoting": frozenset((node.port,))}
    if node.role is Role.BROKER:
        asked = asked_of(node, Role.BROKER, settings).get("haListenPort", "")
        found["ha"] = frozenset((int(asked) if asked.isdecimal() else node.port + 1,))
        found["remoting"] |= {node.port - 2}  # what RocketMQ calls the fast port
    if Role.CONTROLLER in node.roles:
        found["remoting"] |= {CONTROLLER_PORT}
        found["raft"] = frozenset((CONTROLLER_PORT, CONTROLLER_PORT + 1))
    return found


class Container(msgspec.Struct, frozen=True, kw_only=True):
    """A process with several brokers (RIP-31), and its machine."""

    name: str
    brokers: tuple[str, ...]
    port: int = CONTAINER_PORT


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What is the same for a whole cluster.

    With `sync_flush` brokers sync before they answer (flushDiskType=SYNC_FLUSH), which they must
    where power is lost: RocketMQ's ASYNC_FLUSH, its default, promises nothing then. With `by_name`
    controllers and name servers are configured by the names of their machines, which every machine
    resolves by its hosts file, so that their addresses can change. `lock_lease_ms` is how long a
    broker keeps a queue's lock for a silent client. `keys` are more settings: role and
    RocketMQ's name for it, ``broker:flushDiskType``, to value. `topic_attributes` are those that
    each topic is made with, as ``+message.type=NORMAL``. `alone` is how a cluster begins before it
    has controllers: of each broker set the first replica runs as a master that no controller knows;
    the other replicas and the controllers are not started until an act does it.
    """

    topology: Topology
    profile: Profile = "P-ALL"
    timing: Timing = "fast"
    cluster: str = "maxq"
    seed: int = 0
    mutant: str = ""
    sync_flush: bool = False
    by_name: bool = False
    lock_lease_ms: int = 60_000
    keys: dict[str, str] = {}
    topic_attributes: str = ""
    alone: bool = False


def asked_of(node: "Node", role: Role, settings: Settings) -> dict[str, str]:
    """The settings that were asked for of a node in one of its roles; what was set for it by name
    comes last. That brokers sync is one of them, whether a fault asks for it or a key: a run and
    its replay, which has the key, must ask their nodes the same."""
    syncs = role is Role.BROKER and settings.sync_flush
    found: dict[str, str] = {"flushDiskType": "SYNC_FLUSH"} if syncs else {}
    for prefix in (f"{role.value}:", f"{node.name}:"):
        found |= {
            k.removeprefix(prefix): v for k, v in settings.keys.items() if k.startswith(prefix)
        }
    return found


class Target(Protocol):
    """Configures and starts nodes."""

    @property
    def name(self) -> str: ...

    def ends_with(self, node: Node) -> int:
        """The exit code of a node that was asked to end."""
        ...

    @property
    def patience(self) -> int:
        """How many times as long as our reference its nodes need to be back after a fault; so much
        longer faults of `maxq test` leave it alone, or it would hardly ever be whole."""
        ...

    @property
    def layer(self) -> str:
        """What its machines have in docker beside what all have, a folder of `docker`; empty:
        nothing."""
        ...

    def folders(self) -> Sequence[Path]:
        """Folders of this machine that nodes read, at the same paths on theirs."""
        ...

    def follows_address(self, node: Node) -> bool:
        """Whether a running node goes with its machine to another address. If not, a change
        of its address restarts it."""
        ...

    def answers_as(self, node: Node) -> int:
        """The number of the version that a node's answers have in their headers (RocketMQ's
        MQVersion)."""
        ...

    def prepare(self) -> dict[str, str]:
        """Have on this machine what nodes are started from, before anything of a run is there.
        Returns of what release each component is; empty where it is this program.

        Raises:
            EnvironmentUnavailable: it cannot be had; says what helps.
        """
        ...

    def config(self, node: Node, settings: Settings, addresses: dict[str, str], data: str) -> str:
        """The node's properties file. `addresses` maps machine names to IPv4 addresses; `data` is
        the node's folder on its machine."""
        ...

    def argv(self, node: Node, settings: Settings, config_path: str) -> Sequence[str]:
        """The command that runs the node in the foreground."""
        ...

    async def install(self, machine: Machine) -> None:
        """Put on the machine what `argv` needs beside the configuration."""
        ...


@runtime_checkable
class Containing(Protocol):
    """A target that can have several brokers in one process."""

    def container(
        self, container: Container, settings: Settings, addresses: dict[str, str], data: str
    ) -> str:
        """The properties file of a container, whose brokers have theirs in folders of their names
        below `data`.
        """
        ...

    def container_argv(
        self, container: Container, settings: Settings, config_path: str
    ) -> Sequence[str]:
        """The command that runs a container in the foreground."""
        ...


def containing(target: Target) -> Containing:
    """The same target.

    Raises:
        ValueError: it has no containers.
    """
    if not isinstance(target, Containing):
        raise ValueError(f"{target.name} has no containers")
    return target


@lru_cache(64)
def plan(topology: Topology) -> tuple[Node, ...]:
    """Lay out the nodes of a topology in the order in which they start."""
    if topology.nodes:
        return topology.nodes
    inside = topology.controllers if topology.embedded else 0
    nodes = [
        Node(name=f"n{i}", role=Role.NAMESRV, port=NAMESRV_PORT, embeds=i < inside)
        for i in range(max(topology.namesrvs, inside))
    ]
    nodes += [
        Node(name=f"c{i}", role=Role.CONTROLLER, port=CONTROLLER_PORT)
        for i in range(topology.controllers - inside)
    ]
    beside: Counter[str] = Counter()
    for s in range(topology.broker_sets):
        for r in range(topology.replicas):
            container = topology.layout.container_of(s, r) if topology.layout else ""
            nodes.append(Node(
                name=f"b{s}-{r}",
                role=Role.BROKER,
                port=BROKER_PORT + (PORTS_APART * beside[container] if container else 0),
                broker_set=f"b{s}",
                learner=r >= topology.replicas - topology.learners,
                container=container,
                replica=r,
            ))  # fmt: skip
            beside[container] += 1
    nodes += [
        Node(
            name=f"g{i}", role=Role.BROKER, port=BROKER_PORT + PORTS_APART * beside[container],
            broker_set=f"g{i}", spare=True, container=container,
        )
        for i, container in enumerate(sorted(filter(None, beside)) if topology.guests else ())
    ]  # fmt: skip
    nodes += [
        Node(name=f"r{i}", role=Role.BROKER, port=BROKER_PORT, broker_set=f"r{i}", spare=True)
        for i in range(topology.spares)
    ]
    return tuple(nodes)


def spoken(nodes: Collection[Node]) -> str:
    """How many nodes there are, and in how many processes, in words."""
    processes = len({node.process for node in nodes})
    return f"{len(nodes)} nodes" + (f" in {processes} processes" if processes < len(nodes) else "")


def containers(nodes: Iterable[Node]) -> tuple[Container, ...]:
    """The containers of some nodes, in order, with the brokers that they are started with."""
    brokers: dict[str, list[str]] = {}
    for node in nodes:
        if node.container and not node.spare:
            brokers.setdefault(node.container, []).append(node.name)
    return tuple(Container(name=name, brokers=tuple(of)) for name, of in sorted(brokers.items()))
