"""Environment docker: one container a machine, on a network that leads nowhere else.

Process 1 of each container is an agent (`maxq.harness.environments.machines.container_agent`) that
calls the harness at a socket in a folder which both see, and ends with it. So kill, pause, cuts and
changes of address are the same requests as in local, and none of them goes through the engine. A
change of address in particular happens inside, by `ip addr`, under the running process: that is
what DHCP does to a host. Disconnecting and connecting the container instead would take the device
away, with routes and a moment of no network at all, and needs the engine in the middle of a fault.
The engine's own idea of the address grows old; nothing here asks it.

The harness has no address on that network. Clients and observers dial from a container of their
own, which makes their sockets and hands them out, so no root and no route is needed. Files are
folders of the run, at the same paths inside; nodes run as the user of the harness, who can read
and remove what they leave.

Where power is to be lost, each machine has a disk of its own, which the harness, as root, mounts in
the container's namespace from outside. The container gets no right and no device for that, and the
mount goes with it.
"""

import asyncio
import contextlib
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from ipaddress import IPv4Network
from pathlib import Path

from maxq.harness.contracts.environment import (
    BLOCK,
    CLIENT,
    DISK,
    SIMULATED_ONLY,
    Capability,
    Cut,
    EnvironmentLost,
    EnvironmentUnavailable,
    Lack,
    Loss,
    MachineSpec,
)
from maxq.harness.environments.disks import node_disk
from maxq.harness.environments.engine import image as docker_image
from maxq.harness.environments.engine import leaks, rights
from maxq.harness.environments.engine.client import (
    INSTEAD,
    ContainerSpec,
    Engine,
    EngineFailed,
    connect,
)
from maxq.harness.environments.machines import toxiproxy_server, wrong_clock
from maxq.harness.environments.machines.agent_client import Link
from maxq.harness.environments.machines.callers import INSIDE, SOCKET, Callers
from maxq.harness.environments.machines.machine import LinkedMachine, Place, dial_from, write_hosts
from maxq.harness.environments.machines.packet_filter import loss_ruleset, ruleset
from maxq.harness.environments.machines.proxies import Proxies, first_of
from maxq.reference.rpc import Dial

POOL = IPv4Network("198.18.0.0/15")  # set aside for benchmarks: never a real host
PREFIX_SMALL = 24  # of the smallest network of a run: 15 machines
MACHINES_MAX = 255
CLIENT_INDEX, OBSERVER_INDEX = 2, 3  # of the addresses of block 0; the engine keeps 1
LEAVE_S = 5.0  # containers end by themselves within this
AT_ONCE = 4  # requests to the engine
RESOLVER = "# no name servers: names of machines are in /etc/hosts, and no question leaves\n"
PATH = "/opt/maxq/venv/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ENV = {"PATH": PATH, "PYTHONPATH": "/opt/maxq/lib"}  # as the image has it
COULD = frozenset(Capability) - SIMULATED_ONLY  # where this user may, and the kernel can
LOST = "a container of the docker environment ended, and the cluster with it: "
PYTHON = "python3"  # what a node's command begins with inside


def lacking() -> dict[Capability, Lack]:
    """What `docker` could do and cannot on this machine, and why."""
    found = {
        Capability.POWER_LOSS: node_disk.lacking(),
        Capability.CLOCK: wrong_clock.lacking(),
        **dict.fromkeys(toxiproxy_server.NEEDED_BY, toxiproxy_server.lacking()),
    }
    return {capability: why for capability, why in found.items() if why is not None}


def subnet_prefix(machine_count: int) -> int:
    """How long the prefix of a run's network is: block 0 is the harness's, then one a machine."""
    bits = ((machine_count + 1) * BLOCK - 1).bit_length()
    return min(PREFIX_SMALL, 32 - bits)


def free_subnets(prefix: int, taken: Sequence[IPv4Network]) -> list[IPv4Network]:
    """Networks of the pool that overlap with none of these, in order."""
    return [n for n in POOL.subnets(new_prefix=prefix) if not any(n.overlaps(t) for t in taken)]


