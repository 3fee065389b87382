"""What a harness has outside itself while it runs, and whether that is still there.

Processes below it, wherever they were reparented to since, what carries its labels in the docker
engine, and disks of its machines. Network namespaces and packet rules live exactly as long as the
processes in them.
"""

import time
from collections.abc import Iterable
from pathlib import Path

import msgspec

from maxq.harness.contracts.environment import EnvironmentUnavailable
from maxq.harness.environments.disks import leaks
from maxq.harness.environments.engine import leaks as docker_remains
from maxq.harness.environments.engine.client import EngineFailed, connect
from maxq.harness.environments.engine.leaks import Cleaned
from maxq.harness.environments.process_life import started

LOOK_S = 0.1  # between looks at what goes


def clean() -> Cleaned:
    """Remove what harnesses that are dead left behind: in the docker engine, and disks."""
    return docker_remains.clean() + leaks.clean()


class Left(msgspec.Struct, frozen=True):
    """Processes, each by id and start time in clock ticks; and the harness whose they are."""

    harness: int
    processes: tuple[tuple[int, int], ...]

    def still_there(self) -> list[str]:
        """What is still there, in words."""
        living = [f"process {pid}" for pid in self.living()]
        return living + _in_engine(self.harness) + leaks.of(self.harness)

    def living(self) -> list[int]:
        """The processes that are still there."""
        return [pid for pid, start in self.processes if started(pid) == start]


def gone(left: Iterable[Left], within_s: float) -> list[str]:
    """What of harnesses that have ended is still there after so long."""
    end = time.monotonic() + within_s
    waiting = [*left]
    while waiting and time.monotonic() < end:
        # The engine is asked last: that takes longer than all else.
        waiting = [one for one in waiting if one.living() or one.still_there()]
        if waiting:
            time.sleep(LOOK_S)
    return [what for one in waiting for what in one.still_there()]


def left_of(harness: int) -> Left:
    """Everything below a process, now."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
            except OSError:
                continue  # it has ended meanwhile
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    below: list[int] = []
    waiting = [harness]
    while waiting:
        found = children.get(waiting.pop(), [])
        below += found
        waiting += found
    begun = [(pid, started(pid)) for pid in sorted(below)]
    return Left(harness, tuple((pid, at) for pid, at in begun if at is not None))


def _in_engine(harness: int) -> list[str]:
    """Containers and networks of a harness; nothing where no engine answers."""
    try:
        engine = connect()
    except EnvironmentUnavailable:
        return []
    try:
        return [
            f"{r.kind} {r.name}"
            for r in engine.remains()
            if r.labels.get(docker_remains.PID) == str(harness)
        ]
    except EngineFailed:
        return []
    finally:
        engine.close()
