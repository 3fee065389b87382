"""How fast a stored run is judged, and in how much memory: ``python -m benchmarks.checkers``.

Histories are generated (``maxq generate-history``), and each is judged by columns in a process of
its own: reading, well-formedness, all claims and stories included. Time is the process's own, on
all its threads, the best of so many; since machines differ it is a ratio to a calibration in the
same process, 2,000,000 writes into a dict. Memory is what the process had at most, over what it had
at its start. The exponent is that of the growth of time from the first size: 1 is linear.

`durability` is the queue without the logs of its replicas. `queue-1` and `queue-32` are the same
with one broker set and with 32: one may take 1.3 times as long as 32. With two cores the
seconds that passed say what a second core is good for. What is above its goal is marked with !.
Exit code 1 if anything is.
"""

import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec
import pyarrow as pa

from benchmarks.calibration import calibration_s
from benchmarks.generated_runs import EDN, FORMATS, LARGE, WORKLOADS, copied, generated
from maxq.checkers.core.api import Context
from maxq.harness.run import piecewise, stored_run
from maxq.harness.run.judging import checkers_of, context_of
from maxq.histories.history import History
from maxq.histories.store import open_part

ENGINES = ("columns", "local")
Ways = list[tuple[str, int]]  # an engine, and on how many cores
MILLION = 1_000_000
RATIOS = {
    "queue": 9, "replicas": 9, "epochs": 9, "offsets": 9, "durability": 6, "lock": 6,
    "registration": 6, "queue-1": 6, "queue-32": 6,
}  # fmt: skip
JSONL_MORE, EDN_RATIO, LARGE_RATIO, LARGE_MIB, EXPONENT, APART = 5, 60, 75, 2048, 1.15, 1.3


class Row(msgspec.Struct):
    """What one process measured."""

    own_s: float
    wall_s: float
    calibration_s: float
    peak_mib: int
    valid: Any

    @property
    def ratio(self) -> float:
        """Own time to the calibration's."""
        return self.own_s / self.calibration_s


def memory_mib(name: str) -> int:
    """What this process has (`VmRSS`), or had at most (`VmHWM`)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith(f"{name}:"))


def judged(path: Path, engine: str, cores: int) -> Row:
    """Judge a run in this process, on so many cores."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    pa.set_cpu_count(cores)
    pa.array([0])  # imports pandas where that is installed, as it is with Spark
    before = memory_mib("VmRSS")
    calibrated = calibration_s()
    Path("/proc/self/clear_refs").write_text("5")  # the most that it had is counted from here
    own, wall = time.process_time(), time.monotonic()
    valid = verdict(path, engine)
    own_s, wall_s = time.process_time() - own, time.monotonic() - wall
    return Row(own_s, wall_s, calibrated, memory_mib("VmHWM") - before, valid)


def verdict(path: Path, engine: str) -> Any:
    """Judge a run's folder; one with an EDN history as `maxq check FILE` does it."""
    if engine == "local":
        return stored_run.judge_stored(path).results.valid
    edn = path / EDN
    if not edn.exists():
        found = piecewise.judge_run(path, piecewise.by_columns, allow_truncated=False)
        return found.results.valid
    with piecewise.source_of(edn, allow_truncated=False) as source:
        options = stored_run.options_of(open_part(path, History(()), source.report))
        context: Context = context_of(options, ended=True)
        return piecewise.by_columns(source, checkers_of(options), context).results.valid


def best(path: Path, engine: str, cores: int, times: int) -> Row:
    """The best of so many processes; the exit of each is checked."""
    rows = []
    for _ in range(times):
        words = ["-m", "benchmarks.checkers", "--one", str(path), engine, str(cores)]
        done = subprocess.run([sys.executable, *words], check=True, capture_output=True)
        rows.append(msgspec.json.decode(done.stdout, type=Row))
    return min(rows, key=lambda row: row.ratio)


