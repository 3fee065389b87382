"""Runs of any form and length, put into one dataset cut in any way: the same rows in the same
order, and the same verdicts, to the word."""

from collections.abc import Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

from maxq.checkers.judgement.digest import digest
from maxq.checkers.judgement.runner import Results
from maxq.harness.run.piecewise import Source, by_columns, source_in, source_of
from maxq.harness.run.rejudge import CONTEXT, checkers_for
from maxq.harness.run.several.compacting import compact
from maxq.harness.run.several.given import given_by
from maxq.histories.datasets import writing
from maxq.histories.datasets.manifest import damaged_parts, read_manifest
from maxq.histories.jsonl import JournalWriter
from maxq.histories.op import Op
from maxq.histories.parquet import nullable, read_batches
from maxq.histories.tables import EVENTS, events_table, ops_from_events
from maxq.workloads.generated.asked.request import Request
from maxq.workloads.generated.memory import made

CHECKERS = checkers_for(["queue"])
PLANTED: tuple[dict[str, int], ...] = ({"lost-write": 1, "phantom": 1}, {"lost-tail": 1}, {})
FORMS = ("ended", "killed", "table", "parts", "shuffled")


@cache
def ops_of(number: int) -> tuple[Op, ...]:
    request = Request(workload="queue", ops=40, anomalies=PLANTED[number], seed=number)
    return tuple(made(request).ops)


def written(folder: Path, name: str, number: int, form: str, share: float) -> Path:
    """A history, or its first part, as a file."""
    ops = ops_of(number)[: round(share * len(ops_of(number)))]
    if form in ("ended", "killed"):
        journal = JournalWriter(folder / f"{name}.jsonl")
        for op in ops:
            journal.append(op)
        if form == "ended":
            journal.close()
        journal.abandon()  # which says nothing of one that is closed
        return journal.path
    table = events_table(ops, run_id=name)
    path = folder / f"{name}.parquet"
    if form == "shuffled":
        table = table.sort_by([("index", "descending")])
    if form == "parts" and len(table):
        path = folder / name
        path.mkdir()
        half = len(table) // 2
        pq.write_table(table.slice(half), path / "a.parquet", row_group_size=7)
        pq.write_table(table.slice(0, half), path / "b.parquet")
    else:
        pq.write_table(table, path)
    return path


def judged(source: Source) -> tuple[Results, Sequence[str]]:
    found = by_columns(source, CHECKERS, CONTEXT)
    return found.results, [row.text() for row in digest(found.history, found.results)]


def judged_file(path: Path) -> tuple[Results, Sequence[str]]:
    with source_of(path, allow_truncated=False) as source:
        return judged(source)


@given(
    runs=st.lists(
        st.tuples(
            st.integers(0, len(PLANTED) - 1), st.sampled_from(FORMS), st.sampled_from([0, 0.4, 1])
        ),
        min_size=1, max_size=3,
    ),
    rows=st.integers(5, 60),
    groups=st.integers(1, 6),
    size=st.sampled_from([1 << 10, 1 << 25]),
)  # fmt: skip
@settings(max_examples=15, deadline=None)
def test_runs_in_a_dataset_are_those_that_were_put_into_it(
    runs: list[tuple[int, str, float]], rows: int, groups: int, size: int
) -> None:
    with TemporaryDirectory() as name, ExitStack() as cut:
        folder = Path(name)
        for what, value in (
            ("ROW_GROUP_ROWS", rows),
            ("GROUPS_MAX", groups),
            ("GROUP_BYTES", size),
        ):
            cut.enter_context(mock.patch.object(writing, what, value))
        paths = [written(folder, f"run-{n}", *run) for n, run in enumerate(runs)]

        compact(given_by(paths), folder / "d", lambda done: None)

        manifest = read_manifest(folder / "d")
        assert damaged_parts(folder / "d", manifest) == {}
        for path, run, (number, form, share) in zip(paths, manifest.runs, runs, strict=True):
            ops = ops_of(number)[: round(share * len(ops_of(number)))]
            files = manifest.files(folder / "d", run)
            table = pa.Table.from_batches(read_batches(files), nullable(EVENTS.names))
            assert ops_from_events(table) == ops
            assert table["pair"].to_pylist() == events_table(ops, run_id="r")["pair"].to_pylist()
            assert set(table["run_id"].to_pylist()) <= {f"run-{paths.index(path)}"}
            assert run.report.complete is (form != "killed")
            assert judged(source_in(files, run.report)) == judged_file(path)


def test_what_is_planted_is_found() -> None:
    """Else the other test would compare little."""
    with TemporaryDirectory() as name:
        for number, planted in enumerate(PLANTED):
            results, _ = judged_file(written(Path(name), str(number), number, "table", 1))
            found = {a.name for v in results.verdicts for a in v.anomalies}
            assert found >= {*planted}
            assert bool(found) is bool(planted)
