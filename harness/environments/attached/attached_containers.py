"""Containers of this machine's engine that somebody else made, as an environment.

They are there before `up` and after `down`. Nothing of them is changed but what a fault does, and
that is undone: `down` lets every container run, and the cleaning up after a killed harness does
so too (`maxq.harness.environments.engine.leaks.put_right`).

Faults of the network need an agent in a container beside each node, which shares its network and
leaves its rules there for as long as it lives. Clients and observers then dial from two containers
in the same network, so that a cut of clients leaves observers alone. A run without such faults
makes no container, and dials from this process.
"""

import asyncio
import contextlib
import secrets
import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from maxq.harness.contracts.environment import (
    CLIENT,
    Capability,
    EnvironmentUnavailable,
    Lack,
    MachineSpec,
    MissingCapability,
)
from maxq.harness.contracts.existing import Existing
from maxq.harness.environments.attached.foreign_container import ForeignContainer
from maxq.harness.environments.attached.foreign_machine import OF_NETWORKS, OF_PROCESSES
from maxq.harness.environments.engine import image as docker_image
from maxq.harness.environments.engine import leaks, rights
from maxq.harness.environments.engine.client import (
    ContainerSpec,
    Engine,
    EngineFailed,
    Standing,
    connect,
)
from maxq.harness.environments.machines.agent_client import Link
from maxq.harness.environments.machines.callers import INSIDE, SOCKET, Callers
from maxq.harness.environments.machines.container_agent import GUEST
from maxq.harness.environments.machines.machine import ANY_ADDRESS, LinkedNetwork, dial_from
from maxq.reference.rpc import Dial, loop_dial

NAME = "attached"
OBSERVER = "observer"
LOOK_TIMEOUT_S = 3  # for an answer that one can do without
LEAVE_S = 5.0  # containers end by themselves within this
LOST = "a container of Max-Q ended, beside a cluster that it tests: "


