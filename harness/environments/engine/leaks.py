"""What runs leave in the engine, and who removes it.

Leaks are looked for three times. `down` removes what `up` made. A watchdog, a process of its own
that holds the end of a pipe, removes it when the harness is killed. And `clean`, which every `up`
and ``maxq clean`` call, removes what belongs to processes that are dead, should the watchdog have
died as well. A run is alive while the process that its labels name is: same boot, same process id,
same start time. Where that cannot be known, in another namespace of processes, nothing is removed.

Run as ``python -m maxq.harness.environments.engine.leaks RUN FOLDER``, the watchdog of a run, which
also removes the folder of its socket.
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from maxq.harness.contracts.environment import EnvironmentUnavailable
from maxq.harness.environments.engine.client import LABEL, Engine, EngineFailed, Remain, connect
from maxq.harness.environments.process_life import started

PID, START, BOOT, PROCESSES = "maxq.pid", "maxq.start", "maxq.boot", "maxq.processes"
FOLDER = "maxq.folder"
REMOVE_TIMEOUT_S = 20.0
GOING_S = 3.0  # in which what ends by itself has gone
# What the engine was asked for just before the harness died may appear after the first look.
LATE_S = 3.0
POLL_S = 0.1
OWED = "owed"  # in a run's folder: the containers of others that it may have to let run
FINISHED = b"f"  # to the watchdog: nothing is left, it can go


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """A process, distinguished from all that had or will have its number."""

    pid: int
    start: int  # clock ticks from boot
    boot: str
    processes: str  # the namespace that numbers it

    def labels(self, run: str, folder: Path) -> dict[str, str]:
        """How what it makes for a run is marked, whose socket is in this folder."""
        return {
            LABEL: run,
            FOLDER: str(folder),
            PID: str(self.pid),
            START: str(self.start),
            BOOT: self.boot,
            PROCESSES: self.processes,
        }


def this_process() -> Holder:
    """The process that asks."""
    start = started(os.getpid())
    return Holder(
        pid=os.getpid(),
        start=-1 if start is None else start,
        boot=Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
        processes=os.readlink("/proc/self/ns/pid"),
    )


def is_dead(labels: Mapping[str, str], here: Holder, start: int | None) -> bool:
    """Whether the process that labels name is certainly gone; `start` is when the process began
    that has its number now."""
    if labels.get(BOOT) != here.boot:
        return True
    return labels.get(PROCESSES) == here.processes and labels.get(START) != str(start)


class Cleaned(msgspec.Struct, frozen=True):
    """What was removed, such as ``network maxq-1f``; what could not be, with the reason; and where
    nothing could be looked for, with the reason."""

    removed: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()

    def __add__(self, other: "Cleaned") -> "Cleaned":
        return Cleaned(
            self.removed + other.removed, self.kept + other.kept, self.unseen + other.unseen
        )


def clean() -> Cleaned:
    """Remove what dead processes left in the engine, if one answers."""
    try:
        engine = connect()
    except EnvironmentUnavailable as error:
        return Cleaned(unseen=tuple(f"docker: {lack.what}" for lack in error.lacks))
    try:
        return remove_dead(engine)
    except EngineFailed as error:
        return Cleaned(kept=(f"docker: {error}",))
    finally:
        engine.close()


def remove_dead(engine: Engine, *, going_s: float = GOING_S) -> Cleaned:
    """What `clean` does, on an engine that answers.

    Args:
        engine: which.
        going_s: what the engine refuses to remove is asked for again for so long: it may be going
            by itself.

    Raises:
        EngineFailed: it does not say what it holds.
    """
    here, begun = this_process(), time.monotonic()
    found: dict[str, None] = {}
    while True:
        left = [r for r in engine.remains() if is_dead(r.labels, here, _start_of(r.labels))]
        found |= dict.fromkeys(f"{r.kind} {r.name}" for r in left)
        found |= dict.fromkeys(f"folder {folder}" for folder in _folders(engine, left))
        kept = _removed(engine, left)
        if not kept or time.monotonic() - begun >= going_s:
            gone = tuple(what for what in found if what not in kept)
            return Cleaned(removed=gone, kept=tuple(f"{w}: {why}" for w, why in kept.items()))
        time.sleep(POLL_S)


def _removed(engine: Engine, left: Sequence[Remain]) -> dict[str, str]:
    """Try to remove all of these; what is still there, and why."""
    kept = {}
    for remain in left:  # containers first: a network goes only after the last one in it
        try:
            engine.remove(remain)
        except EngineFailed as error:
            kept[f"{remain.kind} {remain.name}"] = str(error)
    return kept


def _folders(engine: Engine, left: Sequence[Remain]) -> Iterator[str]:
    """Remove the folders of these runs' sockets; those that were there."""
    runs = {r.labels[FOLDER]: r.labels[LABEL] for r in left if FOLDER in r.labels}
    for folder, run in runs.items():
        path = Path(folder)
        if path.name == f".{run}" and path.is_dir():  # and no other, whoever wrote the label
            put_right(engine, path)
            shutil.rmtree(path, ignore_errors=True)
            yield folder


def owe(folder: Path, containers: Collection[str]) -> None:
    """Note, before it is done, of which containers of others this run takes the process away, so
    that whoever cleans up gives it back."""
    beside = folder / f".{OWED}"
    beside.write_text("\n".join(sorted(containers)))
    beside.replace(folder / OWED)


def put_right(engine: Engine, folder: Path) -> list[str]:
    """Let containers run that a run has noted; those that cannot be brought to it."""
    left = []
    with suppress(FileNotFoundError):
        for container in (folder / OWED).read_text().split():
            try:
                standing = engine.standing(container)
                if standing.paused:
                    engine.do(container, "unpause")
                elif not standing.pid:
                    engine.do(container, "start")
            except EngineFailed as error:
                left.append(str(error))
    return left


def _start_of(labels: Mapping[str, str]) -> int | None:
    number = labels.get(PID, "")
    return started(int(number)) if number.isdecimal() else None


def remove_run(
    engine: Engine, run: str, *, patience_s: float, late_s: float = 0.0, name: str = ""
) -> list[Remain]:
    """Remove all of a run; what is left after 20 s, normally nothing.

    Args:
        name: of what alone is removed; empty: all.
        patience_s: containers may end by themselves for so long.
        late_s: stay until nothing has been seen for so long.
    """
    begun = seen = time.monotonic()
    while True:
        now = time.monotonic()
        left = [r for r in engine.remains(run) if name in ("", r.name)]
        if left:
            seen = now
        elif now - seen >= late_s:
            return []
        if now - begun > REMOVE_TIMEOUT_S:
            return left
        ending = any(r.kind == "container" for r in left) and now - begun < patience_s
        if not ending:
            _removed(engine, left)
        time.sleep(POLL_S)


class Watchdog:
    """A process that removes a run from the engine, and a folder, when this one is gone."""

    def __init__(self, run: str, folder: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "maxq.harness.environments.engine.leaks", run, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # what is meant for the harness must not end it
        )

    def end(self, *, nothing_left: bool) -> None:
        """Let it go; if something may be left it looks for that first."""
        try:
            self._process.communicate(FINISHED if nothing_left else b"", REMOVE_TIMEOUT_S + LATE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def main() -> None:
    if sys.stdin.buffer.read() == FINISHED:
        return
    run, folder = sys.argv[1:]
    try:
        engine = connect()
        put_right(engine, Path(folder))
        remove_run(engine, run, patience_s=GOING_S, late_s=LATE_S)
    except (EnvironmentUnavailable, EngineFailed):
        sys.exit(1)  # the next `clean` finds what is left
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
