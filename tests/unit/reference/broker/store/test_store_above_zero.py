"""A store whose log begins above 0: trimmed here, trimmed by RocketMQ, or copied from there on.

Each message fills a file of the log. A process dies here by being forgotten.
"""

from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from maxq.harness.simulation.world import SimHost, SimMachine, World
from maxq.reference.broker.store.commit_log import CorruptLog
from maxq.reference.broker.store.consume_queue import FILLING
from maxq.reference.broker.store.store import Store
from maxq.reference.host import replace_file
from maxq.reference.records import PhyOffset, QueueOffset, RemoteProtocolError
from maxq.reference.wire.message import Message, decode, decode_units, encode_at

Life = Callable[[SimHost], Coroutine[Any, Any, None]]
FILE = 4096
UNITS_PER_FILE = 3
LOG, QUEUES = "/s/commitlog", "/s/consumequeue"
THEIRS = ("/s/logWatermark", "/s/logTail")  # which RocketMQ's store has not


@pytest.fixture
def machine() -> Iterator[SimMachine]:
    world = World(1)
    yield world.add_machine("a", "198.18.0.16")
    world.close()


async def opened(host: SimHost) -> Store:
    store = Store(
        host, root="/s", log_path=LOG, log_file_size=FILE, queue_file_size=20 * UNITS_PER_FILE
    )
    store.recover()
    await store.sync_recovered()
    store.flush_queues()
    return store


def body(number: int) -> bytes:
    return b"%04d" % number + bytes(3600)


def put(store: Store, number: int, topic: str = "T") -> None:
    store.put([Message(topic=topic, body=body(number))])
    store.flush_queues()


def numbers(store: Store, topic: str = "T") -> list[int]:
    first, _ = store.bounds(topic, 0)
    return [int(decode(store.record(u))[0].body[:4]) for _, u in store.units(topic, 0, first)]


def names(machine: SimMachine, folder: str) -> list[int]:
    return [int(n) for n in machine.disk.list(folder)]


async def ten(host: SimHost) -> Store:
    """A store of ten messages, a file each, without the first five."""
    store = await opened(host)
    for number in range(10):
        put(store, number)
    await store.trim(PhyOffset(5 * FILE))
    return store


def drop_watermark(machine: SimMachine) -> None:
    for path in THEIRS:
        del machine.disk.files[path]


def test_a_trimmed_store_opens_with_what_is_left_and_goes_on(machine: SimMachine) -> None:
    async def trimmed(host: SimHost) -> None:
        store = await ten(host)
        assert (store.start, store.bounds("T", 0)) == (5 * FILE, (5, 10))
        assert numbers(store) == [5, 6, 7, 8, 9]
        assert store.unit_of("T", 0, 4) is None

    async def again(host: SimHost) -> None:
        store = await opened(host)
        assert (store.start, store.bounds("T", 0)) == (5 * FILE, (5, 10))
        assert next(store.units("T", 0, QueueOffset(0)))[0] == 5
        put(store, 10)
        assert numbers(store) == [5, 6, 7, 8, 9, 10]

    machine.world.run(machine, trimmed)
    assert names(machine, LOG) == [n * FILE for n in range(5, 10)]
    assert names(machine, f"{QUEUES}/T/0") == [60, 120, 180], "the file of message 3 holds 5"
    before = bytes(machine.disk.files[f"{QUEUES}/T/0/{60:020d}"])
    machine.world.run(machine, again)
    after = bytes(machine.disk.files[f"{QUEUES}/T/0/{60:020d}"])
    assert decode_units(after)[2] == decode_units(before)[2]
    assert decode_units(after)[:2] == decode_units(before)[:2], "known units stay"


def test_rocketmqs_store_without_its_first_files_opens(machine: SimMachine) -> None:
    """It has no watermark, and its queues' files may still hold what the log has lost."""

    async def full(host: SimHost) -> None:
        store = await opened(host)
        for number in range(10):
            put(store, number)

    machine.world.run(machine, full)
    drop_watermark(machine)
    for number in range(4):
        machine.disk.unlink(f"{LOG}/{number * FILE:020d}")

    async def read(host: SimHost) -> None:
        store = await opened(host)
        assert numbers(store) == [4, 5, 6, 7, 8, 9]
        assert store.bounds("T", 0) == (4, 10)

    machine.world.run(machine, read)


