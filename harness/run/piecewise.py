"""Judging a stored history that is not held in memory: by columns, or on Spark.

The verdicts are the same. A table is read in pieces. Of a journal, and of a history of Jepsen, the
rows are spooled first, without their operations. A run's table is taken for its journal only while
that is as it was recorded: the journal is what happened.
"""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import msgspec
import pyarrow as pa

from maxq.checkers.core.api import Checker, Context
from maxq.checkers.core.keyed import Keyed
from maxq.checkers.judgement import dealt
from maxq.harness.contracts.plugins import current
from maxq.harness.run.judging import checkers_of, context_of
from maxq.harness.run.rejudge import unknown_suffix
from maxq.harness.run.stored_run import Judged, options_of
from maxq.histories.history import History
from maxq.histories.jsonl import ReadReport
from maxq.histories.op import HistoryError
from maxq.histories.parquet import check_pages, encode_parquet, read_coded, rows_of
from maxq.histories.store import JOURNAL, open_part, unrecorded, whole_table
from maxq.histories.tables import EVENTS, op_of_row
from maxq.spark_checkers import session

ROWS_A_TASK = 50_000
TASKS_A_CORE = 4
KEPT_BYTES = 192 << 20
UNREAD = ("run_id", "pair")  # columns of a table that nothing here depends on
READ = [name for name in EVENTS.names if name not in UNREAD]


class Source(NamedTuple):
    """A history on disk, found as `report` says: `batches` gives its rows, as often as it is
    called. `table` is the events table that has them; None: there is none."""

    report: ReadReport
    batches: Callable[[], Iterator[pa.RecordBatch]]
    table: Path | None = None

    def concurrency(self) -> int | None:
        """How many clients there were at a time; None of a table, which is not read for that."""
        from maxq.histories.lines.spool import concurrency_of  # numpy

        return concurrency_of(self.batches()) if self.table is None else None


JudgeSource = Callable[[Source, Sequence[Checker], Context], dealt.Judged]


def judge_run(path: Path, judge: JudgeSource, *, allow_truncated: bool) -> Judged:
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
    journal = path / JOURNAL
    if journal.exists() and (table := _table_of(path)) is not None:
        with suppress(HistoryError):  # a damaged table is no damaged history
            return _judged(path, table_source(table), judge)
    file = journal if journal.exists() else whole_table(path)
    if file is None:  # it died before its first operation
        return _judged(path, Source(unrecorded(path), lambda: iter(())), judge)
    with source_of(file, allow_truncated=allow_truncated) as source:
        return _judged(path, source, judge)


def _judged(path: Path, source: Source, judge: JudgeSource) -> Judged:
    stored = open_part(path, History(()), source.report)
    options = options_of(stored)
    context = context_of(options, ended=source.report.complete)
    judged = judge(source, checkers_of(options), context)
    return Judged(
        stored=msgspec.structs.replace(stored, history=judged.history),
        options=options,
        results=judged.results,
        measured=tuple(judged.recoveries),
    )


def need_all(checkers: Sequence[Checker]) -> list[str]:
    """The checkers, of plug-ins, that judge nothing but a history in memory, by name."""
    own = {kind.checker.name for kind in current().checkers.values()}
    return [c.name for c in checkers if c.name in own and not isinstance(c, Keyed)]


def _table_of(path: Path) -> Path | None:
    """The table that says what a run's journal does; None: the journal is to be read."""
    from maxq.histories.lines.journal import recorded  # numpy

    table = whole_table(path)
    if table is None:
        return None
    with suppress(HistoryError):
        return table if recorded(path / JOURNAL) == rows_of(table) else None
    return None


def table_source(path: Path) -> Source:
    """A table's history.

    Raises:
        HistoryError: the file is damaged.
    """
    report = ReadReport(count=rows_of(path), complete=True)
    return Source(report, _Kept(path), path)


class _Kept:
    """The batches of a table, which are read again and again; kept from the first reading on where
    they are few."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._batches: list[pa.RecordBatch] | None = None

    def __call__(self) -> Iterator[pa.RecordBatch]:
        return self._read() if self._batches is None else iter(self._batches)

    def _read(self) -> Iterator[pa.RecordBatch]:
        kept: list[pa.RecordBatch] = []
        room = KEPT_BYTES
        for batch in read_coded(self._path, READ):
            room -= batch.nbytes
            if room >= 0:
                kept.append(batch)
            else:
                kept.clear()
            yield batch
        if room >= 0:
            self._batches = kept


@contextmanager
def source_of(path: Path, *, allow_truncated: bool) -> Iterator[Source]:
    """A file's history, for the length of a block.

    Raises:
        HistoryError: it is damaged, or its suffix is unknown.
    """
    if path.suffix == ".parquet":
        yield table_source(path)
        return
    from maxq.histories.lines.spool import spool  # numpy

    with spool() as rows:
        if path.suffix == ".jsonl":
            from maxq.histories.lines.journal import spool_journal

            report = spool_journal(path, rows, allow_truncated=allow_truncated)
        elif path.suffix == ".edn":
            from maxq.histories.lines.jepsen import spool_edn

            report = spool_edn(path, rows)
        else:
            raise HistoryError(unknown_suffix(path))
        yield Source(report, rows.batches)


def by_columns(source: Source, checkers: Sequence[Checker], context: Context) -> dealt.Judged:
    """Judge a history in this process, batch by batch."""
    from maxq.checkers.judgement.by_columns import judge_batches  # numpy

    return judge_batches(source.batches, dealt.Request(checkers, context))


def on_spark(
    source: Source, checkers: Sequence[Checker], context: Context, *, master: str
) -> dealt.Judged:
    """Judge a history by tasks of Spark, which reads a table."""
    with _as_table(source) as table:
        return _table_on_spark(table, dealt.Request(checkers, context), master)


def _table_on_spark(table: Path, request: dealt.Request, master: str) -> dealt.Judged:
    from maxq.spark_checkers.engine import judge_runs
    from maxq.spark_checkers.events import read_events

    check_pages(table)
    rows = rows_of(table)
    with session.spark_session(master) as spark:
        cores = spark.sparkContext.defaultParallelism
        partitions = max(1, min(TASKS_A_CORE * cores, rows // ROWS_A_TASK))
        spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
        events, (run,) = read_events(spark, [table])
        return judge_runs(events, {run: request}, partitions=partitions)[run]


@contextmanager
def _as_table(source: Source) -> Iterator[Path]:
    """A history as an events table, for the length of a block."""
    if source.table is not None:
        yield source.table
        return
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder, "history.parquet")
        ops = [op_of_row(row) for batch in source.batches() for row in batch.to_pylist()]
        table.write_bytes(encode_parquet(ops, run_id="history"))
        yield table
