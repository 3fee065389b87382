"""A store whose log is not as it was written: whatever its files hold, it is noticed.

Files are in the simulated disk; a process dies here by being forgotten.
"""

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from typing import Any

import pytest

from maxq.harness.simulation.world import SimHost, SimMachine, World
from maxq.reference.broker.store.commit_log import CommitLog, CorruptLog
from maxq.reference.broker.store.seals import Sealed
from maxq.reference.broker.store.store import Store
from maxq.reference.broker.store.watermark import CorruptWatermark, Watermark
from maxq.reference.records import PhyOffset
from maxq.reference.wire.message import Message, decode

FILE = 8192
LOG, MARK = "/s/commitlog", "/s/logWatermark"
FLIPS = 3000
BORN = 45  # a byte of the first record's bornTimestamp, which no crc of RocketMQ's covers


@pytest.fixture
def machine() -> Iterator[SimMachine]:
    world = World(1)
    yield world.add_machine("a", "198.18.0.16")
    world.close()


async def opened(host: SimHost, root: str = "/s") -> Store:
    store = Store(
        host, root=root, log_path=f"{root}/commitlog", log_file_size=FILE, queue_file_size=60
    )
    store.recover()
    await store.sync_recovered()
    return store


def sent(number: int) -> Message:
    return Message(
        topic=f"Topic{number % 3}",
        body=b"%04d" % number + bytes(number % 50),
        properties=b"KEYS\x01%d\x02" % number,
        queue_id=number % 2,
    )


async def fill(store: Store, count: int, first: int = 0) -> list[PhyOffset]:
    """Store messages; returns the end of each."""
    ends = [store.put([sent(number)])[0].end for number in range(first, first + count)]
    await store.mark()
    return ends


def contents(store: Store) -> list[Message]:
    """All messages of a store that has those of `fill`."""
    return [
        decode(store.record(unit))[0]
        for topic in ("Topic0", "Topic1", "Topic2")
        for queue_id in (0, 1)
        for _, unit in store.units(topic, queue_id, store.bounds(topic, queue_id)[0])
    ]


Life = Callable[[SimHost], Coroutine[Any, Any, None]]


def log_files(machine: SimMachine) -> list[bytearray]:
    return [data for path, data in sorted(machine.disk.files.items()) if path.startswith(LOG)]


def refused(match: str) -> Life:
    """A life that ends when the store is opened."""

    async def life(host: SimHost) -> None:
        with pytest.raises(CorruptLog, match=match):
            await opened(host)

    return life


async def filled(host: SimHost) -> None:
    await fill(await opened(host), 200)


def test_no_flipped_bit_of_a_sealed_log_is_silent(machine: SimMachine) -> None:
    """S6: whichever bit of its records and BLANKs it is. Before, more than half of them were."""
    machine.world.run(machine, filled)
    rng, named = random.Random(1), 0
    log = log_files(machine)
    sizes = [FILE] * (len(log) - 1) + [len(log[-1].rstrip(b"\0"))]

    async def flipped(host: SimHost) -> None:
        nonlocal named
        with pytest.raises(CorruptLog) as found:
            await opened(host)
        named += f"{number * FILE:020d}: the bytes of offsets" in str(found.value)

    for _ in range(FLIPS):
        (number,) = rng.choices(range(len(log)), sizes)
        at, bit = rng.randrange(sizes[number]), 1 << rng.randrange(8)
        before = [bytes(data) for data in log]
        log[number][at] ^= bit
        machine.world.run(machine, flipped)
        log[number][at] ^= bit
        assert [bytes(data) for data in log] == before, "nothing was touched"
    assert named > FLIPS // 4, "found by its sum alone"
    machine.world.run(machine, lambda host: opened(host))


def test_the_refusal_names_the_file_the_range_and_what_to_do(machine: SimMachine) -> None:
    machine.world.run(machine, filled)
    log_files(machine)[1][BORN] ^= 1
    named = rf"{LOG}/{FILE:020d}: the bytes of offsets {FILE} to \d+ .*restore.*logWatermark"
    machine.world.run(machine, refused(named))


@pytest.mark.parametrize("mark", [None, b"MAXQ"])
def test_a_store_without_sums_is_sealed_as_it_is_found(
    machine: SimMachine, mark: bytes | None
) -> None:
    """Of RocketMQ, or of an older release, which knew how far the log was on the disk."""
    machine.world.run(machine, filled)
    del machine.disk.files[MARK]
    if mark is not None:
        old = bytes.fromhex("4d4158510000000000000c804c38e9fb")  # up to 3200
        machine.disk.install(MARK, old)

    async def read(host: SimHost) -> None:
        assert len(contents(await opened(host))) == 200

    machine.world.run(machine, read)
    machine.world.run(machine, read)
    log_files(machine)[0][BORN] ^= 1
    machine.world.run(machine, refused("the bytes of offsets 0 to"))


def test_a_cut_log_is_known_by_what_it_is_then(machine: SimMachine) -> None:
    """S8: records of another master lie where those of the dead tail were."""

    async def cut(host: SimHost) -> None:
        store = await opened(host)
        ends = await fill(store, 200)
        await store.truncate(ends[99])
        await fill(store, 30, first=100)
        await store.truncate(ends[95])
        await fill(store, 60, first=96)

    async def read(host: SimHost) -> None:
        assert len(contents(await opened(host))) == 156

    machine.world.run(machine, cut)
    machine.world.run(machine, read)
    log_files(machine)[0][BORN] ^= 1
    machine.world.run(machine, refused("offsets 0 to"))


