"""Environment local: one Linux network namespace a machine, no Docker, no root.

Everything lives under one agent process (`maxq.harness.environments.machines.netns_agent`), which
ends with the harness. Files are shared with the host: a machine's data are a folder of the run.
Where power is to be lost or a disk to fill up, each machine has a namespace of mounts, too, and a
disk in it; that needs root.
"""

import asyncio
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from ipaddress import IPv4Network
from pathlib import Path

from maxq.harness.contracts.environment import (
    BLOCK,
    CLIENT,
    CLIENT_ADDRESS,
    DISK,
    NETWORK,
    OBSERVER_ADDRESS,
    SIMULATED_ONLY,
    Capability,
    Cut,
    EnvironmentLost,
    EnvironmentUnavailable,
    Lack,
    Loss,
    MachineSpec,
    machine_address,
)
from maxq.harness.environments.disks import node_disk
from maxq.harness.environments.engine.image import quiet
from maxq.harness.environments.machines import toxiproxy_server, wrong_clock
from maxq.harness.environments.machines.agent_client import Link
from maxq.harness.environments.machines.machine import LinkedMachine, Place, dial_from
from maxq.harness.environments.machines.packet_filter import (
    alias,
    detours,
    loss_ruleset,
    ruleset,
)
from maxq.harness.environments.machines.proxies import Proxies, first_of
from maxq.reference.records import some
from maxq.reference.rpc import Dial

PREFIX = 20  # the run's network is a /20; a machine owns a block of 16 addresses of it
BLOCK_PREFIX = 33 - BLOCK.bit_length()
MACHINES_MAX = 255
SBIN = ":/usr/sbin:/sbin"  # where `ip` may be, and an ordinary user's PATH does not look
CHECK_TIMEOUT_S = 10
ERRORS_MAX = 65_536  # bytes of the agent's complaints that are looked at
UNSHARE = (
    "unshare", "--user", "--map-root-user", "--net", "--pid", "--mount-proc",
    "--fork", "--kill-child",
)  # fmt: skip
COULD = frozenset(Capability) - SIMULATED_ONLY  # where programs and kernel allow it
# Rules that each needs, for addresses that nobody has, and the kernel's module for them.
TRIALS = {
    Capability.CUT: (
        ruleset(
            [
                Cut(source="silent", block="198.18.0.16/28"),
                Cut(source="reset", block="198.18.0.32/28", reset=True),
            ]
        ),
        "nf_tables",
    ),
    Capability.LOSS: (
        loss_ruleset([Loss(source="some", block="198.18.0.16/28", percent=10)]),
        "nft_numgen",
    ),
    Capability.DELAY: (
        detours({"some": (alias(1), "198.18.0.16")}, {("some", 9): 9}),
        "nft_redir",
    ),
}

LOST = "the agent of the local environment ended, and the cluster with it"
PASSED_ON = ("PATH", "PYTHONPATH")  # so that nodes find the same interpreter and packages
SYSCTL = Path("/proc/sys")
# What lets users who are not root make namespaces, where the kernel has a say in it.
USERNS = (
    ("kernel.unprivileged_userns_clone", "1"),
    ("kernel.apparmor_restrict_unprivileged_userns", "0"),
)
HINT = "`maxq doctor` says what this machine can host; `--environment simulated` works anywhere"


