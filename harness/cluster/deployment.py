"""A deployed cluster: its life from nothing to stopped, and what faults and workloads see of it.

A `Cluster` for every environment and target. Its parts fulfil the contracts that it offers:
`maxq.harness.cluster.processes` (processes and the proofs of what was done to them),
`maxq.harness.cluster.network` (cuts and addresses), `maxq.harness.cluster.ways` (slow and lossy
ways), `maxq.harness.cluster.resets` (connections that end), `maxq.harness.cluster.aging` (logs that
get old), `maxq.harness.cluster.machines` (clocks, disks), `maxq.harness.cluster.filling`
(partitions that fill up),
`maxq.harness.cluster.releases` (what nodes are started as), `maxq.harness.cluster.queries` (what it
says of itself, and orders to its controllers), `maxq.harness.cluster.topics` (topics of a run),
`maxq.harness.cluster.permissions` (who may write to them), `maxq.harness.cluster.hosting` (brokers
that containers add and remove).
Spares have machines and can be started, ended, wiped and
given other addresses, and are in no other way part of the cluster.
"""

from collections.abc import AsyncIterator, Collection, Sequence
from typing import Any, TypeVar

from maxq.harness.client.probes import until
from maxq.harness.cluster.aging import Ages
from maxq.harness.cluster.filling import Filling
from maxq.harness.cluster.hosting import Hosting
from maxq.harness.cluster.machines import Hardware
from maxq.harness.cluster.network import Links
from maxq.harness.cluster.permissions import Permissions
from maxq.harness.cluster.processes import NODE_LOG, START_TIMEOUT_S, Nodes
from maxq.harness.cluster.queries import Inquiry, SetupFailed
from maxq.harness.cluster.releases import Releases
from maxq.harness.cluster.resets import Resets
from maxq.harness.cluster.topics import Topics
from maxq.harness.cluster.ways.delays import Delays
from maxq.harness.cluster.ways.packet_loss import Losses
from maxq.harness.cluster.ways.ways import Ways
from maxq.harness.contracts.cluster import Part
from maxq.harness.contracts.environment import Environment, MachineSpec, MissingCapability, Role
from maxq.harness.contracts.target import Node, Settings, Target
from maxq.harness.targets.reference import routeless_ms
from maxq.reference.rpc import Dial

T = TypeVar("T")

__all__ = ["Deployment", "SetupFailed", "until"]