def test_a_log_is_cut_to_nothing_and_begins_again(machine: SimMachine) -> None:
    async def life(host: SimHost) -> None:
        store = await opened(host)
        assert contents(store) == []
        await fill(store, 20)
        await store.truncate(PhyOffset(0))

    for _ in range(2):
        machine.world.run(machine, life)


def test_a_slave_seals_what_it_copies_however_it_is_cut(machine: SimMachine) -> None:
    async def copy(host: SimHost) -> None:
        master = await opened(host)
        await fill(master, 200)
        slave, rng = await opened(host, "/c"), random.Random(2)
        while slave.end < master.end:
            data = master.read_range(slave.end, rng.randint(1, 700))
            slave.checked(slave.end, data)()
            await slave.mark()

    async def again(host: SimHost) -> None:
        assert len(contents(await opened(host, "/c"))) == 200

    async def damaged(host: SimHost) -> None:
        with pytest.raises(CorruptLog, match="the bytes of offsets 0 to"):
            await opened(host, "/c")

    machine.world.run(machine, copy)
    machine.world.run(machine, again)
    machine.disk.files[f"/c/commitlog/{0:020d}"][BORN] ^= 1
    machine.world.run(machine, damaged)


def test_a_cut_that_would_seal_damage_is_refused(machine: SimMachine) -> None:
    async def cut(host: SimHost) -> None:
        store = await opened(host)
        ends = await fill(store, 200)
        log_files(machine)[0][BORN] ^= 1
        with pytest.raises(CorruptLog, match=f"{0:020d}: the bytes of offsets 0 to"):
            await store.truncate(ends[0])
        assert store.end == ends[-1]

    machine.world.run(machine, cut)
    machine.world.run(machine, refused("the bytes of offsets 0 to"))


@pytest.mark.parametrize("quarter_ms", range(40))
def test_a_broker_that_stops_while_its_log_is_cut_starts_again(
    machine: SimMachine, quarter_ms: int
) -> None:
    """Whatever it has come to: what it seals at its end is what it has then."""

    async def life(host: SimHost) -> None:
        store = await opened(host)
        ends = await fill(store, 50)
        cut = asyncio.ensure_future(store.truncate(ends[20]))
        await asyncio.sleep(quarter_ms / 4000)
        cut.cancel()
        with suppress(asyncio.CancelledError):
            await cut
        await store.mark()
        store.close()

    async def read(host: SimHost) -> None:
        assert len(contents(await opened(host))) in (21, 50)

    machine.world.run(machine, life)
    machine.world.run(machine, read)


@pytest.mark.parametrize("ran", ["abort", "checkpoint"])
def test_where_rocketmq_has_run_since_its_log_is_not_accused(machine: SimMachine, ran: str) -> None:
    """It knows nothing of sums, and may have cut the log and written on."""
    machine.world.run(machine, filled)
    machine.disk.install(f"/s/{ran}", b"4711")
    log_files(machine)[0][BORN] ^= 1  # stands for another record there

    async def read(host: SimHost) -> None:
        assert len(contents(await opened(host))) == 200

    machine.world.run(machine, read)
    machine.world.run(machine, read)
    log_files(machine)[0][BORN] ^= 2
    machine.world.run(machine, refused("the bytes of offsets 0 to"))


def test_first_files_may_go(machine: SimMachine) -> None:
    """Once the watermark says so: what is left is known all the same."""
    machine.world.run(machine, filled)
    del machine.disk.files[f"{LOG}/{0:020d}"]
    known: list[Sealed] = []

    async def left(host: SimHost) -> None:
        log = CommitLog(host.disk, LOG, FILE)
        with pytest.raises(CorruptLog, match=f"{0:020d}: missing, .* was not trimmed"):
            log.recover(lambda message, size: None, sealed=known[0])
        log = CommitLog(host.disk, LOG, FILE)
        log.recover(lambda message, size: None, sealed=known[0].since(PhyOffset(FILE)))
        assert (log.start, log.end) == (FILE, known[0].end)

    async def damaged(host: SimHost) -> None:
        with pytest.raises(CorruptLog, match=f"the bytes of offsets {FILE} to"):
            await left(host)

    known.append(sealed_of(machine))
    machine.world.run(machine, left)
    log_files(machine)[0][BORN] ^= 1
    machine.world.run(machine, damaged)


def sealed_of(machine: SimMachine) -> Sealed:
    """What the store's file says."""
    found: list[Sealed | None] = []

    async def read(host: SimHost) -> None:
        found.append(Watermark(host.disk, "/s").load())

    machine.world.run(machine, read)
    assert found[0] is not None
    return found[0]


def test_a_flipped_bit_of_the_sums_is_named(machine: SimMachine) -> None:
    """Whichever: sums of other bytes would accuse a sound log."""
    machine.world.run(machine, filled)
    mark = machine.disk.files[MARK]

    async def named(host: SimHost) -> None:
        with pytest.raises(CorruptWatermark, match=MARK):
            await opened(host)

    for at in range(len(mark)):
        mark[at] ^= 1 << at % 8
        machine.world.run(machine, named)
        mark[at] ^= 1 << at % 8
