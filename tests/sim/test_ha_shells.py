"""The shells of replication on simulated machines: bytes over connections, kills, truncation.

The commit log is in memory and outlives its process, as a page cache does; the epoch file is on the
simulated disk. The same shells run on real sockets in the last test.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from random import Random

import pytest

from maxq.harness.contracts.draws import Draws
from maxq.harness.simulation.disk import SimDisk
from maxq.harness.simulation.loop import SimLoop
from maxq.harness.simulation.world import SimMachine, World
from maxq.reference.broker.replication import ha_master_events as master
from maxq.reference.broker.replication.epochs import EpochFile
from maxq.reference.broker.replication.ha_link import HaPort
from maxq.reference.broker.replication.ha_settings import MasterSettings, SlaveTiming
from maxq.reference.broker.replication.replication import Replication
from maxq.reference.broker.replication.sync_state_set import ProposeSyncStateSet
from maxq.reference.records import BrokerId, MasterEpoch, PhyOffset, invariant
from maxq.reference.wire import ha as wire

# A task that a kill meets before its first step holds a coroutine that nobody will ever await.
pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
SECOND = 1_000_000_000
FILE_SIZE = 1000
RECORD = 10  # bytes
PORT = 10912


class MemoryLog:
    """A `LogAccess` in memory, of records of ten bytes."""

    file_size = FILE_SIZE

    def __init__(self) -> None:
        self.data = b""
        self.start = PhyOffset(0)
        self.durable = PhyOffset(0)
        self.full = False

    @property
    def end(self) -> PhyOffset:
        return PhyOffset(self.start + len(self.data))

    def whole_end(self) -> PhyOffset:
        return PhyOffset(self.end - self.end % RECORD)

    def read_range(self, offset: PhyOffset, size_max: int) -> bytes:
        assert not self.data or offset >= self.start, "read what is trimmed"
        stop = min(offset + size_max, offset - offset % FILE_SIZE + FILE_SIZE)
        return self.data[offset - self.start : stop - self.start]

    def checked(self, offset: PhyOffset, data: bytes) -> Callable[[], None]:
        return partial(self._append, offset, data)

    def _append(self, offset: PhyOffset, data: bytes) -> None:
        if self.full:
            raise OSError(28, "no space left on device")
        invariant(not self.data or offset == self.end, "appended at the end", at=offset)
        if not self.data:
            self.start = offset
        self.data += data

    @property
    def pooled_end(self) -> PhyOffset:
        return self.end

    def commit(self) -> None:
        """There is no pool."""

    async def vouch(self) -> None:
        """Nothing here looks torn."""

    async def truncate(self, offset: PhyOffset) -> None:
        await asyncio.sleep(0.002)
        self.data = self.data[: max(offset - self.start, 0)]
        self.start = self.start if offset else PhyOffset(0)
        self.durable = min(self.durable, self.end)

    async def trim(self, start: PhyOffset) -> None:
        self.data, self.start = self.data[start - self.start :], start

    async def sync(self) -> PhyOffset:
        end = self.end
        await asyncio.sleep(0.002)
        self.durable = max(self.durable, min(end, self.end))
        return end


class Controller:
    """Who decides on the set, reached at once."""

    def __init__(self) -> None:
        self.epoch, self.set_epoch = 0, 0
        self.members: frozenset[BrokerId] = frozenset()
        self.away = False
        self.grown: asyncio.Future[None] | None = None  # done when the set has two

    async def take(self, proposal: ProposeSyncStateSet) -> master.Known | master.Answered:
        await asyncio.sleep(0.01)
        if self.away:
            return master.Answered(number=proposal.number, outcome="unknown")
        if (proposal.master_epoch, proposal.sync_state_set_epoch) != (self.epoch, self.set_epoch):
            return master.Answered(number=proposal.number, outcome="refused")
        self.members, self.set_epoch = frozenset(proposal.members), self.set_epoch + 1
        if self.grown is not None and len(self.members) == 2:
            self.grown.set_result(None)
        return self.known()

    def known(self) -> master.Known:
        return master.Known(
            master_epoch=MasterEpoch(self.epoch),
            sync_state_set_epoch=self.set_epoch,
            members=self.members,
        )


class Node:
    """A broker's replication; `log` and the machine outlive `loop`."""

    def __init__(self, broker_id: int, controller: Controller, *, durable: bool) -> None:
        self.id = BrokerId(broker_id)
        self.log = MemoryLog()
        self.durable = durable
        self.controller = controller
        self.confirm = 0
        self.said: list[str] = []
        self.replication: Replication | None = None
        self.peers: dict[int, Node] = {}

    def confirmed(self, offset: PhyOffset) -> None:
        assert offset <= self.log.end
        self.confirm = offset

    def say(self, trace: str, /, **fields: object) -> None:
        self.said.append(f"{trace}: {fields.get('why', '')}")

    async def compare(self, address: str, their_end: PhyOffset) -> tuple[PhyOffset, PhyOffset]:
        """What a broker asks its master for, record by record."""
        number = int(address.partition(":")[0].rpartition(".")[2])
        log, theirs = self.log, self.peers[number].log
        await asyncio.sleep(0.01)
        at, whole = log.start, log.whole_end()
        while at < whole and theirs.start <= at < theirs.end:
            if log.read_range(at, RECORD) != theirs.read_range(at, RECORD):
                break
            at = PhyOffset(at + RECORD)
        return at, whole

    async def start_of(self, address: str) -> PhyOffset:
        raise OSError(address)

    async def run(self, disk: "SimDisk", host: str, port: int) -> None:
        self.replication = replication = Replication(
            self.id,
            self.log,
            EpochFile(disk, "/data/epochFileCheckpoint"),
            settings=MasterSettings(file_size=FILE_SIZE, batch_bytes=300, all_ack=True),
            timing=SlaveTiming(),
            durable=self.durable,
            propose=self.controller.take,
            compare=self.compare,
            start_of=self.start_of,
            confirmed=self.confirmed,
            log=self.say,
        )
        await replication.recover(PhyOffset(0))
        async with asyncio.TaskGroup() as group:
            ha_port = HaPort()
            await ha_port.bind(host, port)
            try:
                await replication.run(group, ha_port)
            finally:
                ha_port.close()

    async def send(self, text: str) -> str:
        """Append a record, wait for the replicas; returns why it failed, or nothing."""
        assert self.replication is not None
        core = self.replication.master
        epoch = core.master_epoch
        self.log.data += text.encode().ljust(RECORD, b".")
        end = self.log.end
        if self.durable:
            await self.log.sync()
        self.replication.written()
        acknowledged: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.replication.when_acknowledged(end, epoch, acknowledged.set_result)
        return await acknowledged


