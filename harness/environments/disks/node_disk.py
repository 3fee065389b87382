"""A disk of a machine's own, which can lose its power or fill up: a small ext4, mounted in the
machine alone.

`cut_off` ends the file system in the middle of what it does, `restart` brings back what it had made
durable, after all processes of the machine are dead. Both together prove themselves: what was
synced before must be there afterwards, what was written and not synced must be gone, and a write in
between must fail with EIO. The proof's own files are in lost+found, where no node looks.

The image has no name and takes of the host's disk only what is written to it. Nothing of a disk
outlives the processes that use it (`maxq.harness.environments.disks.kernel`). Blocking; needs root.
"""

import errno
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from maxq.harness.contracts.environment import Capability, Lack
from maxq.harness.environments.disks import kernel, leaks
from maxq.harness.environments.disks.loss import PAGE, View, lost, pages_of
from maxq.reference.records import some

DISK_BYTES = 4 << 30  # beyond what a run writes; only what is written takes room
TRIAL_BYTES = 64 << 20
CHUNK = 256 * PAGE
PROOFS = "lost+found"  # also of the file that fills it: where no node looks
SYNCED, UNSYNCED, LATE, FILLER = "synced", "unsynced", "late", "filler"
NEEDED_BY = frozenset({Capability.POWER_LOSS, Capability.FILL})
NEEDS_ROOT = "needs root, for a loop device and an ext4 a machine"


class OwnDisk:
    """A disk, mounted from its making until `close`.

    Args:
        folder: of the host, in which the image lies without a name.
        size: bytes.

    Raises:
        OSError: it cannot be made here.
    """

    def __init__(self, folder: Path, size: int = DISK_BYTES) -> None:
        self._mount: int | None = None
        self._shown: tuple[Path, int] | None = None
        self._attached = False
        self._before: View | None = None
        self._doubts: list[str] = []
        self._written = {SYNCED: b"", UNSYNCED: b""}
        with tempfile.TemporaryFile(dir=folder) as image:
            os.truncate(image.fileno(), size)
            self._device = kernel.loop_on(image.fileno(), leaks.label())
        try:
            kernel.formatted(self._device)
            self._begin()
        except BaseException:
            self.close()
            raise

    @property
    def root(self) -> Path:
        """Where this process finds its files."""
        return Path(f"/proc/self/fd/{some(self._mount, 'it is mounted')}")

    def show(self, point: Path, space: int) -> None:
        """Have it at a folder, in a namespace of mounts (a descriptor, ours from now on)."""
        self._shown = point, space
        self._attach()

    def files(self) -> list[str]:
        """Paths of all files, relative to its root."""
        return [str(p.relative_to(self.root)) for p in self._walk() if p.is_file()]

    def sync(self) -> None:
        """Have all that was written durable."""
        kernel.sync_file_system(some(self._mount, "it is mounted"))

    def empty(self) -> None:
        """Remove all that is on it, for good."""
        for path in sorted(self._walk(), reverse=True):  # what is in a folder goes before it
            if path.is_dir() and not path.is_symlink():
                path.rmdir()
            else:
                path.unlink()
        self.sync()

    def fill(self, percent: int) -> None:
        """Let a file take what others leave of so many percent of it; 0 removes the file. It takes
        no room of the host's disk: its blocks are given out and never written."""
        path = self.root / PROOFS / FILLER
        path.unlink(missing_ok=True)
        if percent:
            disk = shutil.disk_usage(self.root)  # without what is held back for root
            wanted = (disk.used + disk.free) * percent // 100 - disk.used
            with open(path, "wb", buffering=0) as file:
                if wanted > 0:
                    os.posix_fallocate(file.fileno(), 0, wanted)
        self.sync()

    def cut_off(self) -> None:
        """Lose the power. Whoever writes from now on meets EIO."""
        self._write(UNSYNCED)
        self._before = self._view()
        kernel.shut_down(some(self._mount, "it is mounted"))
        try:
            self._write(LATE)
            self._doubts = ["a write after the loss was taken"]
        except OSError as error:
            eio = error.errno == errno.EIO
            self._doubts = [] if eio else [f"a write after the loss met {error}, not EIO"]

    def restart(self) -> dict[str, int]:
        """Have the power back, once no process is left that used it; what was lost.

        Raises:
            OSError: it cannot be mounted again, or it did not lose its power as a disk does; says
                what was seen.
        """
        before = some(self._before, "it was cut off")
        self._end()
        kernel.released(self._device)
        kernel.checked(self._device)
        doubts = [*self._doubts, *self._begin()]
        self._attach()
        if doubts:
            raise OSError("; ".join(doubts))
        return lost(before, self._view())

    def close(self) -> None:
        """Give it up. The machine is gone already, or going.

        Raises:
            TimeoutError: it is still in use.
        """
        self._end()
        try:
            kernel.released(self._device)
        finally:
            os.close(self._device)
            if self._shown is not None:
                os.close(self._shown[1])

    def _begin(self) -> list[str]:
        """Mount it, look at the proofs, and begin new ones; what is wrong."""
        self._mount = kernel.mounted(self._device)
        doubts = []
        if self._read(SYNCED) != self._written[SYNCED]:
            doubts.append("what was synced is gone")
        if self._written[UNSYNCED] and self._read(UNSYNCED) == self._written[UNSYNCED]:
            doubts.append("what was not synced is there")
        if self._read(LATE):
            doubts.append("what was written after the loss is there")
        for name in (UNSYNCED, LATE):
            (self.root / PROOFS / name).unlink(missing_ok=True)
        # Written and synced long before a loss: a sync in its middle would make durable what nodes
        # had not synced.
        self._write(SYNCED)
        self.sync()
        return doubts

    def _attach(self) -> None:
        if self._shown is not None:
            kernel.attached(some(self._mount, "it is mounted"), *self._shown)
            self._attached = True

    def _end(self) -> None:
        if self._mount is not None:
            os.close(self._mount)
            self._mount = None
        if self._attached and self._shown is not None:
            kernel.detached(*self._shown)
            self._attached = False

    def _write(self, name: str) -> None:
        data = self._written[name] = secrets.token_bytes(PAGE)
        with open(self.root / PROOFS / name, "wb", buffering=0) as file:
            file.write(data)

    def _read(self, name: str) -> bytes:
        try:
            return (self.root / PROOFS / name).read_bytes()
        except FileNotFoundError:
            return b""

    def _walk(self) -> Iterator[Path]:
        """All files and folders but the proofs."""
        for folder, folders, files in os.walk(self.root):
            if folder == str(self.root):
                folders.remove(PROOFS)
            yield from (Path(folder, name) for name in (*folders, *files))

    def _view(self) -> View:
        names, pages = {}, {}
        for path in self._walk():
            status = path.lstat()
            names[str(path.relative_to(self.root))] = status.st_ino
            if stat.S_ISREG(status.st_mode):
                pages[status.st_ino] = pages_of(_chunks(path))
        return View(names, pages)


