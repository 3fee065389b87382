"""The nodes of a run and their processes: start, end, hold, and the proof of each.

A fault must be seen: a process is gone when its machine says so and its port refuses, held when it
is in state T. Ports are probed from the observers' address, which no cut touches. What a fault did
to a node is remembered here, so that faults which strike at the same time know of each other: a
killed node is not paused any more, a node that is down stays down until it is started.
Units: seconds.
"""

import asyncio
import signal
from collections.abc import Callable, Sequence
from typing import Any

from maxq.harness.client.probes import PROBE_TIMEOUT_S, met, until
from maxq.harness.cluster.first_failure import first_failure
from maxq.harness.contracts.cluster import NothingThere, Proof
from maxq.harness.contracts.environment import Environment, Machine, Port, ProcessStatus, Role
from maxq.harness.contracts.target import Node, Settings, Target, plan
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

    def __init__(self, environment: Environment, target: Target, settings: Settings) -> None:
        self.all: Sequence[Node] = plan(settings.topology)
        self._environment = environment
        self._target = target
        self._settings = settings
        self._by_name = {n.name: n for n in self.all}
        self._pids: dict[str, int] = {}
        self._wanted = dict.fromkeys(self._by_name, False)
        self._paused = dict.fromkeys(self._by_name, False)
        self._excused: set[str] = set()
        self._tampered: set[str] = set()  # until their stores are removed
        self._copied: set[str] = set()  # others got copies of their stores; until these go

    def node(self, name: str) -> Node:
        return self._by_name[name]

    def machine(self, node: str) -> Machine:
        return self._environment.machine(node)

    def address(self, node: str, role: Role | None = None) -> str:
        known = self._by_name[node]
        return f"{self.machine(node).address}:{known.port_of(role or known.role)}"

    def resolve(self, address: str) -> str:
        """What ``host:port`` means, where the host may be a machine's name."""
        host, _, port = address.rpartition(":")
        return f"{self.machine(host).address}:{port}" if host in self._by_name else address

    def config_path(self, node: str) -> str:
        return f"{self.machine(node).data_dir}/node.conf"

    def follows_address(self, node: str) -> bool:
        """Whether it goes with its machine to another address while it runs."""
        return self._target.follows_address(self._by_name[node])

    def running(self, node: str) -> bool:
        return self._wanted[node]

    def paused(self, node: str) -> bool:
        return self._paused[node]

    def excuse(self, node: str) -> None:
        """Its disk is at fault: should it end by itself, that is no wonder."""
        self._excused.add(node)

    def excused(self, node: str) -> bool:
        """Whether its disk was at fault since its last start, or its store was tampered with."""
        return bool(self._excuse(node))

    async def ended_excused(self, node: str) -> bool:
        """Whether it has ended by itself, and may have."""
        return self.excused(node) and (await self.status(node)).code is not None

    def _excuse(self, node: str) -> str:
        if node in self._tampered:
            return STORE_EXCUSE
        if node in self._copied:
            return COPY_EXCUSE
        return DISK_EXCUSE if node in self._excused else ""

    def spawned(self) -> list[str]:
        """Nodes that ever had a process, in order of their first start."""
        return list(self._pids)

    async def status(self, node: str) -> ProcessStatus:
        return await self.machine(node).status(self._pids[node])

    async def command(self, node: str) -> Sequence[str]:
        """The command line of its process, as its machine has it."""
        return await self.machine(node).command(self._pids[node])

    async def signal(self, node: str, number: int) -> None:
        await self.machine(node).signal(self._pids[node], number)

    async def port(self, node: str) -> Port:
        """What an observer meets at the node's port."""
        host, port = split_address(self.address(node))
        dialled = self._environment.observer_dial(asyncio.Protocol, host, port)
        return await met(dialled, PROBE_TIMEOUT_S)

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

        clean = self._target.ends_with(self._by_name[node])
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
        known = node in self._pids
        paused, self._paused[node] = self._paused[node], False
        wanted, self._wanted[node] = self._wanted[node], False
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
        status, port = await self.status(node), await self.port(node)
        # Another exit code means that the process ended by itself: a crash, not our fault.
        holds = status.code in expected and port == "refused"
        return Proof(holds, {"pid": status.pid, "code": status.code, "port": port})

    # Beginnings.

    async def spawn(self, node: str) -> None:
        argv = self._target.argv(self._by_name[node], self._settings, self.config_path(node))
        status = await self.machine(node).spawn(argv, log=NODE_LOG)
        self._pids[node] = status.pid

    async def start(self, node: str) -> Proof:
        before = await self.status(node) if node in self._pids else None
        ended: dict[str, Any] = {}
        if before is None or before.code is not None:
            if before is not None and self._wanted[node]:
                ended = self._by_itself(node, before)
            await self.spawn(node)
            self._paused[node] = False
            self._excused.discard(node)
        self._wanted[node] = True

        async def settled() -> bool:
            gone = (await self.status(node)).code is not None
            return gone or await self.port(node) == "open"

        await until(settled, START_TIMEOUT_S)
        status, port = await self.status(node), await self.port(node)
        holds = status.code is None and port == "open"
        return Proof(holds, {"pid": status.pid, "code": status.code, "port": port, **ended})

    # Held and let go.

    async def pause(self, node: str) -> Proof:
        if not self._wanted[node]:
            return Proof(False, {"reason": "it was down"})
        if await self.ended_excused(node):
            ended = self._by_itself(node, await self.status(node))
            return Proof(False, {**ended, "reason": "it had ended by itself"})
        await self.signal(node, signal.SIGSTOP)
        self._paused[node] = True
        return await self._in_state(node, stopped=True)

    async def resume(self, node: str) -> Proof:
        if not self._paused[node]:
            return Proof(True, {"reason": "it was not paused"})
        await self.signal(node, signal.SIGCONT)
        self._paused[node] = False
        proof = await self._in_state(node, stopped=False)
        port = await self.port(node)
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
        store = f"{machine.data_dir}/store"
        before = len(await machine.files(store))
        await machine.remove(store)
        left = await machine.files(store)
        if not left and node in self._tampered | self._copied:
            self._tampered.discard(node)
            self._copied.discard(node)
            self._wanted[node] = False  # it may have ended by itself, and was excused
        return Proof(not left, {"files": before, "left": len(left)})

    async def copy_store(self, node: str, source: str) -> Proof:
        if await self._runs(node):
            return Proof(False, {"reason": "it runs"})
        machine, theirs = self.machine(node), self.machine(source)
        store = f"{machine.data_dir}/store"
        await machine.remove(store)
        self._tampered.add(node)
        self._copied.add(source)
        for path in await theirs.files(f"{theirs.data_dir}/store"):
            data = await theirs.get(f"{theirs.data_dir}/store/{path}")
            if data is not None and path != STORE_LOCK:
                await machine.put(f"{store}/{path}", data)
        copied = await machine.files(store)
        return Proof(bool(copied), {"source": source, "files": len(copied)})

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
        store = f"{machine.data_dir}/store"
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
        file = f"{machine.data_dir}/store/{path}"
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
        return node in self._pids and (await self.status(node)).code is None

    # What is on its disk.

    async def identity(self, node: str) -> int | None:
        """The id in a broker's identity file; None if there is none, or not a whole one."""
        machine = self.machine(node)
        data = await machine.get(f"{machine.data_dir}/{IDENTITY_FILE}")
        try:
            return None if data is None else decode_identity(data).broker_id
        except RemoteProtocolError:
            return None

    async def stored(self, node: str, folder: str) -> dict[str, bytes]:
        """Files below a folder of the node's data, by path below its data folder."""
        machine = self.machine(node)
        found = {}
        for path in await machine.files(f"{machine.data_dir}/{folder}"):
            data = await machine.get(f"{machine.data_dir}/{folder}/{path}")
            if data is not None:
                found[f"{folder}/{path}"] = data
        return found

    # All of them.

    async def living(self) -> list[str]:
        """Nodes whose process lives."""
        return [name for name in self.spawned() if (await self.status(name)).code is None]

    async def crashed(self) -> dict[str, int]:
        """Nodes that should run and have ended by themselves, with their exit codes."""
        ended = {}
        for name in self.spawned():  # a workload may start a spare meanwhile
            code = (await self.status(name)).code
            if self._wanted[name] and code is not None:
                ended[name] = code
        return ended

    async def look(self) -> dict[str, Any]:
        """What has become of every node that should run: who has ended by himself, with his exit
        code, and why he may have; who runs and does not answer at his port."""
        crashed = await self.crashed()
        wanted = [n.name for n in self.all if self._wanted[n.name] and n.name not in crashed]
        met_at = {name: await self.port(name) for name in wanted if not self._paused[name]}
        return {
            "crashed": dict(sorted(crashed.items())),
            "excused": {name: self._excuse(name) for name in sorted(crashed) if self.excused(name)},
            "silent": [name for name, port in met_at.items() if port != "open"],
            "nodes": len(wanted) + len(crashed),
        }

    async def stop_all(self) -> list[str]:
        """Stop every node cleanly; kills those that do not stop, and returns their names."""
        for node in reversed(self.all):
            if node.name in self._pids:
                self._wanted[node.name] = self._paused[node.name] = False
                await self.signal(node.name, signal.SIGTERM)
                await self.signal(node.name, signal.SIGCONT)

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
