"""Judging a stored history on Spark instead of in this process: the same verdicts, of any size.

A run that ended properly has a table, which Spark reads by itself; of any other the journal is read
here and written as a table first.
"""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from maxq.checkers.core.api import Checker, Context
from maxq.harness.run.judging import checkers_of
from maxq.harness.run.stored_run import Judged, options_of
from maxq.histories.history import History
from maxq.histories.op import Op
from maxq.histories.parquet import check_pages, encode_parquet, rows_of
from maxq.histories.store import open_part, open_run, whole_table
from maxq.spark_checkers import engine, session
from maxq.spark_checkers.events import read_events

ROWS_A_TASK = 50_000
TASKS_A_CORE = 4


def judge_run(path: Path, master: str, *, allow_truncated: bool) -> Judged:
    """Judge a stored run.

    Raises:
        HistoryError: the history is unreadable, or the options are.
        SparkMissing: there is no pyspark or no Java here.
    """
    path = path.resolve()
    table = whole_table(path)
    if table is not None:
        check_pages(table)
        stored = open_part(path, History(()), rows_of(table))
        options = options_of(stored)
        judged = judge_table(table, checkers_of(options), options.context(), master)
        stored = msgspec.structs.replace(stored, history=judged.history)
    else:
        stored = open_run(path, allow_truncated=allow_truncated)
        options = options_of(stored)
        with as_table(stored.history.ops) as table:
            judged = judge_table(table, checkers_of(options), options.context(), master)
    return Judged(
        stored=stored,
        options=options,
        results=judged.results,
        measured=tuple(judged.recoveries),
    )


def judge_table(
    table: Path, checkers: Sequence[Checker], context: Context, master: str
) -> engine.Judged:
    """Judge the one run of an events table."""
    rows = rows_of(table)
    with session.spark_session(master) as spark:
        cores = spark.sparkContext.defaultParallelism
        partitions = max(1, min(TASKS_A_CORE * cores, rows // ROWS_A_TASK))
        spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
        events, (run,) = read_events(spark, [table])
        request = engine.Request(checkers, context)
        return engine.judge_runs(events, {run: request}, partitions=partitions)[run]


@contextmanager
def as_table(ops: Sequence[Op]) -> Iterator[Path]:
    """Operations as an events table, for the length of a block."""
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder, "history.parquet")
        table.write_bytes(encode_parquet(ops, run_id="history"))
        yield table