class Brokers:
    """Simulated machines with a broker each, and the controller's word."""

    def __init__(self, count: int, *, durable: bool = False, seed: int = 1) -> None:
        self.world = World(seed)
        self.controller = Controller()
        self.nodes = {i: Node(i, self.controller, durable=durable) for i in range(1, count + 1)}
        for node in self.nodes.values():
            node.peers = self.nodes
        self.machines: dict[int, SimMachine] = {
            i: self.world.add_machine(f"b{i}", f"198.18.0.{i}") for i in self.nodes
        }
        self.loops: dict[int, SimLoop] = {}
        for number in self.nodes:
            self.start(number)

    def start(self, number: int) -> None:
        loop, _ = self.world.process(self.machines[number])
        self.loops[number] = loop
        node = self.nodes[number]
        disk = self.machines[number].disk
        loop.create_task(node.run(disk, "0.0.0.0", PORT))
        self.until(lambda: self.world.network.listening(f"198.18.0.{number}", PORT))

    def do(self, number: int, work: Callable[[], Awaitable[object]]) -> "asyncio.Task[object]":
        async def main() -> object:
            return await work()

        return self.loops[number].create_task(main())

    def done(self, number: int, work: Callable[[], Awaitable[object]]) -> object:
        task = self.do(number, work)
        self.until(task.done)
        return task.result()

    def part(self, number: int) -> Replication:
        found = self.nodes[number].replication
        assert found is not None
        return found

    def elect(self, number: int) -> bool:
        control = self.controller
        control.epoch, control.set_epoch = control.epoch + 1, control.set_epoch + 1
        control.members = frozenset({BrokerId(number)})
        epoch = MasterEpoch(control.epoch)
        set_epoch = control.set_epoch
        done = self.done(number, lambda: self.part(number).lead(epoch, control.members, set_epoch))
        return bool(done)

    def follow(self, number: int, whom: int) -> None:
        address = f"198.18.0.{whom}:{PORT}"
        epoch = MasterEpoch(self.controller.epoch)
        member = number in self.controller.members
        self.done(
            number, lambda: self.part(number).follow(address, epoch, in_sync_state_set=member)
        )

    def send(self, number: int, text: str) -> object:
        return self.done(number, lambda: self.nodes[number].send(text))

    def until(self, true: Callable[[], bool], seconds: float = 60) -> None:
        end = self.world.scheduler.now_ns + round(seconds * SECOND)
        loop, _ = self.world.process(next(iter(self.machines.values())))
        loop.call_later(seconds + 1, lambda: None)
        self.world.scheduler.run_until(lambda: true() or self.world.scheduler.now_ns > end)
        failures = [f for process in self.loops.values() for f in process.failures]
        assert not failures, failures
        assert true(), [node.said[-5:] for node in self.nodes.values()]

    def sleep(self, seconds: float) -> None:
        end = self.world.scheduler.now_ns + round(seconds * SECOND)
        self.until(lambda: self.world.scheduler.now_ns >= end, seconds + 1)

    def in_sync(self, *numbers: int) -> None:
        self.until(lambda: self.controller.members == frozenset(numbers))

    def equal(self) -> None:
        self.until(lambda: len({node.log.data for node in self.nodes.values()}) == 1)
        self.sleep(6)  # a heartbeat tells of epochs without bytes
        assert len({self.part(number).epochs for number in self.nodes}) == 1


