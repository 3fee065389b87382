"""Our checks beside DuckDB and Polars on the same table: ``python -m benchmarks.sql``.

Both can say of messages what is lost, a phantom, a duplicate, at another offset or out of order,
and of locks which leases overlap (`benchmarks.sql_queries`). First on a history in which each of
these was planted: all three must count the same. Then on a correct one of a million events: own
time of a process on one core, the best of three, as a ratio to a calibration in the same process
(2,000,000 writes into a dict), and the lines that it takes to say it. What is ours is `maxq check`
with one checker: it also looks for what the two cannot say, pairs operations, judges
well-formedness, excuses and seeks, and tells stories. Exit code 1 if counts differ, or if ours is
slower than the better one.
"""

import importlib
import importlib.util
import inspect
import io
import json
import os
import subprocess
import sys
import tempfile
import time
import tokenize
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import msgspec
import pyarrow as pa

from benchmarks import sql_queries
from benchmarks.calibration import calibration_s
from benchmarks.sql_queries import Counts, duckdb_counts, polars_counts
from maxq.checkers.locks import lease_columns
from maxq.checkers.locks.locks import Locks
from maxq.checkers.messages.arrays import log_clean, log_elements, log_runs
from maxq.checkers.messages.durability import Durability
from maxq.harness.run import piecewise
from maxq.harness.run.judging import context_of
from maxq.harness.run.stored_run import options_of_folder
from maxq.histories.columns import messages as message_columns
from maxq.histories.history import History
from maxq.histories.store import PARQUET

INSTALL = "pip install --require-hashes -r constraints-benchmarks.txt"
ENGINES = ("ours", "duckdb", "polars")
CONCURRENCY = 16
PLANTED = {
    "messages": ("queue", "lost-write=3,phantom=2,duplicate=2,inconsistent-offsets=2,"
                          "nonmonotonic-poll=2,poll-skip=2,nonmonotonic-send=2"),
    "locks": ("lock", "granted-too-soon=3,lease-overlap=2"),
}  # fmt: skip
# What ours has by more than one name.
TOGETHER = {
    "nonmonotonic-poll": "read back", "int-nonmonotonic-poll": "read back",
    "nonmonotonic-send": "sent back", "int-nonmonotonic-send": "sent back",
}  # fmt: skip
NAMES = (*sql_queries.MESSAGE_QUERIES, *sql_queries.LOCK_QUERIES)
CHECKS: dict[str, Any] = {"messages": Durability, "locks": Locks}
SAID_BY: dict[str, tuple[ModuleType, ...]] = {
    "messages": (log_clean, log_elements, log_runs, message_columns), "locks": (lease_columns,)
}  # fmt: skip


class Row(msgspec.Struct):
    """What one process measured."""

    counts: Counts
    own_s: float
    calibration_s: float

    @property
    def ratio(self) -> float:
        """Own time to the calibration's."""
        return self.own_s / self.calibration_s


