"""How fast histories are generated, and in how much memory: ``python -m benchmarks.generating``.

Each row is a process of its own, and the ``--jobs`` that it starts: a workload, a form, about so
many events. Speed is events a second of the clock, and of the own time of all processes; the latter
also, since machines differ, as a ratio to a calibration in the same process: seconds for 2,000,000
writes into a dict. On N quiet cores the clock takes an N-th of the own time, but no less than the
process that is busiest. Memory is the most that one of them ever had. Exit code 1 if memory grows
with the history, or a workload that must be fast is slower than `EVENTS_A_SECOND` of own time.
"""

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import click
import msgspec

from benchmarks.calibration import calibration_s
from maxq.workloads.generated.asked.kinds import LOCK, QUEUE
from maxq.workloads.generated.asked.request import Format, Request
from maxq.workloads.generated.writing import generate

EVENTS = (100_000, 1_000_000, 10_000_000)
EVENTS_A_SECOND = 200_000
FAST = (QUEUE, LOCK)
GROWS_MIB = 150  # from a million events on, at the most: what a row group takes comes once


class Row(msgspec.Struct):
    """What one process measured."""

    events: int
    clock_s: float
    own_s: float
    writer_s: float  # of which the process that writes took
    calibration_s: float
    peak_mib: int


def measured(workload: str, to: Format, events: int, jobs: int) -> Row:
    """Generate one history in this process, and as many more as there are jobs beyond one."""
    with tempfile.TemporaryDirectory() as folder:
        began, clock = time.process_time(), time.monotonic()
        request = Request(workload=workload, ops=events // 2, seed=1)
        written = generate(request, Path(folder) / "made", lambda _: {}, to, jobs)
        writer_s, clock_s = time.process_time() - began, time.monotonic() - clock
    others = resource.getrusage(resource.RUSAGE_CHILDREN)
    own_s = writer_s + others.ru_utime + others.ru_stime
    peak = max(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, others.ru_maxrss) // 1024
    calibrated = calibration_s()  # last: it takes more memory than a history does
    return Row(written.rows, clock_s, own_s, writer_s, calibrated, peak)


def in_a_process(workload: str, to: str, events: int, jobs: int) -> Row:
    """The same in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.generating", "--one", workload, to, str(events),
               "--jobs", str(jobs)]  # fmt: skip
    done = subprocess.run(command, check=True, capture_output=True)
    return msgspec.json.decode(done.stdout, type=Row)


@click.command()
@click.option("--one", type=(str, click.Choice(["parquet", "jsonl"]), int), default=None)
@click.option("--most", default=EVENTS[-1], show_default=True, help="events")
@click.option("--workload", "workloads", multiple=True, default=FAST, show_default=True)
@click.option("--jobs", default=1, show_default=True, help="processes that make rows")
def generating(
    one: tuple[str, Format, int] | None, most: int, workloads: tuple[str, ...], jobs: int
) -> None:
    """Measure."""
    if one is not None:
        click.echo(msgspec.json.encode(measured(*one, jobs)).decode())
        return
    wrong = []
    click.echo(f"{'workload':10} {'form':8} {'events':>11} {'events/s':>9} {'of own':>9} "
               f"{'own s':>6} {'writer':>6} {'ratio':>6} {'MiB':>5}")  # fmt: skip
    for workload in workloads:
        for to in ("parquet", "jsonl"):
            peaks: dict[int, int] = {}
            for events in (e for e in EVENTS if e <= most):
                row = in_a_process(workload, to, events, jobs)
                rate = row.events / row.own_s
                ratio = row.own_s / row.calibration_s / row.events * 1e6
                peaks[events] = row.peak_mib
                click.echo(
                    f"{workload:10} {to:8} {row.events:11,} {row.events / row.clock_s:9,.0f} "
                    f"{rate:9,.0f} {row.own_s:6.1f} {row.writer_s:6.1f} {ratio:6.1f} "
                    f"{row.peak_mib:5}"
                )
                if workload in FAST and events > EVENTS[0] and rate < EVENTS_A_SECOND:
                    wrong.append(f"{workload} {to}: {rate:,.0f} events a second")
            if peaks.get(EVENTS[2], 0) > peaks.get(EVENTS[1], 0) + GROWS_MIB:
                wrong.append(f"{workload} {to}: memory grows: {peaks}")
    click.echo("ratio: calibrations (2,000,000 dict writes) a million events take")
    for line in wrong:
        click.echo(line)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    generating()
