"""Spark beside the engine that judges in this process, on the same tables: time and memory.

    python -m benchmarks.spark --events 1000000,10000000 --broker-sets 32

Tables are those of `maxq generate-history --workload queue`, two queues a broker set, judged by all
checkers of that workload. Each engine has a process of its own, from the start of Python (Spark:
of its JVM and workers too) to the verdicts, which must be equal. `own` is the processor time of all
its processes, `clock` what passes meanwhile; memory is the largest sum of what they hold for
themselves (PSS), and of the largest one, looked at ten times a second. What either engine needs to
start is measured on a table of a few rows, and taken off.
"""

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import msgspec

from benchmarks.kill_remains import below
from maxq.checkers.judgement.runner import Results
from maxq.harness.run.judging import checkers_of, context_of
from maxq.harness.run.piecewise import by_columns, on_spark, table_source
from maxq.harness.run.stored_run import options_of_folder
from maxq.histories.store import PARQUET
from maxq.spark_checkers.session import missing

COLUMNS, SPARK = "columns", "spark"
MASTER = "local[2]"
SMALL = 1_000  # events, of which judging takes no time
LOOK_S = 0.1


class Cost(NamedTuple):
    """What judging took: seconds, MiB at most of all and of one process, and of the verdicts a
    digest."""

    own_s: float
    clock_s: float
    peak_mib: float
    largest_mib: float
    verdicts: str

    def without(self, start: "Cost") -> "Cost":
        """The same without what a session takes to start."""
        return self._replace(own_s=self.own_s - start.own_s, clock_s=self.clock_s - start.clock_s)


def generated(events: int, sets: int, path: Path) -> Path:
    """Write a run's folder with a table of about so many events."""
    words = ["--workload", "queue", "--ops", str(events // 2), "--broker-sets", str(sets)]
    command = [sys.executable, "-m", "maxq.harness.cli.main", "generate-history", *words]
    subprocess.run([*command, "--out", str(path)], check=True, capture_output=True)
    return path


def judged(engine: str, run: Path) -> Results:
    """Judge a run by one engine."""
    options, source = options_of_folder(run), table_source(run / PARQUET)
    checkers, context = checkers_of(options), context_of(options, ended=True)
    if engine == SPARK:
        return on_spark(source, checkers, context, master=MASTER).results
    return by_columns(source, checkers, context).results


def measured(engine: str, run: Path) -> Cost:
    """Judge it in a process of its own, watched.

    Raises:
        RuntimeError: it failed.
    """
    words = [sys.executable, "-m", "benchmarks.spark", "--judge", engine, str(run)]
    begun, peak, largest = time.monotonic(), 0.0, 0.0
    spent: dict[int, float] = {}  # of each process, as it was seen last
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(words, stdout=out, stderr=err)
        while process.poll() is None:
            seen = below({process.pid})
            spent.update((pid, own_s) for pid in seen if (own_s := _own_s(pid)))
            held = [*map(_pss_mib, seen)]
            peak, largest = max(peak, sum(held)), max(largest, max(held, default=0.0))
            time.sleep(LOOK_S)
        took = time.monotonic() - begun
        for file in (out, err):
            file.seek(0)
        if process.returncode != 0:
            raise RuntimeError(f"{engine}: {err.read().decode()[-2000:]}")
        verdicts = out.read().decode().split()[-1]
        return Cost(sum(spent.values()), took, peak, largest, verdicts)


def _own_s(pid: int) -> float:
    """The processor time of a process; 0 of one that is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _pss_mib(pid: int) -> float:
    """What a process holds, and its share of what it holds with others."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("Pss:")), 0.0)


HEAD = (
    "| events | columns: own, clock | Spark: own, clock | ratio of own | of clock "
    "| columns: MiB | Spark: MiB, largest process | verdicts |\n"
    "|---:|---:|---:|---:|---:|---:|---:|---|"
)


def row(events: int, here: Cost, spark: Cost) -> str:
    """A row of the table."""
    equal = "equal" if here.verdicts == spark.verdicts else "NOT EQUAL"
    return (
        f"| {events:,} | {here.own_s:.1f}, {here.clock_s:.1f} s "
        f"| {spark.own_s:.1f}, {spark.clock_s:.1f} s | {spark.own_s / here.own_s:.2f} "
        f"| {spark.clock_s / here.clock_s:.2f} | {here.peak_mib:,.0f} "
        f"| {spark.peak_mib:,.0f}, {spark.largest_mib:,.0f} | {equal} |"
    )


def main() -> int:
    """The command; 0 if both engines say the same of every history."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--events", default="1000000,10000000", help="joined by commas")
    parser.add_argument("--broker-sets", type=int, default=32, help="of two queues each")
    parser.add_argument("--judge", nargs=2, metavar=("ENGINE", "RUN"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.judge:
        engine, run = given.judge
        plain = msgspec.json.encode(judged(engine, Path(run)).to_json(), order="sorted")
        print(hashlib.sha256(plain).hexdigest())
        return 0
    if why := missing():
        parser.error(why)
    with tempfile.TemporaryDirectory(prefix="maxq-spark-") as folder:
        few = generated(SMALL, 1, Path(folder, "few"))
        bare, start = measured(COLUMNS, few), measured(SPARK, few)
        print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {MASTER}. Start: "
              f"{bare.own_s:.1f} s own, {bare.clock_s:.1f} s clock; of Spark {start.own_s:.1f} s "
              f"and {start.clock_s:.1f} s.\n\n{HEAD}", flush=True)  # fmt: skip
        same = True
        for events in map(int, given.events.split(",")):
            run = generated(events, given.broker_sets, Path(folder, str(events)))
            here = measured(COLUMNS, run).without(bare)
            spark = measured(SPARK, run).without(start)
            same &= here.verdicts == spark.verdicts
            print(row(events, here, spark), flush=True)
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
