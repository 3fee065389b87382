"""Many made-up runs in one dataset: `maxq check` says of each what it says of it alone, to the
byte, on Spark and without; also where what is wrong lies at the edge of what is read at a time."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from spark_fixture import spark

from maxq.checkers.judgement.piecewise.dealt import Request
from maxq.checkers.judgement.runner import Results, check_all
from maxq.harness.cli import stored_runs
from maxq.harness.cli.main import run_cli
from maxq.harness.run import stored_run
from maxq.harness.run.judging import checkers_of
from maxq.harness.schedule.generated import options_of
from maxq.histories.datasets import writing
from maxq.histories.history import History
from maxq.histories.op import Op
from maxq.histories.tables import events_table
from maxq.spark_checkers.engine import Table, judge_runs
from maxq.workloads.generated.asked.kinds import KINDS, WORKLOADS
from maxq.workloads.generated.asked.request import Refusal
from maxq.workloads.generated.asked.request import Request as Wanted
from maxq.workloads.generated.memory import made

__all__ = ("spark",)  # the fixture; pytest finds it here

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

Told = Callable[..., tuple[int, str]]
LONG = (pytest.mark.campaign, pytest.mark.timeout(3_000))
ROWS, GROUPS = 300, 3  # of a row group, and of a part: a run has several parts, or shares one
EDGES = ("first of a part", "last of a part", "first of a row group", "last of a row group")


def wanted(seed: int) -> Wanted:
    """In turn a correct history, and one with the next kind of anomaly."""
    kind = [*KINDS.values()][seed // 2 % len(KINDS)]
    workloads = sorted(kind.workloads) if seed % 2 else list(WORKLOADS)
    return Wanted(
        workload=workloads[seed % len(workloads)],
        ops=(40, 80, 160)[seed % 3],
        concurrency=4,
        anomalies={kind.name: 1} if seed % 2 else {},
        seed=seed,
    )


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str]) -> Told:
    def run(*argv: object) -> tuple[int, str]:
        capsys.readouterr()
        code = run_cli([str(a) for a in argv])
        return code, capsys.readouterr().out

    return run


def stored(told: Told, folder: Path, number: int) -> list[Path]:
    """The folders of so many runs, as a user makes them; not each request can be met."""
    found: list[Path] = []
    for seed in count(1):
        run, asked = folder / f"r{seed:05}", wanted(seed)
        words = ["--workload", asked.workload, "--ops", asked.ops, "--concurrency", 4]
        planted = [f"{name}={n}" for name, n in asked.anomalies.items()]
        words += ["--anomalies", *planted] if planted else []
        if told("generate-history", *words, "--seed", seed, "--out", run)[0] == 0:
            found.append(run)
        if len(found) == number:
            break
    return found


def judged_alone(told: Told, run: Path) -> Mapping[str, Any]:
    """What is said of a run."""
    return {**json.loads(told("check", run, "--json")[1]), "report": None}


@pytest.mark.parametrize("number", [40, pytest.param(2_000, marks=LONG)])
def test_each_run_of_a_dataset_is_judged_as_alone_by_both_engines(
    spark: Any, tmp_path: Path, told: Told, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr(writing, "ROW_GROUP_ROWS", ROWS)
    monkeypatch.setattr(writing, "GROUPS_MAX", GROUPS)
    monkeypatch.setattr(stored_runs, "TOGETHER", number)  # all in the same jobs
    monkeypatch.setattr(
        stored_run.Judged, "with_report", lambda judged: judged
    )  # none of a dataset
    runs, season = stored(told, tmp_path, number), tmp_path / "season"
    assert told("compact", *runs, "--out", season)[0] == 0

    here = told("check", season, "--json")
    documents = [{**json.loads(line), "report": None} for line in here[1].splitlines()]
    assert documents == [judged_alone(told, run) for run in runs]
    invalid = sum(document["valid"] is False for document in documents)
    assert number // 4 < invalid < number * 3 // 4

    assert told("check", season, "--engine", "spark", "--json") == here
    assert told("check", season, "--engine", "spark") == told("check", season)


class Planted(NamedTuple):
    """A history, an operation that shows what is wrong with it, and what is said of it."""

    ops: Sequence[Op]
    at: int
    request: Request
    expected: Results


def planted() -> Iterator[Planted]:
    """Histories in which what was planted is found."""
    for asked in map(wanted, count(1, 2)):
        try:
            one = made(asked)
        except Refusal:
            continue
        options = options_of(asked, one.outcome.main_ns, learners=asked.learners, trims=asked.trims)
        request = Request(checkers_of(options), options.context())
        expected = check_all(History(one.ops), *request)
        cited = {at for v in expected.verdicts for a in v.anomalies for at in a.ops}
        mine = [at for plant in one.planted for at in plant.ops if at in cited]
        if mine:
            yield Planted(one.ops, mine[0], request, expected)


def cut(case: Planted, folder: Path, edge: str) -> Path:
    """A table in which the operation has that place."""
    table = events_table(case.ops, run_id="r")
    before = [op.index for op in case.ops].index(case.at)
    before += edge.startswith("last")  # so many rows are before the cut
    parts = [table.slice(0, before), table.slice(before)]
    folder.mkdir()
    if edge.endswith("part"):
        for number, part in enumerate(parts):
            pq.write_table(part, folder / f"part-{number}.parquet")
        return folder
    with pq.ParquetWriter(folder / "all.parquet", table.schema) as out:
        for part in parts:
            _write(out, part)
    return folder


def _write(out: pq.ParquetWriter, part: pa.Table) -> None:
    if part.num_rows:
        out.write_table(part, row_group_size=part.num_rows)


@pytest.mark.parametrize("number", [24, pytest.param(200, marks=LONG)])
def test_what_is_wrong_is_found_at_the_edges_of_what_is_read_at_a_time(
    spark: Any, tmp_path: Path, number: int
) -> None:
    cases = [case for case, _ in zip(planted(), range(number), strict=False)]
    tables = {
        f"{at}": Table(cut(case, tmp_path / f"{at}", EDGES[at % len(EDGES)]), case.request)
        for at, case in enumerate(cases)
    }
    # A queue is the first of its bucket, the last one, or alone there.
    for partitions in (1, 2, 5):
        found = judge_runs(spark, tables, tasks=6, partitions=partitions)
        for at, case in enumerate(cases):
            assert found[f"{at}"].results == case.expected, EDGES[at % len(EDGES)]
