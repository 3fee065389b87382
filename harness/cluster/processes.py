"""The nodes of a run and their processes: start, end, hold, and the proof of each.

A fault must be seen: a process is gone when its machine says so and its port refuses, held when it
is in state T. Ports are probed from the observers' address, which no cut touches. What a fault did
to a node is remembered here, so that faults which strike at the same time know of each other: a
killed node is not paused any more, a node that is down stays down until it is started. What is done
to a broker in a container is done to its process, and so to all brokers of that.
Units: seconds.
"""

import asyncio
import signal
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from maxq.harness.client.probes import PROBE_TIMEOUT_S, met, until
from maxq.harness.cluster.first_failure import first_failure
from maxq.harness.contracts.cluster import Grudge, NothingThere, Proof
from maxq.harness.contracts.environment import Environment, Machine, Port, ProcessStatus, Role
from maxq.harness.contracts.target import (
    NODE_FILE,
    PORTS_APART,
    Node,
    PortClass,
    Settings,
    Target,
    containers,
    containing,
    inner_folder,
    listening,
    plan,
)
from maxq.reference.records import RemoteProtocolError
from maxq.reference.rpc import split_address
from maxq.reference.wire.files import decode_identity

NODE_LOG = "node.log"
IDENTITY_FILE = "store/brokerIdentity"
START_TIMEOUT_S = 60.0  # a JVM on a busy machine; our own nodes need half a second
DEATH_TIMEOUT_S = 10.0
STOP_TIMEOUT_S = 15.0  # a broker says goodbye for 5 s to name servers that do not answer
STATE_TIMEOUT_S = 5.0
LOG_TAIL_BYTES = 600
# Why a node may have ended by itself.
DISK_EXCUSE, STORE_EXCUSE = "its disk was at fault", "its store was tampered with"
COPY_EXCUSE = "another node got a copy of its store, and may have been taken for it"
STORE_LOCK = "lock"  # in a store, held by a process: no copy has it