@pytest.fixture
def made() -> Iterator[Callable[..., Brokers]]:
    worlds: list[Brokers] = []

    def make(count: int, *, durable: bool = False, seed: int = 1) -> Brokers:
        worlds.append(Brokers(count, durable=durable, seed=seed))
        return worlds[-1]

    yield make
    for brokers in worlds:
        brokers.world.close()


@pytest.mark.parametrize("durable", [False, True])
def test_fail_over_with_truncation(made: Callable[..., Brokers], durable: bool) -> None:
    """S6, S8: what was acknowledged stays, what was not is cut, and everybody is equal again."""
    set_ = made(2, durable=durable)
    assert set_.elect(1)
    assert set_.send(1, "alone") == ""
    set_.follow(2, 1)
    set_.in_sync(1, 2)
    for number in range(300):  # several files, frames and epochs' worth of records
        assert set_.send(1, f"both{number}") == ""
    assert set_.nodes[2].log.data == set_.nodes[1].log.data
    # The slave dies; a send that it has not is not acknowledged, and then its master dies.
    set_.loops[2].kill()
    set_.controller.away = True
    late = set_.do(1, lambda: set_.nodes[1].send("lost"))
    set_.until(late.done)
    assert late.result() == "replicas did not acknowledge in time"
    set_.loops[1].kill()
    set_.controller.away = False
    set_.start(2)
    assert set_.elect(2)
    assert set_.send(2, "second") == ""
    set_.start(1)
    set_.follow(1, 2)
    set_.in_sync(1, 2)
    set_.equal()
    log = set_.nodes[1].log.data
    assert b"lost" not in log
    assert b"both299" in log
    assert log.endswith(b"second....")
    assert [e.epoch for e in set_.part(1).epochs] == [1, 2]
    assert any(s.startswith("ha.slave.cut") for s in set_.nodes[1].said)
    # Each side knows its epochs again after a restart.
    set_.loops[1].kill()
    set_.start(1)
    assert set_.part(1).epochs == set_.part(2).epochs


