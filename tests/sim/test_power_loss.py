"""Loss of power: what the simulated disk may lose, and that nodes keep what they promised."""

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from typing import Any

import pytest

from benchmarks.recording import record, small
from maxq.harness.contracts.draws import Draws
from maxq.harness.simulation.disk import JOURNAL_MAX, SECTOR, SimDisk
from maxq.harness.simulation.world import SimHost, SimMachine, World
from maxq.reference.broker.replication.ha import HaClient
from maxq.reference.broker.replication.ha_settings import SlaveTiming
from maxq.reference.broker.replication.ha_slave import HaSlave
from maxq.reference.broker.replication.ha_slave_events import Append
from maxq.reference.broker.store.commit_log import CorruptLog
from maxq.reference.broker.store.seals import Sealed
from maxq.reference.broker.store.store import Store
from maxq.reference.broker.store.watermark import CorruptWatermark, Watermark
from maxq.reference.host import read_file, replace_file
from maxq.reference.raft.message import Entry
from maxq.reference.raft.storage import Storage
from maxq.reference.records import BrokerId, PhyOffset, QueueOffset
from maxq.reference.wire.message import Message, decode, encode_at

FILE = 4096
LOG = "/s/commitlog"
SEEDS = range(60)


@pytest.fixture
def machine() -> Iterator[SimMachine]:
    world = World(1)
    yield world.add_machine("a", "198.18.0.16")
    world.close()


def outcomes(
    make: Callable[[SimDisk], Coroutine[Any, Any, None]],
) -> set[tuple[tuple[str, bytes], ...]]:
    """Every state of the disk that losses of power after `make` lead to."""
    found = set()
    for seed in SEEDS:
        world = World(1)
        machine = world.add_machine("a", "198.18.0.16")
        world.run(machine, lambda host: make(host.disk))  # type: ignore[arg-type]
        machine.disk.power_loss(Draws(seed))
        found.add(tuple(sorted((p, bytes(d)) for p, d in machine.disk.files.items())))
        world.close()
    return found


# The disk.


def test_what_is_synced_stays_and_what_is_not_may_go_or_be_torn() -> None:
    async def make(disk: SimDisk) -> None:
        file = disk.open("/d/f", create=True)
        file.pwrite(b"sure", 0)
        await file.sync()
        await disk.sync_dir("/d")
        file.pwrite(b"maybe", 4)

    contents = {dict(state)["/d/f"] for state in outcomes(make)}
    assert contents == {b"sure" + b"maybe"[:n] for n in range(6)}


def test_writes_are_lost_one_by_one_so_there_are_holes() -> None:
    async def make(disk: SimDisk) -> None:
        file = disk.open("/d/f", create=True)
        await disk.sync_dir("/d")
        file.truncate(4)
        await file.sync()
        for at in range(4):
            file.pwrite(b"x", at)

    contents = {dict(state)["/d/f"] for state in outcomes(make)}
    assert {b"xxxx", b"\0\0\0\0"} < contents
    assert any(b"\0x" in content for content in contents)


def test_long_writes_are_torn_at_bytes_and_at_sectors() -> None:
    async def make(disk: SimDisk) -> None:
        file = disk.open("/d/f", create=True)
        await disk.sync_dir("/d")
        file.pwrite(b"x" * 3000, 0)

    lengths = {len(dict(state)["/d/f"]) for state in outcomes(make)}
    assert any(0 < n < 3000 and n % SECTOR == 0 for n in lengths)
    assert any(n % SECTOR for n in lengths)


def test_a_lost_write_or_cut_brings_back_what_was_there() -> None:
    async def make(disk: SimDisk) -> None:
        file = disk.open("/d/f", create=True)
        file.pwrite(b"abcdef", 0)
        await file.sync()
        await disk.sync_dir("/d")
        file.truncate(2)
        file.truncate(4)

    contents = {dict(state)["/d/f"] for state in outcomes(make)}
    assert contents == {b"abcdef", b"ab", b"abcd", b"ab\0\0"}


def test_a_sync_covers_what_was_written_before_its_call_and_only_once_it_returns() -> None:
    async def make(disk: SimDisk) -> None:
        file = disk.open("/d/f", create=True)
        await disk.sync_dir("/d")
        file.pwrite(b"a", 0)
        first = asyncio.get_running_loop().create_task(file.sync())
        await asyncio.sleep(0)
        file.pwrite(b"b", 1)
        await first

    async def cut_short(disk: SimDisk) -> None:
        file = disk.open("/d/f", create=True)
        await disk.sync_dir("/d")
        file.pwrite(b"a", 0)
        asyncio.get_running_loop().create_task(file.sync())
        await asyncio.sleep(0)

    assert {dict(s)["/d/f"] for s in outcomes(make)} == {b"a", b"ab"}
    assert {dict(s)["/d/f"] for s in outcomes(cut_short)} == {b"", b"a"}