class Deployment:
    """The nodes of one run.

    Args:
        environment: where they run; `up` brings it up, whoever made it brings it down.
        target: what they are.
        settings: how they are set up.
        nodes: the same as processes; None: those of the settings, to be started.
    """

    def __init__(
        self,
        environment: Environment,
        target: Target,
        settings: Settings,
        nodes: Nodes | None = None,
    ) -> None:
        self.settings = settings
        self._environment = environment
        self.processes = nodes or Nodes(environment, target, settings)
        ways = Ways(environment, self.processes)
        self.links = Links(environment, self.processes, ways, by_name=settings.by_name)
        self.losses = Losses(self.processes, ways)
        self.resets = Resets(self.processes, self.links, ways)
        self.delays = Delays(self.processes, ways)
        self.machines = Hardware(environment, self.processes)
        self.ages = Ages(self.processes)
        self.filling = Filling(environment, self.processes)
        self.releases = Releases(environment, self.processes, target, settings)
        self.queries = Inquiry(environment, self.processes, settings.cluster)
        self.hosting = Hosting(environment, self.processes, self.releases, settings.cluster)
        route_s = START_TIMEOUT_S + routeless_ms(settings) / 1000
        self._topics = Topics(environment, self.processes, self.queries, route_s)
        self.permissions = Permissions(environment, self.processes, self._topics.made)

    # Life.

    async def up(self) -> None:
        """Make the machines and start every node but the spares, in order.

        Raises:
            SetupFailed: a node does not start, no master appears, or not all replicas join.
            EnvironmentUnavailable: this host cannot.
        """
        await self._environment.up(
            [
                MachineSpec(name=name, ports=self.processes.ports(name))
                for name in self.processes.processes
            ]
        )
        await self.links.name_machines()
        for node in self.nodes:
            await self.releases.equip(node.name, first=True)
        for role in (Role.NAMESRV, Role.CONTROLLER, Role.BROKER):
            own = [n for n in self.nodes if n.role is role and not n.spare and self._begins(n)]
            await self._start_all(own)
        if not await until(self._ready, START_TIMEOUT_S):
            lacking = "a name server that knows it"
            if not self.settings.alone:
                lacking = "a master and all its replicas in the SyncStateSet"
                if not self.settings.topology.controllers:
                    lacking = "its master, and all slaves that copy from it"
            why = f"not every broker set has {lacking} after {START_TIMEOUT_S:.0f} s"
            for node_name, code in (await self.processes.crashed()).items():
                why += f"; {await self.processes.told(node_name, f'ended with code {code}')}"
            raise SetupFailed(why)

    def _begins(self, node: Node) -> bool:
        """Whether a node is started with the cluster."""
        if not self.settings.alone:
            return True
        first = next(n for n in self.nodes if n.broker_set == node.broker_set)
        return Role.CONTROLLER not in node.roles and node == first

    async def _ready(self) -> bool:
        """Whether a run can begin: its first fault must not hit a cluster that never was whole."""
        if self.settings.alone:
            return await self.queries.registered()
        return await self.queries.recovered() and await self.queries.whole()

    async def _start_all(self, nodes: Sequence[Node]) -> None:
        for process in dict.fromkeys(node.process for node in nodes):
            await self.processes.spawn(self.processes.on(process)[0])
        for node in nodes:
            proof = await self.processes.start(node.name)
            if not proof.holds:
                what = f"did not start ({_ended(proof.seen)})"
                raise SetupFailed(await self.processes.told(node.name, what))

    async def stop_all(self) -> list[str]:
        """Stop every node cleanly; kills those that do not stop, and returns their names."""
        return await self.processes.stop_all()

    async def look(self) -> dict[str, Any]:
        """What has become of every node that should run (`Nodes.look`)."""
        return await self.processes.look()

    async def collect(self) -> AsyncIterator[tuple[str, str, bytes]]:
        """Every process's log, and the configuration and store of its nodes, one file at a time:
        process, path, content."""
        for process in self.processes.processes:
            machine = self.processes.machine(process)
            for path in dict.fromkeys([*await machine.files(machine.data_dir), NODE_LOG]):
                data = await machine.get(f"{machine.data_dir}/{path}")
                if data is not None:
                    yield process, path, data

    # Who is there.

    @property
    def nodes(self) -> Sequence[Node]:
        return self.processes.all

    def by_role(self, role: Role) -> Sequence[Node]:
        return self.queries.by_role(role)

    def address(self, node: str, role: Role | None = None) -> str:
        return self.processes.address(node, role)

    def namesrvs(self) -> Sequence[str]:
        return self.queries.addresses(Role.NAMESRV)

    def resolve(self, address: str) -> str:
        return self.processes.resolve(address)

    def controllers(self) -> Sequence[str]:
        return self.queries.addresses(Role.CONTROLLER)

    @property
    def dial(self) -> Dial:
        return self._environment.dial

    @property
    def observer_dial(self) -> Dial:
        return self._environment.observer_dial

    async def playing(self, part: Part) -> Sequence[str]:
        return await self.queries.playing(part)

    async def recovered(self) -> bool:
        """Whether every name server knows a master of every broker set that answers."""
        return await self.queries.recovered()

    async def mutants(self) -> dict[str, str]:
        """The seeded bug that each broker says it has; empty for none."""
        return await self.queries.mutants()

    async def otherwise(self) -> dict[str, dict[str, str]]:
        """Which settings that were asked for each node says it has otherwise."""
        return await self.queries.otherwise(self.settings)

    async def create_topics(
        self, topics: dict[str, int], alone: Collection[str] = (), groups: Collection[str] = ()
    ) -> dict[str, Any]:
        """Create topics on every broker, those that are `alone` only on the first broker set, and
        wait until every name server routes to them; consumer `groups` as well. Which slaves lack
        one (`Topics.create`).

        Raises:
            SetupFailed: a master refuses, or routes do not appear.
        """
        return await self._topics.create(topics, self.settings.topic_attributes, alone, groups)

    # What can be done to them.

    def offers(self, contract: type[T]) -> T:
        """The part that fulfils a contract (`maxq.harness.contracts.cluster`).

        Raises:
            MissingCapability: none does.
        """
        parts = (self.processes, self.ages, self.releases, self.links, self.losses, self.resets)
        for part in (
            *parts,
            self.delays,
            self.filling,
            self.machines,
            self.permissions,
            self.hosting,
            self.queries,
        ):
            if isinstance(part, contract):
                return part
        raise MissingCapability(f"{self._environment.name} offers nothing {contract.__name__}")


def _ended(seen: dict[str, Any]) -> str:
    """How a process is that did not start, in words."""
    code = seen.get("code")
    if code is None:
        return f"it runs, and its port is {seen.get('port')} after {START_TIMEOUT_S:.0f} s"
    return f"it ended with code {code}"
