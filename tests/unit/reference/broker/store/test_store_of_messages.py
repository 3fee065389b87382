"""The store: places, files, recovery, damage, a full disk; on the simulated disk.

A process dies here by being forgotten: its files stay, as a page cache does.
"""

import errno
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from maxq.harness.simulation.disk import SimDisk, SimFile
from maxq.harness.simulation.world import SimHost, SimMachine, World
from maxq.reference.broker.store.commit_log import CommitLog, CorruptLog
from maxq.reference.broker.store.store import Store
from maxq.reference.config import BrokerConfig
from maxq.reference.records import PhyOffset, QueueOffset
from maxq.reference.wire.message import BLANK_MAGIC, Message, decode, decode_units, encode_at, peek

FILE = 4096
GOLDEN = Path(__file__).parents[4] / "wire" / "golden"
LOG = "/s/commitlog"


def message(body: bytes, *, topic: str = "T", queue_id: int = 0) -> Message:
    return Message(topic=topic, body=body, queue_id=queue_id)


@pytest.fixture
def machine() -> Iterator[SimMachine]:
    world = World(1)
    yield world.add_machine("a", "198.18.0.16")
    world.close()


def open_store(host: SimHost, *, file_size: int = FILE, queue_file_size: int = 60) -> Store:
    store = Store(
        host,
        root="/s",
        log_path=LOG,
        log_file_size=file_size,
        queue_file_size=queue_file_size,
        levels=BrokerConfig().delay_levels(),
    )
    store.recover()
    return store


def bodies(store: Store, topic: str = "T", queue_id: int = 0) -> list[bytes]:
    first, _ = store.bounds(topic, queue_id)
    return [decode(store.record(unit))[0].body for _, unit in store.units(topic, queue_id, first)]


def files(machine: SimMachine, folder: str) -> dict[str, bytes]:
    return {p[len(folder) + 1 :]: bytes(d) for p, d in sorted(machine.disk.files.items())
            if p.startswith(folder + "/")}  # fmt: skip


def test_messages_are_read_back_after_a_kill_across_files(machine: SimMachine) -> None:
    """S6, S11: offsets are dense, records never span files, a BLANK record closes a file."""
    sent = [b"%04d" % i + bytes(i * 7 % 900) for i in range(60)]

    async def write(host: SimHost) -> None:
        store = open_store(host)
        for at, body in enumerate(sent):
            (stored,) = store.put([message(body, queue_id=at % 2)])
            assert stored.queue_offset == at // 2
            assert stored.end == store.end
            assert store.record(next(store.units("T", at % 2, stored.queue_offset))[1])

    async def read(host: SimHost) -> None:
        store = open_store(host)
        assert bodies(store, queue_id=0) == sent[0::2]
        assert bodies(store, queue_id=1) == sent[1::2]
        assert store.bounds("T", 0) == (0, 30)
        assert store.bounds("T", 9) == (0, 0)

    machine.world.run(machine, write)
    log = files(machine, LOG)
    assert list(log) == [f"{n * FILE:020d}" for n in range(len(log))]
    assert len(log) >= 5
    for content in list(log.values())[:-1]:
        at = 0
        while (found := peek(content, at))[1] != BLANK_MAGIC:
            at += found[0]
        assert found[0] == FILE - at
    assert {len(c) for c in log.values()} == {FILE}
    machine.world.run(machine, read)
    assert files(machine, LOG) == log


@pytest.mark.parametrize("piece", [1, 7, 8, 100, 1000, FILE, 3 * FILE])
def test_a_log_copied_in_any_pieces_is_the_same_store(machine: SimMachine, piece: int) -> None:
    """S9: a slave indexes each record once its last byte is there, across files and BLANKs."""
    sent = [b"%04d" % i + bytes(i * 7 % 900) for i in range(40)]
    raw = b""

    async def write(host: SimHost) -> None:
        nonlocal raw
        store = open_store(host)
        for at, body in enumerate(sent):
            store.put([message(body, queue_id=at % 2)])
        while len(raw) < store.end:
            raw += store.read_range(PhyOffset(len(raw)), FILE)

    async def copy(host: SimHost) -> None:
        store = Store(
            host, root="/c", log_path="/c/log", log_file_size=FILE, queue_file_size=60,
            replicated=True,
        )  # fmt: skip
        for at in range(0, len(raw), piece):
            store.checked(PhyOffset(at), raw[at : at + piece])()
        assert store.whole_end() == store.end == len(raw)
        assert bodies(store) == []  # nothing is confirmed
        store.confirm(store.end)
        assert bodies(store, queue_id=0) == sent[0::2]
        assert bodies(store, queue_id=1) == sent[1::2]

    machine.world.run(machine, write)
    machine.world.run(machine, copy)