def test_a_synced_file_whose_folder_is_not_has_no_name() -> None:
    async def make(disk: SimDisk) -> None:
        file = disk.open("/d/f", create=True)
        file.pwrite(b"sure", 0)
        await file.sync()

    assert outcomes(make) == {(), (("/d/f", b"sure"),)}


def test_names_in_a_folder_change_in_order_and_a_rename_is_atomic() -> None:
    async def make(disk: SimDisk) -> None:
        for name in "ab":
            file = disk.open(f"/d/{name}", create=True)
            file.pwrite(name.encode(), 0)
            await file.sync()
        await disk.sync_dir("/d")
        disk.rename("/d/a", "/d/b")
        disk.unlink("/d/b")

    assert outcomes(make) == {
        (("/d/a", b"a"), ("/d/b", b"b")),
        (("/d/b", b"a"),),
        (),
    }


def test_replace_file_leaves_the_old_or_the_new_content_whole() -> None:
    async def make(disk: SimDisk) -> None:
        await replace_file(disk, "/d/f", b"old")
        task = asyncio.get_running_loop().create_task(replace_file(disk, "/d/f", b"a newer one"))
        await asyncio.sleep(random.Random(7).random() / 500)
        task.cancel()

    async def done(disk: SimDisk) -> None:
        await replace_file(disk, "/d/f", b"old")
        await replace_file(disk, "/d/f", b"a newer one")

    assert {dict(s)["/d/f"] for s in outcomes(make)} <= {b"old", b"a newer one"}
    assert {dict(s)["/d/f"] for s in outcomes(done)} == {b"a newer one"}


