"""Raft nodes as processes of a simulated world: elections, kills, restarts, a wiped node."""

import asyncio
from collections.abc import Callable

import pytest

from maxq.harness.simulation.loop import SimLoop
from maxq.harness.simulation.world import SimHost, SimMachine, World
from maxq.reference import rpc
from maxq.reference.node import dispatcher
from maxq.reference.raft.core import Timing
from maxq.reference.raft.server import SNAPSHOT_S, NotLeader, OutcomeUnknown, Raft
from maxq.reference.wire.codes import RAFT

PORT = 9878
TIMING = Timing(election_ns=300_000_000, heartbeat_ns=50_000_000)


class Words:
    """A replicated list of words."""

    def __init__(self) -> None:
        self.words: list[bytes] = []

    def apply(self, index: int, command: bytes) -> object:
        self.words.append(command)
        return len(self.words)

    def refuses(self, command: bytes) -> str:
        return "no word" if command.startswith(b"?") else ""

    def refuses_snapshot(self, data: bytes) -> str:
        return "no list" if data.startswith(b"?") else ""

    def snapshot(self) -> bytes:
        return b",".join(self.words)

    def restore(self, data: bytes) -> None:
        self.words = data.split(b",") if data else []


class Group:
    """Machines of a Raft group, and the process that runs on each now."""

    def __init__(
        self,
        world: World,
        size: int,
        *,
        by_name: bool = False,
        compact_bytes: int = 600,
        snapshot_s: float = SNAPSHOT_S,
    ) -> None:
        self.world = world
        self.compact_bytes, self.snapshot_s = compact_bytes, snapshot_s
        self.machines = {
            f"n{i}": world.add_machine(f"n{i}", f"198.18.0.{16 * (i + 1)}") for i in range(size)
        }
        self.peers = {n: f"{n if by_name else m.address}:{PORT}" for n, m in self.machines.items()}
        for machine in self.machines.values():
            machine.stack.hosts = {n: m.address for n, m in self.machines.items()}
        self.loops: dict[str, SimLoop] = {}
        self.rafts: dict[str, Raft] = {}
        self.words: dict[str, Words] = {}
        for name in self.machines:
            self.start(name)

    def start(self, name: str) -> None:
        loop, host = self.world.process(self.machines[name])
        self.loops[name] = loop
        loop.create_task(self._main(name, host))

    async def _main(self, name: str, host: SimHost) -> None:
        words = self.words[name] = Words()
        async with asyncio.TaskGroup() as group:
            raft = self.rafts[name] = Raft(
                host,
                "/raft",
                group="g",
                me=name,
                peers=self.peers,
                machine=words,
                tasks=group,
                timing=TIMING,
                compact_bytes=self.compact_bytes,
                snapshot_s=self.snapshot_s,
            )
            await raft.load()
            handle = dispatcher({RAFT: raft.handle})
            await rpc.serve("0.0.0.0", PORT, handle, group=group)
            await raft.run()

    def kill(self, name: str) -> None:
        self.loops[name].kill()
        del self.rafts[name]

    def leader(self) -> str | None:
        ready = [n for n, r in self.rafts.items() if r.ready]
        return ready[0] if len(ready) == 1 else None

    def everywhere(self, words: list[bytes]) -> bool:
        return all(self.words[n].words == words for n in self.rafts)


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - polled: it looks into other processes
            await asyncio.sleep(0.01)


async def say(group: Group, word: bytes) -> None:
    """Propose until it is applied; the words of a test are told apart, so a repeat would show."""
    async with asyncio.timeout(30):
        while True:
            await until(group.leader)
            name = group.leader()
            try:
                if name is not None:
                    # The proposal must run in the leader's own process.
                    done = group.loops[name].create_task(group.rafts[name].propose(word))
                    await until(done.done)
                    done.result()
                    return
            except NotLeader:
                continue


@pytest.mark.parametrize("size", [1, 3, 5])
def test_a_group_elects_and_agrees(size: int) -> None:
    world = World(size)

    async def main(host: SimHost) -> None:
        group = Group(world, size)
        words = [b"w%d" % i for i in range(40)]
        for word in words:
            await say(group, word)
        await until(lambda: group.everywhere(words))

    client: SimMachine = world.add_machine("client", "198.18.0.2")
    world.run(client, main)
    world.close()