class DockerEnvironment:
    """Machines as containers, until `down` or the end of this process.

    `run` names what it makes in the engine.

    Args:
        folder: the machines' folders are made in it, and beside them their files of names.
        base_image: what the image is built from if it is not there; None: see `docker_image`.
        layer: what is built upon it (`docker_image.ensure_image`); empty: nothing.
        shown: folders that machines may read, at the same paths.
        disks: machines have disks of their own, which can lose their power and fill up.
        clocks: machines have clocks of their own, which can be set off.
        proxies: the ways between machines can be slow.
        needs: what the run's faults and workloads need: machines get the rights for that alone.
        say: called with what `up` does that takes long.
    """

    name = "docker"

    def __init__(
        self,
        folder: Path,
        *,
        base_image: str | None = None,
        layer: str = "",
        shown: Sequence[Path] = (),
        disks: bool = False,
        clocks: bool = False,
        proxies: bool = False,
        needs: frozenset[Capability] = COULD,
        say: Callable[[str], None] = docker_image.quiet,
    ) -> None:
        self._folder = folder.resolve()
        self._base_image = base_image
        self._layer = layer
        self._library = wrong_clock.found() if clocks else None
        libraries = [] if self._library is None else [self._library.parent]
        self._shown = tuple(map(str, [*shown, *libraries]))
        self._with_proxies = proxies
        self._proxies: Proxies | None = None
        self._server: Path | None = None
        self._say = say
        self._with_disks = disks
        self._needs = needs
        self._lacking: dict[Capability, Lack] = {}  # as was found when it was tried
        self._disks: list[node_disk.OwnDisk] = []
        self.run = f"maxq-{secrets.token_hex(4)}"
        self._callers = Callers(self._folder / f".{self.run}", LOST)
        self._engine: Engine | None = None
        self._watchdog: leaks.Watchdog | None = None
        self._network = POOL
        self._machines: dict[str, LinkedMachine] = {}
        self._whole = False  # nothing that `up` asked for is still on its way

    @property
    def capabilities(self) -> frozenset[Capability]:
        return COULD - self.lacking().keys()

    def lacking(self) -> Mapping[Capability, Lack]:
        return {**lacking(), **self._lacking}

    async def up(self, machines: Sequence[MachineSpec]) -> None:
        if len(machines) > MACHINES_MAX:
            raise EnvironmentUnavailable(f"docker holds at most {MACHINES_MAX} machines")
        try:
            if self._with_proxies:
                self._server = await asyncio.to_thread(toxiproxy_server.ensure, self._say)
            await self._up([spec.name for spec in machines])
            if self._server is not None:
                self._proxies = Proxies(self._server)
                await self._proxies.begin({self._machines[m.name]: m.ports for m in machines})
        except (EngineFailed, EnvironmentLost, OSError, TimeoutError) as error:
            await self.down()
            raise EnvironmentUnavailable(f"docker: {error}; {INSTEAD}", Lack(str(error))) from None
        except BaseException:
            await self.down()
            raise

    async def _up(self, names: Sequence[str]) -> None:
        engine = self._engine = await asyncio.to_thread(connect)
        await asyncio.to_thread(leaks.remove_dead, engine)
        image = await asyncio.to_thread(
            docker_image.ensure_image, engine, self._base_image, self._say, self._layer
        )
        folder = self._callers.folder
        self._watchdog = leaks.Watchdog(self.run, folder)
        labels = leaks.this_process().labels(self.run, folder)
        self._network = await asyncio.to_thread(self._make_network, engine, len(names), labels)
        # After the network, whose label names it to whoever cleans up.
        self._callers.listen(len(names) + 1)
        (folder / "resolv.conf").write_text(RESOLVER)
        specs = [self._spec(CLIENT, CLIENT_INDEX, image, labels)]
        specs += [self._spec(n, i * BLOCK, image, labels) for i, n in enumerate(names, start=1)]
        await self._make_containers(engine, specs)
        self._whole = True
        await self._callers.take({CLIENT, *names})
        self._callers.forget_folder()
        await self._equip(names)

    async def _make_containers(self, engine: Engine, specs: Sequence[ContainerSpec]) -> None:
        slots = asyncio.Semaphore(AT_ONCE)
        failures: list[EngineFailed] = []

        async def make(spec: ContainerSpec) -> None:
            async with slots:
                if not failures:
                    try:
                        await asyncio.to_thread(engine.make_container, spec)
                    except EngineFailed as error:
                        failures.append(error)

        await asyncio.gather(*(make(spec) for spec in specs))
        if failures:
            raise failures[0]

    def _make_network(self, engine: Engine, count: int, labels: dict[str, str]) -> IPv4Network:
        for subnet in free_subnets(subnet_prefix(count), engine.networks()):
            if engine.make_network(self.run, subnet, labels):
                return subnet
        raise EngineFailed(f"no network of {POOL} is free; `maxq clean` removes what is left over")

    def _spec(self, name: str, index: int, image: str, labels: dict[str, str]) -> ContainerSpec:
        sockets, hosts = str(self._callers.folder), str(self._hosts(name))
        resolver = f"{sockets}/resolv.conf"
        binds = {sockets: INSIDE, hosts: "/etc/hosts", resolver: "/etc/resolv.conf"}
        write_hosts(self._hosts(name), {}, own_name=name)
        shown = (*self._shown, *(() if self._server is None else (str(self._server),)))
        other_user = self._user() is not None
        may = rights.of_client(other_user=other_user)
        if name != CLIENT:
            may = rights.of_machine(self._needs, other_user=other_user)
            folder = self._folder / name
            folder.mkdir(parents=True, exist_ok=True)
            binds[str(folder)] = str(folder)
            binds |= {path: path for path in shown}
        return ContainerSpec(
            name=f"{self.run}-{name}",
            hostname=name,
            image=image,
            command=(name, f"{INSIDE}/{SOCKET}", *may),
            network=self.run,
            address=str(self._network[index]),
            labels=labels,
            binds=binds,
            read_only=frozenset({sockets, hosts, resolver, *shown}),
            rights=rights.TO_BEGIN.union(may),
        )

    def _hosts(self, name: str) -> Path:
        return self._folder / f"{name}.hosts"

    async def _equip(self, names: Sequence[str]) -> None:
        """Give the client its second address, try that packets can be cut, name the machines."""
        client = self._callers.link(CLIENT)
        observer = f"{self._network[OBSERVER_INDEX]}/{self._network.prefixlen}"
        await client.ask("address", name=CLIENT, remove=[], add=[observer])
        nobody = str(self._network[-2])
        trial = [Cut(source="nobody", block=nobody), Cut(source="any", block=nobody, reset=True)]
        for cuts in (trial, []):
            await client.ask("filter", name=CLIENT, ruleset=ruleset(cuts))
        await self._try_losses(client, nobody)
        place = self._place()
        for number, name in enumerate(names, start=1):
            disk = await asyncio.to_thread(self._disk, name) if self._with_disks else None
            self._machines[name] = LinkedMachine(
                self._callers.link(name),
                place,
                name,
                block=IPv4Network((self._network[number * BLOCK], 33 - BLOCK.bit_length())),
                folder=self._folder / name,
                hosts=self._hosts(name),
                disk=disk,
                library=self._library,
            )
        if self._library is not None:
            await next(iter(self._machines.values())).try_clock()

    async def _try_losses(self, client: Link, block: str) -> None:
        """Find out whether packets can be lost at random: many kernels cut and cannot do that.

        Raises:
            OSError: they cannot, and the run needs it.
        """
        trial = [Loss(source="nobody", block=block, percent=10)]
        try:
            for losses in (trial, []):
                await client.ask("filter", name=CLIENT, ruleset=loss_ruleset(losses))
        except OSError as error:
            lack = Lack(f"no packets can be lost at random ({error})", mend="modprobe nft_numgen")
            self._lacking[Capability.LOSS] = lack
            if Capability.LOSS in self._needs:
                raise OSError(str(lack)) from None

    def _disk(self, name: str) -> node_disk.OwnDisk:
        """Make a machine's disk.

        Raises:
            OSError: it cannot be made, or not be reached.
        """
        pid = self._callers.pids[name]
        if not pid:
            raise OSError("this process sees those of containers not, and cannot give them disks")
        try:
            space = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise OSError(f"{LOST}{name}") from None
        return node_disk.make(self._folder / name / DISK, space, self._disks)

    def _user(self) -> tuple[int, int] | None:
        """As whom nodes run: as this process; None: that is who process 1 of a container is."""
        mapped = self._engine is not None and self._engine.rootless
        return None if mapped or os.getuid() == 0 else (os.getuid(), os.getgid())

    def _place(self) -> Place:
        return Place(
            environment="docker",
            network=self._network,
            client=f"{self._network[CLIENT_INDEX]}/32",
            env=ENV,
            python=PYTHON,
            user=self._user(),
        )

    async def lost(self) -> None:
        ended = [asyncio.ensure_future(self._callers.lost())]
        if self._proxies is not None:
            ended.append(asyncio.ensure_future(self._proxies.lost()))
        await first_of(ended)

    def machine(self, name: str) -> LinkedMachine:
        return self._machines[name]

    def entrance(self, name: str) -> str:
        return f"docker exec -it {self.run}-{name} bash"

    @property
    def dial(self) -> Dial:
        return dial_from(self._client, str(self._network[CLIENT_INDEX]))

    @property
    def observer_dial(self) -> Dial:
        return dial_from(self._client, str(self._network[OBSERVER_INDEX]))

    def _client(self) -> Link:
        return self._callers.link(CLIENT)

    async def down(self) -> None:
        engine, self._engine = self._engine, None
        watchdog, self._watchdog = self._watchdog, None
        self._callers.close()
        if engine is None:
            return
        left = await asyncio.to_thread(self._remove, engine, watchdog)
        await asyncio.to_thread(node_disk.close_all, self._disks)
        if left:
            self._say(f"left behind: {', '.join(left)}; `maxq clean` removes it later")

    def _remove(self, engine: Engine, watchdog: leaks.Watchdog | None) -> list[str]:
        left: list[str] = []
        if watchdog is not None:
            gone = False
            with contextlib.suppress(EngineFailed):
                remains = leaks.remove_run(engine, self.run, patience_s=LEAVE_S)
                left = [r.name for r in remains]
                gone = not left
            watchdog.end(nothing_left=gone and self._whole)
        engine.close()
        return left
