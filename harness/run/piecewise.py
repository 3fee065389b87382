"""Judging a stored history, which is not held in memory: by columns, or on Spark.

The verdicts are the same. Only for a checker of a plug-in that can judge nothing less, all of the
operations are held (`_held`).

A table is read in pieces. Of a journal, and of a history of Jepsen, the rows are spooled first,
without their operations. A run's table is taken for its journal only while that is as it was
recorded: the journal is what happened.
"""

import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager, suppress
from errno import ENOMEM
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import pyarrow as pa

from maxq.checkers.availability.recovery import recoveries
from maxq.checkers.core.api import Checker, Context
from maxq.checkers.core.keyed import Keyed
from maxq.checkers.judgement.piecewise import dealt
from maxq.checkers.judgement.runner import check_all
from maxq.harness.contracts.plugins import current
from maxq.harness.contracts.terminal import echo
from maxq.harness.run.judging import checkers_of, context_as_found
from maxq.harness.run.process.memory import within
from maxq.harness.run.process.passes import Passes
from maxq.harness.run.process.room import is_full
from maxq.harness.run.process.workers import processes
from maxq.harness.run.rejudge import unknown_suffix
from maxq.harness.run.stored_run import Judged, options_of
from maxq.harness.schedule.options import Options
from maxq.histories.history import History, PartHistory
from maxq.histories.jsonl import ReadReport
from maxq.histories.lines.whole_table import order_of
from maxq.histories.op import HistoryError
from maxq.histories.parquet import (
    JUDGED,
    TIMED,
    Files,
    files_of,
    open_table,
    pieces_of,
    read_coded,
    rows_of,
)
from maxq.histories.store import JOURNAL, StoredRun, open_part, unrecorded, whole_table
from maxq.histories.tables import EVENTS, Values
from maxq.spark_checkers import session

if TYPE_CHECKING:
    from maxq.histories.columns.outline import Reading
    from maxq.histories.lines.spool import Spool

KEPT_BYTES = 192 << 20


class Source(NamedTuple):
    """A history on disk, found as `report` says: `batches` gives its rows, as often as it is
    called, and `timed` the same without what operations say, where that is quicker. `table` is the
    events table that has them; None: there is none, and its rows are gone after its block.
    `passes` hears of each step of a judgement."""

    report: ReadReport
    batches: "Reading"
    timed: "Reading | None" = None
    table: Files | None = None
    passes: Passes = Passes()

    def with_progress(self, passes: Passes) -> "Source":
        """The same, which says how far it is read."""
        counted = passes.counted(self.batches, self.report.count)
        return self._replace(batches=counted, passes=passes)

    def concurrency(self) -> int | None:
        """How many clients there were at a time; None of a table, which is not read for that."""
        from maxq.histories.lines.spool import concurrency_of  # numpy

        return concurrency_of(self.batches(None)) if self.table is None else None


class Asked(NamedTuple):
    """A history, and by whom it is judged."""

    source: Source
    checkers: Sequence[Checker]
    context: Context


JudgeSource = Callable[[Source, Sequence[Checker], Context], dealt.Judged]


def judge_run(
    path: Path, judge: JudgeSource, *, allow_truncated: bool, passes: Passes | None = None
) -> Judged:
    """Judge a stored run.

    Args:
        path: its folder.
        judge: `by_columns`, or `on_spark` with a master.
        allow_truncated: whether the readable part of a damaged history is enough.
        passes: hears how far it is.

    Raises:
        HistoryError: the history is unreadable, or the options are.
        SparkMissing: no session of Spark can be started.
        SparkFailed: a job of Spark came to no end.
    """
    path, passes = path.resolve(), passes or Passes()
    if (source := table_instead(path)) is not None:
        with suppress(HistoryError):  # a damaged table is no damaged history
            return _judged(path, source.with_progress(passes), judge)
    with recorded_source(path, allow_truncated=allow_truncated) as source:
        return _judged(path, source.with_progress(passes), judge)


def table_instead(path: Path) -> Source | None:
    """The table of a run's folder where it says what the journal does; None: there is none."""
    table = _table_of(path) if (path / JOURNAL).exists() else None
    return None if table is None else table_source(table)


@contextmanager
def recorded_source(path: Path, *, allow_truncated: bool) -> Iterator[Source]:
    """The history of a run's folder by its journal, where it has one, for the length of a block.

    Raises:
        HistoryError: it is damaged, or the folder is no run's.
    """
    file = path / JOURNAL if (path / JOURNAL).exists() else whole_table(path)
    if file is None:  # it died before its first operation
        yield nothing_in(unrecorded(path))
        return
    with source_of(file, allow_truncated=allow_truncated) as source:
        yield source


def nothing_in(report: ReadReport) -> Source:
    """A history without operations."""
    return Source(report, lambda _: iter(()))


