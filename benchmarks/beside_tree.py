"""Is this tree as fast as another one? Both are measured in one run, in turn.

Run as ``python -m benchmarks.beside_tree FOLDER``, the other tree with its own `.venv`: operations
a second of the interpreter without a journal, and CPU seconds of the same seeds of ``maxq
simulate``, the median of some rounds each; and of this tree how long a run of one hour takes to
begin, at a thousand operations a second. Exit code 1: a figure is more than 5 % worse, or the start
takes longer than 2 s.
"""

import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import click

from maxq.harness.contracts.generator import start_context
from maxq.harness.generators import clients
from maxq.harness.generators.lift import lift
from maxq.harness.sampling.rounds import schedule_of
from maxq.harness.schedule.options import Options
from maxq.harness.schedule.perform import First, Started, queue_calls
from maxq.reference.records import some
from maxq.workloads.queue import QUEUES, reader_count, share_of

HERE = Path(__file__).parents[1]
SLOWER_MAX = 1.05
START_S_MAX = 2.0
HOUR_NS = 3_600_000_000_000
INTERPRETER = """
import asyncio
from benchmarks.interpreter import CountingRecorder, performed
print(max(asyncio.run(performed(CountingRecorder())) for _ in range(3)))
"""


def interpreter_ops(tree: Path) -> float:
    """Operations a second."""
    done = subprocess.run([tree / ".venv/bin/python", "-c", INTERPRETER], cwd=tree,
                          capture_output=True, text=True, check=True)  # fmt: skip
    return float(done.stdout)


def simulated_cpu_s(tree: Path, seeds: str) -> float:
    """CPU seconds of some seeds, the start of the program included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([tree / ".venv/bin/maxq", "simulate", "--seeds", seeds, "--jobs", "1",
                        "--store", folder], cwd=tree, capture_output=True, check=False)  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def start_s() -> float:
    """From the options of a run of one hour to its first operation."""
    began = time.perf_counter()
    options = Options(environment="simulated", seed=1, workload=("queue",), rate=1000.0,
                      time_limit_ns=HOUR_NS)  # fmt: skip
    script = schedule_of(options, 1)
    readers = reader_count(options.concurrency, QUEUES)
    shares = tuple(share_of(thread, readers, QUEUES) for thread in range(readers))
    source = lift(clients(Started(queue_calls(script, options.concurrency, shares))))
    context = start_context(options.concurrency, First())
    for _ in range(2):  # the clock, then the first operation
        source = some(source.op(context), "there is an operation")[1]
    return time.perf_counter() - began


def compared(name: str, measure: Callable[[Path], float], other: Path, rounds: int) -> float:
    """This tree's figure as a ratio to the other's, after one line that says both."""
    ours, theirs = [], []
    for _ in range(rounds):
        theirs.append(measure(other))
        ours.append(measure(HERE))
    ratio = statistics.median(ours) / statistics.median(theirs)
    click.echo(
        f"{name}: here {statistics.median(ours):,.1f}, there {statistics.median(theirs):,.1f}, "
        f"ratio {ratio:.3f}"
    )
    return ratio


@click.command()
@click.argument("other", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--seeds", default="0..9", show_default=True)
@click.option("--rounds", default=3, show_default=True)
def main(other: Path, seeds: str, rounds: int) -> None:
    """Measure both."""
    fast = compared("interpreter, operations a second", interpreter_ops, other, rounds)
    slow = compared(
        f"simulated seeds {seeds}, CPU s", lambda t: simulated_cpu_s(t, seeds), other, rounds
    )
    start = start_s()
    click.echo(f"start of a run of one hour at 1,000 operations a second: {start:.3f} s")
    good = fast * SLOWER_MAX >= 1 and slow <= SLOWER_MAX and start <= START_S_MAX
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
