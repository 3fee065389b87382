"""Both engines of the checkers on the same histories: time and memory, Spark's to the local one's.

    python -m benchmarks.engines --events 100000,1000000

Histories are of the workload queue, as it records them: senders to 64 queues, one message in a
hundred without an answer, readers that follow, and at the end a read of all. They are made by a
seed, and judged by every checker of that workload from one Parquet file. Each engine runs in a
process of its own, the best of two: from the start of Python (Spark: of its JVM and workers, too)
to the verdicts, which must be equal. Memory is the largest sum of what the
process and all below it hold for themselves (PSS), looked at ten times a second.
"""

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

import msgspec

from benchmarks.kill_remains import below
from maxq.checkers.judgement.runner import Results, check_all
from maxq.harness.run.judging import checkers_of
from maxq.harness.run.piecewise import on_spark, table_source
from maxq.harness.schedule.options import Options
from maxq.histories.history import History
from maxq.histories.op import Op
from maxq.histories.parquet import encode_parquet, read_parquet
from maxq.spark_checkers.session import LOCAL, missing

LOCAL_ENGINE, SPARK = "local", "spark"
QUEUES, SENDERS, READERS = 64, 32, 16
SETS = 4  # broker sets, which the queues are dealt over
UNSURE = 0.01  # of the sends
BATCH = 8  # messages that a reader gets at most
STEP_NS = 50_000  # between two events
LOOK_S = 0.1
OPTIONS = Options(environment="simulated", seed=1, workload=("queue",), nemesis=("none",),
                  broker_sets=SETS, replicas=1, profile="P-DEFAULT")  # fmt: skip


class Queues:
    """A cluster that takes and gives messages, as clients record it."""

    def __init__(self, seed: int, queues: int = QUEUES) -> None:
        self._draws = Random(f"engines/{seed}")
        self._queues = queues
        self._logs: list[list[int]] = [[] for _ in range(queues)]
        self._read = [0] * queues
        self._count = 0
        self._senders = list(range(READERS, READERS + SENDERS))
        self._next = READERS + SENDERS  # the process that takes the place of one without an answer

    def ops(self, count: int) -> Iterator[Op]:
        """Events of so many operations of clients and a few more: what the final read needs."""
        for reader in range(READERS):
            mine = list(range(reader, self._queues, READERS))
            yield from self._done(reader, "assign", mine, mine)
        while self._count < count:
            yield from self._send() if self._draws.random() < 2 / 3 else self._poll()
        for queue in range(self._queues):
            while self._read[queue] < len(self._logs[queue]):
                yield from self._poll(queue)

    def _send(self) -> Iterator[Op]:
        queue, number = self._draws.randrange(self._queues), self._draws.randrange(SENDERS)
        value, log = self._count + 1_000_000, self._logs[queue]
        process, invoked = self._senders[number], [["send", queue, value]]
        if self._draws.random() >= UNSURE:
            log.append(value)
            yield from self._done(
                process, "send", invoked, [["send", queue, [len(log) - 1, value]]]
            )
            return
        if self._draws.random() < 0.5:
            log.append(value)  # it was taken, and a reader may prove it
        yield self._event("invoke", process, "send", invoked)
        yield self._event("info", process, "send", invoked, error=["TIMEOUT"])
        self._senders[number], self._next = self._next, self._next + 1

    def _poll(self, queue: int = -1) -> Iterator[Op]:
        if queue < 0:
            queue = self._draws.randrange(self._queues)
        begin, log = self._read[queue], self._logs[queue]
        got = [[at, log[at]] for at in range(begin, min(begin + BATCH, len(log)))]
        self._read[queue] = begin + len(got)
        yield from self._done(queue % READERS, "poll", [["poll"]], [["poll", {queue: got}]])

    def _done(self, process: int, f: str, invoked: object, completed: object) -> Iterator[Op]:
        yield self._event("invoke", process, f, invoked)
        yield self._event("ok", process, f, completed)

    def _event(self, kind: str, process: int, f: str, value: object, error: object = None) -> Op:
        index, self._count = self._count, self._count + 1
        return msgspec.convert(
            {"type": kind, "process": process, "f": f, "value": value, "error": error,
             "index": index, "time": index * STEP_NS}, Op
        )  # fmt: skip


class Cost(NamedTuple):
    """What judging took: seconds, MiB at most, and a digest of the verdicts."""

    seconds: float
    peak_mib: float
    verdicts: str


def judged(engine: str, table: Path) -> Results:
    """Judge a table by one engine."""
    if engine == SPARK:
        source = table_source(table)
        return on_spark(source, checkers_of(OPTIONS), OPTIONS.context(), master=LOCAL).results
    history = History(read_parquet(table))
    return check_all(history, checkers_of(OPTIONS), OPTIONS.context())


def measured(engine: str, table: Path) -> Cost:
    """Judge it in a process of its own, watched.

    Raises:
        RuntimeError: it failed.
    """
    words = [sys.executable, "-m", "benchmarks.engines", "--judge", engine, str(table)]
    begun, peak = time.monotonic(), 0.0
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(words, stdout=out, stderr=err)
        while process.poll() is None:
            peak = max(peak, sum(map(_own_mib, below({process.pid}))))
            time.sleep(LOOK_S)
        took = time.monotonic() - begun
        for file in (out, err):
            file.seek(0)
        if process.returncode != 0:
            raise RuntimeError(f"{engine}: {err.read().decode()[-2000:]}")
        return Cost(took, peak, out.read().decode().split()[-1])


def _own_mib(pid: int) -> float:
    """What a process holds, and its share of what it holds with others."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("Pss:")), 0.0)


def row(count: int, local: Cost, spark: Cost) -> str:
    """A row of the table."""
    equal = "equal" if local.verdicts == spark.verdicts else "NOT EQUAL"
    return (
        f"| {count:,} | {local.seconds:.1f} s | {spark.seconds:.1f} s "
        f"| {spark.seconds / local.seconds:.2f} | {local.peak_mib:,.0f} MiB "
        f"| {spark.peak_mib:,.0f} MiB | {spark.peak_mib / local.peak_mib:.2f} | {equal} |"
    )


HEAD = (
    "| events | local: time | Spark: time | ratio | local: memory | Spark: memory | ratio "
    "| verdicts |\n|---:|---:|---:|---:|---:|---:|---:|---|"
)


def main() -> int:
    """The command; 0 if both engines say the same of every history."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--events", default="100000,1000000", help="joined by commas")
    parser.add_argument("--times", type=int, default=2, help="of which the best counts")
    parser.add_argument("--judge", nargs=2, metavar=("ENGINE", "TABLE"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.judge:
        engine, table = given.judge
        plain = msgspec.json.encode(judged(engine, Path(table)).to_json(), order="sorted")
        print(hashlib.sha256(plain).hexdigest())
        return 0
    if why := missing():
        parser.error(why)
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}\n\n{HEAD}", flush=True)
    same = True
    with tempfile.TemporaryDirectory(prefix="maxq-engines-") as folder:
        for count in map(int, given.events.split(",")):
            table = Path(folder, f"{count}.parquet")
            table.write_bytes(encode_parquet([*Queues(1).ops(count)], run_id="engines"))
            costs = {
                engine: min(measured(engine, table) for _ in range(given.times))
                for engine in (LOCAL_ENGINE, SPARK)
            }
            same &= costs[LOCAL_ENGINE].verdicts == costs[SPARK].verdicts
            print(row(count, costs[LOCAL_ENGINE], costs[SPARK]), flush=True)
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