class Nodes:
    """Nodes by name: machine, process, what faults have made of them.

    Args:
        environment: where they run.
        target: what they are.
        settings: how they are set up.
    """

    met_of_ended = frozenset[Port](("refused",))  # at the port of a node whose process is gone

    def __init__(self, environment: Environment, target: Target, settings: Settings) -> None:
        self.all: Sequence[Node] = plan(settings.topology)
        self.containers = {c.name: c for c in containers(self.all)}
        self.processes = tuple(dict.fromkeys(n.process for n in self.all))  # also of machines
        self._environment = environment
        self._target = target
        self._settings = settings
        self._by_name = {n.name: n for n in self.all}
        self._pids: dict[str, int] = {}  # this and the next by process
        self._wanted = dict.fromkeys(self.processes, False)
        self._paused = dict.fromkeys(self.processes, False)
        self._excused: set[str] = set()
        self._tampered: set[str] = set()  # until their stores are removed
        self.removed: set[str] = set()  # brokers that their containers ended, and went on
        self._copied: set[str] = set()  # others got copies of their stores; until these go

    def node(self, name: str) -> Node:
        return self._by_name[name]

    def process(self, name: str) -> str:
        """The process of a node, or of that name."""
        return self._by_name[name].process if name in self._by_name else name

    def on(self, process: str) -> tuple[str, ...]:
        """The nodes that are in a process."""
        container = self.containers.get(process)
        return (process,) if container is None else container.brokers

    def others(self, node: str) -> list[str]:
        """All processes but that of a node."""
        return [process for process in self.processes if process != self.process(node)]

    def between(self, grudge: Grudge) -> dict[str, frozenset[str]]:
        """A grudge of nodes as one of the machines that they are on; none is cut from itself."""
        found: dict[str, set[str]] = {}
        for to, sources in grudge.items():
            own = self.process(to)
            found.setdefault(own, set()).update({self.process(s) for s in sources} - {own})
        return {to: frozenset(sources) for to, sources in found.items() if sources}

    def of_all(self, proofs: Mapping[str, Proof]) -> dict[str, Proof]:
        """Proofs of machines as those of all nodes on them, and what was seen between machines as
        of nodes."""
        found = {}
        for machine, proof in proofs.items():
            seen = {name: self._by_node(what) for name, what in proof.seen.items()}
            found.update(dict.fromkeys(self.on(machine), Proof(proof.holds, seen)))
        return found

    def _by_node(self, seen: Any) -> Any:
        if not isinstance(seen, dict):
            return seen
        return {node: what for name, what in seen.items() for node in self.on(name)}

    def listening(self, process: str) -> dict[PortClass, frozenset[int]]:
        """Where others connect to the nodes of a process."""
        found: dict[PortClass, frozenset[int]] = {}
        for node in (node for node in self.all if node.process == process):
            for kind, ports in listening(node, self._settings).items():
                found[kind] = found.get(kind, frozenset()) | ports
        if process in self.containers:
            found["remoting"] |= {self.containers[process].port}
        return found

    def ports(self, process: str) -> tuple[int, ...]:
        """The same, of all kinds."""
        return tuple(sorted(frozenset().union(*self.listening(process).values())))

    def rehome(self, name: str, container: str) -> None:
        """A guest is another container's from now on, at a port that nobody has there."""
        beside = [n.port for n in self.all if n.process == container and n.name != name]
        port = max(beside) + PORTS_APART
        moved = msgspec.structs.replace(self._by_name[name], container=container, port=port)
        self._by_name[name] = moved
        self.all = [moved if node.name == name else node for node in self.all]

    def machine(self, node: str) -> Machine:
        return self._environment.machine(self.process(node))

    def folder(self, node: str) -> str:
        """Where it has what is its own, on its machine."""
        own = self.machine(node).data_dir
        return own if self.process(node) == node else inner_folder(own, node)

    def address(self, node: str, role: Role | None = None) -> str:
        if node in self.containers:
            return f"{self.machine(node).address}:{self.containers[node].port}"
        known = self._by_name[node]
        return f"{self.machine(node).address}:{known.port_of(role or known.role)}"

    def resolve(self, address: str) -> str:
        """What ``host:port`` means, where the host may be a machine's name."""
        host, _, port = address.rpartition(":")
        return f"{self.machine(host).address}:{port}" if host in self.processes else address

    def config_path(self, node: str) -> str:
        return f"{self.folder(node)}/{NODE_FILE}"

    def follows_address(self, node: str) -> bool:
        """Whether it goes with its machine to another address while it runs."""
        known = (self._by_name[each] for each in self.on(self.process(node)))
        return all(self._target.follows_address(each) for each in known)

    def running(self, node: str) -> bool:
        return self.wanted(node) and node not in self.removed

    def wanted(self, node: str) -> bool:
        """Whether its process should run."""
        return self._wanted[self.process(node)]

    def paused(self, node: str) -> bool:
        return self._paused[self.process(node)]

    def excuse(self, node: str) -> None:
        """Its disk is at fault: should it end by itself, that is no wonder."""
        self._excused.add(self.process(node))

    def excused(self, node: str) -> bool:
        """Whether its disk was at fault since its last start, or its store was tampered with."""
        return bool(self._excuse(node))

    async def ended_excused(self, node: str) -> bool:
        """Whether it has ended by itself, and may have."""
        return self.excused(node) and (await self.status(node)).code is not None

    def _excuse(self, node: str) -> str:
        """Of a broker that ended alone, or of whoever its process has."""
        within = {node, *self.on(node)}
        if within & self._tampered:
            return STORE_EXCUSE
        if within & self._copied:
            return COPY_EXCUSE
        return DISK_EXCUSE if self.process(node) in self._excused else ""

    def spawned(self) -> list[str]:
        """Processes that were ever started, in order of their first start."""
        return list(self._pids)

    async def status(self, node: str) -> ProcessStatus:
        return await self.machine(node).status(self._pids[self.process(node)])

    async def pid(self, node: str) -> int | None:
        """Its process on its machine; None if it does not live."""
        process = self.process(node)
        lives = process in self._pids and (await self.status(node)).code is None
        return self._pids[process] if lives else None

    def answers(self, node: str) -> bool:
        """Whether it should run, and nothing holds it."""
        return self.running(node) and not self.paused(node)

    async def command(self, node: str) -> Sequence[str]:
        """The command line of its process, as its machine has it."""
        return await self.machine(node).command(self._pids[self.process(node)])

    async def signal(self, node: str, number: int) -> None:
        await self.machine(node).signal(self._pids[self.process(node)], number)

    async def port(self, node: str) -> Port:
        """What an observer meets at the node's port."""
        host, port = split_address(self.address(node))
        dialled = self._environment.observer_dial(asyncio.Protocol, host, port)
        return await met(dialled, PROBE_TIMEOUT_S)

    async def _ports(self, node: str) -> dict[str, Port]:
        """What is met at all ports of a node's process, by whom they belong to."""
        process = self.process(node)
        names = dict.fromkeys((process, *self.on(process)))
        return {name: await self.port(name) for name in names if name not in self.removed}

    def _seen(self, node: str, status: ProcessStatus, ports: dict[str, Port]) -> dict[str, Any]:
        """What a proof shows of a process: of several ports the one that is not as the first."""
        first = next(iter(ports.values()))
        port = next((p for p in ports.values() if p != first), first)
        seen = {"pid": status.pid, "code": status.code, "port": port}
        process = self.process(node)
        if process not in self.containers:
            return seen
        return {**seen, "container": process, "ports": ports}

    # Ends.

    async def kill(self, node: str) -> Proof:
        before = await self._condemned(node)
        if before is not None:
            return before
        await self.signal(node, signal.SIGKILL)
        return await self._ended(node, -signal.SIGKILL)

    async def power_loss(self, node: str) -> Proof:
        before = await self._condemned(node)
        if before is not None:
            return before
        try:
            lost = await self.machine(node).power_loss()
        except OSError as error:
            return Proof(False, {"reason": str(error)})
        proof = await self._ended(node, -signal.SIGKILL)
        return Proof(proof.holds, {**proof.seen, **lost})

    async def stop(self, node: str) -> Proof:
        before = await self._condemned(node)
        if before is not None:
            return before
        await self.signal(node, signal.SIGTERM)
        await self.signal(node, signal.SIGCONT)  # one that is held could not hear it

        async def gone() -> bool:
            return (await self.status(node)).code is not None

        known = self._by_name[self.on(self.process(node))[0]]
        clean = self._target.ends_with(known)
        if await until(gone, STOP_TIMEOUT_S):
            return await self._ended(node, clean)
        await self.signal(node, signal.SIGKILL)
        proof = await self._ended(node, -signal.SIGKILL, clean)  # it may have ended in time
        if proof.seen["code"] != -signal.SIGKILL:
            return proof
        why = f"it did not stop within {STOP_TIMEOUT_S:.0f} s and was killed"
        return Proof(proof.holds, {**proof.seen, "forced": True, "reason": why})

    async def _condemned(self, node: str) -> Proof | None:
        """From now on the node should not run. A proof that it did not, if so."""
        process = self.process(node)
        known = process in self._pids
        paused, self._paused[process] = self._paused[process], False
        wanted, self._wanted[process] = self._wanted[process], False
        status = await self.status(node) if known else None
        if status is not None and status.code is None:
            return None
        seen: dict[str, Any] = {}
        if status is not None:
            seen = {"pid": status.pid, "code": status.code}
        if wanted or paused:
            seen |= self._by_itself(node, status)
        why = "it had ended by itself" if wanted or paused else "it was down"
        return Proof(False, {**seen, "reason": why})

    def _by_itself(self, node: str, status: ProcessStatus | None) -> dict[str, Any]:
        """What is told of a node that has ended by itself; why it may, where it may."""
        code = None if status is None else status.code
        excuse = self._excuse(node)
        return {"ended_by_itself": code, **({"excused": excuse} if excuse else {})}

    async def _ended(self, node: str, *expected: int) -> Proof:
        """Prove the end of a process: gone, with a right exit code, and its port refuses."""

        async def gone() -> bool:
            return (await self.status(node)).code is not None

        await until(gone, DEATH_TIMEOUT_S)
        status, ports = await self.status(node), await self._ports(node)
        # Another exit code means that the process ended by itself: a crash, not our fault.
        holds = status.code in expected and self.met_of_ended >= {*ports.values()}
        return Proof(holds, self._seen(node, status, ports))

    # Beginnings.

    async def spawn(self, node: str) -> None:
        process = self.process(node)
        path = self.config_path(process)
        if process in self.containers:
            container = self.containers[process]
            argv = containing(self._target).container_argv(container, self._settings, path)
        else:
            argv = self._target.argv(self._by_name[node], self._settings, path)
        status = await self.machine(node).spawn(argv, log=NODE_LOG)
        self._pids[process] = status.pid

    async def start(self, node: str) -> Proof:
        process = self.process(node)
        before = await self.status(node) if process in self._pids else None
        ended: dict[str, Any] = {}
        if before is None or before.code is not None:
            if before is not None and self._wanted[process]:
                ended = self._by_itself(node, before)
            await self.spawn(node)
            self._paused[process] = False
            self._excused.discard(process)
            self.removed.difference_update(self.on(process))
        self._wanted[process] = True

        async def settled() -> bool:
            gone = (await self.status(node)).code is not None
            return gone or {*(await self._ports(node)).values()} == {"open"}

        await until(settled, START_TIMEOUT_S * len(self.on(process)))  # one after the other
        status, ports = await self.status(node), await self._ports(node)
        holds = status.code is None and {*ports.values()} == {"open"}
        return Proof(holds, {**self._seen(node, status, ports), **ended})

    # Held and let go.

    async def pause(self, node: str) -> Proof:
        if not self.wanted(node):
            return Proof(False, {"reason": "it was down"})
        if await self.ended_excused(node):
            ended = self._by_itself(node, await self.status(node))
            return Proof(False, {**ended, "reason": "it had ended by itself"})
        await self.signal(node, signal.SIGSTOP)
        self._paused[self.process(node)] = True
        return await self._in_state(node, stopped=True)

    async def resume(self, node: str) -> Proof:
        if not self.paused(node):
            return Proof(True, {"reason": "it was not paused"})
        await self.signal(node, signal.SIGCONT)
        self._paused[self.process(node)] = False
        proof = await self._in_state(node, stopped=False)
        ports = await self._ports(node)
        port = next((p for p in ports.values() if p != "open"), "open")
        goes_on = proof.holds and port == "open"
        # It went on into a disk that takes nothing, and that ended it.
        ended = await self.ended_excused(node)
        return Proof(goes_on or ended, {**proof.seen, "port": port, "ended": ended})

    async def _in_state(self, node: str, *, stopped: bool) -> Proof:
        async def reached() -> bool:
            status = await self.status(node)
            return status.code is not None or status.stopped == stopped

        await until(reached, STATE_TIMEOUT_S)
        status = await self.status(node)
        holds = status.code is None and status.stopped == stopped
        return Proof(holds, {"pid": status.pid, "code": status.code, "stopped": status.stopped})

    # Its store, while it is down.

    async def wipe(self, node: str) -> Proof:
        if await self._runs(node):
            return Proof(False, {"reason": "it runs"})
        machine = self.machine(node)
        store = self.store(node)
        before = len(await machine.files(store))
        await machine.remove(store)
        left = await machine.files(store)
        if not left and node in self._tampered | self._copied:
            self._tampered.discard(node)
            self._copied.discard(node)
            self._wanted[self.process(node)] = False  # it may have ended by itself, excused
        return Proof(not left, {"files": before, "left": len(left)})

    async def copy_store(self, node: str, source: str) -> Proof:
        if await self._runs(node):
            return Proof(False, {"reason": "it runs"})
        machine, theirs = self.machine(node), self.machine(source)
        store, there = self.store(node), self.store(source)
        await machine.remove(store)
        self._tampered.add(node)
        self._copied.add(source)
        await _copied(theirs, there, machine, store)
        copied = await machine.files(store)
        return Proof(bool(copied), {"source": source, "files": len(copied)})

    async def move_store(self, guest: str, container: str) -> None:
        """Take the store of a guest that does not run to another container's machine."""
        old, was = self.machine(guest), self.store(guest)
        self.rehome(guest, container)
        machine, store = self.machine(guest), self.store(guest)
        await machine.remove(store)
        await _copied(old, was, machine, store)
        await old.remove(was)

    async def cut_file(self, node: str, path: str, length: int | float) -> Proof:
        def cut(data: bytes, length: int) -> bytes | None:
            return data[:length] if length < len(data) else None

        cannot = f"{path} is no longer than {length} bytes"
        return await self._changed(node, path, cut, length, cannot)

    async def flip_bit(self, node: str, path: str, bit: int | float) -> Proof:
        def flip(data: bytes, bit: int) -> bytes | None:
            at, flipped = bit if bit >= 0 else 8 * len(data) + bit, bytearray(data)
            if not 0 <= at < 8 * len(data):
                return None
            flipped[at // 8] ^= 1 << at % 8
            return bytes(flipped)

        return await self._changed(node, path, flip, bit, f"{path} has no bit {bit}", of=8)

    async def remove_files(self, node: str, paths: Sequence[str]) -> Proof:
        if await self._runs(node):
            return Proof(False, {"reason": "it runs"})
        machine = self.machine(node)
        store = self.store(node)
        there = sorted({*paths} & {*await machine.files(store)})
        if not there:
            raise NothingThere(", ".join(paths))
        for path in there:
            await machine.remove(f"{store}/{path}")
        left = sorted({*paths} & {*await machine.files(store)})
        return Proof(not left, {"removed": there, "left": left})

    async def _changed(
        self,
        node: str,
        path: str,
        change: Callable[[bytes, int], bytes | None],
        place: int | float,
        cannot: str,
        of: int = 1,
    ) -> Proof:
        """Change a file at a place; as a fraction that counts so many a byte of what is written."""
        if await self._runs(node):
            return Proof(False, {"reason": "it runs"})
        machine = self.machine(node)
        file = f"{self.store(node)}/{path}"
        before = await machine.get(file)
        if isinstance(place, float):
            if not (written := (before or b"").rstrip(b"\0")):
                raise NothingThere(path)
            place = int(place * of * len(written))
        after = None if before is None else change(before, place)
        if before is None or after is None:
            return Proof(False, {"reason": cannot})
        self._tampered.add(node)
        await machine.put(file, after)
        seen = {"path": path, "bytes": len(before), "left": len(after)}
        return Proof(await machine.get(file) == after, seen)

    async def _runs(self, node: str) -> bool:
        return await self.pid(node) is not None

    # What is on its disk.

    def store(self, node: str) -> str:
        """The folder of its store."""
        return f"{self.folder(node)}/store"

    async def identity(self, node: str) -> int | None:
        """The id in a broker's identity file; None if there is none, or not a whole one."""
        data = await self.machine(node).get(f"{self.folder(node)}/{IDENTITY_FILE}")
        try:
            return None if data is None else decode_identity(data).broker_id
        except RemoteProtocolError:
            return None

    async def stored(self, node: str, folder: str) -> dict[str, bytes]:
        """Files below a folder of the node's data, by path below its data folder."""
        machine, own = self.machine(node), self.folder(node)
        found = {}
        for path in await machine.files(f"{own}/{folder}"):
            data = await machine.get(f"{own}/{folder}/{path}")
            if data is not None:
                found[f"{folder}/{path}"] = data
        return found

    async def sizes(self, node: str) -> dict[str, int]:
        """How long the files of its store are, by path below the store."""
        return await self.machine(node).sizes(self.store(node))

    async def partition(self, node: str) -> int:
        """How many bytes the partition of its store has."""
        return await self.machine(node).partition(self.store(node))

    # All of them.

    async def living(self) -> list[str]:
        """Processes that live."""
        return [name for name in self.spawned() if (await self.status(name)).code is None]

    async def crashed(self) -> dict[str, int]:
        """Nodes that should run and have ended by themselves, with their exit codes."""
        ended = {}
        for process in self.spawned():  # a workload may start a spare meanwhile
            code = (await self.status(process)).code
            if self._wanted[process] and code is not None:
                ended.update(dict.fromkeys(self.on(process), code))
        return ended

    async def look(self) -> dict[str, Any]:
        """What has become of every node that should run: who has ended by himself, with his exit
        code, and why he may have; who runs and does not answer at his port."""
        crashed = await self.crashed()
        guests = [n.name for n in self.all if n.guest]  # they come and go
        running = [n.name for n in self.all if self.running(n.name) and n.name not in guests]
        wanted = [name for name in running if name not in crashed]
        met_at = {name: await self.port(name) for name in wanted if not self.paused(name)}
        return {
            "crashed": dict(sorted(crashed.items())),
            "excused": {name: self._excuse(name) for name in sorted(crashed) if self.excused(name)},
            "silent": [name for name, port in met_at.items() if port != "open"],
            "nodes": len(wanted) + len(crashed),
        }

    async def stop_all(self) -> list[str]:
        """Stop every node cleanly; kills those that do not stop, and returns their names."""
        for process in reversed(self.processes):
            if process in self._pids:
                self._wanted[process] = self._paused[process] = False
                await self.signal(process, signal.SIGTERM)
                await self.signal(process, signal.SIGCONT)

        async def all_ended() -> bool:
            return not await self.living()

        if await until(all_ended, STOP_TIMEOUT_S):
            return []
        stubborn = await self.living()
        for name in stubborn:
            await self.signal(name, signal.SIGKILL)
        await until(all_ended, DEATH_TIMEOUT_S)
        return stubborn

    async def told(self, node: str, what: str) -> str:
        """What is wrong with a node: its first exception, or the end of its log."""
        machine = self.machine(node)
        path = f"{machine.data_dir}/{NODE_LOG}"
        log = await machine.get(path) or b""
        if failure := first_failure(log.decode(errors="replace")):
            return f"{node} {what}: {failure}; its log: {path}"
        tail = log[-LOG_TAIL_BYTES:].decode(errors="replace").strip()
        return f"{node} {what}; its {NODE_LOG} ends: {tail or '(empty)'}"


async def _copied(source: Machine, there: str, machine: Machine, store: str) -> None:
    """Copy a store from a machine, but for the file that its process had locked."""
    for path in await source.files(there):
        data = await source.get(f"{there}/{path}")
        if data is not None and path != STORE_LOCK:
            await machine.put(f"{store}/{path}", data)
