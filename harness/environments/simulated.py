"""Environment simulated: machines of a `World`; a process is a loop object of its own.

Takes the same commands as every environment and knows one program, ``-m maxq.reference ROLE``,
which it runs on the simulated loop of the machine. Capacity of a machine's disk and all timing are
virtual. The harness's own loop is a process of the machine that clients dial from.
"""

import asyncio
import contextlib
import json
import signal as signals
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from ipaddress import IPv4Address, IPv4Network
from typing import Any, cast

from maxq.harness.client.probes import met
from maxq.harness.contracts.environment import (
    BLOCK,
    CLIENT_ADDRESS,
    OBSERVER_ADDRESS,
    REAL_ONLY,
    Capability,
    ClockShown,
    Cut,
    Delay,
    Dropped,
    Echo,
    Lack,
    Loss,
    MachineSpec,
    Misread,
    MissingCapability,
    Port,
    ProcessStatus,
    Written,
    machine_address,
)
from maxq.harness.simulation.loop import SimLoop
from maxq.harness.simulation.oracle.oracle import Oracle
from maxq.harness.simulation.world import SimHost, SimMachine, World
from maxq.reference import mutants
from maxq.reference.__main__ import make_node, parse_arguments
from maxq.reference.node import describe, is_our_bug
from maxq.reference.node_file import parse_node
from maxq.reference.rpc import Dial, Wired

FILLER = "/filler"  # folder of the file by which the disk is filled
TRIAL = "trial"  # folder of the file that `try_disk` writes
MACHINES_MAX = 0x10000 // BLOCK - 1  # of a /16, whose first block is the harness's
BOOT_MS = (200, 2000)  # how long a machine is away that has lost its power
PREFIX = 32 - (BLOCK - 1).bit_length()  # length of the prefix of a machine's block


class _Process:
    """A simulated process: its loop, its command, and how it ended."""

    def __init__(self, loop: SimLoop, argv: Sequence[str]) -> None:
        self.loop = loop
        self.argv = argv
        self.code: int | None = None
        self.task: asyncio.Task[int] | None = None


