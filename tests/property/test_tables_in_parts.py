"""However a table is cut into parts and row groups, and in whatever order parts and rows lie, it is
judged alike, to the word."""

from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maxq.checkers.judgement.digest import digest
from maxq.checkers.judgement.runner import Results, check_all
from maxq.harness.run.piecewise import by_columns, source_of
from maxq.harness.run.rejudge import CONTEXT, checkers_for, open_file
from maxq.histories.tables import events_table
from maxq.workloads.generated.asked.request import Request
from maxq.workloads.generated.memory import made

CHECKERS = checkers_for(["queue"])
PLANTED: tuple[dict[str, int], ...] = (
    {"lost-write": 1, "phantom": 1},
    {"lost-tail": 1, "nonmonotonic-poll": 1},
    {},
)
Said = tuple[Results, tuple[str, ...]]


@cache
def table_of(number: int) -> tuple[pa.Table, list[int]]:
    """A history, and the rows around which it may well be cut: where something is planted."""
    found = made(Request(workload="queue", ops=80, anomalies=PLANTED[number], seed=number))
    at = sorted({row for p in found.planted for op in p.ops for row in (op, op + 1)})
    return events_table(found.ops, run_id="r"), at or [1]


def judged(path: Path) -> Said:
    with source_of(path, allow_truncated=False) as source:
        found = by_columns(source, CHECKERS, CONTEXT)
        return found.results, tuple(row.text() for row in digest(found.history, found.results))


def judged_in_memory(path: Path) -> Results:
    return check_all(open_file(path).history, CHECKERS, CONTEXT)


@cache
def of_one_file(number: int) -> Said:
    with TemporaryDirectory() as folder:
        path = Path(folder, "one.parquet")
        pq.write_table(table_of(number)[0], path)
        return judged(path)


@pytest.mark.parametrize("number", range(len(PLANTED)))
def test_what_is_planted_is_found(number: int) -> None:
    """Else the other test would compare little."""
    found = {a.name for v in of_one_file(number)[0].verdicts for a in v.anomalies}
    assert found >= {*PLANTED[number]}
    assert bool(found) is bool(PLANTED[number])


@given(
    number=st.integers(0, len(PLANTED) - 1),
    places=st.lists(st.integers(0, 1000), max_size=4),
    near=st.lists(st.integers(0, 100), max_size=4),
    group=st.sampled_from([20, 100, 10_000]),
    names=st.randoms(use_true_random=False),
    shuffled=st.sampled_from(["no", "within parts", "all"]),
)
@settings(max_examples=50, deadline=None)
def test_a_table_in_parts_is_judged_as_in_one_file(
    number: int, places: list[int], near: list[int], group: int, names: Random, shuffled: str
) -> None:
    table, planted = table_of(number)
    random = np.random.default_rng(len(places))
    if shuffled == "all":
        table = table.take(random.permutation(len(table)))
    cuts = {n % len(table) for n in places} | {planted[n % len(planted)] for n in near}
    bounds = sorted({0, len(table), *cuts})
    calls = [f"part-{n:05d}.parquet" for n in range(len(bounds))]
    names.shuffle(calls)
    with TemporaryDirectory() as folder:
        for name, begin, end in zip(calls, bounds, bounds[1:], strict=False):
            rows = table.slice(begin, end - begin)
            if shuffled == "within parts":
                rows = rows.take(random.permutation(len(rows)))
            pq.write_table(rows, Path(folder, name), row_group_size=group)

        assert judged(Path(folder)) == of_one_file(number)
        assert judged_in_memory(Path(folder)) == of_one_file(number)[0]