class Measured(NamedTuple):
    """A row of the table, and its history's size."""

    workload: str
    events: int
    form: str
    engine: str
    cores: int
    row: Row

    def goals(self, first: "Measured | None") -> Iterator[tuple[str, float, float]]:
        """What is to be reached: its name, the figure, and the most that it may be."""
        if self.engine != "columns":
            return
        if first is not None and self.events > 8 * first.events:
            yield "exponent", self.exponent(first), EXPONENT
        size = self.events / MILLION
        if 0.8 < size < 1.2:
            ratio = RATIOS[self.workload]
            most = {"parquet": ratio, "jsonl": ratio + JSONL_MORE, "edn": EDN_RATIO}
            yield "ratio", self.row.ratio, most[self.form]
        elif size >= 8 and (self.workload, self.form) == ("durability", "parquet"):
            yield "ratio", self.row.ratio, LARGE_RATIO
            yield "MiB", self.row.peak_mib, LARGE_MIB

    def exponent(self, first: "Measured | None") -> float:
        """Of the growth from the first size to this one; 0: it is the first."""
        if first is None or first is self:
            return 0
        grown = self.row.ratio / first.row.ratio
        return math.log(grown) / math.log(self.events / first.events)

    def line(self, first: "Measured | None") -> tuple[str, int]:
        """For people; and how many goals are missed."""
        goals = [*self.goals(first)]
        missed = [name for name, is_, most in goals if is_ > most]
        said = ", ".join(f"{n} {'!' if n in missed else ''}<= {most:g}" for n, _, most in goals)
        grown = self.exponent(first)
        row = self.row
        return (
            f"{self.workload:12} {self.events:12,} {self.form:8} {self.engine:8} {self.cores:5} "
            f"{row.own_s:8.2f} {row.wall_s:8.2f} {row.ratio:8.1f} {row.peak_mib:9,} "
            f"{f'{grown:.2f}' if grown else '':>9}  {row.valid!s:8} {said}"
        ), len(missed)


HEAD = (
    f"{'history':12} {'events':>12} {'format':8} {'engine':8} {'cores':>5} {'own s':>8} "
    f"{'wall s':>8} {'ratio':>8} {'peak MiB':>9} {'exponent':>9}  {'verdict':8} goals"
)


def measured(
    workload: str, size: int, folder: Path, forms: list[str], ways: Ways, times: int
) -> Iterator[Measured]:
    """One history in all its formats, judged in some ways."""
    table = folder / "parquet"
    count = generated(workload, size, table)
    for form in forms:
        path = folder / form
        if form != "parquet":
            copied(table, form, path)
        for engine, cores in ways:
            yield Measured(workload, count, form, engine, cores, best(path, engine, cores, times))


@click.command()
@click.option("--one", type=(click.Path(path_type=Path), click.Choice(ENGINES), int), default=None)
@click.option("--workloads", default=",".join(WORKLOADS), show_default=True)
@click.option("--formats", default=",".join(FORMATS), show_default=True)
@click.option("--events", default="100000,1000000", show_default=True, help="sizes, ascending")
@click.option("--large", is_flag=True, help=f"{LARGE:,} events of durability as well, in Parquet")
@click.option("--cores", default="1,2", show_default=True)
@click.option("--engines", default="columns", show_default=True)
@click.option("--times", default=3, show_default=True, help="of which the best counts")
def main(
    one: tuple[Path, str, int] | None, workloads: str, formats: str, events: str, large: bool,
    cores: str, engines: str, times: int,
) -> None:  # fmt: skip
    """Measure, and print a table."""
    if one is not None:
        print(json.dumps(msgspec.to_builtins(judged(*one))))
        return
    ways = [(e, int(n)) for e in engines.split(",") for n in cores.split(",")]
    plan = [(w, int(size), formats.split(","))
            for w in workloads.split(",") for size in events.split(",")]  # fmt: skip
    plan += [("durability", LARGE, ["parquet"])] if large else []
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores\n{HEAD}")
    sys.exit(1 if missed_of(plan, ways, times) else 0)


def missed_of(plan: list[tuple[str, int, list[str]]], ways: Ways, times: int) -> int:
    """Print what is measured; returns how many goals are missed."""
    first: dict[tuple[str, str, str, int], Measured] = {}
    last: dict[tuple[str, str, str, int], Measured] = {}
    missed = 0
    for workload, size, forms in plan:
        with tempfile.TemporaryDirectory() as folder:
            for one in measured(workload, size, Path(folder), forms, ways, times):
                key = (one.workload, one.form, one.engine, one.cores)
                line, more = one.line(first.setdefault(key, one))
                last[key] = one
                missed += more
                print(line, flush=True)
    for (workload, form, engine, cores), few in last.items():
        many = last.get(("queue-32", form, engine, cores))
        if workload == "queue-1" and many is not None:
            apart = few.row.ratio / many.row.ratio
            over = apart > APART
            missed += over
            print(f"queue-1 to queue-32, {form}, {engine}, {cores} cores: {apart:.2f} of the time"
                  f"{' !' if over else ''}")  # fmt: skip
    print(f"{missed} goals missed; load {os.getloadavg()[0]:.1f}")
    return missed


if __name__ == "__main__":
    main()
