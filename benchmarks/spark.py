"""Spark beside the engine that judges in this process, on the same tables: time and memory.

    python -m benchmarks.spark --events 1000000,10000000 --broker-sets 32
    python -m benchmarks.spark --runs RUN,RUN --checkers durability --workers 2 --worker-memory 3g

Tables are those of `maxq generate-history --workload queue`, two queues a broker set, or of runs
that are there; they are judged by all checkers of their workload, or by some. Each engine has a
process of its own, from the start of Python (Spark: of its JVM and workers too) to the verdicts,
which must be equal. `own` is the processor time of all its processes, `clock` what passes
meanwhile; memory is the largest sum of what they hold for themselves (PSS), and of the largest
Python worker and the largest JVM, looked at ten times a second. What either engine needs to start
is measured on a table of a few rows, and taken off.

With `--workers` Spark is a standalone cluster on the loopback, whose master and workers count as
well. A third of a worker's memory is the heap of its executor: Python has the rest.
"""

import argparse
import hashlib
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from benchmarks.kill_remains import below, command_of, pss_mib
from maxq.checkers.core.api import Checker
from maxq.checkers.judgement.runner import Results
from maxq.harness.run.judging import checkers_of, context_of
from maxq.harness.run.piecewise import by_columns, on_spark, table_source
from maxq.harness.run.stored_run import options_of_folder
from maxq.histories.parquet import rows_of
from maxq.histories.store import PARQUET
from maxq.spark_checkers.session import missing
from maxq.spark_checkers.standalone import standalone

COLUMNS, SPARK = "columns", "spark"
MASTER = "local[2]"
SMALL = 1_000  # events, of which judging takes no time
LOOK_S = 0.1
HEAP_SHARE = 3  # of a worker's memory, one part of so many is the executor's heap


class Cost(NamedTuple):
    """What judging took: seconds, MiB at most of all, of one Python worker and of one JVM, and of
    the verdicts a digest."""

    own_s: float
    clock_s: float
    peak_mib: float
    worker_mib: float
    jvm_mib: float
    verdicts: str

    def without(self, start: "Cost") -> "Cost":
        """The same without what a session takes to start."""
        return self._replace(own_s=self.own_s - start.own_s, clock_s=self.clock_s - start.clock_s)


class Way(NamedTuple):
    """How Spark judges: its master, what its processes are told, and how they are found."""

    master: str
    variables: Mapping[str, str]
    all_of: Callable[[int], set[int]]


