"""Both engines on the same histories: many of them in one job, cut in any way."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
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
    """Judge all cases in one job, each from a table of so many row groups, or
    of so many parts."""
    tables = {}
    for number, (name, case) in enumerate(cases.items()):
        table = events_table(case.history.ops, run_id=name)
        path = folder / f"{number}.parquet"
        rows = max(1, -(-table.num_rows // groups))
        if number % 2 and _rising(table):
            _write_parts(table, path, rows)
        else:
            pq.write_table(table, path, row_group_size=rows)
        tables[name] = Table(path, Request(every_checker(), case.context))
    judged = judge_runs(spark, tables, tasks=6, partitions=partitions)
    return {name: each.results for name, each in judged.items()}


def _rising(table: pa.Table) -> bool:
    """Parts would be put in order of their indices."""
    index = table["index"].to_numpy()
    return bool((index[1:] > index[:-1]).all())


def _write_parts(table: pa.Table, folder: Path, rows: int) -> None:
    """As a folder of parts with so many rows, the first of which has the last name."""
    folder.mkdir()
    for begin in range(0, max(1, table.num_rows), rows):
        path = folder / f"part-{table.num_rows - begin:09d}.parquet"
        pq.write_table(table.slice(begin, rows), path)


LAYOUTS: Sequence[tuple[int, int, int]] = ((0, 3, 5), (1, 16, 2))