class AttachedContainers:
    """The containers of a cluster's nodes, from `up` to `down`.

    Args:
        existing: the cluster; each of its nodes is alone in a container.
        folder: of the run's nodes; the socket of agents is in it while the run lasts.
        base_image: of agents' containers, to build on; empty: the default.
        needs: what the run's faults need.
        say: called with what takes long.
    """

    name = NAME

    def __init__(
        self,
        existing: Existing,
        folder: Path,
        *,
        base_image: str = "",
        needs: frozenset[Capability] = OF_PROCESSES,
        say: Callable[[str], None] = docker_image.quiet,
    ) -> None:
        self._existing = existing
        self._folder = folder.resolve()
        self._base_image = base_image
        self._networked = bool(needs & OF_NETWORKS)
        self._say = say
        self.run = f"maxq-{secrets.token_hex(4)}"
        self._callers = Callers(self._folder / f".{self.run}", LOST)
        self._engine: Engine | None = None
        self._watchdog: leaks.Watchdog | None = None
        self._image = ""
        self._machines: dict[str, ForeignContainer] = {}
        self._addresses: dict[str, str] = {}  # of clients and observers
        self._owed: set[str] = set()
        self._claims: list[socket.socket] = []
        self._restarting = asyncio.Lock()

    @property
    def capabilities(self) -> frozenset[Capability]:
        return OF_PROCESSES | OF_NETWORKS

    def lacking(self) -> Mapping[Capability, Lack]:
        return {}

    async def up(self, machines: Sequence[MachineSpec]) -> None:
        try:
            await self._up()
        except (EngineFailed, OSError, TimeoutError) as error:
            await self.down()
            raise EnvironmentUnavailable(f"docker: {error}", Lack(str(error))) from None
        except BaseException:
            await self.down()
            raise

    async def _up(self) -> None:
        engine = self._engine = await asyncio.to_thread(connect)
        await asyncio.to_thread(leaks.remove_dead, engine)
        found = await asyncio.to_thread(standings, engine, self._existing)
        self._claims = _claimed(found)
        folder = self._callers.folder
        self._watchdog = leaks.Watchdog(self.run, folder)
        folder.mkdir(parents=True, mode=0o700)
        for name, standing in found.items():
            host, _, _ = self._existing.addresses[name].rpartition(":")
            (self._folder / name).mkdir(parents=True, exist_ok=True)
            self._machines[name] = ForeignContainer(
                engine, name, standing, host, str(self._folder / name),
                started=self._started, owes=self._owes,
            )  # fmt: skip
        if self._networked:
            await self._reach(engine, network_of(found, self._existing))

    async def _reach(self, engine: Engine, network: str) -> None:
        """Have agents beside all nodes, and two that dial."""
        self._image = await asyncio.to_thread(
            docker_image.ensure_image, engine, self._base_image or None, self._say
        )
        self._callers.listen(len(self._machines) + 2)
        for name in (CLIENT, OBSERVER):
            await asyncio.to_thread(engine.make_container, self._spec(name, network=network))
            own = await asyncio.to_thread(engine.standing, f"{self.run}-{name}")
            self._addresses[name] = own.addresses[network]
        for name in self._machines:
            await asyncio.to_thread(engine.make_container, self._beside(name))
        await self._callers.take((CLIENT, OBSERVER, *self._machines))
        for name in self._machines:
            self._link(name)

    def _spec(self, name: str, *, network: str = "", beside: str = "") -> ContainerSpec:
        sockets = str(self._callers.folder)
        labels = leaks.this_process().labels(self.run, self._callers.folder)
        may = rights.of_client(other_user=False)
        return ContainerSpec(
            name=f"{self.run}-{name}",
            hostname=name,
            image=self._image,
            command=(GUEST, name, f"{INSIDE}/{SOCKET}", *may),
            network=network,
            address="",
            labels=labels,
            binds={sockets: INSIDE},
            read_only=frozenset({sockets}),
            rights=rights.TO_BEGIN.union(may),
            beside=beside,
        )

    def _beside(self, name: str) -> ContainerSpec:
        return self._spec(name, beside=self._machines[name].standing.id)

    def _link(self, name: str) -> None:
        client = f"{self._addresses[CLIENT]}/32"
        self._machines[name].network = LinkedNetwork(self._callers.link(name), name, client)

    def _owes(self, container: str) -> None:
        if container not in self._owed:
            self._owed.add(container)
            leaks.owe(self._callers.folder, self._owed)

    async def _started(self, name: str) -> None:
        """A container has another network now: have its agent replaced, and all rules put again
        that know its address."""
        engine = self._engine
        if not self._networked or engine is None:
            return
        async with self._restarting:
            try:
                await self._put_beside(engine, name)
            except EngineFailed as error:
                raise OSError(f"no agent is beside {name} any more: {error}") from None

    async def _put_beside(self, engine: Engine, name: str) -> None:
        self._callers.dismiss(name)
        await asyncio.to_thread(
            leaks.remove_run, engine, self.run, patience_s=LEAVE_S, name=f"{self.run}-{name}"
        )
        await asyncio.to_thread(engine.make_container, self._beside(name))
        await self._callers.take([name])
        self._link(name)
        blocks = {each: machine.block for each, machine in self._machines.items()}
        for machine in self._machines.values():
            await machine.again(blocks)

    async def lost(self) -> None:
        if not self._networked:
            await asyncio.get_running_loop().create_future()  # nothing of ours can end
        await self._callers.lost()

    def pids(self) -> Mapping[str, int]:
        """The process of each node."""
        return {name: machine.standing.pid for name, machine in self._machines.items()}

    def machine(self, name: str) -> ForeignContainer:
        return self._machines[name]

    def entrance(self, name: str) -> str:
        return f"docker exec -it {self._machines[name].standing.name} sh"

    @property
    def dial(self) -> Dial:
        return self._dial(CLIENT)

    @property
    def observer_dial(self) -> Dial:
        return self._dial(OBSERVER)

    def _dial(self, name: str) -> Dial:
        if not self._networked:
            return loop_dial

        def link() -> Link:
            return self._callers.link(name)

        return dial_from(link, ANY_ADDRESS, name)

    async def down(self) -> None:
        engine, self._engine = self._engine, None
        watchdog, self._watchdog = self._watchdog, None
        left: list[str] = []
        if engine is not None:
            left = await asyncio.to_thread(leaks.put_right, engine, self._callers.folder)
        self._callers.close()
        claims, self._claims = self._claims, []
        for claim in claims:
            claim.close()
        if engine is None:
            return
        if watchdog is not None:
            gone: list[str] = ["containers of Max-Q"]
            with contextlib.suppress(EngineFailed):
                remains = await asyncio.to_thread(
                    leaks.remove_run, engine, self.run, patience_s=LEAVE_S
                )
                gone = [r.name for r in remains]
            watchdog.end(nothing_left=not gone)
            left += gone
        engine.close()
        if left:
            self._say(f"left behind: {'; '.join(left)}")