def test_a_record_that_fits_no_file_is_refused(machine: SimMachine) -> None:
    """S11: the bound is checked before anything is written."""

    async def case(host: SimHost) -> None:
        store = open_store(host)
        with pytest.raises(ValueError, match="fits no file"):
            store.put([message(bytes(FILE))])
        with pytest.raises(ValueError, match="fits no file"):
            store.put([message(bytes(1500)) for _ in range(3)])
        assert store.end == 0
        size = FILE - 8 - 92  # record and BLANK exactly fill a file
        (stored,) = store.put([message(bytes(size))])
        assert stored.end == FILE - 8
        assert store.put([message(b"next")])[0].physical_offset == FILE

    machine.world.run(machine, case)


def test_a_batch_lies_in_one_piece(machine: SimMachine) -> None:
    """Consecutive queue offsets, one append, one file (docs/spec/remoting.md 6.4)."""

    async def case(host: SimHost) -> None:
        store = open_store(host)
        store.put([message(bytes(3000))])
        stored = store.put([message(b"%d" % i + bytes(300)) for i in range(5)])
        assert [s.queue_offset for s in stored] == [1, 2, 3, 4, 5]
        assert stored[0].physical_offset == FILE
        assert [s.end for s in stored[:-1]] == [s.physical_offset for s in stored[1:]]

    machine.world.run(machine, case)


def written(machine: SimMachine, sent: list[bytes]) -> list[PhyOffset]:
    """Fill a store; where each record ends."""
    ends: list[PhyOffset] = []

    async def write(host: SimHost) -> None:
        store = open_store(host)
        ends.extend(store.put([message(body)])[0].end for body in sent)

    machine.world.run(machine, write)
    return ends


def test_a_torn_tail_is_erased(machine: SimMachine) -> None:
    """S6, S11: what follows the last whole record goes, and no byte of it ever comes back."""
    sent = [b"A" * 500, b"B" * 500, b"C" * 500]
    ends = written(machine, sent)
    log = machine.disk.files[f"{LOG}/{0:020d}"]
    log[ends[2] - 1] ^= 0xFF  # the end of the topic's properties length
    seen: list[list[bytes]] = []

    async def read(host: SimHost) -> None:
        store = open_store(host)
        assert store.end == ends[1]
        seen.append(bodies(store))
        store.put([message(b"D")])

    machine.world.run(machine, read)
    assert seen == [sent[:2]]
    assert b"CCCC" not in log
    assert len(log) == FILE

    async def again(host: SimHost) -> None:
        assert bodies(open_store(host)) == [*sent[:2], b"D"]

    machine.world.run(machine, again)


def test_later_files_without_a_record_go_with_the_tail(machine: SimMachine) -> None:
    """A kill between the BLANK and the next record, or while a file is made, leaves such files."""
    written(machine, [b"A"])
    for base, content in ((FILE, bytes(FILE)), (2 * FILE, b"")):
        machine.disk.files[f"{LOG}/{base:020d}"] = bytearray(content)

    async def read(host: SimHost) -> None:
        assert bodies(open_store(host)) == [b"A"]

    machine.world.run(machine, read)
    assert list(files(machine, LOG)) == [f"{0:020d}"]


def test_a_log_whose_last_file_is_full_goes_on_in_the_next(machine: SimMachine) -> None:
    """A kill right after the BLANK: the log ends at the border."""
    ends = written(machine, [b"A", bytes(FILE - 150)])
    del machine.disk.files[f"{LOG}/{FILE:020d}"]
    assert ends[1] > FILE

    async def read(host: SimHost) -> None:
        store = open_store(host)
        assert store.end == FILE
        assert store.put([message(b"B")])[0].physical_offset == FILE
        assert bodies(store) == [b"A", b"B"]

    machine.world.run(machine, read)


@pytest.mark.parametrize("where", ["same file", "next file"])
def test_damage_before_a_sound_record_refuses_to_start(machine: SimMachine, where: str) -> None:
    """S6: cutting there would lose messages; says file, offset and why."""
    body = 100 if where == "same file" else 3950
    ends = written(machine, [b"A", bytes(body), b"C"])
    victim = ends[0] if where == "same file" else FILE
    machine.disk.files[f"{LOG}/{victim - victim % FILE:020d}"][victim % FILE + 30] ^= 1
    before = files(machine, LOG)

    async def read(host: SimHost) -> None:
        with pytest.raises(
            CorruptLog, match=rf"{LOG}/0+{victim - victim % FILE}: .*offset {victim}"
        ):
            open_store(host)

    machine.world.run(machine, read)
    assert files(machine, LOG) == before  # nothing was touched