def test_a_queue_of_which_nothing_is_left_keeps_its_place(machine: SimMachine) -> None:
    """S11: its next message does not get the offset of one that a consumer has read."""

    async def trimmed(host: SimHost) -> None:
        store = await opened(host)
        for number in range(4):
            put(store, number, "Old")
        put(store, 4)
        put(store, 5)
        await store.trim(PhyOffset(4 * FILE))
        assert store.bounds("Old", 0) == (4, 4)

    async def again(host: SimHost) -> None:
        store = await opened(host)
        assert (store.bounds("Old", 0), numbers(store, "Old")) == ((4, 4), [])
        put(store, 6, "Old")
        assert (store.bounds("Old", 0), numbers(store, "Old")) == ((4, 5), [6])

    machine.world.run(machine, trimmed)
    assert names(machine, f"{QUEUES}/Old/0") == [60], "the last file is never removed"
    machine.world.run(machine, again)
    machine.world.run(machine, again_with(5))


def again_with(end: int) -> Life:
    async def life(host: SimHost) -> None:
        assert (await opened(host)).bounds("Old", 0) == (4, end)

    return life


def test_a_copy_from_a_masters_first_byte_on_begins_there(machine: SimMachine) -> None:
    """The units that a replica never had are RocketMQ's filling, since a zero ends a queue."""

    async def copied(host: SimHost) -> None:
        store = await opened(host)
        data = encode_at(Message(topic="T", body=body(5)), queue_offset=QueueOffset(5),
                         physical_offset=PhyOffset(5 * FILE), store_timestamp=1)  # fmt: skip
        store.checked(PhyOffset(5 * FILE), data)()
        store.confirm(store.end)
        store.flush_queues()
        await store.mark()
        assert store.bounds("T", 0) == (5, 6)

    machine.world.run(machine, copied)
    units = decode_units(bytes(machine.disk.files[f"{QUEUES}/T/0/{60:020d}"]))
    assert units[:2] == [FILLING, FILLING]
    assert units[2].physical_offset == 5 * FILE

    async def again(host: SimHost) -> None:
        store = await opened(host)
        assert (store.bounds("T", 0), numbers(store)) == ((5, 6), [5])

    machine.world.run(machine, again)


def test_a_gap_behind_the_first_record_of_a_queue_is_refused(machine: SimMachine) -> None:
    """Only what lies before the log's first byte may be missing."""
    machine.world.run(machine, ten)
    drop_watermark(machine)

    async def forge(host: SimHost) -> None:
        data = encode_at(Message(topic="T", body=body(9)), queue_offset=QueueOffset(8),
                         physical_offset=PhyOffset(7 * FILE), store_timestamp=1)  # fmt: skip
        file = host.disk.open(f"{LOG}/{7 * FILE:020d}")
        file.pwrite(data, 0)
        await file.sync()

    machine.world.run(machine, forge)

    async def refused(host: SimHost) -> None:
        with pytest.raises(CorruptLog, match=f"offset {7 * FILE} is message 8 of T:0, expected 7"):
            await opened(host)

    machine.world.run(machine, refused)

    async def follows(host: SimHost) -> None:
        for number in (5, 6, 7):
            machine.disk.unlink(f"{LOG}/{number * FILE:020d}")
        store = await opened(host)
        data = encode_at(Message(topic="T", body=b"10"),
queue_offset=QueueOffset(11),
                         physical_offset=store.end, store_timestamp=1)  # fmt: skip
        with pytest.raises(RemoteProtocolError, match=r"message 11 of .*, expected 10"):
            store.checked(store.end, data)

    machine.world.run(machine, follows)


def test_cut_to_its_start_a_store_is_empty_and_may_begin_anywhere(machine: SimMachine) -> None:
    async def emptied(host: SimHost) -> None:
        store = await ten(host)
        await store.truncate(PhyOffset(5 * FILE))
        assert (store.start, store.end, store.bounds("T", 0)) == (0, 0, (0, 0))
        put(store, 0)
        assert numbers(store) == [0]

    machine.world.run(machine, emptied)
    assert names(machine, f"{QUEUES}/T/0") == [0]


def test_a_cut_above_the_start_keeps_the_start(machine: SimMachine) -> None:
    async def cut(host: SimHost) -> None:
        store = await ten(host)
        await store.truncate(store._log.files()[3])
        assert (store.bounds("T", 0), numbers(store)) == ((5, 8), [5, 6, 7])
        put(store, 8)
        assert numbers(store) == [5, 6, 7, 8]

    async def again(host: SimHost) -> None:
        assert numbers(await opened(host)) == [5, 6, 7, 8]

    machine.world.run(machine, cut)
    machine.world.run(machine, again)


