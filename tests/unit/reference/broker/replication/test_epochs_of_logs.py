"""Epoch lists: what they keep, and where two logs part. The epoch file under every crash."""

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxq.reference.broker.replication import epochs as policy
from maxq.reference.broker.replication.epochs import CorruptEpochs, EpochFile, Epochs
from maxq.reference.host import Usage
from maxq.reference.records import MasterEpoch, PhyOffset
from maxq.reference.wire.files import encode_epochs
from maxq.reference.wire.ha import EpochStart


def entries(*pairs: tuple[int, int]) -> Epochs:
    return tuple(EpochStart(epoch=MasterEpoch(e), start=PhyOffset(s)) for e, s in pairs)


def at(offset: int) -> PhyOffset:
    return PhyOffset(offset)


@pytest.mark.parametrize(
    ("mine", "my_end", "theirs", "their_end", "point"),
    [
        # The examples of docs/spec/controller-ha.md 4.6, and the captured one.
        (entries((1, 0), (2, 100)), 180, entries((1, 0), (2, 100), (3, 150)), 300, 150),
        (entries((1, 0)), 130, entries((1, 0), (2, 100)), 300, 100),
        (entries((1, 0)), 9279, entries((1, 0), (2, 9081)), 10041, 9081),
        # Epochs without bytes are kept; RocketMQ finds 130: docs/spec/controller-ha.md 6.4 (H2)
        # and 6.5 (rule 1).
        (entries((1, 0)), 130, entries((1, 0), (2, 0)), 500, 0),
        (entries((1, 0), (2, 100), (3, 100)), 120, entries((1, 0), (2, 100), (4, 100)), 150, 100),
        # docs/spec/controller-ha.md 6.4 (H9): never behind the own end, though the list is ahead of
        # the log.
        (entries((1, 0), (2, 100)), 80, entries((1, 0), (2, 100)), 150, 80),
        # The master's list may be ahead of its log as well.
        (entries((1, 0)), 130, entries((1, 0), (2, 200)), 90, 90),
        # Nothing to cut; a lagging slave; an epoch that only the slave has heard of.
        (entries((1, 0)), 50, entries((1, 0)), 50, 50),
        (entries((1, 0)), 20, entries((1, 0), (2, 100)), 300, 20),
        (entries((1, 0), (2, 100)), 180, entries((1, 0), (3, 120)), 300, 100),
        # Equal epochs of different starts are not the same.
        (entries((1, 0), (2, 100)), 180, entries((1, 0), (2, 110)), 300, 100),
        # An empty log shares all that it has.
        ((), 0, entries((1, 0)), 300, 0),
        (entries((1, 0)), 0, entries((2, 0)), 300, 0),
        # docs/spec/controller-ha.md 6.5 (rule 4): no list, but bytes: nothing is known of them.
        # RocketMQ cuts nothing.
        ((), 70, entries((1, 0)), 300, None),
        (entries((1, 0)), 70, entries((2, 0)), 300, None),
        (entries((1, 0)), 70, (), 0, None),
    ],
)
def test_truncation_point(
    mine: Epochs, my_end: int, theirs: Epochs, their_end: int, point: int | None
) -> None:
    """S8: the end of the part that two logs certainly share."""
    assert policy.truncation_point(mine, at(my_end), theirs, at(their_end)) == point


@pytest.mark.parametrize(
    ("offset", "index"), [(0, 0), (49, 0), (50, 0), (70, 1), (99, 1), (100, 2)]
)
def test_unlabelled_bytes_are_sent_under_the_first_entry(offset: int, index: int) -> None:
    """As RocketMQ does; docs/spec/controller-ha.md 4.4"""
    assert policy.label_at(entries((1, 50), (2, 70), (3, 100)), at(offset)) == index
    assert policy.label_at((), at(offset)) is None


@pytest.mark.parametrize(
    ("equal", "whole", "member", "kept"),
    [
        (0, 0, True, 0),
        (60, 60, True, 60),
        (40, 60, True, None),
        (0, 60, True, None),
        (40, 60, False, 40),
        (0, 60, False, 0),
    ],
)
def test_who_is_cut_where_logs_differ(
    equal: int, whole: int, member: bool, kept: int | None
) -> None:
    """S6: never what may be the only copy of an acknowledged message."""
    assert policy.kept_after_comparison(at(equal), at(whole), member=member) == kept


