"""What the kernel does with a small disk: loop devices, ext4 without a flush, private mounts.

The door to calls that Python has no names for. A disk is a file without a name behind a loop device
that the kernel detaches at its last use (AUTOCLEAR); it is mounted nowhere in the host's own
namespace, but by a descriptor (`mounted`) and in the namespace of a machine (`attached`). So
nothing of it outlives the processes that use it, however they end, and no mount has to be removed
by any process. Needs root, and Linux 5.8. Calls block, for ms; a wait has a bound.

Sources: fsmount(2), move_mount(2), ioctl_ns(2), loop(4); fs/ext4/ioctl.c (EXT4_IOC_SHUTDOWN).
"""

import contextlib
import ctypes
import errno
import fcntl
import os
import shutil
import stat
import struct
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

LOOP_MAJOR = 7
LOOP_CTL_GET_FREE, LOOP_CONFIGURE, LOOP_CLR_FD, LOOP_GET_STATUS = 0x4C82, 0x4C0A, 0x4C01, 0x4C05
AUTOCLEAR = 4
# struct loop_config: descriptor and size of a block, struct loop_info64 (flags are its 9th field),
# eight words that are reserved.
LOOP_CONFIG = struct.Struct("=II QQQQQIIII 64s64s32s QQ 64x")
LOOP_INFO, NAME = struct.Struct("=QQQQQIIII 64s64s32s QQ"), 9  # index of the name's field
EXT4_IOC_SHUTDOWN, NO_LOG_FLUSH = 0x8004587D, 2
CLONE_FS, CLONE_NEWNS, MNT_DETACH = 0x200, 0x20000, 2
MOVE_MOUNT, FSOPEN, FSCONFIG, FSMOUNT = 429, 430, 431, 432  # the same on all architectures but one
CLOEXEC, SET_STRING, CREATE, EMPTY_PATH, HERE = 1, 1, 6, 4, -100
ATTEMPTS = 64  # to have a free loop device, which others take as well
PROGRAM_TIMEOUT_S, RELEASE_TIMEOUT_S, POLL_S = 60.0, 10.0, 0.01
SBIN = ":/usr/sbin:/sbin"
FORMAT = (
    "mkfs.ext4", "-q", "-F", "-N", "8192", "-J", "size=16", "-E", "nodiscard,lazy_itable_init=0",
)  # fmt: skip
# Plays the journal back, then looks at everything. 1: it mended what a loss of power leaves.
CHECK, CHECKED = ("e2fsck", "-f", "-p"), frozenset((0, 1))

_libc = ctypes.CDLL(None, use_errno=True)


def lacks_programs() -> str:
    """The program of e2fsprogs that is not there; empty if all are."""
    for program in ("mkfs.ext4", "e2fsck"):
        if shutil.which(program, path=_path()) is None:
            return program
    return ""


def loop_on(image: int, label: str) -> int:
    """A loop device on an open file; its descriptor.

    Args:
        image: the file's descriptor.
        label: by which `loops` knows it, up to 63 bytes.

    Raises:
        OSError: there is none, or none is free.
    """
    with open("/dev/loop-control", "rb", buffering=0) as control:
        for _ in range(ATTEMPTS):
            device = _opened(fcntl.ioctl(control, LOOP_CTL_GET_FREE))
            zeros = (0,) * 5
            config = LOOP_CONFIG.pack(
                image, 0, *zeros, 0, 0, 0, AUTOCLEAR, label.encode(), b"", b"", 0, 0
            )
            try:
                fcntl.ioctl(device, LOOP_CONFIGURE, bytearray(config))
            except OSError as error:
                os.close(device)
                if error.errno != errno.EBUSY:
                    raise
            else:
                return device
    raise OSError(errno.EBUSY, f"no loop device is free after {ATTEMPTS} attempts")


def _opened(number: int) -> int:
    """A loop device by its number, where /dev has it or not."""
    path = Path(f"/dev/loop{number}")
    with contextlib.suppress(FileNotFoundError):
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)
    # A container's /dev shows only what was there when it began.
    with tempfile.TemporaryDirectory(dir="/dev") as folder:
        os.mknod(f"{folder}/loop", stat.S_IFBLK | 0o600, os.makedev(LOOP_MAJOR, number))
        return os.open(f"{folder}/loop", os.O_RDWR | os.O_CLOEXEC)


def loops() -> dict[int, str]:
    """The loop devices that are in use, by their numbers, and their labels. Needs root."""
    found = {}
    for entry in Path("/sys/block").glob("loop*/loop"):
        number = int(entry.parent.name.removeprefix("loop"))
        status = bytearray(LOOP_INFO.size)
        with contextlib.suppress(OSError):  # it has gone meanwhile
            device = _opened(number)
            try:
                fcntl.ioctl(device, LOOP_GET_STATUS, status)
            finally:
                os.close(device)
            name: bytes = LOOP_INFO.unpack(status)[NAME]
            found[number] = name.rstrip(b"\0").decode(errors="replace")
    return found


