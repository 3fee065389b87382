"""Judging a stored history that is not held in memory: by columns, or on Spark.

The verdicts are the same. A run that ended properly has a table, which is read in pieces; of any
other the journal is read here and written as a table first.
"""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from maxq.checkers.core.api import Checker, Context
from maxq.checkers.judgement import dealt
from maxq.harness.run.judging import checkers_of, context_of
from maxq.harness.run.stored_run import Judged, options_of
from maxq.histories.history import History
from maxq.histories.op import Op
from maxq.histories.parquet import check_pages, encode_parquet, read_batches, rows_of
from maxq.histories.store import open_part, open_run, whole_table
from maxq.spark_checkers import session

ROWS_A_TASK = 50_000
TASKS_A_CORE = 4


JudgeTable = Callable[[Path, Sequence[Checker], Context], dealt.Judged]


def judge_run(path: Path, judge: JudgeTable, *, allow_truncated: bool) -> Judged:
    """Judge a stored run.

    Args:
        path: its folder.
        judge: `by_columns`, or `on_spark` with a master.
        allow_truncated: whether the readable part of a damaged history is enough.

    Raises:
        HistoryError: the history is unreadable, or the options are.
        SparkMissing: there is no pyspark or no Java here.
    """
    path = path.resolve()
    table = whole_table(path)
    if table is not None:
        stored = open_part(path, History(()), rows_of(table))
        options = options_of(stored)
        judged = judge(table, checkers_of(options), context_of(options, ended=True))
        stored = msgspec.structs.replace(stored, history=judged.history)
    else:
        stored = open_run(path, allow_truncated=allow_truncated)
        options = options_of(stored)
        context = context_of(options, ended=stored.report.complete)
        with as_table(stored.history.ops) as table:
            judged = judge(table, checkers_of(options), context)
    return Judged(
        stored=stored,
        options=options,
        results=judged.results,
        measured=tuple(judged.recoveries),
    )


def by_columns(table: Path, checkers: Sequence[Checker], context: Context) -> dealt.Judged:
    """Judge the one run of an events table in this process, batch by batch."""
    from maxq.checkers.judgement.by_columns import judge_batches  # numpy

    return judge_batches(lambda: read_batches(table), dealt.Request(checkers, context))


def on_spark(
    table: Path, checkers: Sequence[Checker], context: Context, *, master: str
) -> dealt.Judged:
    """Judge the one run of an events table by tasks of Spark."""
    from maxq.spark_checkers.engine import judge_runs
    from maxq.spark_checkers.events import read_events

    check_pages(table)
    rows = rows_of(table)
    with session.spark_session(master) as spark:
        cores = spark.sparkContext.defaultParallelism
        partitions = max(1, min(TASKS_A_CORE * cores, rows // ROWS_A_TASK))
        spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
        events, (run,) = read_events(spark, [table])
        request = dealt.Request(checkers, context)
        return judge_runs(events, {run: request}, partitions=partitions)[run]


@contextmanager
def as_table(ops: Sequence[Op]) -> Iterator[Path]:
    """Operations as an events table, for the length of a block."""
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder, "history.parquet")
        table.write_bytes(encode_parquet(ops, run_id="history"))
        yield table