def test_append() -> None:
    assert policy.append((), MasterEpoch(1), at(0)) == entries((1, 0))
    assert policy.append(entries((1, 0)), MasterEpoch(2), at(0)) == entries((1, 0), (2, 0))
    assert policy.append(entries((1, 0)), MasterEpoch(1), at(5)) is None
    assert policy.append(entries((3, 0)), MasterEpoch(2), at(5)) is None
    ahead = entries((1, 0), (2, 50), (3, 90))
    assert policy.append(ahead, MasterEpoch(4), at(50)) == entries((1, 0), (2, 50), (4, 50))


def test_cuts() -> None:
    known = entries((1, 0), (2, 50), (3, 50), (4, 90))
    assert policy.reconcile(known, at(50)) == known[:3]
    assert policy.cut_from_epoch(known, MasterEpoch(3)) == known[:2]


@pytest.mark.parametrize(("start", "left"), [(0, 4), (49, 4), (50, 2), (89, 2), (90, 1), (1000, 1)])
def test_what_is_left_of_a_trimmed_log(start: int, left: int) -> None:
    """Entries go with their last byte; the last one labels what comes next."""
    known = entries((1, 0), (2, 50), (3, 50), (4, 90))
    assert policy.cut_prefix(known, at(start)) == known[4 - left :]
    assert policy.cut_prefix((), at(start)) == ()


@pytest.mark.parametrize(
    ("offset", "index"), [(0, 0), (49, 0), (50, 2), (89, 2), (90, 3), (1000, 3)]
)
def test_index_at(offset: int, index: int) -> None:
    known = entries((1, 0), (2, 50), (3, 50), (4, 90))
    assert policy.index_at(known, at(offset)) == index
    assert policy.index_at(known[1:], at(10)) is None


@pytest.mark.parametrize(
    ("start", "end", "left"),
    [
        (0, 0, ((1, 0), (2, 0))),
        (0, 99, ((1, 0), (2, 0))),
        (0, 100, ((1, 0), (2, 0), (3, 100), (4, 100))),
        (50, 60, ((2, 0),)),
        (100, 100, ((3, 100), (4, 100))),
        (100, 400, ((3, 100), (4, 100), (5, 300))),
    ],
)
def test_adopted(start: int, end: int, left: tuple[tuple[int, int], ...]) -> None:
    theirs = entries((1, 0), (2, 0), (3, 100), (4, 100), (5, 300))
    assert policy.adopted((), theirs, at(start), at(end)) == entries(*left)


def test_adopted_keeps_what_a_long_list_leaves_out() -> None:
    mine = entries((1, 0), (2, 10), (7, 70))
    assert policy.adopted(mine, entries((2, 10), (3, 20)), at(0), at(30)) == entries(
        (1, 0), (2, 10), (3, 20)
    )


@pytest.mark.parametrize(
    "bad",
    [((2, 0), (1, 5)), ((1, 0), (1, 5)), ((1, 9), (2, 5)), ((1, -1),), ((0, 0),)],
)
def test_lists_that_cannot_be_true(bad: tuple[tuple[int, int], ...]) -> None:
    assert not policy.is_ascending(entries(*bad))
    assert policy.is_ascending(entries((1, 0), (2, 0), (9, 5)))
    assert policy.is_ascending(())


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 40), st.integers(0, 3), st.booleans()),
        min_size=1,
        max_size=12,
    )
)
def test_random_histories_with_one_master_an_epoch(
    terms: list[tuple[int, int, int, bool]],
) -> None:
    """S8: elect, write, let one slave copy a part: prefixes agree and so do the lists over them."""
    logs: list[list[bytes]] = [[] for _ in range(4)]  # each byte says who wrote it and when
    lists: list[Epochs] = [() for _ in range(4)]
    for number, (chief, written, other, whole) in enumerate(terms, 1):
        appended = policy.append(lists[chief], MasterEpoch(number), at(len(logs[chief])))
        assert appended is not None
        lists[chief] = appended
        logs[chief] += [f"{number}:{i}".encode() for i in range(written)]
        if other == chief:
            continue
        point = policy.truncation_point(
            lists[other], at(len(logs[other])), lists[chief], at(len(logs[chief]))
        )
        kept = point or 0
        assert logs[other][:kept] == logs[chief][:kept]
        end = len(logs[chief]) if whole else kept + (len(logs[chief]) - kept) // 2
        logs[other] = logs[chief][:end]
        mine = lists[other] if kept else ()
        settled = policy.adopted(mine, lists[chief], at(0), at(kept))
        for entry in lists[chief]:  # the rest is learnt on the way
            if entry.start <= end and entry.epoch > policy.last_epoch(settled):
                settled = policy.append(settled, entry.epoch, entry.start) or settled
        lists[other] = settled
        assert settled == policy.reconcile(lists[chief], at(end))


# --- the file ------------------------------------------------------------------------------------

PATH = "/d/epochFileCheckpoint"
OLD, NEW = entries((1, 0)), entries((1, 0), (2, 9081))