class SimulatedMachine:
    """A machine of the world, under the contract of all environments."""

    def __init__(self, world: World, machine: SimMachine, oracle: Oracle | None = None) -> None:
        self._oracle = oracle
        self.block = f"{machine.address}/{PREFIX}"
        self._world = world
        self._machine = machine
        self._processes: list[_Process] = []
        self._log_path = ""

    @property
    def name(self) -> str:
        return self._machine.name

    @property
    def address(self) -> str:
        return self._machine.address

    @property
    def data_dir(self) -> str:
        return f"/{self._machine.name}"

    async def spawn(self, argv: Sequence[str], *, log: str) -> ProcessStatus:
        self._log_path = f"{self.data_dir}/{log}"
        loop, host = self._world.process(self._machine)
        process = _Process(loop, tuple(argv))
        self._processes.append(process)
        loop.on_failure = lambda failure: self._failed(process, failure)
        arguments = list(argv[argv.index("maxq.reference") + 1 :])
        process.task = loop.create_task(self._main(process, host, arguments))
        return ProcessStatus(pid=len(self._processes), code=None)

    async def _main(self, process: _Process, host: SimHost, arguments: list[str]) -> int:
        """What ``maxq.reference.__main__.main`` does, without a process around it."""
        args = parse_arguments(arguments)
        try:
            content = self._machine.disk.open(args.config)
            configs, _ = parse_node(args.role, content.pread(content.size(), 0), args.config)
            node = make_node(configs, host, mutant=args.mutant, file=args.config)
            if self._oracle is not None:
                self._oracle.attach(process.loop, self._machine, node)
            with contextlib.suppress(asyncio.CancelledError):
                await node.run(lambda: None)
            process.code = 0
        except Exception as error:
            host.log("node.failed", why=describe(error))
            self._report(error)
            process.code = 1
        process.loop.kill()  # its ports, locks and whatever else still waits end with it
        return process.code

    def _failed(self, process: _Process, failure: BaseException) -> None:
        """A callback of a node failed, and no task awaits it: the node ends, as a real one does
        (`maxq.reference.__main__`), unless it was the world that failed."""
        trouble = isinstance(failure, OSError)
        trace = "node.trouble" if trouble else "node.failed"
        reported: dict[str, object] = {"why": describe(failure)}
        self._machine.log.append((self._world.scheduler.now_ns, trace, reported))
        if not trouble and process.code is None:
            process.code = 1
            process.loop.kill()
            self._report(failure)

    def _report(self, failure: BaseException) -> None:
        """A node that finds itself broken has a bug: the run goes on without the node, as with real
        ones, and the oracle says so."""
        if self._oracle is not None and is_our_bug(failure):
            self._oracle.broke(self.name, describe(failure))

    async def signal(self, pid: int, signal: int) -> None:
        process = self._processes[pid - 1]
        if process.code is not None:
            return
        if signal == signals.SIGKILL:
            process.loop.kill()
            process.code = -signal
        elif signal == signals.SIGTERM and process.task is not None:
            process.loop.call_soon(process.task.cancel)
        elif signal == signals.SIGSTOP:
            process.loop.pause()
        elif signal == signals.SIGCONT:
            process.loop.resume()

    async def power_loss(self) -> dict[str, int]:
        """Lose the power: every process ends at once, the disk loses what was not synced, no peer
        is informed. Returns, once the machine is up again, how many bytes and changes of names were
        lost."""
        for process in self._processes:
            if process.code is None:
                process.code = -signals.SIGKILL
        if self._oracle is not None:
            self._oracle.lost_power(self.name)
        lost, scheduler = self._machine.lose_power(), self._world.scheduler
        boot = scheduler.draws.of("boot", self.name)
        await asyncio.sleep(boot.between(*BOOT_MS, scheduler.now_ns) / 1000)
        self._machine.stack.powered = True
        return {"lost_bytes": lost.byte_count, "lost_names": lost.name_count}

    async def set_clock(self, offset_ms: int, drift_ppm: int) -> None:
        self._machine.set_clock(offset_ms, drift_ppm)

    async def clock(self, pid: int | None) -> ClockShown:
        now_ns = self._world.scheduler.now_ns
        return ClockShown(self._machine.clock.wall_ms(now_ns) - now_ns / 1e6)

    async def set_disk(
        self,
        *,
        full: bool = False,
        sync_ms: int | None = None,
        frozen: bool = False,
        misread: Misread | None = None,
        failing: str = "",
    ) -> None:
        disk = self._machine.disk
        disk.set_fault(full=full, sync_ms=sync_ms, frozen=frozen, misread=misread, failing=failing)

    async def fill(self, percent: int) -> None:
        disk = self._machine.disk
        disk.remove(FILLER)
        if percent:
            file = disk.open(f"{FILLER}/file", create=True)
            usage = disk.usage(FILLER)
            file.truncate(max(0, usage.total * percent // 100 - usage.used))

    async def try_disk(self, *, timeout_s: float) -> Written:
        folder = f"{self.data_dir}/{TRIAL}/once"  # two deep, so that no node's folder is touched
        disk = self._machine.disk
        try:
            file = disk.open(f"{folder}/file", create=True)
            file.pwrite(bytes(1), 0)
            async with asyncio.timeout(timeout_s):
                await file.sync()
        except TimeoutError:
            return "hanging"
        except OSError:
            return "refused"
        finally:
            disk.remove(folder)
        return "written"

    async def set_delay(self, delays: Sequence[Delay]) -> None:
        if any(delay.kb_s for delay in delays):
            raise MissingCapability(f"simulated cannot do {Capability.BANDWIDTH.value}")
        self._machine.stack.delay(delays)

    async def delays(self) -> Sequence[Delay]:
        return [rule.delay for rule in self._machine.stack.delays]

    async def detour(self) -> None:
        return None

    async def echo(self, peer: str) -> Echo:
        raise MissingCapability("simulated has no proxies")

    @property
    def dial(self) -> Dial:
        return self._dial

    async def _dial(self, factory: Callable[[], asyncio.Protocol], host: str, port: int) -> Wired:
        loop = cast(SimLoop, asyncio.get_running_loop())
        return await self._machine.stack.dial(loop, factory, host, port, "")

    async def status(self, pid: int) -> ProcessStatus:
        process = self._processes[pid - 1]
        stopped = process.loop.held is not None
        return ProcessStatus(pid=pid, code=process.code, stopped=stopped)

    async def command(self, pid: int) -> Sequence[str]:
        process = self._processes[pid - 1]
        return process.argv if process.code is None else ()

    async def set_address(self, address: str) -> None:
        if IPv4Address(address) not in IPv4Network(self.block):
            raise ValueError(f"not of the block {self.block} of {self.name}: {address}")
        self._machine.stack.set_address(address)

    async def set_hosts(self, hosts: Mapping[str, str]) -> None:
        self._machine.stack.hosts = dict(hosts)

    async def cut(self, cuts: Sequence[Cut]) -> None:
        self._machine.stack.cut(cuts)

    async def cut_packets(self) -> dict[str, int]:
        return {rule.source: rule.packets for rule in self._machine.stack.rules}

    async def connections(self, block: str) -> frozenset[tuple[str, str]]:
        return frozenset(
            (f"{end.local[0]}:{end.local[1]}", f"{end.remote[0]}:{end.remote[1]}")
            for end in self._machine.stack.with_block(block)
        )

    async def reset_connections(self, block: str, ports: Sequence[int] = ()) -> None:
        self._machine.stack.reset(block, ports)

    async def lose(self, losses: Sequence[Loss]) -> None:
        self._machine.stack.lose(losses)

    async def lost_packets(self) -> dict[str, Dropped]:
        found: dict[str, Dropped] = {}
        for loss in self._machine.stack.losses:
            before = found.get(loss.source, Dropped(0, 0))
            found[loss.source] = Dropped(before.packets + loss.packets, before.of + loss.of)
        return found

    async def probe(self, host: str, port: int, *, timeout_s: float) -> Port:
        return await met(self._dial(asyncio.Protocol, host, port), timeout_s)

    async def remove(self, path: str) -> None:
        self._machine.disk.remove(path)
        if self._oracle is not None:
            self._oracle.wiped(self.name, path)

    async def put(self, path: str, data: bytes) -> None:
        self._machine.disk.install(path, data)
        if self._oracle is not None:
            self._oracle.tampered(self.name, path)

    async def get(self, path: str) -> bytes | None:
        if path == self._log_path:
            return self._log_text()
        return self._machine.disk.content(path)

    async def age(self, path: str, by_ms: int) -> int | None:
        disk = self._machine.disk
        return disk.age(path, by_ms) if path in disk.files else None

    async def files(self, folder: str) -> list[str]:
        prefix = folder.rstrip("/") + "/"
        return sorted(p[len(prefix) :] for p in self._machine.disk.files if p.startswith(prefix))

    async def sizes(self, folder: str) -> dict[str, int]:
        return {p: self._machine.disk.size(f"{folder}/{p}") for p in await self.files(folder)}

    async def partition(self, path: str) -> int:
        return self._machine.disk.usage(path).total

    def _log_text(self) -> bytes:
        lines: list[dict[str, Any]] = [
            {"at_ns": at, "trace": trace, **fields} for at, trace, fields in self._machine.log
        ]
        return "".join(json.dumps(line, default=str) + "\n" for line in lines).encode()


class SimulatedEnvironment:
    """A world of machines.

    Args:
        world: where they live; its scheduler runs the harness as well.
        mutant: a seeded bug that every node of the world has, or empty.
        oracle: watches every node, where there is one.
    """

    name = "simulated"
    capabilities = frozenset(Capability) - REAL_ONLY

    def __init__(self, world: World, *, mutant: str = "", oracle: Oracle | None = None) -> None:
        self._world = world
        self._oracle = oracle
        self._machines: dict[str, SimulatedMachine] = {}
        self._mutant = contextlib.ExitStack()
        if mutant:
            self._mutant.enter_context(mutants.load(mutant))

    def lacking(self) -> Mapping[Capability, Lack]:
        return {}

    async def up(self, machines: Sequence[MachineSpec]) -> None:
        cast(SimLoop, asyncio.get_running_loop()).stack.add_address(OBSERVER_ADDRESS)
        for number, spec in enumerate(machines, start=1):
            made = self._world.add_machine(spec.name, machine_address(number))
            self._machines[spec.name] = SimulatedMachine(self._world, made, self._oracle)

    async def lost(self) -> None:
        """It cannot end before the harness does."""
        await asyncio.get_running_loop().create_future()

    def entrance(self, name: str) -> str:
        return "a simulated machine cannot be entered"

    def machine(self, name: str) -> SimulatedMachine:
        return self._machines[name]

    @property
    def dial(self) -> Dial:
        return partial(_dial_from, CLIENT_ADDRESS)

    @property
    def observer_dial(self) -> Dial:
        return partial(_dial_from, OBSERVER_ADDRESS)

    async def down(self) -> None:
        """End the nodes; the world itself ends with its scheduler."""
        for machine in self._machines.values():
            for process in machine._processes:
                if process.code is None:
                    process.loop.kill()
        self._mutant.close()


def _dial_from(
    source: str, factory: Callable[[], asyncio.Protocol], host: str, port: int
) -> Awaitable[Wired]:
    """The harness's own loop is a process of the client machine, so it dials by itself."""
    loop = asyncio.get_running_loop()
    return loop.create_connection(factory, host, port, local_addr=(source, 0))