def _judged(path: Path, source: Source, judge: JudgeSource) -> Judged:
    stored = open_part(path, History(()), source.report)
    options = options_of(stored)
    context = context_as_found(options, source.report)
    judged = judge(source, checkers_of(options), context)
    return verdict_on(stored, options, judged)


def verdict_on(stored: StoredRun, options: Options, judged: dealt.Judged) -> Judged:
    """Put a verdict on a run together."""
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


def _said(whole: Sequence[str]) -> str:
    return f"checker {', '.join(whole)} of a plug-in takes all operations at once"


def _held(source: Source, checkers: Sequence[Checker], context: Context) -> dealt.Judged:
    """Judge a history in memory."""
    values = Values()
    batches = source.batches(None)
    history = History(op for batch in batches for op in values.ops_of(batch))
    results = check_all(history, checkers, context)
    return dealt.Judged(results, history, recoveries(history))


def _table_of(path: Path) -> Path | None:
    """The table that says what a run's journal does; None: the journal is to be read."""
    from maxq.histories.lines.journal import recorded  # numpy

    table = whole_table(path)
    if table is None:
        return None
    with suppress(HistoryError):
        same = recorded(path / JOURNAL) == rows_of(table)
        return table if same and _in_order(table) else None
    return None


def table_source(path: Path) -> Source:
    """The history of a table, one file or parts, whose rows lie in order.

    Raises:
        HistoryError: a file is damaged.
    """
    files = files_of(path.absolute())
    return source_in(files, ReadReport(count=rows_of(files), complete=True))


def source_in(files: Files, report: ReadReport) -> Source:
    """The history of some files, whose rows lie in order."""
    return Source(report, _Kept(files), partial(read_coded, files, TIMED), files)


def _in_order(path: Path) -> bool:
    """Whether a table may be read as it lies.

    Raises:
        HistoryError: a file is damaged.
    """
    return order_of(files_of(path)).ascending