class Died(Exception):
    """The process is gone."""


class CrashFile:
    """A file of `CrashDisk`."""

    def __init__(self, disk: "CrashDisk", inode: list[bytes]) -> None:
        self._disk, self._inode = disk, inode  # [in the page cache, on the disk]

    def size(self) -> int:
        return len(self._inode[0])

    def pread(self, length: int, offset: int) -> bytes:
        return self._inode[0][offset : offset + length]

    def pwrite(self, data: bytes, offset: int) -> None:
        self._disk.step()
        self._inode[0] = self._inode[0][:offset].ljust(offset, b"\0") + data

    def truncate(self, size: int) -> None:
        self._disk.step()
        self._inode[0] = self._inode[0][:size].ljust(size, b"\0")

    async def sync(self) -> None:
        self._disk.step()
        self._inode[1] = self._inode[0]

    def close(self) -> None:
        pass


class CrashDisk:
    """A disk that dies at its n-th change, and then shows what is left of it."""

    def __init__(self) -> None:
        self.names: dict[str, list[bytes]] = {}
        self.durable_names: dict[str, list[bytes]] = {}
        self.left = -1
        self.steps = 0

    def step(self) -> None:
        self.steps += 1
        self.left -= 1
        if self.left == 0:
            raise Died

    def after_power_loss(self) -> "CrashDisk":
        after = CrashDisk()
        after.names = {name: [inode[1], inode[1]] for name, inode in self.durable_names.items()}
        return after

    def open(self, path: str, *, create: bool = False) -> CrashFile:
        if path not in self.names:
            if not create:
                raise FileNotFoundError(path)
            self.step()
            self.names[path] = [b"", b""]
        return CrashFile(self, self.names[path])

    def rename(self, old: str, new: str) -> None:
        self.step()
        self.names[new] = self.names.pop(old)

    def unlink(self, path: str) -> None:
        self.step()
        del self.names[path]

    def list(self, folder: str) -> list[str]:
        return sorted(self.names)

    def usage(self, path: str) -> Usage:
        return Usage(used=0, total=1)

    def modified_ms(self, path: str) -> int:
        return 0

    async def sync_dir(self, folder: str) -> None:
        self.step()
        self.durable_names = dict(self.names)

    def lock(self, path: str) -> None:
        pass

    def unlock(self, path: str) -> None:
        pass

    def read(self, path: str, bytes_max: int) -> bytes:
        return self.open(path).pread(bytes_max, 0)


def saved(disk: CrashDisk, epochs: Epochs) -> None:
    asyncio.run(EpochFile(disk, PATH).save(epochs))


@pytest.mark.parametrize(("before", "after"), [((), OLD), (OLD, NEW), (NEW, OLD), (NEW, ())])
def test_every_crash_of_a_save_leaves_the_old_or_the_new_list(
    before: Epochs, after: Epochs
) -> None:
    """Must show 3: each change of the disk, with and without the loss of power."""
    points = 0
    while True:
        disk = CrashDisk()
        saved(disk, before)
        points += 1
        disk.left = points
        try:
            saved(disk, after)
        except Died:
            pass
        else:
            break
        for left in (disk, disk.after_power_loss()):
            left.left = -1
            assert EpochFile(left, PATH).load() in (before, after)
    assert EpochFile(disk.after_power_loss(), PATH).load() == after
    assert points - 1 == (4 if after == () else 12)  # crash points


def rot(data: bytes) -> bytes:
    return data[:-2] + b"9\n"


Damage = Callable[[bytes], bytes]


@pytest.mark.parametrize("damage", [rot, lambda data: b"", lambda data: data[:-4]])
def test_the_copy_stands_in(damage: Damage) -> None:
    """And no epoch is missing: the copy holds the same list (docs/spec/controller-ha.md 4.7)."""
    disk = CrashDisk()
    saved(disk, OLD)
    saved(disk, NEW)
    disk.names[PATH][0] = damage(disk.names[PATH][0])
    file = EpochFile(disk, PATH)
    assert file.load() == NEW
    assert PATH in file.fault
    disk.names[PATH + ".bak"][0] = damage(disk.names[PATH + ".bak"][0])
    with pytest.raises(CorruptEpochs, match=rf"{PATH}: .*{PATH}\.bak: .*restore one"):
        file.load()


def test_a_missing_file_and_a_copy_of_rocketmq() -> None:
    disk = CrashDisk()
    assert EpochFile(disk, PATH).load() == ()
    disk.names[PATH + ".bak"] = [encode_epochs(OLD), b""]
    assert EpochFile(disk, PATH).load() == OLD