@pytest.mark.parametrize("seed", range(5))
def test_a_group_whose_machines_all_move_finds_together_again(seed: int) -> None:
    """No connection ends when a machine moves; messages to its old address reach nobody."""
    world = World(f"moves/{seed}")

    async def main(host: SimHost) -> None:
        group = Group(world, 3, by_name=True)
        await say(group, b"before")
        for name, machine in group.machines.items():
            machine.stack.set_address(machine.address[:-1] + "9")
            for other in group.machines.values():
                other.stack.hosts[name] = machine.address
            await asyncio.sleep(1)
        await say(group, b"after")
        await until(lambda: group.everywhere([b"before", b"after"]))

    world.run(world.add_machine("client", "198.18.1.2"), main)
    world.close()


def test_a_killed_leader_is_replaced_and_comes_back() -> None:
    world = World(7)

    async def main(host: SimHost) -> None:
        group = Group(world, 3)
        said: list[bytes] = []
        for round_ in range(6):
            for i in range(5):
                said.append(b"r%d.%d" % (round_, i))
                await say(group, said[-1])
            victim = group.leader()
            assert victim is not None
            group.kill(victim)
            said.append(b"without %d" % round_)
            await say(group, said[-1])
            group.start(victim)
            await until(lambda: len(group.rafts) == 3 and group.everywhere(said))

    world.run(world.add_machine("client", "198.18.0.2"), main)
    world.close()


def test_a_wiped_node_catches_up_from_the_snapshot_and_can_lead() -> None:
    """Must show: wiping one controller after a snapshot."""
    world = World(8)

    async def main(host: SimHost) -> None:
        group = Group(world, 3)
        said = [b"word %d" % i for i in range(60)]
        for word in said:
            await say(group, word)
        leader = group.leader()
        wiped = next(n for n in group.machines if n != leader)
        assert "/raft/snapshot" in group.machines[wiped].disk.files
        group.kill(wiped)
        group.machines[wiped].disk.files.clear()
        group.start(wiped)
        await until(lambda: wiped in group.rafts and group.everywhere(said))
        assert group.rafts[wiped].core.log.snapshot_index > 0
        others = [n for n in group.machines if n != wiped]
        for _ in range(40):
            if group.leader() == wiped:
                break
            victim = group.leader() or others[0]
            group.kill(victim)
            await until(group.leader)
            group.start(victim)
            await until(lambda: len(group.rafts) == 3 and group.everywhere(said))
        assert group.leader() == wiped

    world.run(world.add_machine("client", "198.18.0.2"), main)
    world.close()


def test_no_snapshot_is_due_because_a_machine_has_run_for_long() -> None:
    world = World(8)

    async def main(host: SimHost) -> None:
        await asyncio.sleep(10)
        group = Group(world, 3, compact_bytes=1 << 20, snapshot_s=5.0)
        await say(group, b"word")
        assert {raft.core.log.snapshot_index for raft in group.rafts.values()} == {0}

    world.run(world.add_machine("client", "198.18.0.2"), main)
    world.close()


def test_a_snapshot_is_taken_each_so_many_seconds_however_short_the_log_is() -> None:
    world = World(8)

    async def main(host: SimHost) -> None:
        group = Group(world, 3, compact_bytes=1 << 20, snapshot_s=2.0)
        for word in range(2):
            await say(group, b"word %d" % word)
        await asyncio.sleep(2.5)
        before = [raft.core.log.snapshot_index for raft in group.rafts.values()]
        await say(group, b"after two seconds")
        await until(lambda: all(raft.core.log.snapshot_index > max(before)
                                for raft in group.rafts.values()))  # fmt: skip

    world.run(world.add_machine("client", "198.18.0.2"), main)
    world.close()


def test_a_minority_takes_nothing_and_reads_nothing() -> None:
    world = World(9)

    async def main(host: SimHost) -> None:
        group = Group(world, 3)
        await say(group, b"first")
        leader = group.leader()
        assert leader is not None
        for other in [n for n in group.machines if n != leader]:
            group.kill(other)
        raft = group.rafts[leader]
        proposal = group.loops[leader].create_task(raft.propose(b"alone"))
        reading = group.loops[leader].create_task(raft.read())
        await until(lambda: proposal.done() and reading.done())
        assert isinstance(proposal.exception(), OutcomeUnknown)
        assert isinstance(reading.exception(), NotLeader)
        assert not raft.ready

    world.run(world.add_machine("client", "198.18.0.2"), main)
    world.close()


def test_a_read_sees_what_was_answered_before() -> None:
    world = World(10)

    async def main(host: SimHost) -> None:
        group = Group(world, 3)
        await say(group, b"written")
        name = group.leader()
        assert name is not None
        reading = group.loops[name].create_task(group.rafts[name].read())
        await until(reading.done)
        assert reading.exception() is None
        assert group.words[name].words == [b"written"]

    world.run(world.add_machine("client", "198.18.0.2"), main)
    world.close()