class AgentProcess:
    """The agent, and the link to it. Its complaints go to a file in memory."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        self._errors = os.memfd_create("errors of the agent")
        self.last_words = ""
        program = (
            sys.executable,
            "-m",
            "maxq.harness.environments.machines.netns_agent",
            str(theirs.fileno()),
        )
        try:
            with theirs:
                self.process = subprocess.Popen(
                    [*UNSHARE, *program],
                    env={**os.environ, "PATH": admin_path()},
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=self._errors,
                    start_new_session=True,  # an interrupt at the terminal is for the harness only
                )
        except OSError:
            ours.close()
            os.close(self._errors)
            raise
        self.link = Link(ours, lost=LOST, on_close=self._listen)

    def _listen(self) -> None:
        lines = os.pread(self._errors, ERRORS_MAX, 0).decode(errors="replace").splitlines()
        self.last_words = lines[-1] if lines else ""
        os.close(self._errors)

    async def end(self) -> None:
        """Let it read end of file, and see it gone."""
        self.link.close()
        loop = asyncio.get_running_loop()
        try:
            await asyncio.wait_for(loop.run_in_executor(None, self.process.wait), 10)
        except TimeoutError:
            self.process.kill()
            await loop.run_in_executor(None, self.process.wait)


class LocalEnvironment:
    """Machines as namespaces, until `down` or the end of this process.

    Args:
        folder: the machines' folders are made in it, and beside them their files of names.
        disks: machines have disks of their own, which can lose their power and fill up.
        clocks: machines have clocks of their own, which can be set off.
        proxies: the ways between machines can be slow.
        say: called with what `up` does that takes long.
    """

    name = "local"

    def __init__(
        self,
        folder: Path,
        *,
        disks: bool = False,
        clocks: bool = False,
        proxies: bool = False,
        say: Callable[[str], None] = quiet,
    ) -> None:
        self._folder = folder.resolve()
        self._with_disks = disks
        self._library = wrong_clock.found() if clocks else None
        self._with_proxies = proxies
        self._proxies: Proxies | None = None
        self._say = say
        self._disks: list[node_disk.OwnDisk] = []
        self._agent: AgentProcess | None = None
        self._machines: dict[str, LinkedMachine] = {}

    @property
    def capabilities(self) -> frozenset[Capability]:
        return COULD - lacking().keys()

    def lacking(self) -> Mapping[Capability, Lack]:
        return lacking()

    async def up(self, machines: Sequence[MachineSpec]) -> None:
        check()
        if len(machines) > MACHINES_MAX:
            raise EnvironmentUnavailable(f"local holds at most {MACHINES_MAX} machines")
        server = None
        if self._with_proxies:
            server = await asyncio.to_thread(toxiproxy_server.ensure, self._say)
        try:
            self._agent = AgentProcess()
            link = self._agent.link
            await link.ask("bridge")
            clients = [f"{a}/{PREFIX}" for a in (CLIENT_ADDRESS, OBSERVER_ADDRESS)]
            await link.ask("machine", name=CLIENT, addresses=clients)
            if self._library is not None:
                await link.ask("memory")
            for number, spec in enumerate(machines, start=1):
                self._machines[spec.name] = await self._make(link, number, spec.name)
            if self._library is not None:
                await next(iter(self._machines.values())).try_clock()
            if server is not None:
                self._proxies = Proxies(server)
                await self._proxies.begin({self._machines[m.name]: m.ports for m in machines})
        except (EnvironmentLost, OSError) as error:
            agent = self._agent
            await self.down()
            words = agent.last_words if agent is not None else ""
            why = f"{error} ({words})" if words else str(error)
            raise EnvironmentUnavailable(f"local: {why}; {HINT}", Lack(why)) from None

    async def _make(self, link: Link, number: int, name: str) -> LinkedMachine:
        address, disks = machine_address(number), self._with_disks
        await link.ask("machine", name=name, addresses=[f"{address}/{PREFIX}"], space=disks)
        folder, hosts = self._folder / name, self._folder / f"{name}.hosts"
        folder.mkdir(parents=True, exist_ok=True)
        block = IPv4Network(f"{address}/{BLOCK_PREFIX}")
        disk = None
        if disks:
            _, space = await link.ask("space", name=name)
            made = partial(node_disk.make, folder / DISK, some(space, "it sends one"), self._disks)
            disk = await asyncio.to_thread(made)
        return LinkedMachine(
            *(link, _place(), name),
            block=block,
            folder=folder,
            hosts=hosts,
            disk=disk,
            library=self._library,
        )

    async def lost(self) -> None:
        ended = [asyncio.ensure_future(asyncio.shield(self._link().gone))]
        if self._proxies is not None:
            ended.append(asyncio.ensure_future(self._proxies.lost()))
        await first_of(ended)
        raise EnvironmentLost(LOST)

    def machine(self, name: str) -> LinkedMachine:
        return self._machines[name]

    def entrance(self, name: str) -> str:
        folder = str(self._folder / name)
        for entry in Path("/proc").iterdir():
            # Only a machine's own processes work in its folder.
            with suppress(OSError):
                if entry.name.isdecimal() and os.readlink(entry / "cwd") == folder:
                    words = "nsenter --preserve-credentials --user --mount --net --target"
                    return f"{words} {entry.name} bash"
        return f"no process of {name} runs; its files are in {folder}"

    @property
    def dial(self) -> Dial:
        return dial_from(self._link, CLIENT_ADDRESS)

    @property
    def observer_dial(self) -> Dial:
        return dial_from(self._link, OBSERVER_ADDRESS)

    def _link(self) -> Link:
        if self._agent is None:
            raise EnvironmentLost(LOST)
        return self._agent.link

    async def down(self) -> None:
        agent, self._agent = self._agent, None
        if agent is not None:
            await agent.end()
        await asyncio.to_thread(node_disk.close_all, self._disks)


def _place() -> Place:
    return Place(
        environment="local",
        network=IPv4Network(f"{NETWORK}.0.0/{PREFIX}"),
        client=f"{CLIENT_ADDRESS}/32",
        hostname=socket.gethostname(),
        env={k: os.environ[k] for k in PASSED_ON if k in os.environ},
        python=sys.executable,
        mount_hosts=Capability.CHANGE_ADDRESS not in lacking(),
    )


def admin_path() -> str:
    """Where programs are looked for."""
    return os.environ.get("PATH", os.defpath) + SBIN


def check() -> None:
    """Try what `local` needs.

    Raises:
        EnvironmentUnavailable: says what is missing and what helps.
    """
    lacks = absent() or no_network()
    if lacks:
        raise EnvironmentUnavailable(f"local: {lacks[0]}; {HINT}", *lacks)


def absent() -> list[Lack]:
    """The programs that `local` cannot do without and this machine has not."""
    needed = (("unshare", "util-linux"), ("ip", "iproute2"))
    return [Lack(f"{p} is missing", package=package) for p, package in needed if not _has(p)]


def no_network() -> list[Lack]:
    """Why the kernel lets this user make no namespaces, or no network in them."""
    why = _tried("true")
    if why:
        what = f"this kernel lets this user make no namespaces ({why})"
        return [Lack(what, mend=allowing(SYSCTL, root=os.geteuid() == 0))]
    for kind, words in (("bridge", ()), ("veth", ("peer", "name", "maxq2"))):
        why = _tried("ip", "link", "add", "maxq1", "type", kind, *words)
        if why:
            return [Lack(f"no {kind} can be made ({why})", mend=f"modprobe {kind}")]
    return []


def allowing(settings: Path, *, root: bool) -> str:
    """The command that lets this user make namespaces; empty where none is known."""
    for name, wanted in USERNS:
        path = settings / name.replace(".", "/")
        if path.is_file() and path.read_text().strip() != wanted:
            return f"sysctl {name}={wanted}"
    return "" if root else "run maxq as root"


@cache
def lacking() -> dict[Capability, Lack]:
    """What `local` could do and cannot on this machine, and why. Asks once a process."""
    found = {}
    for capability, (rules, module) in TRIALS.items():
        if not _has("nft"):
            found[capability] = Lack("nft is missing", package="nftables")
        elif why := _tried("nft", "-f", "-", text=rules):
            what = f"no packet rules can be made ({' '.join(why.split())})"
            found[capability] = Lack(what, mend=f"modprobe {module}")
    why = _tried("mount", "--bind", "/etc/hosts", "/etc/hosts")
    if why:
        found[Capability.CHANGE_ADDRESS] = Lack(f"/etc/hosts cannot be replaced ({why})")
    no_clock = wrong_clock.lacking()
    if no_clock is not None:
        found[Capability.CLOCK] = no_clock
    no_proxy = toxiproxy_server.lacking() or found.get(Capability.DELAY)
    if no_proxy is not None:
        found.update(dict.fromkeys(toxiproxy_server.NEEDED_BY, no_proxy))
    no_disk = node_disk.lacking()
    if no_disk is not None:
        found.update(dict.fromkeys(node_disk.NEEDED_BY, no_disk))
    return found


def _has(program: str) -> bool:
    return shutil.which(program, path=admin_path()) is not None


def _tried(*command: str, text: str = "") -> str:
    """Run a command in namespaces of its own; why it failed, or nothing."""
    try:
        done = subprocess.run(
            [*UNSHARE, *command],
            env={**os.environ, "PATH": admin_path()},
            input=text,
            capture_output=True,
            text=True,
            timeout=CHECK_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return "" if done.returncode == 0 else done.stderr.strip() or f"exit {done.returncode}"
