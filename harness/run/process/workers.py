"""Worker processes: as many as asked for, and none that outlives its parent.

A worker of the standard library waits for work for ever, also when its parent was killed: it holds
the other end of its queue itself. These are ended by the kernel when their parent ends.
"""

import ctypes
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import active_children, get_context
from multiprocessing.process import BaseProcess

from maxq.harness.environments.leaks import gone, left_of
from maxq.harness.run import plugins
from maxq.nemeses import catalogue

PR_SET_PDEATHSIG = 1
LEAVE_S = 4.0  # in which all is gone of runs that an interrupt ends


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
