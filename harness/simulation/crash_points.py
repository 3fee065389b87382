"""Where a process can crash: at every operation on its disk and every message, in every variant.

A run of some flow is recorded once: each thing that its victim does to the outside world gets a
number. Since a seed gives the same run again, the n-th point is reached again, and the victim ends
there: before it, after it, or, for a write, in the middle of it. What happens to the disk:

=========  ===========================================================================
kill       only the process ends; what it wrote survives, as a page cache does
power-all  the machine loses power, and everything that no sync had covered
power-some the same, but of what no sync had covered each piece has a fate of its own
=========  ===========================================================================

The step in which the process dies runs on to its next `await`, since Python cannot be stopped
there; nothing that it still does has any effect. Points are counted only between `arm` and the end
of the flow. Messages are counted as the process hands them to its kernel or takes them from it.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Literal, TypeVar, cast

import msgspec

from maxq.harness.contracts.draws import Draws
from maxq.harness.simulation.disk import SimDisk
from maxq.harness.simulation.loop import SimLoop
from maxq.harness.simulation.stream import SimTransport
from maxq.reference.host import File

T = TypeVar("T")
Kind = Literal[
    "create", "write", "truncate", "rename", "unlink", "sync", "sync-dir", "send", "receive"
]
Moment = Literal["before", "torn", "after"]
Loss = Literal["kill", "power-all", "power-some"]
LOSSES: tuple[Loss, ...] = ("kill", "power-all", "power-some")


class Point(msgspec.Struct, frozen=True):
    """Something that the victim does: the how-many-th thing, of which kind, and to what."""

    number: int  # from 0
    kind: Kind
    what: str  # a path, or the address of the other end
    size: int = 0  # bytes of a write


class Crash(msgspec.Struct, frozen=True):
    """The end of the victim at a point."""

    point: Point
    moment: Moment
    loss: Loss
    draw: int = 0  # what survives is drawn anew for each; of a torn write: how much is written

    def __str__(self) -> str:
        point = self.point
        where = f"{self.moment} {point.number} ({point.kind} {point.what})"
        return f"{where}, {self.loss}" + (f" draw {self.draw}" if self.draw else "")


def crashes(points: list[Point], *, draws: int = 1) -> list[Crash]:
    """Every crash that there can be at these points.

    A write is torn where a part can survive, in the page cache or on the disk; if all that was not
    synced is lost, that is the same as before it. `draws` is how often chance is asked.
    """
    found = []
    for point in points:
        moments: list[Moment] = ["before", "after"]
        if point.kind == "write" and point.size > 1:
            moments.insert(1, "torn")
        for moment in moments:
            for loss in LOSSES:
                if moment == "torn" and loss == "power-all":
                    continue
                chance = loss == "power-some" or moment == "torn"
                found += [Crash(point, moment, loss, n) for n in range(draws if chance else 1)]
    return found


def torn_at(size: int, draw: int) -> int:
    """How many bytes of a torn write are written: half, one, all but one, and then a third."""
    return (size // 2, 1, size - 1, size // 3)[draw % 4]


class Points:
    """Counts the points of the victim, and ends it at one of them.

    Args:
        crash: where; None to record only.
    """

    def __init__(self, crash: Crash | None) -> None:
        self.seen: list[Point] = []
        self.fired = False
        self.victim = ""  # machine; from `arm` on
        self._crash = crash
        self._armed = False
        self._down = False  # what the dead process still does has no effect
        self.lives = 0  # how often the victim has died: its open files die with it

    def arm(self, victim: str) -> None:
        """The flow begins."""
        self.victim, self._armed = victim, True

    def disarm(self) -> None:
        """The flow is over: no more points."""
        self._armed = False

    def restarted(self) -> None:
        """The victim's machine runs a process again."""
        self._down = False

    def is_down(self, machine: str) -> bool:
        """Whether a machine's process has just died."""
        return self._down and machine == self.victim

    def cross(
        self,
        machine: str,
        kind: Kind,
        what: str,
        act: Callable[[], T],
        *,
        tear: Callable[[int], object] | None = None,
        size: int = 0,
    ) -> T | None:
        """Do something that may be a point; None if the process is dead by now."""
        if machine != self.victim:
            return act()
        if self._down:
            return None
        if not self._armed:
            return act()
        moment = self._moment(kind, what, size)
        if moment == "before":
            self._die()
            return None
        if moment == "torn" and tear is not None:
            tear(torn_at(size, self._crash.draw if self._crash else 0))
            self._die()
            return None
        result = act()
        if moment is not None:
            self._die()
        return result

    async def cross_sync(
        self, machine: str, kind: Kind, what: str, sync: Callable[[], Any]
    ) -> None:
        """Wait for a sync that may be a point. After it, what it covers is durable."""
        if self.is_down(machine):
            await asyncio.get_running_loop().create_future()  # a dead process waits for ever
        counted = machine == self.victim and self._armed
        moment = self._moment(kind, what, 0) if counted else None
        if moment == "before":
            self._die()
            await asyncio.get_running_loop().create_future()
        await sync()
        if moment is not None:
            self._die()
            await asyncio.get_running_loop().create_future()

    def _moment(self, kind: Kind, what: str, size: int) -> Moment | None:
        """Count a point; the moment of the crash if it is here.

        Raises:
            AssertionError: the run is not the one that was recorded.
        """
        point = Point(len(self.seen), kind, what, size)
        self.seen.append(point)
        wanted = self._crash
        if wanted is None or wanted.point.number != point.number:
            return None
        if wanted.point != point:
            raise AssertionError(f"another run than the recorded one: {wanted.point}, now {point}")
        return wanted.moment

    def _die(self) -> None:
        self.fired = self._down = True
        self._armed = False
        self.lives += 1
        loop: object = asyncio.get_running_loop()
        cast(SimLoop, loop).kill()


