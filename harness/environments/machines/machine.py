"""A machine behind an agent: a network, a folder shared with the host, a file of names; maybe a
disk of its own, and a clock.

Serves local and docker alike. Files are read and written on the host, at the paths that they have
inside; what is on the machine's own disk is seen there only. Units: seconds, bytes.
"""

import asyncio
import errno
import os
import re
import shutil
import signal as signals
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from maxq.harness.client.probes import until
from maxq.harness.contracts.environment import (
    CLIENT,
    DISK,
    Capability,
    ClockShown,
    Cut,
    Delay,
    Detour,
    Dropped,
    Echo,
    EnvironmentLost,
    Loss,
    Misread,
    MissingCapability,
    Port,
    ProcessStatus,
    Written,
)
from maxq.harness.environments.disks.node_disk import OwnDisk
from maxq.harness.environments.machines.agent_client import Asked, Link
from maxq.harness.environments.machines.packet_filter import loss_ruleset, ruleset
from maxq.harness.environments.machines.wrong_clock import SEEN_S, WrongClock
from maxq.reference.rpc import Dial, Wired

T = TypeVar("T")
ANY_ADDRESS = "0.0.0.0"
HOST_NAME = re.compile(r"[A-Za-z0-9._-]{1,253}")
# What a dial without an answer meets: no host has the address, or no way leads there.
NO_ROUTE = frozenset({errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ETIMEDOUT})
FREEZE_TIMEOUT_S, DEATH_TIMEOUT_S = 5.0, 10.0
CLOCK_FILE = "clock"  # in a machine's folder: how far its clock is off
READER = "maxq.harness.environments.machines.clock_reader"
ASKED = "asked"  # in a machine's folder, with a number: what a program of ours says
ASKED_TIMEOUT_S, TRIAL_MS = 20.0, 3_600_000
AWAY_S = 1.0  # least time without power: peers meet silence, as of a machine that starts


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """What is true of every machine of an environment.

    `network` is the run's; `client` the block that a cut of `CLIENT` means. Processes get `env` and
    run as `user` (None: as their agent). `python` is the command of an interpreter that finds the
    packages of this one. `hostname` is what machines call themselves (empty: by
    their names). With `mount_hosts` each sees its machine's file of names
    in the place of /etc/hosts; else the machine has it there already.
    """

    environment: str
    network: IPv4Network
    client: str
    env: dict[str, str]
    python: str
    hostname: str = ""
    user: tuple[int, int] | None = None
    mount_hosts: bool = False


class LinkedNetwork:
    """What an agent does in the network of its machine, and sees there.

    Args:
        link: to the agent.
        name: of the machine.
        client: the block that a cut of `CLIENT` means.
        spared: a TCP port that nothing touches; 0: none.
    """

    def __init__(self, link: Asked, name: str, client: str, spared: int = 0) -> None:
        self._link = link
        self._name = name
        self._client = client
        self._spared = spared

    @property
    def name(self) -> str:
        return self._name

    async def cut(self, cuts: Sequence[Cut]) -> None:
        # A run's network is chosen when it comes up, so only the environment knows where clients
        # dial from.
        resolved = [
            msgspec.structs.replace(c, block=self._client) if c.source == CLIENT else c
            for c in cuts
        ]
        await self._link.ask("filter", name=self._name, ruleset=ruleset(resolved, self._spared))

    async def cut_packets(self) -> dict[str, int]:
        answer, _ = await self._link.ask("caught", name=self._name)
        packets: dict[str, int] = answer["cut"]
        return packets

    async def connections(self, block: str) -> frozenset[tuple[str, str]]:
        answer, _ = await self._link.ask("connections", name=self._name, block=block)
        return frozenset((here, there) for here, there in answer["ends"])

    async def reset_connections(self, block: str, ports: Sequence[int] = ()) -> None:
        await self._link.ask("reset", name=self._name, block=block, ports=list(ports))

    async def lose(self, losses: Sequence[Loss]) -> None:
        rules = loss_ruleset(losses, self._spared)
        await self._link.ask("filter", name=self._name, ruleset=rules)

    async def lost_packets(self) -> dict[str, Dropped]:
        answer, _ = await self._link.ask("caught", name=self._name)
        return {source: Dropped(*counts) for source, counts in answer["lost"].items()}

    async def probe(self, host: str, port: int, *, timeout_s: float) -> Port:
        sock = await socket_inside(self._link, self._name, ANY_ADDRESS, past=True)
        with sock:
            try:
                async with asyncio.timeout(timeout_s):
                    await asyncio.get_running_loop().sock_connect(sock, (host, port))
            except (ConnectionRefusedError, ConnectionResetError):
                return "refused"
            except TimeoutError:
                return "silent"
            except OSError as error:
                if error.errno in NO_ROUTE:
                    return "silent"
                raise
        return "open"


