"""The Raft node's files: every torn end is cut, every other damage refuses to open."""

import pytest

from maxq.harness.contracts.draws import Draws
from maxq.harness.simulation.disk import SimDisk
from maxq.harness.simulation.world import SimHost, World
from maxq.reference.raft.log import Log
from maxq.reference.raft.message import Entry
from maxq.reference.raft.storage import MARK, CorruptRaftLog, Snapshot, Storage

Loaded = tuple[int, str, Log, Snapshot | None]


def entry(term: int, index: int) -> Entry:
    return Entry(term=term, index=index, data=b"x" * index)


def run(work: object) -> object:
    world = World(1)

    async def main(host: SimHost) -> object:
        return await work  # type: ignore[misc]

    try:
        return world.run(world.add_machine("m", "198.18.0.16"), main)
    finally:
        world.close()


async def written(disk: SimDisk) -> None:
    storage = Storage(disk, "/r")
    await storage.load()
    await storage.append(1, "a", ())
    await storage.append(1, "a", (entry(1, 1), entry(1, 2)))
    await storage.append(2, "b", (entry(2, 2), entry(2, 3)))


def load(disk: SimDisk) -> Loaded:
    return run(Storage(disk, "/r").load())  # type: ignore[return-value]


def fresh() -> SimDisk:
    disk = SimDisk(Draws(1))
    run(written(disk))
    return disk


def test_what_was_appended_is_loaded_and_later_entries_replace() -> None:
    term, vote, log, snapshot = load(fresh())
    assert (term, vote, snapshot) == (2, "b", None)
    assert log.entries == [entry(1, 1), entry(2, 2), entry(2, 3)]


def test_a_log_torn_at_any_byte_opens_with_its_whole_records() -> None:
    """Must show: every crash point of the Raft log, enumerated, counted, recovered."""
    whole = bytes(fresh().files["/r/log"])
    starts = [at for at in range(len(whole)) if whole.startswith(MARK, at)] + [len(whole)]
    states = [(0, "", 0), (1, "a", 0), (1, "a", 2), (2, "b", 3)]
    count = 0
    for cut in range(len(whole) + 1):
        disk = SimDisk(Draws(1))
        disk.files["/r/log"] = bytearray(whole[:cut])
        term, vote, log, _ = load(disk)
        kept = sum(1 for s in starts[1:] if s <= cut)
        assert (term, vote, log.last_index) == states[kept], cut
        assert len(disk.files["/r/log"]) == starts[kept], "the torn record is gone"
        count += 1
    assert count == len(whole) + 1 > 50


def test_garbage_in_place_of_the_last_record_is_cut() -> None:
    disk = fresh()
    last = bytes(disk.files["/r/log"]).rindex(MARK)
    disk.files["/r/log"][last + 14] ^= 0xFF
    assert load(disk)[:2] == (1, "a")


def test_damage_before_a_good_record_refuses_and_says_where() -> None:
    disk = fresh()
    disk.files["/r/log"][13] ^= 0xFF
    with pytest.raises(CorruptRaftLog, match=r"/r/log: no sound record at byte 0, but one at byte"):
        load(disk)


def test_compaction_survives_a_crash_between_its_two_files() -> None:
    disk = fresh()
    old_log = bytes(disk.files["/r/log"])

    async def compact() -> None:
        storage = Storage(disk, "/r")
        term, vote, log, _ = await storage.load()
        await storage.compact(Snapshot(index=2, term=2, data=b"state"), term, vote, log)
        await storage.append(3, "c", (entry(3, 4),))

    run(compact())
    term, vote, log, snapshot = load(disk)
    assert (term, vote, log.snapshot_index, log.last_index) == (3, "c", 2, 4)
    assert snapshot == Snapshot(index=2, term=2, data=b"state")
    # The same snapshot beside the log from before: what it holds already is skipped.
    disk.files["/r/log"] = bytearray(old_log)
    term, vote, log, _ = load(disk)
    assert (term, vote, log.snapshot_index, log.entries) == (2, "b", 2, [entry(2, 3)])


def test_a_damaged_snapshot_refuses() -> None:
    disk = fresh()

    async def compact() -> None:
        storage = Storage(disk, "/r")
        term, vote, log, _ = await storage.load()
        await storage.compact(Snapshot(index=2, term=2, data=b"state"), term, vote, log)

    run(compact())
    disk.files["/r/snapshot"][-1] ^= 1
    with pytest.raises(CorruptRaftLog, match="/r/snapshot"):
        load(disk)
