"""The one door of a node to the outside, next to its running event loop.

A node reaches time, tasks and connections through the running loop, and everything else (disk,
wall clock, own addresses, randomness) through the `Host` that it is given. `RealHost` stands on
the operating system; the simulator has its own. One conformance suite holds both to the same
contract (``tests/conformance``), so what is written here binds both:

* a path is absolute, ``/`` separates; two nodes never see each other's files;
* reads and writes are synchronous and reach the page cache: they survive the death of the
  process, not the loss of power;
* ``await file.sync()`` returns when all writes to that file that began before it are durable;
* a rename is atomic, and durable once its folder is synced; the same for a created file's name,
  and for the folders that `open` made on the way to it;
* errors are `OSError` with the errno of Linux (ENOENT, ENOSPC, EIO …), nothing else.

Units: bytes and milliseconds.
"""

import asyncio
import errno
import fcntl
import os
import random
import socket
import stat
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import msgspec

from maxq.reference.records import Record

SIOCGIFADDR = 0x8915  # linux/sockios.h: get an interface's address


class File(Protocol):
    """An open file, read and written by position. Not for use after `close`."""

    def size(self) -> int:
        """Length in bytes."""
        ...

    def pread(self, length: int, offset: int) -> bytes:
        """Read up to `length` bytes at `offset`; fewer only at the end of the file."""
        ...

    def pwrite(self, data: bytes, offset: int) -> None:
        """Write all of `data` at `offset`, growing the file with zeros where needed.

        Raises:
            OSError: the disk is full or failed; a prefix of `data` may have been written.
        """
        ...

    def truncate(self, size: int) -> None:
        """Cut or grow (with zeros) to `size` bytes."""
        ...

    async def sync(self) -> None:
        """Return when everything written before this call is durable."""
        ...

    def close(self) -> None:
        """Release the file. Unsynced writes stay in the page cache."""
        ...


class Usage(Record):
    """How full the partition of a path is, in bytes, of those that this node may use."""

    used: int
    total: int

    @property
    def percent(self) -> float:
        """0 to 100."""
        return 100 * self.used / self.total if self.total else 100.0


class Disk(Protocol):
    """The files of one node."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Open for reading and writing; `create` also makes the file and missing folders.

        Raises:
            FileNotFoundError: absent, and `create` is false.
        """
        ...

    def rename(self, old: str, new: str) -> None:
        """Move atomically, replacing `new` if it exists."""
        ...

    def unlink(self, path: str) -> None:
        """Remove a file. Raises FileNotFoundError if it is absent."""
        ...

    def list(self, folder: str) -> list[str]:
        """Names in a folder, sorted; an absent folder is empty."""
        ...

    def usage(self, path: str) -> Usage:
        """How full the partition is that holds a file or folder. Raises FileNotFoundError."""
        ...

    def modified_ms(self, path: str) -> int:
        """When a file was last written or cut, or made, by this machine's wall clock; reading,
        renaming and syncing change nothing. Raises FileNotFoundError."""
        ...

    async def sync_dir(self, folder: str) -> None:
        """Make creations, renames and removals in `folder` durable, and its own name."""
        ...

    def read(self, path: str, bytes_max: int) -> bytes:
        """Read all of a regular file, which may be another's: it need not be writable.

        Raises:
            FileNotFoundError, IsADirectoryError, PermissionError: as they say.
            OSError: it is no regular file (EINVAL), or longer than `bytes_max` (EFBIG).
        """
        ...

    def lock(self, path: str) -> None:
        """Hold `path` exclusively until `unlock`, or until this process dies.

        Raises:
            BlockingIOError: another live node holds it, be it of this process.
        """
        ...

    def unlock(self, path: str) -> None:
        """Let go of a path that this node has locked."""
        ...


class Host(Protocol):
    """What a node may know of the machine that it runs on."""

    @property
    def disk(self) -> Disk: ...

    def wall_ms(self) -> int:
        """Milliseconds since 1970, as this machine believes; may jump."""
        ...

    def hour(self) -> int:
        """The hour of the day, 0 to 23, in this machine's time zone."""
        ...

    def addresses(self) -> tuple[str, ...]:
        """IPv4 addresses of this machine, without loopback unless there is nothing else."""
        ...

    def home(self) -> str:
        """The home folder of the user whose process this is, an absolute path."""
        ...

    def rng(self, name: str) -> random.Random:
        """Randomness for what `name` names; the same name gives the same stream, at any time and in
        every process of this host.

        A name holds the identity of what is drawn for, such as a term or a message, and each gets
        a stream of its own: were one stream shared, what is drawn for the one would depend on how
        often something was drawn for others.
        """
        ...

    def log(self, trace: str, /, **fields: object) -> None:
        """Write a named fact (``broker.recovered``) with its values to the node's log."""
        ...


def read_file(disk: Disk, path: str) -> bytes | None:
    """Read a whole file; None if it is absent."""
    with opened(disk, path) as file:
        return None if file is None else file.pread(file.size(), 0)


@contextmanager
def opened(disk: Disk, path: str) -> Iterator[File | None]:
    """Open `path` for the length of a block; None if it is absent."""
    try:
        file = disk.open(path)
    except FileNotFoundError:
        yield None
        return
    try:
        yield file
    finally:
        file.close()


async def replace_file(disk: Disk, path: str, data: bytes) -> None:
    """Replace the content of `path` so that any crash leaves the old or the new content whole.

    Write aside, sync, rename, sync the folder: the order that the seeds demand of the identity
    file, and that every small file of a node uses.
    """
    folder, _, _ = path.rpartition("/")
    aside = path + ".new"
    file = disk.open(aside, create=True)
    try:
        file.truncate(0)
        file.pwrite(data, 0)
        await file.sync()
    finally:
        file.close()
    disk.rename(aside, path)
    await disk.sync_dir(folder)