def counted(engine: str, run: Path, what: str) -> Row:
    """Count in this process, which has one core."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
    pa.set_cpu_count(1)
    module = "maxq.checkers.judgement.piecewise.by_columns" if engine == "ours" else engine
    importlib.import_module(module)  # before the clock
    pa.array([0])  # imports pandas where that is installed
    leases = leases_of(run)
    calibrated, began = calibration_s(), time.process_time()
    if engine == "ours":
        counts = our_counts(run, what)
    elif engine == "duckdb":
        counts = duckdb_counts(run / PARQUET, what, leases)
    else:
        counts = polars_counts(run / PARQUET, what, leases)
    return Row(counts, time.process_time() - began, calibrated)


def leases_of(run: Path) -> dict[str, int]:
    """How far apart grants must be (ns), and how long a client relies on one (ns)."""
    known = Locks().prepare(History(()), context_of(options_of_folder(run)))
    return {"apart": known.apart_ns, "client": known.client_ns}


def our_counts(run: Path, what: str) -> Counts:
    """What our checker says."""
    source = piecewise.table_source(run / PARQUET)
    context = context_of(options_of_folder(run))
    judged = piecewise.by_columns(source, [CHECKS[what]()], context)
    names = (a.name for verdict in judged.results.verdicts for a in verdict.anomalies)
    return dict(Counter(TOGETHER.get(name, name) for name in names))


def generated(what: str, ops: int, anomalies: str, run: Path) -> None:
    """Write a run."""
    words = ["--workload", PLANTED[what][0], "--ops", str(ops), "--seed", "3"]
    words += ["--concurrency", str(CONCURRENCY), "--out", str(run)]
    words += ["--anomalies", anomalies] if anomalies else []
    command = [sys.executable, "-m", "maxq.harness.cli.main", "generate-history", *words]
    subprocess.run(command, check=True, capture_output=True)


def best(engine: str, run: Path, what: str, times: int) -> Row:
    """The best of so many processes."""
    rows = []
    for _ in range(times):
        words = ["-m", "benchmarks.sql", "--one", engine, str(run), what]
        done = subprocess.run(
            [sys.executable, *words], stdout=subprocess.PIPE, check=True,
            env={**os.environ, "POLARS_MAX_THREADS": "1"},
        )  # fmt: skip
        rows.append(msgspec.json.decode(done.stdout, type=Row))
    return min(rows, key=lambda row: row.ratio)


def lines_of(engine: str, what: str) -> int:
    """How many lines of code say it."""
    if engine == "ours":
        return sum(code_lines(inspect.getsource(module)) for module in SAID_BY[what])
    if engine == "duckdb":
        setup, queries = (
            (sql_queries.MESSAGES, sql_queries.MESSAGE_QUERIES)
            if what == "messages"
            else (sql_queries.LOCKS, sql_queries.LOCK_QUERIES)
        )
        whole = "\n".join([setup, *queries.values()])
        return sum(bool(line.strip()) for line in whole.splitlines())
    said_by = (
        (sql_queries.tables_of_polars, sql_queries.messages_of_polars)
        if what == "messages"
        else (sql_queries.locks_of_polars,)
    )
    return sum(code_lines(inspect.getsource(function)) for function in said_by)


def code_lines(source: str) -> int:
    """Lines with code on them; docstrings and comments are none."""
    skipped = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
               tokenize.ENDMARKER)  # fmt: skip
    found, fresh = set[int](), True
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        docstring = fresh and token.type == tokenize.STRING
        if token.type not in skipped and not docstring:
            found.update(range(token.start[0], token.end[0] + 1))
        if token.type not in (tokenize.COMMENT, tokenize.NL):
            fresh = token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    return len(found)


def same(what: str, folder: Path) -> bool:
    """Whether all count the same where anomalies were planted; says what they count."""
    run = folder / f"planted-{what}"
    generated(what, 20_000, PLANTED[what][1], run)
    rows = {engine: best(engine, run, what, 1).counts for engine in ENGINES}
    asked = sql_queries.MESSAGE_QUERIES if what == "messages" else sql_queries.LOCK_QUERIES
    ours = {name: rows["ours"].get(name, 0) for name in asked}
    equal = all(rows[engine] == ours for engine in ENGINES[1:]) and all(ours.values())
    print(f"{what}, planted: {'all count' if equal else 'NOT EQUAL:'} "
          f"{json.dumps(ours) if equal else json.dumps(rows)}")  # fmt: skip
    return equal


def fast(what: str, events: int, folder: Path, times: int) -> bool:
    """Whether ours is not slower than the better of the two; says what each takes."""
    run = folder / f"correct-{what}"
    generated(what, events // 2, "", run)
    rows = {engine: best(engine, run, what, times) for engine in ENGINES}
    print(f"{what}, {events:,} events: {'engine':8} {'own s':>8} {'ratio':>8} {'lines':>6}")
    for engine, row in rows.items():
        lines = lines_of(engine, what)
        print(f"{'':{len(what) + 20}} {engine:8} {row.own_s:8.2f} {row.ratio:8.1f} {lines:6}")
        if any(row.counts.get(name) for name in NAMES):
            raise RuntimeError(f"{engine} finds something in a correct history: {row.counts}")
    others = min(rows[engine].ratio for engine in ENGINES[1:])
    print(f"{what}: ours takes {rows['ours'].ratio / others:.2f} of the better of the two")
    return rows["ours"].ratio <= others


@click.command()
@click.option("--one", type=(click.Choice(ENGINES), click.Path(path_type=Path), str), default=None)
@click.option("--events", default=1_000_000, show_default=True)
@click.option("--times", default=3, show_default=True, help="of which the best counts")
def main(one: tuple[str, Path, str] | None, events: int, times: int) -> None:
    """Compare, and print."""
    if one is not None:
        print(json.dumps(msgspec.to_builtins(counted(*one))))
        return
    absent = [name for name in ENGINES[1:] if importlib.util.find_spec(name) is None]
    if absent:
        raise click.ClickException(f"{' and '.join(absent)} not installed: {INSTALL}")
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    good = True
    with tempfile.TemporaryDirectory() as folder:
        for what in PLANTED:
            good &= same(what, Path(folder))
        for what in PLANTED:
            good &= fast(what, events, Path(folder), times)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