def test_a_term_is_not_resumed(made: Callable[..., Brokers]) -> None:
    """S8: a master that restarts may have lost what others hold; it must be elected anew."""
    set_ = made(1)
    assert set_.elect(1)
    set_.loops[1].kill()
    set_.start(1)
    members = frozenset({BrokerId(1)})
    again = set_.done(1, lambda: set_.part(1).lead(MasterEpoch(1), members, 1))
    assert again is False
    assert set_.elect(1)
    assert [e.epoch for e in set_.part(1).epochs] == [1, 2]


def test_epochs_without_bytes_reach_everybody(made: Callable[..., Brokers]) -> None:
    """Three elections, no write; also with kept connections.

    docs/spec/controller-ha.md 3.6 (step 2), 6.4 (H2) and 6.5 (rule 1)
    """
    set_ = made(2)
    assert set_.elect(1)
    set_.follow(2, 1)
    set_.in_sync(1, 2)
    assert set_.elect(1)
    assert set_.elect(1)
    set_.equal()
    assert [(e.epoch, e.start) for e in set_.part(2).epochs] == [(1, 0), (2, 0), (3, 0)]
    set_.in_sync(1, 2)
    set_.done(1, lambda: set_.part(1).follow("", MasterEpoch(3), in_sync_state_set=True))
    assert set_.elect(2)
    assert set_.send(2, "first") == ""
    set_.follow(1, 2)
    set_.equal()


def test_a_partial_record_is_cut_before_leading(made: Callable[..., Brokers]) -> None:
    """A slave's log may end within a record (docs/spec/controller-ha.md 5.7 and 6.4 (H8a))."""
    set_ = made(1)
    set_.nodes[1].log.data = b"0123456789012"
    assert set_.elect(1)
    assert set_.nodes[1].log.data == b"0123456789"
    assert set_.part(1).epochs[0].start == 10
    set_.until(lambda: set_.nodes[1].confirm == 10)


def test_a_full_disk_is_tried_again(made: Callable[..., Brokers]) -> None:
    set_ = made(2)
    assert set_.elect(1)
    set_.send(1, "one")
    set_.nodes[2].log.full = True
    set_.follow(2, 1)
    set_.until(lambda: any("append failed" in s for s in set_.nodes[2].said))
    assert set_.send(1, "two") == ""
    set_.nodes[2].log.full = False
    set_.in_sync(1, 2)
    set_.equal()


def test_a_log_without_epochs_is_copied_anew(made: Callable[..., Brokers]) -> None:
    """By a broker that is not in the set; RocketMQ goes on behind unknown bytes.

    docs/spec/controller-ha.md 6.5 (rule 4)
    """
    set_ = made(2)
    set_.nodes[2].log.data = b"of nobody."
    assert set_.elect(1)
    set_.send(1, "mine")
    set_.follow(2, 1)
    set_.in_sync(1, 2)
    set_.equal()
    assert set_.nodes[2].log.data == b"mine......"