class RealFile:
    """A `File` over a descriptor; syncs run on the host's one disk thread."""

    def __init__(self, path: str, *, create: bool, thread: ThreadPoolExecutor) -> None:
        if create:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        self._fd = os.open(path, flags, 0o644)
        self._thread = thread

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def pread(self, length: int, offset: int) -> bytes:
        data = os.pread(self._fd, length, offset)
        while len(data) < length:  # a signal or a 2 GiB bound can shorten one read
            more = os.pread(self._fd, length - len(data), offset + len(data))
            if not more:
                break
            data += more
        return data

    def pwrite(self, data: bytes, offset: int) -> None:
        view = memoryview(data)
        while view:
            written = os.pwrite(self._fd, view, offset)
            view, offset = view[written:], offset + written

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    async def sync(self) -> None:
        # The descriptor is duplicated so that a close during the sync cannot hit a reused number.
        # The thread closes it, also for a caller who has stopped waiting: hence the shield.
        loop = asyncio.get_running_loop()
        await asyncio.shield(loop.run_in_executor(self._thread, _sync_fd, os.dup(self._fd)))

    def close(self) -> None:
        os.close(self._fd)


class RealDisk:
    """The machine's file system."""

    def __init__(self, thread: ThreadPoolExecutor) -> None:
        self._thread = thread
        self._rooted: set[str] = set()  # folders whose own names this process made durable
        self._locks: dict[str, int] = {}  # kept open: the kernel drops a lock with its descriptor

    def open(self, path: str, *, create: bool = False) -> File:
        return RealFile(path, create=create, thread=self._thread)

    def rename(self, old: str, new: str) -> None:
        os.replace(old, new)

    def unlink(self, path: str) -> None:
        os.unlink(path)

    def list(self, folder: str) -> list[str]:
        try:
            return sorted(os.listdir(folder))
        except FileNotFoundError:
            return []

    def usage(self, path: str) -> Usage:
        found = os.statvfs(path)
        used = (found.f_blocks - found.f_bfree) * found.f_frsize
        return Usage(used=used, total=used + found.f_bavail * found.f_frsize)

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    async def sync_dir(self, folder: str) -> None:
        # Whoever made the folders above may have died before he synced them: once a process.
        above = [] if folder in self._rooted else [str(p) for p in Path(folder).parents]
        work = asyncio.get_running_loop().run_in_executor(self._thread, _sync_dir, folder, above)
        await asyncio.shield(work)
        self._rooted.add(folder)

    def read(self, path: str, bytes_max: int) -> bytes:
        if "\0" in path:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path)
        # Without O_NONBLOCK a pipe would hold this node up until somebody writes to it.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(fd, "rb") as file:
            mode = os.fstat(fd).st_mode
            if not stat.S_ISREG(mode):
                number = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
                raise OSError(number, os.strerror(number), path)
            content = file.read(bytes_max + 1)
        if len(content) > bytes_max:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), path)
        return content

    def lock(self, path: str) -> None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(fd)
            raise BlockingIOError(error.errno, "another process holds it", path) from None
        except OSError:
            os.close(fd)
            raise
        self._locks[path] = fd

    def unlock(self, path: str) -> None:
        os.close(self._locks.pop(path))


def _sync_fd(fd: int) -> None:
    try:
        os.fdatasync(fd)
    finally:
        os.close(fd)


def _sync_dir(folder: str, above: Sequence[str]) -> None:
    for path in (folder, *above):
        try:
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        except PermissionError:
            if path == folder:
                raise
            return  # not ours to read, so not ours to have made
        try:
            os.fsync(fd)
        except OSError as error:
            if path == folder or error.errno not in (errno.EINVAL, errno.EROFS):
                raise
            return  # a file system that has nothing to sync, such as /proc
        finally:
            os.close(fd)


class RealHost:
    """The machine this process runs on.

    Args:
        seed: seeds `rng`; None takes one from the operating system.
        address: the address this node was given; None asks the kernel.
    """

    def __init__(self, *, seed: int | None = None, address: str | None = None) -> None:
        self._seed = random.SystemRandom().getrandbits(64) if seed is None else seed
        self._address = address
        self._disk = RealDisk(ThreadPoolExecutor(max_workers=1, thread_name_prefix="disk"))

    @property
    def disk(self) -> Disk:
        return self._disk

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def hour(self) -> int:
        return time.localtime().tm_hour

    def addresses(self) -> tuple[str, ...]:
        return (self._address,) if self._address else _kernel_addresses()

    def home(self) -> str:
        return str(Path.home())

    def rng(self, name: str) -> random.Random:
        return random.Random(f"{self._seed}/{name}")

    def log(self, trace: str, /, **fields: object) -> None:
        write_log(time.monotonic_ns(), trace, fields)


def write_log(at_ns: int, trace: str, fields: dict[str, object]) -> None:
    """Write one JSON line to standard error, stamped with the machine's monotonic clock."""
    line = msgspec.json.encode({"at_ns": at_ns, "trace": trace, **fields}, enc_hook=str)
    os.write(2, line + b"\n")


def _kernel_addresses() -> tuple[str, ...]:
    """IPv4 addresses of all interfaces, loopback last, by SIOCGIFCONF's modern stand-in."""
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, interface in socket.if_nameindex():
            request = interface.encode()[:15].ljust(256, b"\0")
            try:
                answer = fcntl.ioctl(probe, SIOCGIFADDR, request)
            except OSError:  # an interface without IPv4
                continue
            found.append(socket.inet_ntoa(answer[20:24]))
    outside = tuple(a for a in found if not a.startswith("127."))
    return outside or ("127.0.0.1",)