@contextmanager
def way(workers: int, memory: str) -> Iterator[Way]:
    """Spark in a process of its own, or for the length of a block a cluster of so many workers.

    Raises:
        RuntimeError: the cluster does not come up.
    """
    if not workers:
        yield Way(MASTER, {}, lambda pid: below({pid}))
        return
    cores = max(1, (os.cpu_count() or 1) // workers)
    with (
        tempfile.TemporaryDirectory(prefix="maxq-spark-") as folder,
        standalone(workers, cores=cores, memory=memory) as master,
    ):
        heap = mib(memory) // HEAP_SHARE
        Path(folder, "spark-defaults.conf").write_text(f"spark.executor.memory {heap}m\n")
        # This process has the cluster, and the one that judges.
        mine = os.getpid()
        yield Way(master, {"SPARK_CONF_DIR": folder}, lambda _: below({mine}) - {mine})


def mib(memory: str) -> int:
    """A size such as 3g or 1500m, in MiB.

    Raises:
        ValueError: it is none.
    """
    if (found := re.fullmatch("([0-9]+)([gm])", memory)) is None:
        raise ValueError(f"{memory!r} is no size such as 3g or 1500m")
    return int(found[1]) * (1024 if found[2] == "g" else 1)


def generated(events: int, sets: int, path: Path) -> Path:
    """Write a run's folder with a table of about so many events."""
    words = ["--workload", "queue", "--ops", str(events // 2), "--broker-sets", str(sets)]
    command = [sys.executable, "-m", "maxq.harness.cli.main", "generate-history", *words]
    subprocess.run([*command, "--out", str(path)], check=True, capture_output=True)
    return path


def judged(engine: str, run: Path, master: str, named: Sequence[str]) -> Results:
    """Judge a run by one engine; by all of its checkers where none is named."""
    options, source = options_of_folder(run), table_source(run / PARQUET)
    checkers, context = _named(checkers_of(options), named), context_of(options, ended=True)
    if engine == SPARK:
        return on_spark(source, checkers, context, master=master).results
    return by_columns(source, checkers, context).results


def _named(checkers: Sequence[Checker], named: Sequence[str]) -> Sequence[Checker]:
    if unknown := set(named) - {c.name for c in checkers}:
        raise ValueError(f"no checker {sorted(unknown)}; known: {[c.name for c in checkers]}")
    return [c for c in checkers if c.name in named] if named else checkers


class Watch:
    """What processes hold and have spent, as they were seen last."""

    def __init__(self, before: set[int]) -> None:
        self.peak_mib = 0.0
        self.largest_mib = {"python": 0.0, "java": 0.0}
        self._before = {pid: _own_s(pid) for pid in before}
        self._spent: dict[int, float] = {}

    def look(self, pids: set[int]) -> None:
        """See what they are at now."""
        self._spent.update((pid, own_s) for pid in pids if (own_s := _own_s(pid)))
        held = {pid: pss_mib(pid) for pid in pids}
        self.peak_mib = max(self.peak_mib, sum(held.values()))
        for pid, size in held.items():
            kind = _kind(command_of(pid))
            if size > self.largest_mib.get(kind, size):
                self.largest_mib[kind] = size

    @property
    def own_s(self) -> float:
        """The processor time of all, since the beginning."""
        return sum(s - self._before.get(pid, 0.0) for pid, s in self._spent.items())


def _kind(command: str) -> str:
    if "pyspark.daemon" in command:
        return "python"
    return "java" if command.partition(" ")[0].endswith("/java") else ""


def measured(engine: str, run: Path, on: Way, named: Sequence[str]) -> Cost:
    """Judge it in a process of its own, watched.

    Raises:
        RuntimeError: it failed.
    """
    words = [sys.executable, "-m", "benchmarks.spark", "--judge", engine, str(run)]
    words += ["--master", on.master, "--checkers", ",".join(named)]
    all_of = on.all_of if engine == SPARK else lambda pid: below({pid})
    watch, begun = Watch(all_of(0) if engine == SPARK else set()), time.monotonic()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        variables = {**os.environ, **on.variables}
        process = subprocess.Popen(words, stdout=out, stderr=err, env=variables)
        while process.poll() is None:
            watch.look(all_of(process.pid))
            time.sleep(LOOK_S)
        took = time.monotonic() - begun
        for file in (out, err):
            file.seek(0)
        if process.returncode != 0:
            raise RuntimeError(f"{engine}: {err.read().decode()[-2000:]}")
        verdicts = out.read().decode().split()[-1]
    largest = watch.largest_mib
    peak = watch.peak_mib
    return Cost(watch.own_s, took, peak, largest["python"], largest["java"], verdicts)


def _own_s(pid: int) -> float:
    """The processor time of a process; 0 of one that is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


HEAD = (
    "| events | columns: own, clock | Spark: own, clock | ratio of own | of clock "
    "| columns: MiB | Spark: MiB, a Python worker, a JVM | verdicts |\n"
    "|---:|---:|---:|---:|---:|---:|---:|---|"
)


def row(events: int, here: Cost, spark: Cost) -> str:
    """A row of the table."""
    equal = "equal" if here.verdicts == spark.verdicts else "NOT EQUAL"
    return (
        f"| {events:,} | {here.own_s:.1f}, {here.clock_s:.1f} s "
        f"| {spark.own_s:.1f}, {spark.clock_s:.1f} s | {spark.own_s / here.own_s:.2f} "
        f"| {spark.clock_s / here.clock_s:.2f} | {here.peak_mib:,.0f} "
        f"| {spark.peak_mib:,.0f}, {spark.worker_mib:,.0f}, {spark.jvm_mib:,.0f} | {equal} |"
    )


def compared(given: argparse.Namespace, named: Sequence[str], folder: Path, on: Way) -> bool:
    """Print a row for each table; whether both engines say the same of all."""
    few = generated(SMALL, 1, folder / "few")
    bare, start = (measured(engine, few, on, named) for engine in (COLUMNS, SPARK))
    where = f"{given.workers} workers of {given.worker_memory}" if given.workers else on.master
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {where}, "
          f"{', '.join(named) or 'all checkers'}. Start: {bare.own_s:.1f} s own, "
          f"{bare.clock_s:.1f} s clock; of Spark {start.own_s:.1f} s and {start.clock_s:.1f} s."
          f"\n\n{HEAD}", flush=True)  # fmt: skip
    runs = map(Path, given.runs.split(",")) if given.runs else (
        generated(events, given.broker_sets, folder / str(events))
        for events in map(int, given.events.split(","))
    )  # fmt: skip
    same = True
    for run in runs:
        here = measured(COLUMNS, run, on, named).without(bare)
        spark = measured(SPARK, run, on, named).without(start)
        same &= here.verdicts == spark.verdicts
        print(row(rows_of(run / PARQUET), here, spark), flush=True)
    return same


def arguments() -> argparse.ArgumentParser:
    """What the command takes."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--events", default="1000000,10000000", help="one or more, with commas")
    parser.add_argument("--broker-sets", type=int, default=32, help="of two queues each")
    parser.add_argument("--runs", default="", help="folders of runs, instead of generated ones")
    parser.add_argument("--checkers", default="", help="by name, such as durability; default: all")
    parser.add_argument("--workers", type=int, default=0, help="of a cluster; 0: none")
    parser.add_argument("--worker-memory", default="3g", help="of each")
    parser.add_argument("--judge", nargs=2, metavar=("ENGINE", "RUN"), help=argparse.SUPPRESS)
    parser.add_argument("--master", default=MASTER, help=argparse.SUPPRESS)
    return parser


def main() -> int:
    """The command; 0 if both engines say the same of every history."""
    parser = arguments()
    given = parser.parse_args()
    named = [name for name in given.checkers.split(",") if name]
    if given.judge:
        engine, run = given.judge
        results = judged(engine, Path(run), given.master, named)
        plain = msgspec.json.encode(results.to_json(), order="sorted")
        print(hashlib.sha256(plain).hexdigest())
        return 0
    if why := missing():
        parser.error(why)
    with (
        tempfile.TemporaryDirectory(prefix="maxq-spark-") as folder,
        way(given.workers, given.worker_memory) as on,
    ):
        return 0 if compared(given, named, Path(folder), on) else 1


if __name__ == "__main__":
    sys.exit(main())