def standings(engine: Engine, existing: Existing) -> dict[str, Standing]:
    """How the containers of a cluster's nodes are.

    Raises:
        MissingCapability: not every node is alone in one that runs.
    """
    found: dict[str, Standing] = {}
    taken: dict[str, str] = {}
    for member in existing.members:
        name = member.name
        if not member.container:
            raise MissingCapability(
                f"{existing.file}: {name} names no container. A cluster is tested where each node "
                'is alone in one of this machine: add a line container = "NAME" (docker ps), or to '
                'all nodes lines ssh = "USER@HOST" and unit = "NAME.service"'
            )
        try:
            found[name] = own = engine.standing(member.container)
        except EngineFailed as error:
            raise MissingCapability(f"{existing.file}: {name}: {error}") from None
        if other := taken.get(own.id):
            raise MissingCapability(
                f"{existing.file}: {other} and {name} are in one container, {member.container}: "
                "a fault would strike both"
            )
        if not own.pid or own.paused:
            state = "paused" if own.paused else "not running"
            raise MissingCapability(f"{name}: container {member.container} is {state}")
        taken[own.id] = name
    return found


def located() -> Callable[[str, int], str]:
    """Finds the container of this machine's engine that is at an address, or to which a port of
    this machine leads; empty: none is known, or no engine answers."""
    by_address: dict[str, str] = {}
    by_port: dict[int, str] = {}
    with (
        contextlib.suppress(EnvironmentUnavailable, EngineFailed),
        contextlib.closing(connect(LOOK_TIMEOUT_S)) as engine,
    ):
        for id_ in engine.running():
            with contextlib.suppress(EngineFailed):  # it has ended meanwhile
                own = engine.standing(id_)
                by_address |= dict.fromkeys(own.addresses.values(), own.name)
                by_port |= dict.fromkeys(own.ports, own.name)

    def at(host: str, port: int) -> str:
        return by_address.get(host) or (by_port.get(port, "") if _is_here(host) else "")

    return at


def _is_here(host: str) -> bool:
    """Whether an address is one of this machine's."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as trial:
        trial.bind((host, 0))
        return True
    return False


def network_of(found: Mapping[str, Standing], existing: Existing) -> str:
    """The network in which the nodes of a cluster reach each other, all at addresses of their own.

    Raises:
        MissingCapability: there is none, so that packets between them cannot be distinguished.
    """
    common: set[str] | None = None
    for name, standing in found.items():
        address = existing.addresses[name]
        host = address.rpartition(":")[0]
        own = {network for network, at in standing.addresses.items() if at == host}
        if standing.shares or not own:
            where = standing.shares or ", ".join(standing.addresses.values()) or "no network"
            raise MissingCapability(
                f"{name} is known at {address}, and its container {standing.name} is at {where}: "
                "packets between nodes can be cut and lost only where each has an address of its "
                "own; --nemesis kill,pause needs none"
            )
        common = own if common is None else common & own
    if not common:
        raise MissingCapability("the nodes' containers have no network in common")
    return min(common)


def _claimed(found: Mapping[str, Standing]) -> list[socket.socket]:
    """Names, held as long as this process lives, that say that a run tests these containers.

    Raises:
        MissingCapability: another run does.
    """
    held: list[socket.socket] = []
    for name, standing in found.items():
        claim = socket.socket(socket.AF_UNIX)
        held.append(claim)
        try:
            claim.bind(f"\0maxq/container/{standing.id}")  # of the kernel's, in no folder
        except OSError:
            for each in held:
                each.close()
            raise MissingCapability(
                f"another run of Max-Q tests this cluster: it holds {name}"
            ) from None
    return held
