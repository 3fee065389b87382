"""The simulated disk: files in memory, under the contract of `maxq.reference.host.Disk`.

What a process wrote survives its death, as a page cache does. The loss of power takes what was not
synced (`SimDisk.power_loss`):

* a write that no sync covers is kept, lost, or torn: a prefix of it survives, of any number of
  bytes or of whole sectors. Each has its own fate, so a lost one may lie before a kept one;
* a change of size is kept or lost, as a write is;
* of the creations, renames and removals in a folder that no `sync_dir` covers, the first few
  survive and the rest never happened. Folders do not know of each other. A file whose content is
  synced and whose name is not is gone;
* a sync that has not returned has promised nothing.

Each file, and each folder, keeps a journal of what could still be undone. A kernel writes pages
back by and by, so does this disk: a journal holds `JOURNAL_MAX` operations, older ones are durable.
A file that is in `files` without a journal (a test put it there) is durable as it is.

The zeros by which a file is grown are a hole at its end, which takes no memory: a log of RocketMQ's
default size, 1 GiB, costs what is written to it.

A disk may be faulty (`SimDisk.set_fault`): full, slow, frozen, or read a bit of a file as another.
Times are drawn for the file and the millisecond; what survives a loss of power is drawn for the
file, the place of the write in it and how often that was written.
"""

import asyncio
import errno
from collections.abc import Callable
from functools import partial
from typing import Generic, TypeVar
from zlib import crc32

import msgspec

from maxq.harness.contracts.draws import Draws
from maxq.harness.contracts.environment import SIMULATED_DISK_BYTES, Misread
from maxq.harness.simulation.loop import SimLoop
from maxq.reference.host import File, Usage
from maxq.reference.records import invariant

SYNC_NS = (200_000, 2_000_000)
SECTOR = 512
JOURNAL_MAX = 1000
WHOLE_MAX = 1 << 26  # bytes of a file that is read with the hole at its end
HOLE_MIN = 1 << 20  # fewer zeros are bytes as any others
KEPT_SHARES = (0, 300_000, 600_000, 900_000)  # of a million unsynced writes; drawn at each loss
TORN_SHARE = 500_000  # of a million writes that are not kept
CUT_AT_BYTE_SHARE = 500_000  # of a million torn writes; the others are cut at a sector
FATE, TORN, TORN_AT, CUT_AT_BYTE = range(4)  # what is drawn for a write

T = TypeVar("T")


class Lost(msgspec.Struct, frozen=True):
    """What a loss of power took: bytes that were written, and changes of names."""

    byte_count: int
    name_count: int


class Journal(Generic[T]):
    """Operations that are not durable yet, oldest first."""

    def __init__(self) -> None:
        self.ops: list[T] = []
        self._dropped = 0  # how many operations ever made were dropped as durable

    def add(self, op: T) -> None:
        self.ops.append(op)
        if len(self.ops) > JOURNAL_MAX:
            self.drop_until(self._dropped + JOURNAL_MAX // 2)

    def mark(self) -> int:
        """Everything so far, as a name for `drop_until`."""
        return self._dropped + len(self.ops)

    def drop_until(self, mark: int) -> None:
        """Everything up to `mark` is durable."""
        if mark > self._dropped:
            del self.ops[: mark - self._dropped]
            self._dropped = mark


class _Write(msgspec.Struct, frozen=True, gc=False):
    """A write (`data`) or a change of size (None), with what undoes it."""

    offset: int  # of a change of size: the new size
    data: bytes | None
    before: bytes  # what was there, without what was a hole
    size: int  # of the file before


class Content(bytearray):
    """What a file holds in the page cache, and what of it could still be lost. `hole` zeros follow
    its bytes."""

    def __init__(self, data: bytes | bytearray = b"") -> None:
        super().__init__(data)
        self.journal: Journal[_Write] = Journal()
        self.modified_ms = 0  # by the machine's wall clock
        self.hole = 0

    @property
    def size(self) -> int:
        """How long the file is, in bytes."""
        return len(self) + self.hole

    def resize(self, size: int) -> None:
        """Cut the file, or grow it by zeros."""
        room = size - len(self)
        if room < 0:
            del self[size:]
        self.hole = room if room >= HOLE_MIN else 0
        self.extend(bytes(max(0, room - self.hole)))

    def write(self, offset: int, data: bytes | bytearray) -> None:
        """Put bytes in their place; the file grows where they need it."""
        size = max(self.size, offset + len(data))
        self.extend(bytes(max(0, offset - len(self))))
        self[offset : offset + len(data)] = data
        self.hole = size - len(self)

    def lose(self, draws: Draws, kept_share: int) -> int:
        """Lose power; returns the number of bytes that were lost."""
        ops, self.journal = self.journal.ops, Journal()
        for op in reversed(ops):
            self._undo(op)
        lost = 0
        times: dict[tuple[int, int], int] = {}  # how often each place was written
        for op in ops:
            place = (op.offset, -1 if op.data is None else len(op.data))
            times[place] = times.get(place, 0) + 1
            key = (*place, times[place])
            kept = 1 if op.data is None else len(op.data)
            if not draws.chance(kept_share, FATE, *key):
                kept = _torn(draws, key, op) if draws.chance(TORN_SHARE, TORN, *key) else 0
            lost += len(op.data) - kept if op.data is not None else 0
            if kept:
                self._redo(op, kept)
        return lost

    def _undo(self, op: _Write) -> None:
        if op.before:
            self.write(op.offset, op.before)
        if op.data is not None:  # what it wrote into a hole is zeros again
            at = op.offset + len(op.before)
            self[at : op.offset + len(op.data)] = bytes(len(op.data) - len(op.before))
        self.resize(op.size)

    def _redo(self, op: _Write, kept: int) -> None:
        if op.data is None:
            self.resize(op.offset)
        else:
            self.write(op.offset, op.data[:kept])


def _torn(draws: Draws, key: tuple[int, ...], op: _Write) -> int:
    """How much of a torn write survives: any number of bytes, or up to the end of a sector."""
    if not op.data:
        return 0
    kept = draws.below(len(op.data), TORN_AT, *key)
    if draws.chance(CUT_AT_BYTE_SHARE, CUT_AT_BYTE, *key):
        return kept
    return max(0, kept - (op.offset + kept) % SECTOR)


def _size(content: bytearray) -> int:
    return content.size if isinstance(content, Content) else len(content)


def folders_above(path: str) -> list[str]:
    """The folders on the way to a path, without the root."""
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(2, len(parts))]


