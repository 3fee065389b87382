"""A deployed cluster: its life from nothing to stopped, and what faults and workloads see of it.

Implements `ClusterView` for every environment and target. The parts: `harness.cluster.processes`
(processes and the proofs of what was done to them), `harness.cluster.network` (cuts and addresses),
`harness.cluster.machines` (clocks, disks, slow ways), `harness.cluster.queries` (what it says of
itself). Spares have machines and can be started, ended, moved and wiped, and are in no other way
part of the cluster.
"""

from collections.abc import AsyncIterator, Mapping, Sequence, Set
from typing import Any

from harness.client.probes import until
from harness.cluster.machines import Hardware
from harness.cluster.network import CUT_PROBE_TIMEOUT_S, Links
from harness.cluster.processes import NODE_LOG, START_TIMEOUT_S, Nodes
from harness.cluster.queries import ELECT_TIMEOUT_S, Inquiry, SetupFailed
from harness.contracts.cluster import Grudge, Part, Proof
from harness.contracts.environment import Environment, MachineSpec, Role
from harness.contracts.target import Node, Settings, Target
from reference.rpc import Dial

__all__ = ["Deployment", "SetupFailed", "until"]


class Deployment:
    """The nodes of one run.

    Args:
        environment: where they run; `up` brings it up, whoever made it brings it down.
        target: what they are.
        settings: how they are set up.
    """

    def __init__(self, environment: Environment, target: Target, settings: Settings) -> None:
        self.settings = settings
        self._environment = environment
        self._target = target
        self._nodes = Nodes(environment, target, settings)
        self._links = Links(environment, self._nodes, by_name=settings.by_name)
        self._hardware = Hardware(environment, self._nodes)
        self._inquiry = Inquiry(environment, self._nodes, settings.cluster)

    # Life.

    async def up(self) -> None:
        """Make the machines and start every node but the spares, in order.

        Raises:
            SetupFailed: a node does not start, no master appears, or not all replicas join.
            EnvironmentUnavailable: this host cannot.
        """
        await self._environment.up([MachineSpec(name=n.name) for n in self.nodes])
        await self._links.name_machines()
        addresses = {n.name: self._nodes.machine(n.name).address for n in self.nodes}
        for node in self.nodes:
            machine = self._nodes.machine(node.name)
            await self._target.install(machine)
            config = self._target.config(node, self.settings, addresses, machine.data_dir)
            await machine.put(self._nodes.config_path(node.name), config.encode())
        for role in (Role.NAMESRV, Role.CONTROLLER, Role.BROKER):
            await self._start_all(self.by_role(role))
        if not await until(self._ready, START_TIMEOUT_S):
            why = (
                "not every broker set has a master and all its replicas in the SyncStateSet after "
                f"{START_TIMEOUT_S:.0f} s"
            )
            for node_name, code in (await self.crashed()).items():
                why += f"; {await self._nodes.told(node_name, f'ended with code {code}')}"
            raise SetupFailed(why)

    async def _ready(self) -> bool:
        """Whether a run can begin: its first fault must not hit a cluster that never was whole."""
        return await self._inquiry.recovered() and await self._inquiry.whole()

    async def _start_all(self, nodes: Sequence[Node]) -> None:
        for node in nodes:
            await self._nodes.spawn(node.name)
        for node in nodes:
            proof = await self.start(node.name)
            if not proof.holds:
                what = f"did not start: {proof.seen}"
                raise SetupFailed(await self._nodes.told(node.name, what))

    async def stop_all(self) -> list[str]:
        """Stop every node cleanly; kills those that do not stop, and returns their names."""
        return await self._nodes.stop_all()

    async def crashed(self) -> dict[str, int]:
        """Nodes that should run and have ended by themselves, with their exit codes."""
        return await self._nodes.crashed()

    async def look(self) -> dict[str, Any]:
        """What has become of every node that should run (`Nodes.look`)."""
        return await self._nodes.look()

    async def collect(self) -> AsyncIterator[tuple[str, str, bytes]]:
        """Every node's log, configuration and store, one file at a time: node, path, content."""
        for node in self.nodes:
            machine = self._nodes.machine(node.name)
            for path in dict.fromkeys([*await machine.files(machine.data_dir), NODE_LOG]):
                data = await machine.get(f"{machine.data_dir}/{path}")
                if data is not None:
                    yield node.name, path, data

    # Who is there.

    @property
    def patience(self) -> int:
        """As the target's."""
        return self._target.patience

    @property
    def nodes(self) -> Sequence[Node]:
        return self._nodes.all

    def by_role(self, role: Role) -> Sequence[Node]:
        return self._inquiry.by_role(role)

    def address(self, node: str) -> str:
        return self._nodes.address(node)

    def namesrvs(self) -> Sequence[str]:
        return self._inquiry.addresses(Role.NAMESRV)

    def resolve(self, address: str) -> str:
        return self._nodes.resolve(address)

    def controllers(self) -> Sequence[str]:
        return self._inquiry.addresses(Role.CONTROLLER)

    @property
    def dial(self) -> Dial:
        return self._environment.dial

    @property
    def observer_dial(self) -> Dial:
        return self._environment.observer_dial

    async def identity(self, node: str) -> int | None:
        return await self._nodes.identity(node)

    async def stored(self, node: str, folder: str) -> Mapping[str, bytes]:
        return await self._nodes.stored(node, folder)

    async def playing(self, part: Part) -> Sequence[str]:
        return await self._inquiry.playing(part)

    async def recovered(self) -> bool:
        """Whether every name server knows a master of every broker set that answers."""
        return await self._inquiry.recovered()

    async def level(self) -> bool:
        """Whether all replicas of every set are there, have logs of the same length, and are in
        the SyncStateSet."""
        return await self._inquiry.level() and await self._inquiry.whole()

    async def mutants(self) -> dict[str, str]:
        """The seeded bug that each broker says it has; empty for none."""
        return await self._inquiry.mutants()

    async def create_topics(self, topics: dict[str, int]) -> None:
        """Create topics on every broker, and wait until every name server routes to them.

        Raises:
            SetupFailed: a master refuses, or routes do not appear.
        """
        await self._inquiry.create_topics(topics, self.settings.topic_attributes)

    # What is done to nodes.

    def running(self, node: str) -> bool:
        return self._nodes.running(node)

    def paused(self, node: str) -> bool:
        return self._nodes.paused(node)

    def excused(self, node: str) -> bool:
        return self._nodes.excused(node)

    def ailments(self, node: str) -> Set[str]:
        return self._hardware.ailments(node)

    async def kill(self, node: str) -> Proof:
        return await self._nodes.kill(node)

    async def power_loss(self, node: str) -> Proof:
        return await self._nodes.power_loss(node)

    async def start(self, node: str) -> Proof:
        return await self._nodes.start(node)

    async def stop(self, node: str) -> Proof:
        return await self._nodes.stop(node)

    async def pause(self, node: str) -> Proof:
        return await self._nodes.pause(node)

    async def resume(self, node: str) -> Proof:
        return await self._nodes.resume(node)

    async def wipe(self, node: str) -> Proof:
        return await self._nodes.wipe(node)

    # What is done to links.

    async def change_ip(self, node: str, *, restart: bool) -> Proof:
        return await self._links.change_ip(node, restart=restart)

    async def restore_ip(self, node: str, *, restart: bool) -> Proof:
        return await self._links.restore_ip(node, restart=restart)

    async def cut(
        self,
        grudge: Grudge,
        *,
        reset: bool = False,
        name: str = "",
        patience_s: float = CUT_PROBE_TIMEOUT_S,
    ) -> Mapping[str, Proof]:
        return await self._links.cut(grudge, reset=reset, name=name, patience_s=patience_s)

    async def heal(self, *, name: str | None = None) -> Mapping[str, Proof]:
        return await self._links.heal(name=name)

    # What is done to machines.

    async def bump_clock(self, node: str, *, offset_ms: int, drift_ppm: int) -> Proof:
        return await self._hardware.bump_clock(node, offset_ms=offset_ms, drift_ppm=drift_ppm)

    async def reset_clock(self, node: str) -> Proof:
        return await self._hardware.reset_clock(node)

    async def break_disk(
        self, node: str, *, full: bool = False, sync_ms: int | None = None, frozen: bool = False
    ) -> Proof:
        return await self._hardware.break_disk(node, full=full, sync_ms=sync_ms, frozen=frozen)

    async def heal_disk(self, node: str) -> Proof:
        return await self._hardware.heal_disk(node)

    async def delay(self, node: str, *, ms: int) -> Proof:
        return await self._hardware.delay(node, ms=ms)

    async def stop_delay(self, node: str) -> Proof:
        return await self._hardware.stop_delay(node)

    # What is asked of controllers.

    async def elect(self, node: str) -> Proof:
        return await self._inquiry.elect(node, await self.identity(node))

    async def change_leader(self) -> Proof:
        led = await self.playing("controller-leader")
        next_: list[str] = []

        async def changed() -> bool:
            next_[:] = await self.playing("controller-leader")
            return bool(next_) and next_ != led

        if not led:
            return Proof(False, {"from": None, "to": None})
        held = [await self.pause(led[0])]
        holds = await until(changed, ELECT_TIMEOUT_S)
        held.append(await self.resume(led[0]))
        seen = {"from": led[0], "to": next_[0] if holds else None}
        return Proof(holds and all(proof.holds for proof in held), seen)

    async def apply_ids(self, name: str, *, count: int) -> Proof:
        return await self._inquiry.apply_ids(name, count=count)

    async def order_election(self, node: str) -> Proof:
        return await self._inquiry.order_election(node, await self.identity(node))