@pytest.mark.parametrize("left", range(6))
def test_a_crash_while_files_go_is_no_damage(machine: SimMachine, left: int) -> None:
    """The watermark knows the new start; of the files before it the last ones may be left."""

    async def crash(host: SimHost) -> None:
        store = await opened(host)
        for number in range(10):
            put(store, number)
        paths = [f"{LOG}/{number * FILE:020d}" for number in range(5 - left, 5)]
        kept = {path: bytes(machine.disk.files[path]) for path in paths}
        await store.trim(PhyOffset(5 * FILE))
        for path, data in kept.items():
            await replace_file(host.disk, path, data)

    async def again(host: SimHost) -> None:
        store = await opened(host)
        assert numbers(store) == list(range(5 - left, 10))
        await store.trim(PhyOffset(6 * FILE))
        assert numbers(store) == [6, 7, 8, 9]

    machine.world.run(machine, crash)
    machine.world.run(machine, again)
    flip(machine, 6 * FILE, 45)  # born: which no crc of RocketMQ's covers

    async def damaged(host: SimHost) -> None:
        with pytest.raises(CorruptLog, match=f"the bytes of offsets {6 * FILE}"):
            await opened(host)

    machine.world.run(machine, damaged)


def flip(machine: SimMachine, base: int, at: int) -> None:
    machine.disk.files[f"{LOG}/{base:020d}"][at] ^= 1


class Bad:
    """Ways to spoil the files of a trimmed store, mostly the first one."""

    @staticmethod
    def missing(machine: SimMachine) -> None:
        machine.disk.unlink(f"{LOG}/{5 * FILE:020d}")

    @staticmethod
    def hole(machine: SimMachine) -> None:
        machine.disk.unlink(f"{LOG}/{6 * FILE:020d}")

    @staticmethod
    def short(machine: SimMachine) -> None:
        del machine.disk.files[f"{LOG}/{5 * FILE:020d}"][100:]

    @staticmethod
    def empty(machine: SimMachine) -> None:
        del machine.disk.files[f"{LOG}/{5 * FILE:020d}"][:]

    @staticmethod
    def long(machine: SimMachine) -> None:
        machine.disk.files[f"{LOG}/{5 * FILE:020d}"].extend(b"x")

    @staticmethod
    def lower(machine: SimMachine) -> None:
        machine.disk.rename(f"{LOG}/{5 * FILE:020d}", f"{LOG}/{4 * FILE:020d}")

    @staticmethod
    def odd(machine: SimMachine) -> None:
        machine.disk.rename(f"{LOG}/{5 * FILE:020d}", f"{LOG}/{5 * FILE + 1:020d}")

    @staticmethod
    def all_renamed(machine: SimMachine) -> None:
        for number in range(5, 10):
            machine.disk.rename(f"{LOG}/{number * FILE:020d}", f"{LOG}/{(number - 1) * FILE:020d}")


@pytest.mark.parametrize("marked", [True, False])
@pytest.mark.parametrize(
    ("how", "said"),
    [
        (Bad.missing, f"{5 * FILE:020d}: missing, the first file is {6 * FILE:020d}"),
        (Bad.hole, f"{7 * FILE:020d}: files of {FILE} bytes do not meet here"),
        (Bad.short, f"no sound record at (offset {5 * FILE}|byte 0)"),
        (Bad.empty, f"no sound record at (offset {5 * FILE}|byte 0)"),
        (Bad.long, f"{5 * FILE:020d}: {FILE + 1} bytes, files have {FILE}"),
        (Bad.lower, f"{6 * FILE:020d}: files of {FILE} bytes do not meet here"),
        (Bad.odd, f"{5 * FILE + 1:020d}: files of {FILE} bytes do not meet here"),
        (Bad.all_renamed, f"{4 * FILE:020d}: begins with the record of offset {5 * FILE}"),
    ],
)
def test_a_spoilt_file_is_refused_by_name(
    machine: SimMachine, how: Callable[[SimMachine], None], said: str, *, marked: bool
) -> None:
    """Without a watermark a first file that is missing may have been trimmed."""
    machine.world.run(machine, ten)
    if not marked:
        drop_watermark(machine)
    how(machine)
    before = {p: bytes(d) for p, d in machine.disk.files.items() if p.startswith(LOG)}

    async def refused(host: SimHost) -> None:
        if how is Bad.missing and not marked:
            assert numbers(await opened(host)) == [6, 7, 8, 9]
            return
        with pytest.raises(CorruptLog, match=said):
            await opened(host)

    machine.world.run(machine, refused)
    assert {p: bytes(d) for p, d in machine.disk.files.items() if p.startswith(LOG)} == before