class SimFile:
    """An open file of a simulated disk."""

    def __init__(self, disk: "SimDisk", data: bytearray, path: str = "") -> None:
        self._disk = disk
        self._path = path
        self._data = data if isinstance(data, Content) else Content(data)
        self._journal = self._data.journal
        self._closed = False

    def _live(self) -> Content:
        if self._closed:
            raise OSError(errno.EBADF, "bad file descriptor")
        return self._data

    def size(self) -> int:
        return self._live().size

    def pread(self, length: int, offset: int) -> bytes:
        content = self._live()
        data = bytes(content[offset : offset + length])
        if content.hole and len(data) < length:
            data = data.ljust(min(length, max(0, content.size - offset)), b"\0")
        return data if self._disk.misread is None else self._disk.seen(self._path, data, offset)

    def pwrite(self, data: bytes, offset: int) -> None:
        content = self._live()
        if not data:
            return
        size = content.size
        end = offset + len(data)
        self._disk.refuse_if_full()
        self._disk.charge(max(end - size, 0))
        before = bytes(content[offset:end])
        self._disk.touch(content)
        self._journal.add(_Write(offset, bytes(data), before, size))
        content.write(offset, data)

    def truncate(self, size: int) -> None:
        content = self._live()
        before = content.size
        if size > before:
            self._disk.refuse_if_full()
        self._disk.charge(size - before)
        self._disk.touch(content)
        self._journal.add(_Write(size, None, bytes(content[size:]), before))
        content.resize(size)

    async def sync(self) -> None:
        self._live()
        mark = self._journal.mark()
        await self._disk.take_time(self._path)
        self._journal.drop_until(mark)

    def close(self) -> None:
        self._closed = True


