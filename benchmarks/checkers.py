"""How fast a stored run is judged, and in how much memory: ``python -m benchmarks.checkers``.

Histories are generated (``maxq generate-history``), and each is judged in a process of its own, by
one engine: reading, well-formedness, all claims and stories included. Time is the process's own, on
all its threads, the best of so many; since machines differ it is a ratio to a calibration in the
same process, 2,000,000 writes into a dict. Memory is what the process had at most, over what it had
before. `exponent` is that of the growth of time between two sizes: 1 is linear.
"""

import json
import math
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import click
import msgspec

from benchmarks.calibration import calibration_s
from maxq.harness.run import piecewise, stored_run
from maxq.histories.parquet import rows_of
from maxq.histories.store import PARQUET

ENGINES = ("local", "columns")
CONCURRENCY = 16


class Row(msgspec.Struct):
    """What one process measured."""

    own_s: float
    calibration_s: float
    peak_mib: int
    valid: Any


def judged(path: Path, engine: str) -> Row:
    """Judge a run in this process."""
    calibrated = calibration_s()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.process_time()
    if engine == "columns":
        found = piecewise.judge_run(path, piecewise.by_columns, allow_truncated=False)
    else:
        found = stored_run.judge_stored(path)
    valid = found.results.valid
    own_s = time.process_time() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return Row(own_s, calibrated, peak // 1024, valid)


def generated(workload: str, events: int, path: Path) -> int:
    """Write a history of about so many events; returns how many it has."""
    words = ("--ops", str(events // 2), "--concurrency", str(CONCURRENCY), "--seed", "1")
    command = [sys.executable, "-m", "maxq.harness.cli.main", "generate-history"]
    command += ["--workload", workload, *words, "--out", str(path)]
    subprocess.run(command, check=True, capture_output=True)
    return rows_of(path / PARQUET)


def best(path: Path, engine: str, times: int) -> Row:
    """The best of so many processes; the exit of each is checked."""
    rows = []
    for _ in range(times):
        command = [sys.executable, "-m", "benchmarks.checkers", "--one", str(path), engine]
        done = subprocess.run(command, check=True, capture_output=True)
        rows.append(msgspec.json.decode(done.stdout, type=Row))
    return min(rows, key=lambda row: row.own_s / row.calibration_s)


@click.command()
@click.option("--one", type=(click.Path(path_type=Path), click.Choice(ENGINES)), default=None)
@click.option("--workloads", default="queue,lock", show_default=True)
@click.option("--events", default="100000,1000000", show_default=True, help="sizes, ascending")
@click.option("--local-most", default=100_000, show_default=True, help="events for engine local")
@click.option("--times", default=3, show_default=True)
def main(
    one: tuple[Path, str] | None, workloads: str, events: str, local_most: int, times: int
) -> None:
    """Measure, and print a table."""
    if one is not None:
        print(json.dumps(msgspec.to_builtins(judged(*one))))
        return
    print(f"{'workload':10} {'events':>12} {'engine':8} {'s':>8} {'ratio':>8} {'peak MiB':>9} "
          f"{'exponent':>9}  verdict")  # fmt: skip
    for workload in workloads.split(","):
        last: dict[str, tuple[int, float]] = {}
        for size in map(int, events.split(",")):
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "made"
                made = generated(workload, size, path)
                for engine in ENGINES if size <= local_most else ENGINES[1:]:
                    row = best(path, engine, times)
                    ratio = row.own_s / row.calibration_s
                    grown = ""
                    if engine in last:
                        rows, before = last[engine]
                        grown = f"{math.log(ratio / before) / math.log(made / rows):.2f}"
                    last[engine] = made, ratio
                    print(f"{workload:10} {made:12,} {engine:8} {row.own_s:8.2f} {ratio:8.1f} "
                          f"{row.peak_mib:9,} {grown:>9}  {row.valid}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