class PointFile:
    """An open file whose changes are points. It dies with the process that opened it."""

    def __init__(self, file: File | None, points: Points, machine: str, path: str) -> None:
        self._file = file
        self._points = points
        self._machine = machine
        self._path = path
        self._life = points.lives

    def _dead(self) -> bool:
        dead = self._points.lives != self._life and self._machine == self._points.victim
        return dead or self._file is None

    @property
    def _open(self) -> File:
        return cast(File, self._file)

    def size(self) -> int:
        return 0 if self._dead() else self._open.size()

    def pread(self, length: int, offset: int) -> bytes:
        return b"" if self._dead() else self._open.pread(length, offset)

    def pwrite(self, data: bytes, offset: int) -> None:
        if not self._dead():
            self._points.cross(
                self._machine, "write", self._path, partial(self._open.pwrite, data, offset),
                tear=lambda count: self._open.pwrite(data[:count], offset), size=len(data),
            )  # fmt: skip

    def truncate(self, size: int) -> None:
        if not self._dead():
            self._points.cross(
                self._machine, "truncate", self._path, partial(self._open.truncate, size)
            )

    async def sync(self) -> None:
        if self._dead():
            await asyncio.get_running_loop().create_future()
        await self._points.cross_sync(self._machine, "sync", self._path, self._open.sync)

    def close(self) -> None:
        if not self._dead():
            self._open.close()


class PointDisk:
    """A machine's disk whose changes are points; whatever else it has is the disk's own."""

    def __init__(self, disk: SimDisk, points: Points, machine: str) -> None:
        self._disk = disk
        self._points = points
        self._machine = machine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._disk, name)

    def open(self, path: str, *, create: bool = False) -> File:
        """Open a file; a point if that makes it."""
        file: File | None
        if create and path not in self._disk.files:
            file = self._points.cross(
                self._machine, "create", path, partial(self._disk.open, path, create=True)
            )
        elif self._points.is_down(self._machine):
            file = None
        else:
            file = self._disk.open(path, create=create)
        return PointFile(file, self._points, self._machine, path)

    def lock(self, path: str) -> None:
        """Lock a file; a point if that makes it."""
        if path in self._disk.files:
            self._disk.lock(path)
        else:
            self._points.cross(self._machine, "create", path, partial(self._disk.lock, path))

    def rename(self, old: str, new: str) -> None:
        """A point."""
        self._points.cross(self._machine, "rename", new, partial(self._disk.rename, old, new))

    def unlink(self, path: str) -> None:
        """A point."""
        self._points.cross(self._machine, "unlink", path, partial(self._disk.unlink, path))

    async def sync_dir(self, folder: str) -> None:
        """A point."""
        sync = partial(self._disk.sync_dir, folder)
        await self._points.cross_sync(self._machine, "sync-dir", folder, sync)


@contextmanager
def watched_messages(points: Points) -> Iterator[None]:
    """Make points of what processes send and receive, while this is entered."""
    write, made = SimTransport.write, SimTransport.made

    def watched_write(self: SimTransport, data: bytes | bytearray | memoryview) -> None:
        act = partial(write, self, bytes(data))
        points.cross(self.loop.stack.name, "send", f"{self.remote[0]}", act)

    def watched_made(self: SimTransport, protocol: Any) -> None:
        received, name, remote = protocol.data_received, self.loop.stack.name, self.remote[0]

        def data_received(data: bytes) -> None:
            points.cross(name, "receive", remote, partial(received, data))

        protocol.data_received = data_received
        made(self, protocol)

    SimTransport.write = watched_write  # type: ignore[method-assign]
    SimTransport.made = watched_made  # type: ignore[method-assign]
    try:
        yield
    finally:
        SimTransport.write, SimTransport.made = write, made  # type: ignore[method-assign]


class Least(Draws):
    """Draws that are always the least: a loss of power then leaves nothing unsynced."""

    __slots__ = ()

    def of(self, *names: int | str) -> "Draws":
        return self

    def bits(self, *key: int) -> int:
        return 0

    def below(self, count: int, *key: int) -> int:
        return 0

    def chance(self, per_million: int, *key: int) -> bool:
        return False

    def choice(self, among: Sequence[T], *key: int) -> T:
        return among[0]


def loss_draws(crash: Crash, flow: str) -> Draws:
    """What decides which unsynced pieces survive a crash."""
    return Least(0) if crash.loss == "power-all" else Draws(f"{flow}/{crash}")