def test_another_file_size_refuses_to_start(machine: SimMachine) -> None:
    """S6: a smaller mappedFileSizeCommitLog must not cut what is there."""
    ends = written(machine, [bytes(1000)] * 3)
    before = files(machine, LOG)

    async def smaller(host: SimHost) -> None:
        with pytest.raises(CorruptLog, match="is mappedFileSizeCommitLog what it was"):
            open_store(host, file_size=2048)

    async def larger(host: SimHost) -> None:
        assert open_store(host, file_size=2 * FILE).end == ends[-1]

    machine.world.run(machine, smaller)
    assert files(machine, LOG) == before
    machine.world.run(machine, larger)


def test_consume_queue_files_are_rebuilt_equal(machine: SimMachine) -> None:
    """The commit log is the truth: whatever the queue files hold, they end as they were."""
    folder = "/s/consumequeue"

    async def write(host: SimHost) -> None:
        store = open_store(host)
        for at in range(10):
            store.put([message(b"%d" % at, queue_id=at % 2)])
        store.flush_queues()

    machine.world.run(machine, write)
    before = files(machine, folder)
    assert [len(before[f"T/0/{n * 60:020d}"]) for n in range(2)] == [60, 60]
    units = decode_units(before[f"T/0/{0:020d}"])
    assert [u.size for u in units] == [93, 93, 93]
    for damage in ("gone", "short", "long", "wrong", "left over", "other size"):
        first = machine.disk.files[f"{folder}/T/0/{0:020d}"]
        match damage:
            case "gone":
                for path in [p for p in machine.disk.files if p.startswith(folder)]:
                    machine.disk.unlink(path)
            case "short":
                del first[25:]
            case "long":
                machine.disk.files[f"{folder}/T/0/{60:020d}"] += bytes(40)
            case "wrong":
                first[7] ^= 0xFF
            case "left over":
                machine.disk.files[f"{folder}/T/0/{120:020d}"] = bytearray(b"x" * 60)
                machine.disk.files[f"{folder}/Gone/3/{0:020d}"] = bytearray(b"x" * 20)
            case "other size":
                machine.disk.files[f"{folder}/T/0/{40:020d}"] = bytearray(b"x" * 20)

        async def read(host: SimHost) -> None:
            open_store(host)

        machine.world.run(machine, read)
        assert files(machine, folder) == before, damage


# --- a full disk ------------------------------------------------------------------------------


class TornFile(SimFile):
    """A file whose next write stops half way, as a disk that fills up makes it."""

    def pwrite(self, data: bytes, offset: int) -> None:
        left = TornDisk.tear_after
        if left is not None:
            super().pwrite(data[:left], offset)
            raise OSError(errno.ENOSPC, "no space left on device")
        super().pwrite(data, offset)


class TornDisk(SimDisk):
    """A disk that can be told to tear writes."""

    tear_after: int | None = None

    def open(self, path: str, *, create: bool = False) -> TornFile:
        super().open(path, create=create).close()
        return TornFile(self, self.files[path])


