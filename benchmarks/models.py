"""How fast models judge, from columns in memory: ``python -m benchmarks.models``.

Each row is made, measured and judged in a process of its own. Time is the process's own, the best
of so many; since machines differ it is a ratio to a calibration in the same process, 2,000,000
writes into a dict, beside the most that it may be. Memory is what the process had at most, over
what it had before the columns were made. `exponent` is that of the growth of time from the row of
the same kind before it: 1 is linear. Exit code 1 if a row is over its goal, or another verdict than
it must be.
"""

import json
import math
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import click
import msgspec

from benchmarks.calibration import calibration_s
from benchmarks.made_calls import (
    kv_calls,
    lease_calls,
    log_calls,
    queue_calls,
    read_in_order,
    register_calls,
    set_reads,
)
from benchmarks.made_transactions import list_append, rw_register
from maxq.checkers.linearizability.exact import leases, logs, queues, registers
from maxq.checkers.linearizability.judge import by_search
from maxq.checkers.linearizability.search import search
from maxq.checkers.models.kv import KeyValue
from maxq.checkers.models.registers import Register
from maxq.checkers.transactions.judged import Asked, judge_lists, judge_registers
from maxq.harness.cli.given.budget import Budget

BUDGET_S = 30.0


class Row(msgspec.Struct):
    """What one process measured."""

    own_s: float
    calibration_s: float
    peak_mib: int
    valid: Any


class Kind(NamedTuple):
    """Makes the columns of a size, and what judges them."""

    made: Callable[[int], Any]
    judged: Callable[[Any], Any]


class Goal(NamedTuple):
    """A row: which kind, how big, how many calibrations it may take at most, how much memory, and
    which verdicts it may have."""

    kind: str
    size: int
    most: float
    peak_mib: int = 4096
    valid: tuple[Any, ...] = (True,)


def _search(concurrency: int, info: float) -> Kind:
    over = Budget(seconds=BUDGET_S).begun
    return Kind(
        lambda size: register_calls(size, concurrency, values=5, info=info),
        lambda calls: search(Register(), calls, over()).valid,
    )


def _kv(info: float) -> Kind:
    over = Budget(seconds=BUDGET_S).begun
    return Kind(
        lambda size: kv_calls(size, 10, info),
        lambda calls: by_search(KeyValue(), calls, over()).valid,
    )


KINDS: Mapping[str, Kind] = {
    "list-append": Kind(list_append, lambda t: judge_lists(t, Asked(), _never).valid),
    "rw-register": Kind(lambda size: rw_register(size, read_first=True),
                        lambda t: judge_registers(t, Asked(), _never).valid),
    "rw-register, blind writes": Kind(lambda size: rw_register(size, read_first=False),
                                      lambda t: judge_registers(t, Asked(), _never).valid),
    "register": Kind(lambda size: register_calls(size, 30),
                     lambda calls: _fast(registers.decide(calls))),
    "fifo-queue": Kind(lambda size: queue_calls(size, 30),
                       lambda calls: _fast(queues.decide(calls))),
    "log": Kind(lambda size: log_calls(size, 30), lambda calls: _fast(logs.decide(calls))),
    "lease": Kind(lambda size: lease_calls(size, 30), lambda calls: leases.decide(calls).valid),
    "set-full": Kind(set_reads, lambda made: read_in_order(made).valid),
    "search, 10 at a time": _search(10, 0.0),
    "search, 5 % info": _search(10, 0.05),
    "search, 30 at a time": _search(30, 0.0),
    "kv, 10 at a time": _kv(0.0),
    "kv, 5 % info": _kv(0.05),
}  # fmt: skip
GOALS = (
    Goal("list-append", 100_000, 3),
    Goal("list-append", 1_000_000, 25),
    Goal("rw-register", 100_000, 10),
    # In which order so many values were written that nobody had read is not decided.
    Goal("rw-register, blind writes", 100_000, 10, valid=(True, "unknown")),
    Goal("register", 100_000, 1),
    Goal("register", 1_000_000, 1),
    Goal("register", 10_000_000, 12),
    Goal("fifo-queue", 100_000, 3),
    Goal("fifo-queue", 1_000_000, 3),
    Goal("log", 100_000, 3),
    Goal("log", 1_000_000, 3),
    Goal("lease", 100_000, 1),
    Goal("lease", 1_000_000, 1),
    # A thousand reads of half of the elements on average, one after the other.
    Goal("set-full", 100_000, 6),
    Goal("set-full", 1_000_000, 6, 1024),
    Goal("search, 10 at a time", 10_000, 5, 1024),
    Goal("search, 5 % info", 10_000, 20, 1024),
    # Texts that are appended to and put anew, which no fast test decides.
    Goal("kv, 10 at a time", 10_000, 20, 1024),
    # Whether it is decided is not promised; that it ends is.
    Goal("kv, 5 % info", 10_000, 2 * BUDGET_S / 0.1, 2048, (True, "unknown")),
    Goal("search, 30 at a time", 10_000, 2 * BUDGET_S / 0.1, 2048, (True, "unknown")),
)


def _never() -> bool:
    return False


def _fast(found: Any) -> Any:
    return "not decided" if found is None else found.valid


def measured(kind: str, size: int) -> Row:
    """Judge once in this process."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    columns = KINDS[kind].made(size)
    began = time.process_time()
    valid = KINDS[kind].judged(columns)
    own_s = time.process_time() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return Row(own_s, calibration_s(), peak // 1024, valid)


def best(goal: Goal, times: int) -> Row:
    """The best of so many processes; the exit of each is checked."""
    rows = []
    for _ in range(times):
        command = [sys.executable, "-m", "benchmarks.models", "--one", goal.kind, str(goal.size)]
        done = subprocess.run(command, check=True, capture_output=True)
        rows.append(msgspec.json.decode(done.stdout, type=Row))
    return min(rows, key=lambda row: row.own_s / row.calibration_s)


@click.command()
@click.option("--one", type=(click.Choice(sorted(KINDS)), int), default=None)
@click.option("--kinds", default="", help="some of the kinds, by commas: " + ", ".join(KINDS))
@click.option("--most", default=10_000_000, show_default=True, help="the greatest size")
@click.option("--times", default=3, show_default=True)
def main(one: tuple[str, int] | None, kinds: str, most: int, times: int) -> None:
    """Measure, and print a table."""
    if one is not None:
        print(json.dumps(msgspec.to_builtins(measured(*one))))
        return
    print(f"{'model':26} {'size':>11} {'s':>7} {'ratio':>7} {'goal':>6} {'peak MiB':>9} "
          f"{'exponent':>9}  verdict")  # fmt: skip
    chosen = [name.strip() for name in kinds.split(",")] if kinds else list(KINDS)
    last: dict[str, tuple[int, float]] = {}
    missed = 0
    for goal in GOALS:
        if goal.size > most or not any(name and goal.kind.startswith(name) for name in chosen):
            continue
        row = best(goal, times)
        ratio = row.own_s / row.calibration_s
        grown = ""
        if goal.kind in last:
            size, before = last[goal.kind]
            grown = f"{math.log(ratio / before) / math.log(goal.size / size):.2f}"
        last[goal.kind] = goal.size, ratio
        over = ratio > goal.most or row.peak_mib > goal.peak_mib or row.valid not in goal.valid
        missed += over
        print(f"{goal.kind:26} {goal.size:11,} {row.own_s:7.2f} {ratio:7.2f} {goal.most:6g} "
              f"{row.peak_mib:9,} {grown:>9}  {row.valid}{' <-- missed' if over else ''}",
              flush=True)  # fmt: skip
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
