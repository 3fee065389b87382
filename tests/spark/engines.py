"""Both engines on the same histories: many of them in one job, in any partitioning and order."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from engine_cases import Case

from maxq.checkers.judgement.dealt import Request
from maxq.checkers.judgement.runner import Results
from maxq.harness.run.judging import every_checker
from maxq.histories.tables import events_table
from maxq.spark_checkers.engine import judge_runs


def judged_on_spark(
    spark: Any, folder: Path, cases: Mapping[str, Case], *, partitions: int, seed: int | None
) -> dict[str, Results]:
    """Judge all cases in one job; `seed` shuffles the rows of the file."""
    tables = [events_table(case.history.ops, run_id=name) for name, case in cases.items()]
    table = pa.concat_tables(tables)
    if seed is not None:
        order = list(range(table.num_rows))
        Random(seed).shuffle(order)
        table = table.take(pa.array(order, pa.int64()))
    path = folder / f"events-{partitions}-{seed}.parquet"
    pq.write_table(table, path, row_group_size=max(1, table.num_rows // 5))
    events = spark.read.parquet(str(path)).repartition(partitions)
    requests = {name: Request(every_checker(), case.context) for name, case in cases.items()}
    judged = judge_runs(events, requests, partitions=partitions)
    return {name: each.results for name, each in judged.items()}


LAYOUTS: Sequence[tuple[int, int | None]] = ((1, None), (16, 8))