def test_bytes_that_are_no_packets_close_the_connection(made: Callable[..., Brokers]) -> None:
    """The node lives, and its log says why."""
    set_ = made(2)
    assert set_.elect(1)
    loop, _ = set_.world.process(set_.machines[2])
    ended: list[object] = []

    class Noise(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            transport.write(b"GET / HTTP/1.1\r\n\r\n")  # type: ignore[attr-defined]

        def connection_lost(self, exc: Exception | None) -> None:
            ended.append(exc)

    async def dial() -> None:
        await asyncio.get_running_loop().create_connection(Noise, "198.18.0.1", PORT)

    loop.create_task(dial())
    set_.until(lambda: bool(ended))
    assert "ha.slave.nonsense: unknown ha state: 1195725856" in set_.nodes[1].said
    assert set_.send(1, "lives") == ""


@pytest.mark.parametrize("seed", range(8))
def test_random_kills(made: Callable[..., Brokers], seed: int) -> None:
    """S6: three brokers, sends all the time, the master killed now and then."""
    set_ = made(3, seed=seed)
    rng = Random(seed)
    chief = 1
    assert set_.elect(1)
    kept: list[str] = []
    for round_ in range(6):
        others = [n for n in set_.nodes if n != chief]
        for other in others:
            set_.follow(other, chief)
        if round_ % 2:
            set_.in_sync(1, 2, 3)
        tasks = {}
        for number in range(rng.randint(1, 40)):
            text = f"{round_}-{number}"
            node = set_.nodes[chief]
            tasks[text] = set_.do(chief, lambda node=node, text=text: node.send(text))  # type: ignore[misc]
            if rng.random() < 0.3:
                set_.sleep(rng.choice((0.0001, 0.001, 0.01)))
        set_.sleep(rng.choice((0.0001, 0.001, 0.01, 1)))
        kept += [text for text, task in tasks.items() if task.done() and task.result() == ""]
        set_.loops[chief].kill()
        candidates = sorted(set_.controller.members - {BrokerId(chief)}) or [BrokerId(chief)]
        dead, chief = chief, int(rng.choice(candidates))
        set_.start(dead)
        assert set_.elect(chief)
    for other in set_.nodes:
        if other != chief:
            set_.follow(other, chief)
    set_.in_sync(1, 2, 3)
    set_.equal()
    log = set_.nodes[1].log.data
    for text in kept:
        assert text.encode().ljust(RECORD, b".") in log
    assert kept


def test_on_real_sockets() -> None:
    """The same shells on the loop of the machine."""
    controller = Controller()
    nodes = [Node(1, controller, durable=False), Node(2, controller, durable=False)]
    disks = [SimDisk(Draws(number)) for number in (1, 2)]

    async def main() -> str:
        loop = asyncio.get_running_loop()
        probe = await loop.create_server(asyncio.Protocol, "127.0.0.1", 0)
        port = probe.sockets[0].getsockname()[1]
        probe.close()
        tasks = [
            loop.create_task(nodes[0].run(disks[0], "127.0.0.1", port)),
            loop.create_task(nodes[1].run(disks[1], "127.0.0.1", 0)),
        ]
        await asyncio.sleep(0.05)
        first, second = (node.replication for node in nodes)
        assert first is not None
        assert second is not None
        controller.epoch, controller.members = 1, frozenset({BrokerId(1)})
        joined = controller.grown = loop.create_future()
        assert await first.lead(MasterEpoch(1), controller.members, 0)
        await second.follow(f"127.0.0.1:{port}", MasterEpoch(1), in_sync_state_set=False)
        async with asyncio.timeout(10):
            await joined
            answers = await asyncio.gather(*(nodes[0].send(f"r{n}") for n in range(500)))
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return "".join(answers)

    assert asyncio.run(main()) == ""
    assert nodes[0].log.data == nodes[1].log.data
    assert len(nodes[0].log.data) == 500 * RECORD
    assert wire.BODY_BYTES_MAX > FILE_SIZE


def test_who_gives_up_waiting_for_a_change_of_role_does_not_end_it(
    made: Callable[..., Brokers],
) -> None:
    set_ = made(1)
    members = frozenset({BrokerId(1)})
    first, second, third = (
        set_.do(1, lambda e=epoch: set_.part(1).lead(MasterEpoch(e), members, e))  # type: ignore[misc]
        for epoch in (1, 2, 3)
    )
    set_.until(lambda: set_.part(1)._turn.locked())
    second.cancel()
    set_.until(lambda: first.done() and second.done() and third.done())
    assert first.result()
    assert second.cancelled()
    assert third.result()
    assert set_.part(1).master.master_epoch == 3


def filled(made: Callable[..., Brokers], *, members: tuple[int, ...] = (1, 2)) -> Brokers:
    """A set of two whose master has three files and a bit, in three epochs."""
    set_ = made(2)
    for part in range(3):
        assert set_.elect(1)
        if part == 0 or len(members) == 2:
            set_.follow(2, 1)
            set_.in_sync(1, 2)
        for number in range(110):
            assert set_.send(1, f"{part}.{number}") == ""
        if part == 0 and len(members) == 1:
            set_.loops[2].kill()
            set_.in_sync(1)
    return set_


def trim(set_: Brokers, number: int, start: int) -> None:
    set_.done(number, lambda: set_.part(number).trim(PhyOffset(start)))


def test_both_sides_trim_while_they_copy(made: Callable[..., Brokers]) -> None:
    """S9: and the epochs whose last byte is gone leave the list, here and after a restart."""
    set_ = filled(made)
    assert set_.part(1).copied == set_.nodes[1].log.end
    for number in (1, 2):
        trim(set_, number, 2000)
        assert [e.start for e in set_.part(number).epochs] == [1100, 2200]
        assert set_.nodes[number].log.start == 2000
    assert set_.send(1, "after") == ""
    set_.equal()
    set_.loops[2].kill()
    set_.start(2)
    assert [e.start for e in set_.part(2).epochs] == [1100, 2200]
    set_.follow(2, 1)
    set_.in_sync(1, 2)
    assert set_.send(1, "again") == ""
    set_.done(1, lambda: set_.part(1).follow("", MasterEpoch(3), in_sync_state_set=True))
    assert set_.elect(2)
    assert set_.send(2, "second") == ""
    set_.follow(1, 2)
    set_.in_sync(1, 2)
    set_.equal()
    assert not any("resync" in said for node in set_.nodes.values() for said in node.said)


@pytest.mark.parametrize("shared", [True, False])
def test_a_slave_that_ends_before_the_masters_first_byte_begins_anew(
    made: Callable[..., Brokers], shared: bool
) -> None:
    """Whether or not the epoch in which it ended is still in the master's list."""
    set_ = filled(made, members=(1,))
    assert set_.nodes[2].log.end == 1100
    if shared:
        set_.nodes[2].log.data = set_.nodes[2].log.data[:900]
    trim(set_, 1, 1000 if shared else 3000)
    assert (len(set_.part(1).epochs) == 3) == shared
    set_.start(2)
    set_.follow(2, 1)
    set_.in_sync(1, 2)
    set_.equal()
    assert set_.nodes[2].log.start == set_.nodes[1].log.start
    assert any("ha.slave" in said and "dropped" in said for said in set_.nodes[2].said)
    assert set_.send(1, "after") == ""
    set_.equal()


def test_a_member_of_the_set_keeps_what_it_has(made: Callable[..., Brokers]) -> None:
    """S6: it may be the only one that has it, whatever a master sends."""
    set_ = filled(made)
    set_.loops[2].kill()
    set_.nodes[2].log.data = set_.nodes[2].log.data[:900]
    set_.controller.away = True
    assert set_.part(1).copied <= set_.part(1).confirm
    set_.done(1, lambda: set_.nodes[1].log.trim(PhyOffset(1000)))
    set_.done(1, lambda: set_.part(1)._server.trimmed(PhyOffset(1000), set_.part(1).epochs))
    set_.start(2)
    set_.follow(2, 1)
    set_.sleep(3)
    assert set_.nodes[2].log.end == 900
    assert any("gap or overlap: at 1000, log ends at 900" in said for said in set_.nodes[2].said)
