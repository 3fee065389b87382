"""Slow ways between real machines: a toxiproxy on each machine, through which its own connections
go to the ports of the others.

The machine that dials has the proxy, one for each machine and port that others listen at. They are
in the way before the first node starts, because rules that come later leave connections as they
are; and only in runs that schedule a slow way. A delay is a toxic of these proxies and nothing
else: packets to a machine are the downstream of its own proxies, and the upstream of those that
others have to it. What a proxy changes without any toxic: it takes a connection before it knows
whether the other machine does, and ends it then. Handshakes are never late.

A toxiproxy that ends takes its machine's connections with it, so a run ends then (`lost`). Probes
go past the proxies (`maxq.harness.environments.machines.packet_filter.PAST`), so that cuts are
proven as they are in other runs. Units: ms and kB/s where a name says so, else seconds.
"""

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from maxq.harness.contracts.environment import Delay, Detour, Echo, EnvironmentLost
from maxq.harness.environments.machines.machine import LinkedMachine
from maxq.harness.environments.machines.packet_filter import alias, detours

PROGRAM = "maxq.harness.environments.machines.toxics"
HOST, PORT = "127.0.0.1", "8474"
LOG = "toxiproxy.log"
AT_ONCE = 2  # programs that are started, each of which takes a core for a moment
LOOK_S = 0.5  # at whether each still runs
TRIAL_S = 30.0  # for what a trial needs beside the delay
DIALLED_MIN = 32_768  # of Linux: a connection's port on the side that has dialled
Toxic = dict[str, Any]
Toxics = dict[str, list[Toxic]]  # by proxy


class _Server(msgspec.Struct):
    """The toxiproxy of a machine: its process, where each proxy listens, by name and port of the
    other machine, and the toxics that it says it has."""

    machine: LinkedMachine
    alias: str
    ports: tuple[int, ...]
    pid: int = 0
    listeners: dict[tuple[str, int], int] = {}
    toxics: Toxics = {}
    alone: asyncio.Lock = msgspec.field(default_factory=asyncio.Lock)  # who asks for others


