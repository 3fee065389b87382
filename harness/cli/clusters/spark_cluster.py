"""The command ``maxq spark``: a standalone cluster of Spark on this machine, until it is ended.

What is up is written down in a file, with the number and the start of each process, so that another
command finds it, and no other process is ended.
"""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import msgspec

from maxq.harness.cli.given.spark_types import SparkSize
from maxq.harness.contracts.terminal import echo, pasted
from maxq.harness.environments.process_life import started
from maxq.histories.store import write_whole
from maxq.histories.text import NOT_JSON
from maxq.spark_checkers import standalone

FILE, LOCK = "cluster.json", "lock"
MIB = {"m": 1, "g": 1024}
HEAP_LEAST = 450  # MiB, below which Spark starts no executor
HEAP_SHARE = 3  # an executor's heap has this part of a worker's memory; Python has the rest


class Up(msgspec.Struct, frozen=True):
    """A cluster that was started: its master, and the number and start of each process by name."""

    master: str
    workers: int
    cores: int
    memory: str
    processes: dict[str, tuple[int, int]]

    @property
    def ended(self) -> list[str]:
        """The processes that are not there any more."""
        return [name for name, (pid, start) in self.processes.items() if started(pid) != start]

    @property
    def living(self) -> list[int]:
        return [pid for name, (pid, _) in self.processes.items() if name not in self.ended]


def _folder() -> Path:
    """Where a cluster's files are: below XDG_CACHE_HOME, or ``~/.cache``."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base, "maxq", "spark")


@contextmanager
def _alone() -> Iterator[Path]:
    """The folder, while no other command starts or ends a cluster."""
    folder = _folder()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder


def _up(folder: Path) -> Up | None:
    """The cluster that was started; None: none was, or all of it has ended."""
    try:
        found = msgspec.json.decode((folder / FILE).read_bytes(), type=Up)
    except (FileNotFoundError, *NOT_JSON):
        return None
    return found if found.living else None


@click.group("spark")
def spark() -> None:
    """Run a cluster of Spark on this machine: a master, and workers that judge."""


@spark.command()
@click.option("--workers", type=click.IntRange(1, 64), default=2, show_default=True)
@click.option(
    "--worker-cores", type=click.IntRange(1, 256), default=None, help="of each worker",
    show_default="this machine's, divided",
)  # fmt: skip
@click.option(
    "--worker-memory", type=SparkSize(), default="3g", show_default=True,
    help="of each worker, its Python's included",
)  # fmt: skip
def up(workers: int, worker_cores: int | None, worker_memory: str) -> int:
    """Start a master and workers on the loopback. They stay up until `maxq spark down`."""
    cores = worker_cores or max(1, (os.cpu_count() or 1) // workers)
    with _alone() as folder:
        if (found := _up(folder)) is not None:
            raise click.UsageError(f"{found.master} is up: `{pasted('maxq spark down')}` ends it")
        files = folder / "files"
        shutil.rmtree(files, ignore_errors=True)
        files.mkdir()
        cluster = standalone.start(files, workers=workers, cores=cores, memory=worker_memory)
        processes = {name: (pid, started(pid) or -1) for name, pid in cluster.processes.items()}
        found = Up(cluster.master, workers, cores, worker_memory, processes)
        write_whole(folder / FILE, msgspec.json.encode(found))
    echo(_described(found))
    heap = max(HEAP_LEAST, int(worker_memory[:-1]) * MIB[worker_memory[-1]] // HEAP_SHARE)
    use = f"maxq check RUN --engine spark --master {found.master} --executor-memory {heap}m"
    echo(f"use it:  {pasted(use)}")
    echo(f"end it:  {pasted('maxq spark down')}")
    return 0


@spark.command()
def status() -> int:
    """Say what is up. Exit code 1 if nothing is, or a process has ended."""
    found = _up(_folder())
    if found is None:
        echo(f"no cluster is up: `{pasted('maxq spark up')}` starts one")
        return 1
    echo(_described(found))
    for name, (pid, _) in found.processes.items():
        echo(f"{name:10} {'has ended' if name in found.ended else f'runs, process {pid}'}")
    return 1 if found.ended else 0


@spark.command()
def down() -> int:
    """End the cluster that is up, with what runs on it."""
    with _alone() as folder:
        found = _up(folder)
        if found is not None:
            standalone.end(found.living)
        (folder / FILE).unlink(missing_ok=True)
        shutil.rmtree(folder / "files", ignore_errors=True)
    echo("no cluster was up" if found is None else f"{found.master} has ended")
    return 0


def _described(found: Up) -> str:
    each = f"{found.cores} core{'' if found.cores == 1 else 's'} and {found.memory}"
    workers = "1 worker" if found.workers == 1 else f"{found.workers} workers"
    return f"{found.master}: {workers}, each with {each}"