class _Kept:
    """The pieces of a table, which are read again and again. All are kept from the first reading on
    where they are few; else those that somebody asks for, as who looks something up asks for the
    same ones several times."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._kept: dict[int, pa.RecordBatch] = {}
        self._room = KEPT_BYTES
        self._seen = False  # whether all were read once

    def __call__(self, pieces: Collection[int] | None = None) -> Iterator[pa.RecordBatch]:
        if pieces is None and not self._seen:
            return self._all()
        return self._some(range(sum(pieces_of(self._files))) if pieces is None else sorted(pieces),
                          asked=pieces is not None)  # fmt: skip

    def _all(self) -> Iterator[pa.RecordBatch]:
        kept: dict[int, pa.RecordBatch] = {}
        room = KEPT_BYTES
        for number, batch in enumerate(read_coded(self._files, JUDGED)):
            room -= batch.nbytes
            if room >= 0:
                kept[number] = batch
            else:
                kept.clear()
            yield batch
        self._seen = True
        if room >= 0:
            self._kept, self._room = kept, 0

    def _some(self, numbers: Sequence[int], *, asked: bool) -> Iterator[pa.RecordBatch]:
        missing = {number for number in numbers if number not in self._kept}
        read = read_coded(self._files, JUDGED, missing)
        for number in numbers:
            batch = self._kept.get(number)
            if batch is None:
                batch = next(read)
                takes = batch.get_total_buffer_size()  # with what its slices share
                if asked and takes <= self._room:
                    self._kept[number] = batch
                    self._room -= takes
            yield batch


@contextmanager
def source_of(path: Path, *, allow_truncated: bool) -> Iterator[Source]:
    """The history of a file, or of a table in parts, for the length of a block.

    Raises:
        HistoryError: it is damaged, or its suffix is unknown.
    """
    table = path.is_dir() or path.suffix == ".parquet"
    if table and not allow_truncated and _in_order(path):
        yield table_source(path)
        return
    from maxq.histories.lines.spool import spool  # numpy

    with spool() as rows:
        with _said_if_full():
            report = _spooled(path, rows, table=table, allow_truncated=allow_truncated)
        yield Source(report, rows.batches)


def _spooled(path: Path, rows: "Spool", *, table: bool, allow_truncated: bool) -> ReadReport:
    if table:
        from maxq.histories.lines.whole_table import spool_table

        return spool_table(path, rows, allow_truncated=allow_truncated)
    if path.suffix == ".jsonl":
        from maxq.histories.lines.journal import spool_journal

        return spool_journal(path, rows, allow_truncated=allow_truncated)
    if path.suffix == ".edn":
        from maxq.histories.lines.jepsen import spool_edn

        return spool_edn(path, rows, allow_truncated=allow_truncated)
    raise HistoryError(unknown_suffix(path))


def by_columns(
    source: Source, checkers: Sequence[Checker], context: Context, *, memory: int = 0, jobs: int = 1
) -> dealt.Judged:
    """Judge a history batch by batch: in this process, or with several `jobs` by as many others;
    `memory` is what each of them may take (bytes; 0: as much as there is).

    Raises:
        HistoryError: a row is no operation, or a checker needs all of them, whatever they take.
    """
    if whole := need_all(checkers):
        if memory or jobs > 1:
            raise HistoryError(f"{_said(whole)}: leave out --memory and --jobs")
        return _held(source, checkers, context)
    from maxq.checkers.judgement.piecewise.by_columns import judge_batches  # numpy

    request = dealt.Request(checkers, context)
    begins = source.passes.begins
    with _said_if_full():
        if jobs > 1:
            return _by_processes(source, request, memory, jobs)
        judged = judge_batches(source.batches, request, within(memory), source.timed, begins)
        return _with_times(judged, source)


def _by_processes(source: Source, request: dealt.Request, memory: int, jobs: int) -> dealt.Judged:
    from maxq.harness.run.process.by_processes import Workers, judge_table  # numpy

    with _said_if_lost(), _as_table(source) as table, processes(jobs) as pool:
        workers = Workers(pool, jobs, within(memory), source.passes.shared)
        judged = judge_table(table, request, workers, source.passes.begins)
        return _with_times(judged, source)  # while the table is there


@contextmanager
def _said_if_lost() -> Iterator[None]:
    """A process that others have ended is one sentence."""
    try:
        yield
    except BrokenProcessPool:
        why = ("a worker process ended in mid-work, as the system ends what takes too much memory: "
               "take fewer --jobs, or less --memory for each")  # fmt: skip
        raise OSError(ENOMEM, why) from None


@contextmanager
def _said_if_full() -> Iterator[None]:
    """A full disk is one where rows are kept."""
    try:
        yield
    except OSError as error:
        if not is_full(error):
            raise
        why = "the disk is full where a judgement keeps rows (TMPDIR)"
        raise OSError(error.errno, why, tempfile.gettempdir()) from error


def _with_times(judged: dealt.Judged, source: Source) -> dealt.Judged:
    """The same, its times counted now where its rows will be gone."""
    history = judged.history
    if source.table is None and isinstance(history, PartHistory) and history.timings is not None:
        history.timings()
    return judged


def on_spark(
    source: Source,
    checkers: Sequence[Checker],
    context: Context,
    *,
    master: str,
    words: session.Hear = session.unheard,
    conf: session.Conf = session.NO_CONF,
) -> dealt.Judged:
    """Judge a history by tasks of Spark, which reads a table; `words` hears what Spark wrote, and
    `conf` is more of its configuration. What needs all operations is judged here."""
    asked = Asked(source, checkers, context)
    return together_on_spark([asked], master=master, words=words, conf=conf)[0]


def together_on_spark(
    asked: Sequence[Asked],
    *,
    master: str,
    words: session.Hear = session.unheard,
    conf: session.Conf = session.NO_CONF,
) -> list[dealt.Judged]:
    """Judge histories, all in the same jobs; the rest as `on_spark`."""
    from maxq.spark_checkers.engine import Table, judge_on

    found: dict[str, dealt.Judged] = {}
    tables: dict[str, Table] = {}
    with ExitStack() as stack:
        for number, (source, checkers, context) in enumerate(asked):
            if whole := need_all(checkers):
                echo(f"{_said(whole)}: judged here, without Spark", err=True)
                found[str(number)] = _held(source, checkers, context)
                continue
            table = stack.enter_context(_as_table(source))
            tables[str(number)] = Table(table, dealt.Request(checkers, context))
        if tables:
            spark = stack.enter_context(session.spark_context(master, words, conf))
            passes = asked[0].source.passes
            passes.done_by(partial(session.tasks_of, spark))
            found |= judge_on(spark, tables, passes.begins)
        return [_with_times(found[str(n)], one.source) for n, one in enumerate(asked)]


@contextmanager
def _as_table(source: Source) -> Iterator[Files]:
    """A history as an events table, for the length of a block."""
    if source.table is not None:
        yield source.table
        return
    with tempfile.TemporaryDirectory(prefix="maxq-") as folder:
        table = Path(folder, "history.parquet")
        with open_table(table) as writer:
            for batch in source.batches(None):
                writer.write_batch(_as_events(batch))
        yield files_of(table)


def _as_events(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Rows of a spool as those of a table; what no judge reads is left out."""
    unread: dict[str, Any] = {
        "run_id": pa.repeat("", len(batch)),
        "pair": pa.repeat(-1, len(batch)),
    }
    columns: list[Any] = [unread[n] if n in unread else batch[n] for n in EVENTS.names]
    arrays = [column.cast(field.type) for column, field in zip(columns, EVENTS, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=EVENTS)
