"""The simulated disk: files in memory, under the contract of `reference.host.Disk`.

What a process wrote survives its death, as a page cache does. A sync takes virtual time. Losing
unsynced writes with the power comes with the fault mix of a later issue.
"""

import asyncio
import errno
from random import Random

from harness.simulation.loop import SimLoop
from reference.host import File

SYNC_NS = (200_000, 2_000_000)


class SimFile:
    """An open file of a simulated disk."""

    def __init__(self, disk: "SimDisk", data: bytearray) -> None:
        self._disk = disk
        self._data = data
        self._closed = False

    def _live(self) -> bytearray:
        if self._closed:
            raise OSError(errno.EBADF, "bad file descriptor")
        return self._data

    def size(self) -> int:
        return len(self._live())

    def pread(self, length: int, offset: int) -> bytes:
        return bytes(self._live()[offset : offset + length])

    def pwrite(self, data: bytes, offset: int) -> None:
        content = self._live()
        grow = offset + len(data) - len(content)
        self._disk.charge(max(grow, 0))
        if offset > len(content):
            content.extend(bytes(offset - len(content)))
        content[offset : offset + len(data)] = data

    def truncate(self, size: int) -> None:
        content = self._live()
        if size < len(content):
            self._disk.charge(size - len(content))
            del content[size:]
        else:
            self._disk.charge(size - len(content))
            content.extend(bytes(size - len(content)))

    async def sync(self) -> None:
        self._live()
        await asyncio.sleep(self._disk.rng.randint(*SYNC_NS) / 1e9)

    def close(self) -> None:
        self._closed = True


class SimDisk:
    """The files of one machine.

    Args:
        rng: draws how long a sync takes.
        capacity: bytes that fit; beyond it a write fails with ENOSPC.
    """

    def __init__(self, rng: Random, *, capacity: int = 1 << 40) -> None:
        self.rng = rng
        self.files: dict[str, bytearray] = {}
        self._room = capacity
        self._locks: dict[str, SimLoop] = {}

    def charge(self, count: int) -> None:
        """Take `count` bytes of the room left, or give them back."""
        if count > self._room:
            raise OSError(errno.ENOSPC, "no space left on device")
        self._room -= count

    def open(self, path: str, *, create: bool = False) -> File:
        if path not in self.files:
            if not create:
                raise FileNotFoundError(errno.ENOENT, f"no such file: {path}")
            self.files[path] = bytearray()
        return SimFile(self, self.files[path])

    def rename(self, old: str, new: str) -> None:
        if old not in self.files:
            raise FileNotFoundError(errno.ENOENT, f"no such file: {old}")
        if old == new:
            return
        self.charge(-len(self.files.get(new, b"")))
        self.files[new] = self.files.pop(old)

    def unlink(self, path: str) -> None:
        if path not in self.files:
            raise FileNotFoundError(errno.ENOENT, f"no such file: {path}")
        self.charge(-len(self.files.pop(path)))

    def list(self, folder: str) -> list[str]:
        prefix = folder.rstrip("/") + "/"
        return sorted({
            path[len(prefix) :].split("/", 1)[0] for path in self.files if path.startswith(prefix)
        })  # fmt: skip

    async def sync_dir(self, folder: str) -> None:
        await asyncio.sleep(self.rng.randint(*SYNC_NS) / 1e9)

    def lock(self, path: str) -> None:
        loop: object = asyncio.get_running_loop()
        owner = self._locks.get(path)
        if owner is not None and owner.alive:
            raise BlockingIOError(errno.EWOULDBLOCK, f"{path} is locked")
        if isinstance(loop, SimLoop):
            self._locks[path] = loop
        self.files.setdefault(path, bytearray())