class Proxies:
    """The proxies of a run's machines.

    Args:
        program: the path of toxiproxy's server, on each machine.
    """

    def __init__(self, program: Path) -> None:
        self._program = program
        self._servers: dict[str, _Server] = {}
        self._delays: dict[str, tuple[Delay, ...]] = {}  # by the machine that packets come to
        self._slots = asyncio.Semaphore(AT_ONCE)

    async def begin(self, machines: Mapping[LinkedMachine, Sequence[int]]) -> None:
        """Have proxies on all machines, to these ports of theirs.

        Raises:
            OSError: they cannot be had; says why.
        """
        for number, (machine, ports) in enumerate(machines.items(), start=1):
            self._servers[machine.name] = _Server(machine, alias(number), tuple(ports))
            machine.proxies = self
        await asyncio.gather(*map(self.start, self._servers))

    async def start(self, name: str) -> None:
        """Have proxies on a machine whose processes have all ended, with their toxics."""
        server = self._servers[name]
        words = ("env", "LOG_LEVEL=warn", str(self._program), "-host", HOST, "-port", PORT)
        wanted = {
            spelled(other.machine.name, port): f"{other.alias}:{port}"
            for other in self._others(name)
            for port in other.ports
        }
        async with self._slots:
            server.pid = (await server.machine.spawn(words, log=LOG)).pid
            made = await self._ask(server, dict[str, int], "make", wanted)
        server.listeners = {
            (other.machine.name, port): made[spelled(other.machine.name, port)]
            for other in self._others(name)
            for port in other.ports
        }
        server.toxics = {}
        await self._lead(server)
        await self._put([name])

    def _others(self, name: str) -> Iterable[_Server]:
        return (server for other, server in self._servers.items() if other != name)

    async def _ask(
        self, server: _Server, answer: type[Any], do: str, what: object, timeout_s: float = TRIAL_S
    ) -> Any:
        question = json.dumps({do: what})
        try:
            return await server.machine.told(answer, PROGRAM, question, timeout_s=timeout_s)
        except OSError as error:
            raise OSError(f"toxiproxy on {server.machine.name}: {error}") from None

    async def lead(self) -> None:
        """Let detours lead to the addresses that machines have now."""
        for server in self._servers.values():
            await self._lead(server)

    async def _lead(self, server: _Server) -> None:
        addresses = {
            other.machine.name: (other.alias, other.machine.address)
            for other in self._others(server.machine.name)
        }
        await server.machine.lead(detours(addresses, server.listeners))

    async def lost(self) -> None:
        """Wait until a toxiproxy ends.

        Raises:
            EnvironmentLost: one has.
        """
        while True:
            for name, server in self._servers.items():
                pid, machine = server.pid, server.machine
                code = (await machine.status(pid)).code
                if code is not None and server.pid == pid and not machine.powerless:
                    raise EnvironmentLost(
                        f"toxiproxy on {name} ended with code {code}, and with it the connections "
                        f"of {name}; see {machine.data_dir}/{LOG}"
                    )
            await asyncio.sleep(LOOK_S)

    # Delays.

    async def set(self, name: str, delays: Sequence[Delay]) -> None:
        """Let packets to a machine be late."""
        before, self._delays[name] = self._delays.get(name, ()), tuple(delays)
        await self._put(dict.fromkeys([name, *(d.source for d in (*before, *delays))]))

    async def _put(self, names: Iterable[str]) -> None:
        """Have the toxics that delays ask for."""

        async def put(name: str) -> None:
            server = self._servers[name]
            async with server.alone, self._slots:
                if server.toxics != (wanted := self.wanted(name)):
                    server.toxics = await self._ask(server, Toxics, "set", wanted)

        await asyncio.gather(*map(put, names))

    def wanted(self, name: str) -> Toxics:
        """The toxics of a machine's proxies."""
        found: Toxics = {}
        for other, port in self._servers[name].listeners:
            down, up = self._of(name, other, port), self._of(other, name, port)
            if toxics := [*toxics_of(down, "downstream"), *toxics_of(up, "upstream")]:
                found[spelled(other, port)] = sorted(toxics, key=_named)
        return found

    def _of(self, to: str, source: str, port: int) -> list[Delay]:
        every = self._delays.get(to, ())
        return [delay for delay in every if delay.source == source and delay.concerns(port)]

    def delays(self, name: str) -> list[Delay]:
        """The delays of packets to a machine that are set, and whose toxics are all there."""
        return [
            delay
            for delay in self._delays.get(name, ())
            if all(
                self._servers[end].toxics == self.wanted(end) for end in (name, delay.source)
            )
        ]  # fmt: skip

    # What is seen of them.

    async def detour(self, name: str) -> Detour:
        """What is seen of the delays of packets to a machine."""
        straight: list[str] = []
        led = 0
        for delay in self._delays.get(name, ()):
            for dialler, other in ((name, delay.source), (delay.source, name)):
                straight += await self._straight(dialler, other, delay)
                led += await self._led(dialler, other, delay)
        return Detour(tuple(straight), led)

    async def _straight(self, dialler: str, other: str, delay: Delay) -> list[str]:
        """Connections of a delay that go through no proxy: those that were accepted there, and are
        none of the proxies'."""
        here, there = self._servers[dialler].machine, self._servers[other]
        led = {end for end, _ in await here.connections(there.alias)}
        found = []
        for accepted, dialled in await there.machine.connections(here.block):
            port = int(accepted.rpartition(":")[2])
            if port < DIALLED_MIN and delay.concerns(port) and dialled not in led:
                found.append(f"{dialled}>{accepted}")
        return found

    async def _led(self, dialler: str, other: str, delay: Delay) -> int:
        counts = await self._servers[dialler].machine.redirected()
        ports = self._servers[other].ports
        return sum(counts.get(spelled(other, port), 0) for port in ports if delay.concerns(port))

    async def echo(self, name: str, peer: str) -> Echo:
        """What a proxy does that has the toxics of the first one to a machine that has some."""
        wanted = self.wanted(name)
        each = (wanted.get(spelled(peer, port), []) for port in self._servers[peer].ports)
        toxics = next(filter(None, each), [])
        late_s = sum(toxic["attributes"].get("latency", 0) for toxic in toxics) / 1000
        timeout_s = TRIAL_S + 10 * late_s
        async with self._slots:
            echo: Echo = await self._ask(self._servers[name], Echo, "try", toxics, timeout_s)
        return echo


async def first_of(ended: Sequence["asyncio.Future[None]"]) -> None:
    """Wait for whichever ends first, and end as it does; the others are given up."""
    try:
        done, _ = await asyncio.wait(ended, return_when=asyncio.FIRST_COMPLETED)
        for one in done:
            one.result()
    finally:
        for one in ended:
            one.cancel()


def spelled(name: str, port: int) -> str:
    """What the proxy to a machine's port is called."""
    return f"{name}.{port}"


def toxics_of(delays: Sequence[Delay], stream: str) -> list[Toxic]:
    """What all of these delays ask for together: the longest, and the least bandwidth."""
    found: list[Toxic] = []
    late = max(delays, key=lambda d: (d.ms, d.jitter_ms), default=None)
    if late is not None and late.ms:
        found.append(_toxic("latency", stream, latency=late.ms, jitter=late.jitter_ms))
    bounded = [d.kb_s for d in delays if d.kb_s]
    if bounded:
        found.append(_toxic("bandwidth", stream, rate=min(bounded)))
    return found


def _toxic(kind: str, stream: str, **attributes: int) -> Toxic:
    return {"type": kind, "stream": stream, "attributes": attributes}


def _named(toxic: Toxic) -> tuple[str, str]:
    return toxic["type"], toxic["stream"]