class SimDisk:
    """The files of one machine.

    Args:
        draws: say how long a sync takes.
        capacity: bytes that fit; beyond it a write fails with ENOSPC.
        wall_ms: the machine's wall clock.
    """

    def __init__(
        self,
        draws: Draws,
        *,
        capacity: int = SIMULATED_DISK_BYTES,
        wall_ms: Callable[[], int] = lambda: 0,
    ) -> None:
        self._wall_ms = wall_ms
        self.draws = draws
        self.files: dict[str, bytearray] = {}
        self.full = False
        self.misread: Misread | None = None  # what is read as another bit
        self._failing = ""  # the folder below which no sync succeeds
        self._sync_ns: int | None = None  # how long a sync takes; None: as is drawn
        self._frozen: list[asyncio.Future[None]] | None = None  # while it is: syncs that wait
        self._capacity = capacity
        self._room = capacity
        self._locks: dict[str, SimLoop] = {}
        self._folders: dict[str, Journal[Callable[[], None]]] = {}  # folder -> how to undo
        self._made: set[str] = set()  # folders that were made, files or none in them now

    def charge(self, count: int) -> None:
        """Take `count` bytes of the room left, or give them back."""
        if count > self._room:
            raise OSError(errno.ENOSPC, "no space left on device")
        self._room -= count

    def touch(self, content: bytearray) -> None:
        """Note that a file was changed now."""
        if isinstance(content, Content):
            content.modified_ms = self._wall_ms()

    def _touched(self, content: Content) -> Content:
        self.touch(content)
        return content

    def usage(self, path: str) -> Usage:
        if path not in self.files and not self._is_folder(path):
            raise self._absent(path)
        return Usage(used=self._capacity - self._room, total=self._capacity)

    def size(self, path: str) -> int:
        """How long a file is, with the hole at its end."""
        return _size(self.files[path])

    def age(self, path: str, by_ms: int) -> int:
        """Let a file look as if last changed so long ago; how long ago it says that was."""
        content = self.files[path]
        if isinstance(content, Content):
            content.modified_ms = self._wall_ms() - by_ms
        return self._wall_ms() - self.modified_ms(path)

    def modified_ms(self, path: str) -> int:
        content = self.files.get(path)
        if content is None:
            raise self._absent(path)
        return content.modified_ms if isinstance(content, Content) else self._wall_ms()

    def refuse_if_full(self) -> None:
        """Raise ENOSPC while the disk is full."""
        if self.full:
            raise OSError(errno.ENOSPC, "no space left on device")

    def content(self, path: str) -> bytes | None:
        """What a read of a whole file gives, without a hole at its end that is too big to be read;
        None: there is no file."""
        data = self.files.get(path)
        if data is None:
            return None
        size = _size(data)
        whole = bytes(data).ljust(size, b"\0") if size <= WHOLE_MAX else bytes(data)
        return self.seen(path, whole)

    def seen(self, path: str, data: bytes, offset: int = 0) -> bytes:
        """What a read of a file gives, of whose bytes from `offset` on the disk has `data`."""
        if self.misread is None or self.misread.path != path:
            return data
        at, bit = divmod(self.misread.bit, 8)
        if not offset <= at < offset + len(data):
            return data
        read = bytearray(data)
        read[at - offset] ^= 1 << bit
        return bytes(read)

    def set_fault(
        self,
        *,
        full: bool = False,
        sync_ms: int | None = None,
        frozen: bool = False,
        misread: Misread | None = None,
        failing: str = "",
    ) -> None:
        """Be faulty in these ways and no others; without arguments, be sound again.

        Args:
            full: whatever writes, makes or grows a file fails with ENOSPC.
            sync_ms: how long each sync takes that begins now; None: as a sound disk's.
            frozen: no sync returns, until the disk is not frozen any more.
            misread: the bit that reads give as another; what is written is not changed.
            failing: the folder below which every sync fails with EIO; empty: none.
        """
        self.full = full
        self._failing = failing
        self.misread = misread
        self._sync_ns = None if sync_ms is None else sync_ms * 1_000_000
        waiting, self._frozen = self._frozen, None
        if frozen:
            self._frozen = waiting or []
            return
        for sync in waiting or ():
            if not sync.done():  # its task may have been cancelled
                sync.set_result(None)

    async def take_time(self, path: str) -> None:
        """Return when a sync of a file or folder that begins now has ended."""
        took_ns = self._sync_ns
        if took_ns is None:
            loop = asyncio.get_running_loop()
            took_ns = self.draws.between(*SYNC_NS, crc32(path.encode()), round(loop.time() * 1000))
        await asyncio.sleep(took_ns / 1e9)
        if self._failing and path.startswith(self._failing):
            raise OSError(errno.EIO, "the disk failed")
        if self._frozen is not None:
            self._frozen.append(asyncio.get_running_loop().create_future())
            await self._frozen[-1]

    def open(self, path: str, *, create: bool = False) -> File:
        if path not in self.files:
            if not create or self._is_folder(path):
                raise self._absent(path)
            self._create(path)
        elif not isinstance(self.files[path], Content):
            self.files[path] = self._touched(Content(self.files[path]))
        return SimFile(self, self.files[path], path)

    def _create(self, path: str) -> None:
        self.refuse_if_full()
        above = folders_above(path)
        if any(folder in self.files for folder in above):
            raise self._absent(path)
        self._made.update(above)
        self.files[path] = self._touched(Content())
        self._renamed(path, partial(self.files.pop, path, None))

    def _is_folder(self, path: str) -> bool:
        below = path + "/"
        return path in self._made or any(name.startswith(below) for name in self.files)

    def _absent(self, path: str) -> OSError:
        """Why there is no such file."""
        if any(folder in self.files for folder in folders_above(path)):
            return NotADirectoryError(errno.ENOTDIR, f"not a folder on the way to {path}")
        if self._is_folder(path):
            return IsADirectoryError(errno.EISDIR, f"a folder: {path}")
        return FileNotFoundError(errno.ENOENT, f"no such file: {path}")

    def _renamed(self, path: str, undo: Callable[[], object]) -> None:
        """Names in the folder of `path` have changed."""
        folder = path.rpartition("/")[0]
        self._folders.setdefault(folder, Journal()).add(undo)  # type: ignore[arg-type]

    def rename(self, old: str, new: str) -> None:
        if old not in self.files:
            raise self._absent(old)
        if old == new:
            return
        invariant(old.rpartition("/")[0] == new.rpartition("/")[0],
                  "a simulated rename stays in its folder", old=old, new=new)  # fmt: skip
        replaced = self.files.get(new)
        self.charge(0 if replaced is None else -_size(replaced))
        self.files[new] = moved = self.files.pop(old)
        self._renamed(new, partial(self._undo_rename, old, moved, new, replaced))

    def _undo_rename(
        self, old: str, moved: bytearray, new: str, replaced: bytearray | None
    ) -> None:
        self.files[old] = moved
        if replaced is None:
            self.files.pop(new, None)
        else:
            self.files[new] = replaced

    def unlink(self, path: str) -> None:
        if path not in self.files:
            raise self._absent(path)
        content = self.files.pop(path)
        self.charge(-_size(content))
        self._renamed(path, partial(self.files.__setitem__, path, content))

    def list(self, folder: str) -> list[str]:
        prefix = folder.rstrip("/") + "/"
        self._refuse_file(prefix[:-1])
        return sorted({
            path[len(prefix) :].split("/", 1)[0]
            for path in (*self.files, *self._made) if path.startswith(prefix)
        })  # fmt: skip

    def _refuse_file(self, folder: str) -> None:
        if folder in self.files:
            raise NotADirectoryError(errno.ENOTDIR, f"not a folder: {folder}")

    async def sync_dir(self, folder: str) -> None:
        folder = folder.rstrip("/")
        self._refuse_file(folder)
        if folder and not self._is_folder(folder):
            raise FileNotFoundError(errno.ENOENT, f"no such folder: {folder}")
        journal = self._folders.setdefault(folder, Journal())
        mark = journal.mark()
        await self.take_time(folder)
        journal.drop_until(mark)

    def lock(self, path: str) -> None:
        loop: object = asyncio.get_running_loop()
        owner = self._locks.get(path)
        if owner is not None and owner.alive:
            raise BlockingIOError(errno.EWOULDBLOCK, f"{path} is locked")
        if isinstance(loop, SimLoop):
            self._locks[path] = loop
        if path not in self.files:
            self._create(path)

    def unlock(self, path: str) -> None:
        # What is left of a process that was killed ends with the world, and holds no lock any more.
        owner: object = self._locks.get(path)
        if owner is not None and owner is asyncio._get_running_loop():
            del self._locks[path]

    def read(self, path: str, bytes_max: int) -> bytes:
        if path not in self.files:
            raise self._absent(path)
        if len(self.files[path]) > bytes_max:
            raise OSError(errno.EFBIG, f"longer than {bytes_max} bytes: {path}")
        return bytes(self.files[path])

    def install(self, path: str, data: bytes) -> None:
        """Put a file there that was there before the machine was switched on."""
        before = self.files.get(path, bytearray())
        content = Content(data)
        if isinstance(before, Content) and len(before) == len(data):
            content.hole = before.hole  # other bytes in the place of those that were read
        self.charge(content.size - _size(before))
        self.files[path] = self._touched(content)

    def remove(self, path: str) -> None:
        """Remove a file, or a folder with all that is in it, as if it had never been there: what
        remains of these folders outlasts a loss of power."""
        below = path.rstrip("/") + "/"
        for name in [n for n in self.files if n == path or n.startswith(below)]:
            self.charge(-_size(self.files.pop(name)))
            self._locks.pop(name, None)
        self._made = {f for f in self._made if f != below[:-1] and not f.startswith(below)}
        gone = {path.rstrip("/"), path.rpartition("/")[0]}
        for folder in [f for f in self._folders if f in gone or f.startswith(below)]:
            del self._folders[folder]

    def power_loss(self, draws: Draws) -> Lost:
        """Lose the power: every process of the machine must be dead.

        Args:
            draws: say what survives of what was not synced.
        """
        names = 0
        for folder, journal in sorted(self._folders.items()):
            kept = draws.of("names", folder).below(len(journal.ops) + 1)
            for undo in reversed(journal.ops[kept:]):
                undo()
                names += 1
        self._folders.clear()
        self._locks.clear()
        kept_share = draws.of("kept").choice(KEPT_SHARES)
        lost = 0
        for path, content in sorted(self.files.items()):
            if isinstance(content, Content):
                lost += content.lose(draws.of("file", path), kept_share)
        self._room = self._capacity - sum(map(_size, self.files.values()))
        return Lost(byte_count=lost, name_count=names)
