"""Judges histories on Spark: the same verdicts as `maxq.checkers.judgement.runner.check_all`.

Every run has its own plan (`judging_of`), and what all of them ask for at a time is one job: a
survey, which brings back what is small; one that deals all other rows out by key and judges each
key; and those that fetch what shows findings. Only what is small reaches this process.
"""

from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from maxq.checkers.judgement.piecewise.asks import (
    Ask,
    Deal,
    Each,
    Plan,
    Reread,
    Survey,
    named,
    silent,
)
from maxq.checkers.judgement.piecewise.by_columns import judging_of
from maxq.checkers.judgement.piecewise.dealt import Judged, Request
from maxq.checkers.judgement.piecewise.parts import (
    Part,
    grouped,
    looked_at,
    parts_of,
    surveyed,
)
from maxq.histories.op import without_cycles
from maxq.histories.parquet import TIMED, Files, files_of, pieces_of, read_coded, rows_of
from maxq.spark_checkers.jobs import Dealt, Look, OfRun, deal, each
from maxq.spark_checkers.session import failures

# What a task holds grows with neither the length of a table nor the number of its keys: a task
# reads so many rows at most, and one that judges keys has about as many as suffice for that.
TASKS_A_CORE, ROWS_A_TASK = 4, 4_000_000
ROWS_A_PARTITION, PARTITIONS_MAX = 500_000, 1024


class Table(NamedTuple):
    """A run's events table, a path or the files where they are known, and by whom it is judged."""

    table: Path | Files
    request: Request


def judge_on(
    context: Any, tables: Mapping[str, Table], begins: Callable[[str], None] = silent
) -> dict[str, Judged]:
    """Judge runs with as many tasks as suit a context and the length of their tables; the rest as
    `judge_runs`.

    Raises:
        SparkFailed: a job came to no end.
    """
    rows = sum(rows_of(table.table) for table in tables.values())
    tasks = max(TASKS_A_CORE * context.defaultParallelism, -(-rows // ROWS_A_TASK))
    enough = min(rows // ROWS_A_PARTITION, PARTITIONS_MAX)
    partitions = max(context.defaultParallelism, enough)
    with failures():
        return judge_runs(context, tables, tasks=tasks, partitions=partitions, begins=begins)


def judge_runs(
    context: Any,
    tables: Mapping[str, Table],
    *,
    tasks: int,
    partitions: int,
    begins: Callable[[str], None] = silent,
) -> dict[str, Judged]:
    """Judge runs, all in the same jobs.

    Args:
        context: Spark's.
        tables: by run.
        tasks: over how many tasks all pieces of all runs are dealt, at most.
        partitions: over how many tasks keys are dealt.
        begins: hears of each step, for people.

    Raises:
        HistoryError: a row is no operation.
    """
    runs = {name: _Run(name, table, tasks // len(tables)) for name, table in tables.items()}
    with without_cycles():
        while asks := [run.ask for run in runs.values() if run.ask is not None]:
            begins(next(filter(None, map(named, asks)), ""))
            _answer(context, runs, tasks, partitions)
    return {name: run.judged for name, run in runs.items() if run.judged is not None}


def _answer(context: Any, runs: Mapping[str, "_Run"], tasks: int, partitions: int) -> None:
    """Answer what every run asks for."""
    asked = {name: run.ask for name, run in runs.items() if run.ask is not None}
    parts = [(name, part, look) for name in asked for part, look in runs[name].parts_to_look_at()]
    found = each(context, [(part, look) for _, part, look in parts], tasks)
    answers: dict[str, list[Any]] = {name: [] for name in asked}
    for (name, _, _), of_part in zip(parts, found, strict=True):
        answers[name] += of_part
    dealt = {name: Dealt(ask.tasks, ask.by_rows)
             for name, ask in asked.items() if isinstance(ask, Deal)}  # fmt: skip
    pieces = [part for name in dealt for part in runs[name].all_parts()]
    of_keys = deal(context, pieces, dealt, tasks=tasks, partitions=partitions) if dealt else {}
    for name, ask in asked.items():
        match ask:
            case Deal():
                runs[name].told(of_keys[name])
            case Reread():
                runs[name].told(runs[name].reading)
            case _:
                runs[name].told(answers[name])


class _Run:
    """One run on its way to its verdicts. `ask` is what it wants to know; None: it is `judged`."""

    def __init__(self, name: str, table: Table, tasks: int) -> None:
        self.judged: Judged | None = None
        self._name = name
        own = table.table
        self._files = files_of(own.resolve()) if isinstance(own, Path) else own
        self._groups = grouped(pieces_of(self._files), max(1, tasks))
        self._plan: Plan[Judged] = judging_of(table.request)
        self.ask: Ask | None = next(self._plan)

    def reading(self, pieces: Collection[int] | None) -> Any:
        """Reads what happened when, here."""
        return read_coded(self._files, TIMED, pieces)

    def told(self, answer: Any) -> None:
        """Go on with an answer."""
        try:
            self.ask = self._plan.send(answer)
        except StopIteration as end:
            self.ask, self.judged = None, end.value

    def parts_to_look_at(self) -> list[tuple[OfRun, Look]]:
        """What each task is to look at, and how."""
        match self.ask:
            case Survey():
                found = [Part(self._files, own) for own in self._groups]
                return [(OfRun(self._name, part), surveyed) for part in found]
            case Each(look) as ask:
                return [(part, partial(looked_at, look)) for part in self._parts(ask)]
        return []

    def all_parts(self) -> list[OfRun]:
        """The pieces of which rows are dealt out."""
        return self._parts(self.ask) if isinstance(self.ask, Deal) else []

    def _parts(self, ask: Each | Deal) -> list[OfRun]:
        return [OfRun(self._name, part) for part in parts_of(ask, self._files, self._groups)]