@pytest.mark.parametrize("tear", [0, 1, 8, 50, 95, 96, 150, 192, 250])
def test_a_torn_batch_leaves_nothing(
    machine: SimMachine, tear: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S6, S11: no element of a refused batch is ever found, by readers or by a recovery.

    docs/spec/remoting.md 6.4
    """
    machine.disk = TornDisk(machine.disk.draws)

    async def case(host: SimHost) -> None:
        store = open_store(host)
        store.put([message(b"kept")])
        monkeypatch.setattr(TornDisk, "tear_after", tear)
        end = store.end
        with pytest.raises(OSError, match="no space"):
            store.put([message(b"%04d" % i) for i in range(3)])
        monkeypatch.setattr(TornDisk, "tear_after", None)
        assert (store.end, bodies(store)) == (end, [b"kept"])

    async def killed_then(host: SimHost) -> None:
        store = open_store(host)
        assert bodies(store) == [b"kept"]
        (stored,) = store.put([message(b"next")])  # as long as the first element was
        assert stored.queue_offset == 1

    async def read(host: SimHost) -> None:
        assert bodies(open_store(host)) == [b"kept", b"next"]

    machine.world.run(machine, case)
    machine.world.run(machine, killed_then)
    machine.world.run(machine, read)


def test_a_full_disk_loses_nothing_and_heals(machine: SimMachine) -> None:
    """S6: ENOSPC at the roll to the next file; small records still go into the old one, and once
    there is room the next file is made."""
    machine.disk = SimDisk(machine.disk.draws, capacity=FILE + 1000)
    kept: list[bytes] = []

    async def case(host: SimHost) -> None:
        store = open_store(host)
        kept.append(b"A" * 3000)
        store.put([message(kept[0])])
        for _ in range(2):
            with pytest.raises(OSError, match="no space"):
                store.put([message(b"B" * 1500)])
        kept.append(b"small")
        assert store.put([message(b"small")])[0].queue_offset == 1
        with pytest.raises(OSError, match="no space"):
            store.put([message(b"B" * 1500)])
        machine.disk.charge(-2 * FILE)  # somebody cleaned up
        kept.append(b"C" * 1500)
        assert store.put([message(kept[2])])[0].physical_offset == FILE
        assert bodies(store) == kept
        store.flush_queues()
        await store.sync()

    async def read(host: SimHost) -> None:
        assert bodies(open_store(host)) == kept

    machine.world.run(machine, case)
    machine.world.run(machine, read)


def test_a_disk_that_refuses_to_give_a_file_its_size_back(machine: SimMachine) -> None:
    """A failed write is erased by a cut, and a full disk may refuse the growth after it. The
    BLANK that ends the file later must be followed by its zeros, or a slave is sent less than the
    log has (seeds 97, 269 and 353 of the simulator).

    docs/spec/remoting.md 6.4
    """

    async def case(host: SimHost) -> None:
        store = open_store(host)
        store.put([message(b"A" * 3000)])
        end = store.end
        machine.disk.set_fault(full=True)
        with pytest.raises(OSError, match="no space"):
            store.put([message(b"B" * 100)])
        machine.disk.set_fault()
        assert store.put([message(b"C" * 1500)])[0].physical_offset == FILE
        assert len(store.read_range(end, FILE)) == FILE - end
        await store.sync()

    async def read(host: SimHost) -> None:
        assert bodies(open_store(host)) == [b"A" * 3000, b"C" * 1500]

    machine.world.run(machine, case)
    machine.world.run(machine, read)


# --- syncs ------------------------------------------------------------------------------------


class WatchedFile(SimFile):
    """A file that tells which disk syncs were asked for."""

    async def sync(self) -> None:
        await super().sync()
        synced.append(next(p[-4:] for p, d in self._disk.files.items() if d is self._data))


class WatchedDisk(SimDisk):
    """A disk that records syncs."""

    def open(self, path: str, *, create: bool = False) -> WatchedFile:
        super().open(path, create=create).close()
        return WatchedFile(self, self.files[path])

    async def sync_dir(self, folder: str) -> None:
        await super().sync_dir(folder)
        synced.append("dir")


synced: list[str] = []


def test_a_sync_covers_every_file_written_to_and_new_names(machine: SimMachine) -> None:
    """S6 under SYNC_FLUSH: many files can be filled between two syncs; names count too."""
    machine.disk = WatchedDisk(machine.disk.draws)
    synced.clear()

    async def case(host: SimHost) -> None:
        log = CommitLog(host.disk, LOG, FILE)
        log.recover(lambda message, size: None)
        assert await log.sync() == 0
        assert synced == []
        for _ in range(4):
            log.write(log.place(3000), bytes(3000))
        assert await log.sync() == log.end == log.durable
        assert synced == ["dir", "0000", "4096", "8192", "2288"]
        synced.clear()
        await log.sync()
        assert synced == []
        log.write(log.place(10), bytes(10))
        await log.sync()
        assert synced == ["2288"]

    machine.world.run(machine, case)


def test_what_a_restart_finds_counts_as_unsynced(machine: SimMachine) -> None:
    """S6 under SYNC_FLUSH: a killed process may have left it in the page cache only."""
    machine.disk = WatchedDisk(machine.disk.draws)
    written(machine, [bytes(3900)] * 2)
    synced.clear()

    async def case(host: SimHost) -> None:
        store = open_store(host)
        await store.sync()
        assert synced == ["dir", "0000", "4096"]

    machine.world.run(machine, case)


# --- stores of real brokers -------------------------------------------------------------------


@pytest.mark.parametrize("release", ["5.1.1", "5.3.3", "5.5.0"])
def test_stores_of_real_brokers_open(machine: SimMachine, release: str) -> None:
    """Our layout is RocketMQ's. Bounds and units equal what its consume queues say, also
    in the schedule topic, where a unit holds a delivery time instead of the tag."""
    base = GOLDEN / release / "stores" / "broker1"
    for path in sorted(p for p in base.rglob("*") if p.is_file()):
        machine.disk.files[f"/s/{path.relative_to(base)}"] = bytearray(path.read_bytes())
    golden = {k: decode_units(v) for k, v in files(machine, "/s/consumequeue").items()}

    async def case(host: SimHost) -> None:
        store = open_store(host, file_size=64 << 20, queue_file_size=600_000)
        for name, expected in golden.items():
            topic, queue_id, _ = name.split("/")
            key = (topic, int(queue_id))
            assert store.bounds(*key) == (0, len(expected))
            for at, unit in store.units(*key, QueueOffset(0)):
                theirs = expected[at]
                assert (unit.physical_offset, unit.size) == (theirs.physical_offset, theirs.size)
                assert unit.tags_code == theirs.tags_code
                found, end = decode(store.record(unit))
                assert end == unit.size
                assert (found.topic, found.queue_id, found.queue_offset) == (*key, at)
        (stored,) = store.put([message(b"ours", topic="T1")])
        assert stored.queue_offset == len(golden[f"T1/0/{0:020d}"])

    machine.world.run(machine, case)
    assert len(golden) >= 8


def test_a_flipped_bit_in_a_body_is_found(machine: SimMachine) -> None:
    """S6: what topic, queue or properties hold has no crc, in RocketMQ's format."""
    first, _, _ = written(machine, [b"A", bytes(100), b"C"])
    machine.disk.files[f"{LOG}/{0:020d}"][first + 150] ^= 1

    async def read(host: SimHost) -> None:
        with pytest.raises(CorruptLog, match=f"offset {first}"):
            open_store(host)

    machine.world.run(machine, read)


@pytest.mark.parametrize("zeros", range(1, 60))
def test_zeros_behind_the_body_are_a_torn_tail(machine: SimMachine, zeros: int) -> None:
    """S6: the crc covers the body only; a write that stopped in topic or properties left zeros."""
    properties = b"KEYS\x01key\x02UNIQ_KEY\x01ABCDEF\x02"
    torn = Message(topic="Topic", body=b"x" * 30, properties=properties)

    async def write(host: SimHost) -> None:
        store = open_store(host)
        store.put([message(b"kept")])
        store.put([torn])

    async def read(host: SimHost) -> None:
        store = open_store(host)
        assert bodies(store) == [b"kept"]
        assert store.bounds("Topic", 0) == (0, 0)
        assert list(store._queues) == [("T", 0)]

    async def followed(host: SimHost) -> None:
        store = open_store(host)
        odd = msgspec.structs.replace(torn, properties=properties + b"\0")
        with pytest.raises(ValueError, match="zero byte"):
            store.put([odd])
        at = store.end
        data = encode_at(odd, queue_offset=QueueOffset(0), physical_offset=at, store_timestamp=1)
        store._log.write(at, data)  # as another writer of the log may
        store.put([message(b"next")])

    async def again(host: SimHost) -> None:
        assert open_store(host).bounds("Topic", 0) == (0, 1)  # an odd record is no torn one

    machine.world.run(machine, write)
    log = machine.disk.files[f"{LOG}/{0:020d}"]
    end = len(bytes(log).rstrip(b"\0"))
    log[end - zeros : end] = bytes(zeros)
    machine.world.run(machine, read)
    machine.world.run(machine, followed)
    machine.world.run(machine, again)


@pytest.mark.parametrize("topic", ["../../../ESCAPED", "a/b", "%DLQ%" * 2 + "x" * 250, "..", "é"])
def test_no_name_of_a_topic_leads_out_of_the_store(machine: SimMachine, topic: str) -> None:
    """A log may hold records of another writer, with names that this broker would refuse."""

    async def write(host: SimHost) -> None:
        store = open_store(host)
        store.put([message(b"1", topic=topic)])
        store.flush_queues()

    async def read(host: SimHost) -> None:
        assert bodies(open_store(host), topic) == [b"1"]

    machine.world.run(machine, write)
    folders = {path.split("/")[0] for path in files(machine, "/s/consumequeue")}
    assert len(folders) == 1
    assert all(len(f.encode()) < 255 and f not in ("", ".", "..") for f in folders)
    assert {p.split("/")[1] for p in machine.disk.files} == {"s"}
    machine.world.run(machine, read)
