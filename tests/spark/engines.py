"""Both engines on the same histories: many of them in one job, cut in any way."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from engine_cases import Case

from maxq.checkers.judgement.piecewise.dealt import Request
from maxq.checkers.judgement.runner import Results
from maxq.harness.run.judging import every_checker
from maxq.histories.tables import events_table
from maxq.spark_checkers.engine import Table, judge_runs


def judged_on_spark(
    spark: Any, folder: Path, cases: Mapping[str, Case], *, partitions: int, groups: int
) -> dict[str, Results]:
    """Judge all cases in one job, each from a table of so many row groups."""
    tables = {}
    for number, (name, case) in enumerate(cases.items()):
        table = events_table(case.history.ops, run_id=name)
        path = folder / f"{number}.parquet"
        pq.write_table(table, path, row_group_size=max(1, -(-table.num_rows // groups)))
        tables[name] = Table(path, Request(every_checker(), case.context))
    judged = judge_runs(spark, tables, tasks=6, partitions=partitions)
    return {name: each.results for name, each in judged.items()}


LAYOUTS: Sequence[tuple[int, int, int]] = ((0, 3, 5), (1, 16, 2))
