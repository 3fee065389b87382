"""What a broker wrote last, behind its watermark, is noticed as well when it changes."""

import random
from collections.abc import Iterator

import pytest
from test_store_with_seals import BORN, LOG, filled, log_files, opened, refused, sent

from maxq.harness.simulation.world import SimHost, SimMachine, World
from maxq.reference.broker.store.commit_log import CorruptLog
from maxq.reference.broker.store.seals import Seal, Sealed
from maxq.reference.broker.store.store import Store
from maxq.reference.broker.store.tail import RANGES_MAX, SLOT_BYTES, Tail, Written
from maxq.reference.broker.store.watermark import Watermark
from maxq.reference.records import PhyOffset

TAIL = "/s/logTail"
FLIPS = 300


@pytest.fixture
def machine() -> Iterator[SimMachine]:
    world = World(1)
    yield world.add_machine("a", "198.18.0.16")
    world.close()


def watermark(machine: SimMachine) -> PhyOffset:
    sealed = Watermark(machine.disk, "/s").load()
    assert sealed is not None
    return sealed.end


async def went_on(host: SimHost) -> Store:
    """Twenty messages behind the watermark, which the log is synced up to, and then two more."""
    store = await opened(host)
    for number in range(200, 220):
        store.put([sent(number)])
    await store.sync()
    for number in range(220, 222):
        store.put([sent(number)])
    return store


def behind_the_watermark(machine: SimMachine) -> tuple[PhyOffset, Written]:
    """Where the watermark is, and what the file says."""
    machine.world.run(machine, filled)
    machine.world.run(machine, went_on)
    written = Tail(machine.disk, "/s").load()
    assert written is not None
    start, end = watermark(machine), written.sums.end
    assert start < written.synced < end, "two messages are not synced"
    return start, written


def test_no_flip_of_what_was_written_last_is_silent(machine: SimMachine) -> None:
    """S8: up to the sync each is refused; behind it a record may be cut off as torn, and is never
    another one."""
    start, written = behind_the_watermark(machine)
    rng, log, ends = random.Random(1), log_files(machine), set()

    async def flipped(host: SimHost) -> None:
        try:
            ends.add((await opened(host)).end)
        except CorruptLog:
            ends.add(PhyOffset(-1))

    before = {path: bytes(data) for path, data in machine.disk.files.items()}
    for _ in range(FLIPS):
        offset = rng.randrange(start, written.sums.end)
        log[offset // len(log[0])][offset % len(log[0])] ^= 1 << rng.randrange(8)
        ends.clear()
        machine.world.run(machine, flipped)
        (end,) = ends
        assert end == -1 or written.synced <= end <= offset
        for path, data in before.items():
            machine.disk.files[path][:] = data


def test_the_refusal_names_file_and_range(machine: SimMachine) -> None:
    start, _ = behind_the_watermark(machine)
    base, at = divmod(start + BORN, len(log_files(machine)[0]))
    log_files(machine)[base][at] ^= 1
    machine.world.run(
        machine, refused(rf"{LOG}/\d+: the bytes of offsets \d+ to \d+ are not those")
    )


def test_a_torn_slot_leaves_the_one_before(machine: SimMachine) -> None:
    _, written = behind_the_watermark(machine)
    data = machine.disk.files[TAIL]
    newest = max(range(2), key=lambda n: bytes(data[n * SLOT_BYTES + 8 : n * SLOT_BYTES + 16]))
    data[newest * SLOT_BYTES + 20] ^= 1
    older = Tail(machine.disk, "/s").load()
    assert older is not None
    assert older.sums.end < written.sums.end
    machine.world.run(machine, opened)


def test_without_a_watermark_that_counts_it_counts_for_nothing(machine: SimMachine) -> None:
    """As where RocketMQ has run on the store, or an operator has removed the watermark."""
    start, _ = behind_the_watermark(machine)
    base, at = divmod(start + BORN, len(log_files(machine)[0]))
    log_files(machine)[base][at] ^= 1
    del machine.disk.files["/s/logWatermark"]
    machine.world.run(machine, opened)


def test_more_ranges_than_a_slot_holds_leave_out_the_first(machine: SimMachine) -> None:
    seals = tuple(Seal(end=PhyOffset(n * 10), crc=n) for n in range(1, RANGES_MAX + 4))
    tail = Tail(machine.disk, "/t")
    tail.load()
    tail.note(Written(synced=PhyOffset(7), sums=Sealed(start=PhyOffset(0), seals=seals)))
    kept = Sealed(start=PhyOffset(30), seals=seals[3:])
    assert Tail(machine.disk, "/t").load() == Written(synced=PhyOffset(7), sums=kept)


def test_a_slave_that_stops_within_a_record_starts_again(machine: SimMachine) -> None:
    """S15: what it had of the record was synced, and is cut off as torn."""
    copied, ends = list[bytes](), list[PhyOffset]()

    async def master(host: SimHost) -> None:
        store = await opened(host)
        ends.extend(store.put([sent(number)])[0].end for number in range(3))
        copied.append(store.read_range(PhyOffset(0), store.end))

    async def slave(host: SimHost) -> None:
        store, data = await opened(host), copied[0]
        cut = (ends[1] + ends[2]) // 2
        store.checked(PhyOffset(0), data[: cut - 1])()
        await store.sync()
        store.checked(store.end, data[cut - 1 : cut])()  # notes that the sync is done
        assert store.whole_end() < store.durable < store.end

    async def again(host: SimHost) -> None:
        assert (await opened(host)).end == ends[1]

    other = machine.world.add_machine("b", "198.18.0.17")
    machine.world.run(machine, master)
    machine.world.run(other, slave)
    machine.world.run(other, again)


@pytest.mark.parametrize("seed", range(40))
def test_neither_a_crash_nor_a_loss_of_power_is_taken_for_damage(seed: int) -> None:
    """Whatever was written, synced, sealed and cut before."""
    world = World(seed)
    machine, rng = world.add_machine("a", "198.18.0.16"), random.Random(seed)

    async def life(host: SimHost) -> None:
        store = await opened(host)
        ends = [store.end]
        for number in range(rng.randrange(60)):
            chance = rng.random()
            if chance < 0.6:
                ends.append(store.put([sent(number)])[0].end)
            elif chance < 0.75:
                await store.sync()
            elif chance < 0.85:
                await store.mark()
            elif len(ends) > 1:
                await store.truncate(ends[-2])
                del ends[-1]

    for _ in range(6):
        world.run(machine, life)
        if rng.random() < 0.6:
            machine.lose_power()
            machine.stack.powered = True
    world.close()
