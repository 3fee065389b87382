"""A standalone cluster of Spark on this machine's loopback: a master and workers.

Its processes are of their own groups, and go on when the one that started them ends. Nothing of the
environment that is meant for other clusters counts. Units: seconds.
"""

import os
import re
import signal
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from maxq.spark_checkers.jvm import FOR_CLUSTERS, SparkMissing, home
from maxq.spark_checkers.masters import LOOPBACK
from maxq.spark_checkers.session import missing

DEPLOY = "org.apache.spark.deploy"
MASTER, WORKER = f"{DEPLOY}.master.Master", f"{DEPLOY}.worker.Worker"
UP_S, END_S, LOOK_S = 120.0, 20.0, 0.1
SAID_MAX = 300  # characters of what a process says that does not come up


class Cluster(NamedTuple):
    """A cluster that is up: its master, as `--master` takes it, and its processes by name."""

    master: str
    processes: Mapping[str, int]


def start(folder: Path, *, workers: int, cores: int, memory: str) -> Cluster:
    """Start a cluster.

    Args:
        folder: takes what its processes write, and what it shuffles.
        workers: how many.
        cores: of each.
        memory: that each gives to executors, such as 3g.

    Raises:
        SparkMissing: there is no Spark here, or it does not come up. Nothing is left of it.
    """
    if why := missing():
        raise SparkMissing(why)
    at = ("--host", LOOPBACK, "--port", "0", "--webui-port", "0")
    begun: dict[str, int] = {}

    def begin(name: str, *words: str) -> None:
        begun[name] = _started(folder, name, words)

    try:
        begin("master", MASTER, *at)
        pattern = rf"Starting Spark master at (spark://{LOOPBACK}:\d+)"
        url = _said(begun, folder, "master", pattern)
        names = [f"worker-{number}" for number in range(workers)]
        own = ("--cores", str(cores), "--memory", memory, "--work-dir", str(folder))
        for name in names:
            begin(name, WORKER, *at, *own, url)
        for name in names:
            _said(begun, folder, name, "(Successfully registered) with master")
    except BaseException:
        end(begun.values())
        raise
    return Cluster(url, begun)


@contextmanager
def standalone(workers: int, *, cores: int = 1, memory: str = "1g") -> Iterator[str]:
    """A cluster that nobody else uses, for the length of a block; its master. As `start`."""
    with tempfile.TemporaryDirectory(prefix="maxq-spark-") as folder:
        cluster = start(Path(folder), workers=workers, cores=cores, memory=memory)
        try:
            yield cluster.master
        finally:
            end(cluster.processes.values())


def _started(folder: Path, name: str, command: Sequence[str]) -> int:
    """Start a process of Spark, whose words go to a file of its name; its number."""
    kept = {n: v for n, v in os.environ.items() if not n.startswith(FOR_CLUSTERS)}
    spark = home(kept)
    own = {
        "SPARK_HOME": str(spark), "SPARK_CONF_DIR": os.devnull, "SPARK_LOCAL_IP": LOOPBACK,
        "SPARK_LOCAL_DIRS": str(folder),
    }  # fmt: skip
    program, new = str(spark / "bin" / "spark-class"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    return os.posix_spawn(
        program, [program, *command], {**kept, **own}, setsid=True,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(_log(folder, name)), new, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
    )  # fmt: skip


def _log(folder: Path, name: str) -> Path:
    return folder / f"{name}.log"


def _said(begun: Mapping[str, int], folder: Path, name: str, pattern: str) -> str:
    """Wait until a process says something; what is said in the pattern's group."""
    until, log = time.monotonic() + UP_S, _log(folder, name)
    while (found := re.search(pattern, log.read_text(errors="replace"))) is None:
        if not _lives(begun[name]) or time.monotonic() > until:
            last = " ".join(log.read_text(errors="replace").split())[-SAID_MAX:]
            raise SparkMissing(f"{name} of Spark does not come up: {last or 'it says nothing'}")
        time.sleep(LOOK_S)
    return found[1]


def end(processes: Iterable[int]) -> None:
    """End processes, with what they started; a worker ends its executors."""
    left = set(processes)
    for number, wait_s in ((signal.SIGTERM, END_S), (signal.SIGKILL, END_S)):
        for pid in left:
            with suppress(ProcessLookupError):
                os.killpg(pid, number)
        until = time.monotonic() + wait_s
        while (left := {pid for pid in left if _lives(pid)}) and time.monotonic() < until:
            time.sleep(LOOK_S)


def _lives(group: int) -> bool:
    """Whether any process of a group is left; ours are collected."""
    with suppress(ChildProcessError):
        os.waitpid(group, os.WNOHANG)
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