class _Read(msgspec.Struct):
    """What the reader of a clock prints (`maxq.harness.environments.machines.clock_reader`)."""

    ahead_ns: int
    follows: bool | None = None


class SlowWays(Protocol):
    """What a machine asks of the proxies of its run, by its name
    (`maxq.harness.environments.machines.proxies`)."""

    async def set(self, name: str, delays: Sequence[Delay]) -> None:
        """As `Machine.set_delay`."""

    def delays(self, name: str) -> Sequence[Delay]:
        """As `Machine.delays`."""

    async def detour(self, name: str) -> Detour:
        """As `Machine.detour`."""

    async def echo(self, name: str, peer: str) -> Echo:
        """As `Machine.echo`."""

    async def lead(self) -> None:
        """Lead to the addresses that machines have now."""

    async def start(self, name: str) -> None:
        """Be there again on a machine whose processes have ended."""


class LinkedMachine(LinkedNetwork):
    """A machine and the agent that acts on it.

    Args:
        folder: its data; made by the caller.
        hosts: its file of names; made here.
        disk: what it has at `DISK` in its folder; None: a part of the host's disk, as all else.
        library: libfaketime, where it has a clock of its own; None: it has the host's.
    """

    def __init__(
        self,
        link: Link,
        place: Place,
        name: str,
        *,
        block: IPv4Network,
        folder: Path,
        hosts: Path,
        disk: OwnDisk | None = None,
        library: Path | None = None,
    ) -> None:
        super().__init__(link, name, place.client)
        self._place = place
        self._block = block
        self._address = str(block.network_address)
        self._folder = folder
        self._hosts = hosts
        self._own_name = place.hostname or name
        self._disk = disk
        self._clock = WrongClock(library, folder / CLOCK_FILE) if library else None
        self.proxies: SlowWays | None = None  # on its ways, where a run has slow ones
        self._asked = 0  # how often one of our programs was run on it
        self.powerless = False  # from a loss of power until its proxies are back
        self._pids: list[int] = []
        write_hosts(hosts, {}, own_name=self._own_name)

    @property
    def address(self) -> str:
        return self._address

    @property
    def block(self) -> str:
        return str(self._block)

    @property
    def data_dir(self) -> str:
        return str(self._folder)

    async def spawn(self, argv: Sequence[str], *, log: str) -> ProcessStatus:
        path = self._folder / log
        path.touch()  # so that it is ours, whoever writes into it
        own = {} if self._clock is None else self._clock.env
        answer, _ = await self._link.ask(
            "spawn",
            name=self._name,
            argv=list(argv),
            log=str(path),
            folder=str(self._folder),
            env={**self._place.env, **own, "HOME": str(self._folder)},
            hosts=str(self._hosts) if self._place.mount_hosts else None,
            user=self._place.user,
        )
        pid: int = answer["pid"]
        self._pids.append(pid)
        return ProcessStatus(pid=pid, code=None)

    async def signal(self, pid: int, signal: int) -> None:
        await self._link.ask("signal", pid=pid, number=signal)

    async def status(self, pid: int) -> ProcessStatus:
        answer, _ = await self._link.ask("status", pid=pid)
        return ProcessStatus(pid=pid, code=answer["code"], stopped=answer["stopped"])

    async def command(self, pid: int) -> Sequence[str]:
        answer, _ = await self._link.ask("command", pid=pid)
        return [str(word) for word in answer["argv"]]

    async def power_loss(self) -> dict[str, int]:
        """As the contract says. The order matters: a kill first would inform peers by resets and
        leave the kernel time to write back. Held processes see nothing of the end of their disk,
        and their connections end while no packet can leave, so that the kernel of a machine that is
        back has none to say goodbye to."""
        disk = self._disk
        if disk is None:
            raise self._missing(Capability.POWER_LOSS, "its machines have no disks of their own")
        self.powerless = True
        await self._link.ask("plug", name=self._name, up=False)
        try:
            try:
                await self._all(signals.SIGSTOP, lambda s: s.stopped, FREEZE_TIMEOUT_S)
                await self._link.ask("forget", name=self._name)
                await asyncio.to_thread(disk.cut_off)
            finally:
                with suppress(EnvironmentLost):  # which must not take the place of a cancellation
                    await self._all(signals.SIGKILL, lambda s: False, DEATH_TIMEOUT_S)
            back = asyncio.get_running_loop().time() + AWAY_S
            lost = await asyncio.to_thread(disk.restart)
            await asyncio.sleep(max(0.0, back - asyncio.get_running_loop().time()))
        finally:
            with suppress(EnvironmentLost):
                await self._link.ask("plug", name=self._name, up=True)
        if self.proxies is not None:
            await self.proxies.start(self._name)
        self.powerless = False
        return lost

    async def _all(
        self, signal: int, reached: Callable[[ProcessStatus], bool], timeout_s: float
    ) -> None:
        """Send a signal to all processes and what they started, and wait until each is where it
        leads to, or dead."""
        living = [pid for pid in self._pids if (await self.status(pid)).code is None]
        for pid in living:
            await self._link.ask("signal", pid=pid, number=signal, family=True)

        async def there() -> bool:
            now = [await self.status(pid) for pid in living]
            return all(s.code is not None or reached(s) for s in now)

        await until(there, timeout_s)

    async def set_clock(self, offset_ms: int, drift_ppm: int) -> None:
        if drift_ppm:
            raise self._missing(Capability.DRIFT, "drift is for the simulator")
        self._own_clock().set(offset_ms)
        await asyncio.sleep(SEEN_S)

    async def clock(self, pid: int | None) -> ClockShown:
        """As the contract says: what a process says that is started for it."""
        self._own_clock()
        try:
            told = await self.told(_Read, READER, *([] if pid is None else [str(pid)]))
        except OSError as error:
            raise OSError(f"the clock of {self._name} cannot be read: {error}") from None
        return ClockShown(told.ahead_ns / 1e6, told.follows)

    async def told(
        self, told: type[T], module: str, *arguments: str, timeout_s: float = ASKED_TIMEOUT_S
    ) -> T:
        """What a module of ours says that is run on the machine.

        Raises:
            OSError: it says something else, or nothing in time.
        """
        self._asked += 1
        path = self._folder / f"{ASKED}.{self._asked}"
        argv = [self._place.python, "-m", module, *arguments]
        asked = (await self.spawn(argv, log=path.name)).pid

        async def ended() -> bool:
            return (await self.status(asked)).code is not None

        in_time = await until(ended, timeout_s)
        if not in_time:
            await self.signal(asked, signals.SIGKILL)
        self._pids.remove(asked)
        lines = path.read_text(errors="replace").strip().splitlines()
        path.unlink()
        try:
            return msgspec.json.decode(lines[-1] if lines else "", type=told)
        except msgspec.DecodeError:
            nothing = "it says nothing" if in_time else f"no answer within {timeout_s:.0f} s"
            raise OSError(lines[-1] if lines else nothing) from None

    async def try_clock(self) -> None:
        """Find out that it can be set off.

        Raises:
            OSError: it cannot; says what was seen.
        """
        clock = self._own_clock()
        before = (await self.clock(None)).ahead_ms
        clock.set(TRIAL_MS)
        off_ms = (await self.clock(None)).ahead_ms - before
        clock.set(0)
        if abs(off_ms - TRIAL_MS) > TRIAL_MS / 100:
            raise OSError(
                f"a clock that libfaketime sets off by {TRIAL_MS} ms is off by {off_ms:.0f}"
            )

    def _own_clock(self) -> WrongClock:
        if self._clock is None:
            raise self._missing(Capability.CLOCK, "its machines have no clocks of their own")
        return self._clock

    async def set_disk(
        self,
        *,
        full: bool = False,
        sync_ms: int | None = None,
        frozen: bool = False,
        misread: Misread | None = None,
        failing: str = "",
    ) -> None:
        raise self._missing(Capability.DISK, "its machines share one disk")

    async def fill(self, percent: int) -> None:
        disk = self._disk
        if disk is None:
            raise self._missing(Capability.FILL, "its machines have no disks of their own")
        await asyncio.to_thread(disk.fill, percent)

    async def try_disk(self, *, timeout_s: float) -> Written:
        raise self._missing(Capability.DISK, "its machines share one disk")

    async def set_delay(self, delays: Sequence[Delay]) -> None:
        await self._own_proxies().set(self._name, delays)

    async def delays(self) -> Sequence[Delay]:
        return self._own_proxies().delays(self._name)

    async def detour(self) -> Detour:
        return await self._own_proxies().detour(self._name)

    async def echo(self, peer: str) -> Echo:
        return await self._own_proxies().echo(self._name, peer)

    def _own_proxies(self) -> SlowWays:
        if self.proxies is None:
            raise self._missing(Capability.DELAY, "no proxies are on the ways of its machines")
        return self.proxies

    @property
    def dial(self) -> Dial:
        return dial_from(lambda: self._link, ANY_ADDRESS, self._name)

    async def lead(self, ruleset: str) -> None:
        """Let these detours be the machine's."""
        await self._link.ask("detours", name=self._name, ruleset=ruleset)

    async def redirected(self) -> dict[str, int]:
        """How many connections its detours have led."""
        answer, _ = await self._link.ask("redirected", name=self._name)
        return answer

    def _missing(self, what: Capability, why: str) -> MissingCapability:
        return MissingCapability(f"{self._place.environment} cannot do {what.value}: {why}")

    async def set_address(self, address: str) -> None:
        if IPv4Address(address) not in self._block:
            raise ValueError(f"{address} is not of {self._name}'s block {self._block}")
        if address == self._address:
            return
        prefix = self._place.network.prefixlen
        await self._link.ask(
            "address",
            name=self._name,
            remove=[f"{self._address}/{prefix}"],
            add=[f"{address}/{prefix}"],
        )
        self._address = address
        if self.proxies is not None:
            await self.proxies.lead()

    async def set_hosts(self, hosts: Mapping[str, str]) -> None:
        write_hosts(self._hosts, hosts, own_name=self._own_name)

    def _seen(self, path: str) -> Path:
        """Where this process finds what the machine has at a path."""
        disk, point = self._disk, self._folder / DISK
        if disk is None or not Path(path).is_relative_to(point):
            return Path(path)
        return disk.root / Path(path).relative_to(point)

    def _sync_disk(self) -> None:
        """What the harness does to a machine's files is no part of what its disk may lose."""
        if self._disk is not None:
            self._disk.sync()

    async def remove(self, path: str) -> None:
        target = self._seen(path)
        if self._disk is not None and target == self._disk.root:
            self._disk.empty()
        elif target.is_dir() and not target.is_symlink():
            shutil.rmtree(target)
        else:
            target.unlink(missing_ok=True)
        self._sync_disk()

    async def put(self, path: str, data: bytes) -> None:
        target = self._seen(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
        self._sync_disk()

    async def get(self, path: str) -> bytes | None:
        try:
            return self._seen(path).read_bytes()
        except FileNotFoundError:
            return None

    async def age(self, path: str, by_ms: int) -> int | None:
        off_ms = 0 if self._clock is None else self._clock.offset_ms
        target, now_ms = self._seen(path), round(time.time() * 1000) + off_ms
        changed_ns = (now_ms - by_ms) * 1_000_000
        try:
            os.utime(target, ns=(changed_ns, changed_ns))
            return now_ms - target.stat().st_mtime_ns // 1_000_000
        except FileNotFoundError:
            return None

    async def files(self, folder: str) -> list[str]:
        root = Path(folder)
        found = [p for p in root.rglob("*") if p.is_file()]
        if self._disk is not None:
            # The host sees the empty folder that the disk is mounted on inside.
            on_disk = [self._folder / DISK / name for name in self._disk.files()]
            found += [p for p in on_disk if p.is_relative_to(root)]
        return sorted(str(p.relative_to(root)) for p in found)

    async def sizes(self, folder: str) -> dict[str, int]:
        found = {}
        for path in await self.files(folder):
            with suppress(FileNotFoundError):  # it was deleted meanwhile
                found[path] = self._seen(f"{folder}/{path}").stat().st_size
        return found

    async def partition(self, path: str) -> int:
        found = shutil.disk_usage(self._seen(path))
        return found.used + found.free


def write_hosts(path: Path, hosts: Mapping[str, str], *, own_name: str) -> None:
    """Make `path` say what names mean; `own_name`, which every machine must know, means itself
    where nothing else is said of it.

    In place, because a file that is mounted elsewhere is followed by its inode, not by its name;
    in one write that never makes it shorter, so that no reader meets half of a line.
    """
    for name in hosts:
        if HOST_NAME.fullmatch(name) is None:
            raise ValueError(f"no name of a host: {name!r}")
    lines = ["127.0.0.1 localhost"]
    if own_name not in hosts and HOST_NAME.fullmatch(own_name):
        lines.append(f"127.0.1.1 {own_name}")  # as Debian does; Java asks for its own name
    lines += [f"{IPv4Address(a)} {n}" for n, a in sorted(hosts.items())]
    text = "\n".join(lines).encode() + b"\n"
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        os.pwrite(fd, text.ljust(os.fstat(fd).st_size, b"\n"), 0)
    finally:
        os.close(fd)


async def socket_inside(
    link: Asked, machine: str, source: str, *, past: bool = False
) -> socket.socket:
    """A TCP socket made on a machine, bound to one of its addresses; it does not block. With `past`
    its connections go through no proxy of the machine."""
    _, fd = await link.ask("socket", name=machine, source=source, past=past)
    sock = socket.socket(fileno=fd)
    sock.setblocking(False)
    return sock


def dial_from(link: Callable[[], Asked], source: str, machine: str = CLIENT) -> Dial:
    """A way to reach nodes from an address of the clients' machine, or of another one; `link` finds
    its agent, or raises."""

    async def connect(factory: Callable[[], asyncio.Protocol], host: str, port: int) -> Wired:
        sock = await socket_inside(link(), machine, source)
        loop = asyncio.get_running_loop()
        try:
            await loop.sock_connect(sock, (host, port))
            return await loop.create_connection(factory, sock=sock)
        except BaseException:
            sock.close()
            raise

    return connect