def _chunks(path: Path) -> Iterator[bytes]:
    with open(path, "rb", buffering=0) as file:
        while chunk := file.read(CHUNK):
            yield chunk


def make(point: Path, space: int, made: list[OwnDisk]) -> OwnDisk:
    """A disk that a machine has at a folder, put among those that were made.

    Args:
        point: the folder, made here.
        space: the machine's namespace of mounts, a descriptor, ours from now on.
        made: whoever ends the machines closes these.
    """
    try:
        point.mkdir(parents=True, exist_ok=True)
        disk = OwnDisk(point.parent)
    except BaseException:
        os.close(space)
        raise
    made.append(disk)
    disk.show(point, space)
    return disk


def close_all(disks: list[OwnDisk]) -> None:
    """Give disks up, once their machines have gone.

    Raises:
        OSError: some are in use still; the others are closed all the same.
    """
    failures: list[OSError] = []
    while disks:
        try:
            disks.pop().close()
        except OSError as error:
            failures.append(error)
    if failures:
        raise failures[0]


@cache
def lacking() -> Lack | None:
    """Why machines can have no such disks here, found out by a loss of power; None if they can.
    Asks once a process."""
    if os.geteuid() != 0:
        return Lack(NEEDS_ROOT, mend="run maxq as root")
    program = kernel.lacks_programs()
    if program:
        return Lack(f"{program} is missing", package="e2fsprogs")
    try:
        with tempfile.TemporaryDirectory() as folder:
            disk = OwnDisk(Path(folder), TRIAL_BYTES)
            try:
                disk.cut_off()
                disk.restart()
            finally:
                disk.close()
    except OSError as error:
        return Lack(f"no ext4 on a loop device can be made, or shut down, here ({error})")
    return None
