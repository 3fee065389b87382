"""Worker processes for simulations: as many as asked for, and none that outlives its parent.

A worker of the standard library waits for work for ever, also when its parent was killed: it holds
the other end of its queue itself. These are ended by the kernel when their parent ends. What they
write meanwhile is in a folder beside the results, which the next command on that folder clears.
"""

import ctypes
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import active_children, get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import ParamSpec, TypeVar

from maxq.harness.environments.leaks import gone, left_of
from maxq.harness.run import plugins
from maxq.harness.run.stored_run import held
from maxq.nemeses import catalogue

P = ParamSpec("P")
T = TypeVar("T")

PR_SET_PDEATHSIG = 1
LEAVE_S = 4.0  # in which all is gone of runs that an interrupt ends
SCRATCH = "work"  # of a folder of results: what runs write until they are over


class Occupied(OSError):
    """Another command is at work on the same folder."""


@contextmanager
def scratch(folder: Path) -> Iterator[None]:
    """Have temporary files of this process in a folder of results, for the length of a block.

    Raises:
        Occupied: another command has them there.
    """
    place, before = folder / SCRATCH, tempfile.tempdir
    folder.mkdir(parents=True, exist_ok=True)
    with held(folder) as free:
        if not free:
            raise Occupied(f"another command is using {folder}")
        shutil.rmtree(place, ignore_errors=True)  # of one that was killed
        place.mkdir()
        tempfile.tempdir = str(place)
        try:
            yield
        finally:
            tempfile.tempdir = before
            shutil.rmtree(place, ignore_errors=True)


@contextmanager
def processes(count: int, place: str = "") -> Iterator[Executor]:
    """Worker processes that end with this one. An interrupt ends them in the middle of their work:
    what they do is done again.

    They are not forked: a worker's memory must not hold what this process has in its.

    Args:
        count: how many.
        place: where their temporary files go; empty: where the system has them.
    """
    before = set(active_children())
    with ProcessPoolExecutor(
        count,
        mp_context=get_context("spawn"),
        initializer=_begin,
        initargs=(os.getpid(), place, sys.path, plugins.modules(), catalogue.references()),
    ) as pool:
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            _end(set(active_children()) - before)
            raise


def _end(workers: Collection[BaseProcess]) -> None:
    """Kill workers in the middle of their work."""
    end_all([w.pid for w in workers if w.pid is not None], partial(_kill, workers))


def _kill(workers: Collection[BaseProcess]) -> None:
    for worker in workers:
        worker.kill()
    for worker in workers:
        worker.join(LEAVE_S)


def end_all(harnesses: Collection[int], kill: Callable[[], None]) -> None:
    """End harnesses, and wait until nothing of their runs is left: one that is killed leaves
    nothing behind, but what it had goes a moment after it.

    Args:
        harnesses: their processes.
        kill: ends these.
    """
    left = [left_of(harness) for harness in harnesses]
    kill()
    gone(left, LEAVE_S)


class Inline(Executor):
    """Runs what is submitted at once, in this process; what it raises is raised there."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


@contextmanager
def workers(count: int, folder: Path, *, inline: bool = False) -> Iterator[Executor]:
    """Worker processes whose temporary files are in a folder of results; or this process alone.

    Raises:
        Occupied: another command is at work there.
    """
    with scratch(folder), Inline() if inline else processes(count, str(folder / SCRATCH)) as pool:
        yield pool


def end_with_parent() -> None:
    """Have this process killed when its parent ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _begin(
    parent: int, place: str, path: Sequence[str], modules: Sequence[str],
    kinds: Sequence[tuple[str, str]],
) -> None:  # fmt: skip
    """What a worker does first; it knows the plug-ins that its parent knows."""
    end_with_parent()
    if os.getppid() != parent:  # it ended before the line above
        os._exit(1)
    for number in (signal.SIGINT, signal.SIGHUP):  # a terminal's: the parent's to act on
        signal.signal(number, signal.SIG_IGN)
    tempfile.tempdir = place or None
    sys.path[:] = path
    plugins.load(modules)
    catalogue.adopt(kinds)