def test_what_was_written_long_ago_was_written_back() -> None:
    async def make(disk: SimDisk) -> None:
        file = disk.open("/d/f", create=True)
        await disk.sync_dir("/d")
        for at in range(JOURNAL_MAX + 1):
            file.pwrite(b"x", at)

    assert all(dict(s)["/d/f"].startswith(b"x" * (JOURNAL_MAX // 2)) for s in outcomes(make))


def test_the_room_is_counted_anew(machine: SimMachine) -> None:
    machine.disk = SimDisk(Draws(1), capacity=100)

    async def case(host: SimHost) -> None:
        host.disk.open("/d/f", create=True).pwrite(b"x" * 90, 0)

    machine.world.run(machine, case)
    lost = machine.disk.power_loss(Draws(0))
    left = sum(map(len, machine.disk.files.values()))
    assert machine.disk._room == 100 - left
    assert lost.byte_count or lost.name_count or left == 90


# The store.


async def opened(host: SimHost) -> Store:
    store = Store(host, root="/s", log_path=LOG, log_file_size=FILE, queue_file_size=60)
    store.recover()
    await store.sync_recovered()
    return store


def bodies(store: Store) -> list[bytes]:
    """Body and properties of each message."""
    first, _ = store.bounds("T", 0)
    found = (decode(store.record(unit))[0] for _, unit in store.units("T", 0, first))
    return [m.body + m.properties for m in found]


def told(message: Message) -> bytes:
    return message.body + message.properties


def sent(number: int) -> Message:
    properties = b"K\1" + b"v" * (number * 53 % 200) + b"\2"
    return Message(topic="T", body=b"%06d" % number + bytes(200), properties=properties)


@pytest.mark.parametrize("seed", range(40))
def test_a_store_keeps_what_it_synced_and_a_beginning_of_the_rest(
    machine: SimMachine, seed: int
) -> None:
    """S6, S11: over many losses of power, with cuts, on several files of a log."""
    rng = random.Random(seed)
    kept: list[bytes] = []  # bodies of the log; the first `sure` are synced
    sure = 0
    count = 0

    async def life(host: SimHost) -> None:
        nonlocal kept, sure, count
        store = await opened(host)
        found = bodies(store)
        assert found == kept[: len(found)], "a beginning of what was written"
        assert len(found) >= sure, "all that was synced"
        kept, sure = found, len(found)  # `sync_recovered` has synced it
        for _ in range(rng.randint(1, 25)):
            act = rng.random()
            if act < 0.75:
                message = sent(count)
                count += 1
                store.put([message])
                kept.append(told(message))
            elif act < 0.85:
                await store.sync()
                sure = len(kept)
            elif act < 0.95:
                await store.mark()
                sure = len(kept)
            elif kept:
                keep = rng.randrange(len(kept))
                unit = dict(store.units("T", 0, store.bounds("T", 0)[0]))[keep]  # type: ignore[index]
                sure = min(sure, keep)
                await store.truncate(unit.physical_offset)
                del kept[keep:]
                sure = min(sure, len(kept))

    for number in range(8):
        machine.world.run(machine, life)
        if rng.random() < 0.7:
            machine.disk.power_loss(Draws(f"{seed}/{number}"))
        else:
            sure = len(kept)  # a kill: the page cache keeps everything


def test_damage_before_the_watermark_refuses_and_behind_it_is_cut(machine: SimMachine) -> None:
    """S6: a hole in what was never synced is no damage, the same hole before it is."""
    ends: list[int] = []

    async def write(host: SimHost) -> None:
        store = await opened(host)
        for number in range(4):
            ends.append(store.put([sent(number)])[0].end)
            if number == 1:
                await store.mark()

    machine.world.run(machine, write)
    log = machine.disk.files[f"{LOG}/{0:020d}"]
    whole = bytes(log)

    async def cut(host: SimHost) -> None:
        assert bodies(await opened(host)) == [told(sent(0)), told(sent(1))]

    async def refused(host: SimHost) -> None:
        with pytest.raises(CorruptLog, match=f"offset {ends[0]}"):
            await opened(host)

    async def short(host: SimHost) -> None:
        with pytest.raises(CorruptLog, match=f"offset {ends[0]}, .*up to {ends[1]}"):
            await opened(host)

    log[ends[0] + 30] ^= 1
    before = bytes(log)
    machine.world.run(machine, refused)
    assert log == before, "nothing was touched"
    log[ends[0] :] = bytes(len(log) - ends[0])
    machine.world.run(machine, short)
    log[:] = whole
    log[ends[1] + 30] ^= 1
    machine.world.run(machine, cut)


def test_a_record_torn_in_its_properties_is_cut_though_a_sound_one_follows(
    machine: SimMachine,
) -> None:
    """S8: else replicas with one epoch would differ; its crc covers the body alone."""

    async def write(host: SimHost) -> None:
        store = await opened(host)
        end = store.put([sent(0)])[0].end
        store.put([sent(1)])
        machine.disk.files[f"{LOG}/{0:020d}"][end - 2 : end] = bytes(2)

    async def read(host: SimHost) -> None:
        assert bodies(await opened(host)) == []

    machine.world.run(machine, write)
    machine.world.run(machine, read)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("vouched", [True, False])
def test_a_record_of_a_java_batch_that_ends_in_a_zero_stays_once_it_is_vouched_for(
    machine: SimMachine, seed: int, vouched: bool
) -> None:
    """It looks like a torn one, which it is known not to be before a slave acknowledges it."""
    odd = Message(topic="T", body=b"odd", properties=b"A\x01B\x02\0")

    async def write(host: SimHost) -> None:
        store = await opened(host)
        end = store.put([sent(0)])[0].end
        record = encode_at(odd, queue_offset=QueueOffset(1), physical_offset=end, store_timestamp=1)
        store.checked(end, record[:50])()
        store.checked(PhyOffset(end + 50), record[50:])()
        if vouched:
            await store.vouch()

    async def read(host: SimHost) -> None:
        found = [body[:3] for body in bodies(await opened(host))]
        assert found[1:] == ([b"odd"] if vouched else [])

    machine.world.run(machine, write)
    if vouched:
        machine.disk.power_loss(Draws(seed))
    machine.world.run(machine, read)
    machine.world.run(machine, read)


def test_a_damaged_watermark_is_named(machine: SimMachine) -> None:
    async def case(host: SimHost) -> None:
        mark, sealed = Watermark(host.disk, "/s"), Sealed(start=PhyOffset(77))
        assert mark.load() is None
        await mark.save(sealed)
        assert Watermark(host.disk, "/s").load() == sealed
        machine.disk.files["/s/logWatermark"][5] ^= 1
        with pytest.raises(CorruptWatermark, match="/s/logWatermark"):
            Watermark(host.disk, "/s").load()

    machine.world.run(machine, case)


class PieceLog:
    """A log of ten-byte records that knows how many pieces of one are not synced."""

    def __init__(self) -> None:
        self.end = self.durable = 0

    def whole_end(self) -> int:
        return self.end - self.end % 10

    def checked(self, offset: int, data: bytes) -> Callable[[], None]:
        return partial(self._append, offset, data)

    def _append(self, offset: int, data: bytes) -> None:
        assert self.durable == self.end or offset % 10 == 0, "two pieces of a record"
        self.end = offset + len(data)

    async def vouch(self) -> None:
        """Nothing here looks torn."""

    async def sync(self) -> int:
        await asyncio.sleep(0)
        self.durable = self.end
        return self.end


class FullLog(PieceLog):
    """A log that cannot write down how far it is whole."""

    async def vouch(self) -> None:
        raise OSError(28, "no space left on device")

    async def truncate(self, offset: int) -> None:
        self.end = offset


def ha_client(log: PieceLog) -> HaClient:
    core = HaSlave(
        broker_id=BrokerId(1),
        durable=True,
        async_learner=False,
        sync_from_last_file=False,
        timing=SlaveTiming(heartbeat_ns=1, housekeeping_ns=1),
    )

    async def save(epochs: object) -> None:
        """Nothing is saved here."""

    async def compare(address: str, end: PhyOffset) -> tuple[PhyOffset, PhyOffset]:
        """No master is followed."""
        raise OSError(address)

    return HaClient(
        core,
        log,  # type: ignore[arg-type]
        compare=compare,
        save=save,
        saved=lambda: (),
        confirmed=lambda offset: None,
        log=lambda *a, **k: None,
    )


def test_what_a_slave_cannot_vouch_for_is_cut_off_and_not_acknowledged() -> None:
    log = FullLog()
    effect = Append(start=PhyOffset(0), data=bytes(10), epochs=None, then=())

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            assert not await ha_client(log)._append(group, effect)

    asyncio.run(main())
    assert log.end == 0


def test_a_slave_syncs_one_piece_of_a_record_before_it_writes_the_next() -> None:
    """S8: else a hole may be left within a record, where its crc does not see it."""
    log = PieceLog()
    client = ha_client(log)

    async def main() -> None:
        for start, size in ((0, 20), (20, 13), (33, 3), (36, 4), (40, 10)):
            effect = Append(start=PhyOffset(start), data=bytes(size), epochs=None, then=())
            async with asyncio.TaskGroup() as group:
                assert await client._append(group, effect)

    asyncio.run(main())
    assert (log.durable, log.end) == (36, 50)


# Who was killed before he synced a folder, and what the next process stands on.


def test_a_raft_log_found_by_a_restart_has_a_durable_name(machine: SimMachine) -> None:
    """Its creator was killed between the creation and the sync of the folder."""

    async def killed(host: SimHost) -> None:
        host.disk.open("/r/log", create=True)

    async def again(host: SimHost) -> None:
        storage = Storage(host.disk, "/r")
        await storage.load()
        await storage.append(3, "me", (Entry(term=3, index=1, data=b"x"),))

    async def after(host: SimHost) -> None:
        term, vote, log, _ = await Storage(host.disk, "/r").load()
        assert (term, vote, log.last_index) == (3, "me", 1)

    for seed in range(10):
        machine.disk = SimDisk(Draws(1))
        machine.world.run(machine, killed)
        machine.world.run(machine, again)
        machine.disk.power_loss(Draws(seed))
        machine.world.run(machine, after)


# Whole clusters.


@pytest.mark.parametrize("profile", ["P-SAFE", "P-ALL"])
def test_a_cluster_that_loses_power_again_and_again(profile: str) -> None:
    """Enough sends that most losses of power find messages on their way."""
    options = small(seed=1, seconds=8, workload=("queue",), broker_sets=1, replicas=3,
                    controllers=3, nemesis=("power", "kill"), rate=300.0, concurrency=12,
                    profile=profile)  # fmt: skip
    results = record(options).judged()
    assert (results.valid, results.whys) == (True, ())
    assert {results.claims[c].status for c in ("S6", "S8", "S9")} == {"kept"}


def test_what_is_not_there_reads_as_absent_after_the_loss(machine: SimMachine) -> None:
    async def case(host: SimHost) -> None:
        await replace_file(host.disk, "/d/f", b"x")
        host.disk.unlink("/d/f")
        await host.disk.sync_dir("/d")

    machine.world.run(machine, case)
    machine.disk.power_loss(Draws(1))
    assert read_file(machine.disk, "/d/f") is None
