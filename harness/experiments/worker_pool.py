"""Worker processes for simulations, and where they write.

What they write meanwhile is in a folder beside the results, which the next command on that folder
clears.
"""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from pathlib import Path
from typing import ParamSpec, TypeVar

from maxq.harness.run.process.workers import processes
from maxq.harness.run.stored_run import held

P = ParamSpec("P")
T = TypeVar("T")

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