def loop_off(number: int) -> None:
    """Free a loop device, now or when it is in use no more."""
    device = _opened(number)
    try:
        fcntl.ioctl(device, LOOP_CLR_FD)
    finally:
        os.close(device)


def formatted(device: int) -> None:
    """Make an empty ext4 on a device."""
    _run(device, FORMAT, frozenset((0,)))


def checked(device: int) -> None:
    """Check an ext4 that is not mounted, and play its journal back.

    Raises:
        OSError: it is damaged beyond what a loss of power does.
    """
    _run(device, CHECK, CHECKED)


def _run(device: int, command: tuple[str, ...], good: frozenset[int]) -> None:
    try:
        done = subprocess.run(
            [*command, _by_descriptor(device)],
            env={**os.environ, "PATH": _path()},
            pass_fds=[device],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PROGRAM_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired as error:
        raise OSError(f"{command[0]}: no end after {PROGRAM_TIMEOUT_S:.0f} s") from error
    if done.returncode not in good:
        why = " ".join((done.stderr + done.stdout).split())
        raise OSError(f"{command[0]}: exit {done.returncode}: {why}")


def mounted(device: int) -> int:
    """Mount an ext4, in no namespace; the descriptor of its root, from which paths can begin."""
    context = _call(FSOPEN, b"ext4", CLOEXEC)
    try:
        source = _by_descriptor(device).encode()
        _call(FSCONFIG, context, SET_STRING, b"source", source, 0)
        _call(FSCONFIG, context, CREATE, None, None, 0)
        return _call(FSMOUNT, context, CLOEXEC, 0)
    finally:
        os.close(context)


def attached(mount: int, point: Path, space: int) -> None:
    """Show a mount at a folder, in a namespace of mounts."""
    path = os.fsencode(point)
    in_namespace(space, lambda: _call(MOVE_MOUNT, mount, b"", HERE, path, EMPTY_PATH))


def detached(point: Path, space: int) -> None:
    """Show what is mounted at a folder no more, in a namespace of mounts."""

    def unmount() -> None:
        _good(_libc.umount2(os.fsencode(point), MNT_DETACH), f"umount of {point}")

    in_namespace(space, unmount)


def shut_down(mount: int) -> None:
    """End a file system as a loss of power does: its journal is not flushed, nothing more is
    written, and whoever writes meets EIO."""
    root = os.open(_by_descriptor(mount), os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.ioctl(root, EXT4_IOC_SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))
    finally:
        os.close(root)


def sync_file_system(mount: int) -> None:
    """Have all that was written to a mounted file system durable."""
    root = os.open(_by_descriptor(mount), os.O_RDONLY | os.O_CLOEXEC)
    try:
        _good(_libc.syncfs(root), "syncfs")
    finally:
        os.close(root)


def released(device: int) -> None:
    """Wait until a device is mounted nowhere any more: processes that were killed, and their
    namespaces, go after their parent has heard of it.

    Raises:
        TimeoutError: after 10 s it still is.
    """
    deadline = time.monotonic() + RELEASE_TIMEOUT_S
    while True:
        try:
            # A mount claims its device, and so does this.
            os.close(os.open(_by_descriptor(device), os.O_RDWR | os.O_EXCL | os.O_CLOEXEC))
            return
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
        if time.monotonic() > deadline:
            raise TimeoutError(f"the disk is still in use after {RELEASE_TIMEOUT_S:.0f} s")
        time.sleep(POLL_S)


def in_namespace(space: int, act: Callable[[], object]) -> None:
    """Do something in a namespace of mounts: in a thread of its own, which ends with it, because a
    thread that entered one does not come back."""
    failures: list[OSError] = []

    def enter() -> None:
        try:
            _good(_libc.unshare(CLONE_FS), "unshare")  # or the other threads would have to come
            _good(_libc.setns(space, CLONE_NEWNS), "setns")
            act()
        except OSError as error:
            failures.append(error)

    thread = threading.Thread(target=enter, name="maxq in a namespace of mounts")
    thread.start()
    thread.join()
    if failures:
        raise failures[0]


def _call(number: int, *arguments: object) -> int:
    return _good(int(_libc.syscall(ctypes.c_long(number), *arguments)), NAMES[number])


NAMES = {MOVE_MOUNT: "move_mount", FSOPEN: "fsopen", FSCONFIG: "fsconfig", FSMOUNT: "fsmount"}


def _good(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def _by_descriptor(fd: int) -> str:
    return f"/proc/self/fd/{fd}"


def _path() -> str:
    return os.environ.get("PATH", os.defpath) + SBIN
