"""`maxq check DIR --engine spark`: all runs in the same jobs, each judged as without Spark."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from run_folders import history, stored
from spark_fixture import spark

from maxq.harness.cli import stored_runs
from maxq.harness.cli.main import run_cli
from maxq.histories.datasets import writing
from maxq.histories.store import JOURNAL, PARQUET
from maxq.histories.tables import EVENTS
from maxq.spark_checkers import engine

__all__ = ("spark",)  # the fixture; pytest finds it here

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

Said = tuple[int, str]
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of all kinds, so that some row groups, parts and jobs have several and some none."""
    store = tmp_path_factory.mktemp("several") / "runs"
    stored(store, history(40), 0)
    stored(store, history(30, lost=True), 1)
    stored(store, history(20)[:-3], 2, ended=False)
    (stored(store, [], 3, ended=False) / JOURNAL).unlink()
    stored(store, [], 4)
    (stored(store, history(25, lost=True), 5) / PARQUET).unlink()
    return store


@pytest.fixture(scope="module")
def dataset(store: Path) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writing, "ROW_GROUP_ROWS", 20)
        patch.setattr(writing, "GROUPS_MAX", 3)
        out = store.with_name("season")
        assert run_cli(["compact", str(store), "--out", str(out)]) == 0
    assert len([*out.glob("part-*.parquet")]) > 3
    return out


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    def run(*argv: object) -> Said:
        capsys.readouterr()
        code = run_cli([str(a) for a in argv])
        return code, capsys.readouterr().out

    return run


@pytest.fixture
def together(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many runs each call of Spark's judge was given."""
    found: list[int] = []
    real = engine.judge_on

    def counted(context: Any, tables: Any, *more: Any) -> Any:
        found.append(len(tables))
        return real(context, tables, *more)

    monkeypatch.setattr(engine, "judge_on", counted)
    return found


def test_all_runs_of_a_dataset_are_judged_in_the_same_jobs(
    spark: Any, dataset: Path, told: Callable[..., Said], together: list[int]
) -> None:
    here = told("check", dataset, "--json")
    assert here[0] == 1
    assert [json.loads(line)["valid"] for line in here[1].splitlines()].count(False) == 2

    assert told("check", dataset, "--engine", "spark", "--json") == here
    assert told("check", dataset, "--engine", "spark") == told("check", dataset)
    assert together == [6, 6]


def test_so_many_at_a_time_as_the_driver_holds(
    spark: Any, dataset: Path, told: Callable[..., Said], together: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(stored_runs, "TOGETHER", 4)
    here = told("check", dataset, "--json")
    assert told("check", dataset, "--engine", "spark", "--json") == here
    assert together == [4, 2]


def test_a_store_is_judged_so_as_well(
    spark: Any, store: Path, told: Callable[..., Said], together: list[int]
) -> None:
    here = told("check", store, "--json")
    assert told("check", store, "--engine", "spark", "--json") == here
    assert together == [6]


def test_a_table_that_is_damaged_in_a_store_is_no_damaged_history(
    spark: Any, tmp_path: Path, told: Callable[..., Said], together: list[int]
) -> None:
    """All are judged one by one then: Spark does not say which it was."""
    for number in range(2):
        path = stored(tmp_path, history(40, lost=True), number)
    table = path / PARQUET
    texts: Any = pq.read_metadata(table).row_group(0).column(EVENTS.names.index("value"))
    data = bytearray(table.read_bytes())
    data[texts.data_page_offset + texts.total_compressed_size // 2] ^= 1
    table.write_bytes(data)
    here = told("check", tmp_path, "--json")
    assert here[0] == 1
    assert told("check", tmp_path, "--engine", "spark", "--json") == here
    assert together == [2, 1, 1]


def test_what_a_damaged_part_leaves_is_judged(
    spark: Any, dataset: Path, told: Callable[..., Said], together: list[int]
) -> None:
    part = dataset / "part-00000.parquet"
    data = part.read_bytes()
    part.write_bytes(data[:-9])
    assert told("check", dataset, "--engine", "spark") == (254, "")
    here = told("check", dataset, "--allow-truncated")
    assert told("check", dataset, "--engine", "spark", "--allow-truncated") == here
    assert 0 < together[0] < 6
    part.write_bytes(data)


@pytest.mark.parametrize("library", ["pyspark", "duckdb", "pandas"])
def test_the_queries_of_the_documents_run_as_they_stand(
    dataset: Path, tmp_path: Path, library: str
) -> None:
    pytest.importorskip(library)
    run_cli(["check", str(dataset), "--verdicts", str(tmp_path / "verdicts")])
    text = (ROOT / "docs" / "spark.md").read_text()
    [query] = [q for q in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if library in q]
    alone = {n: v for n, v in os.environ.items() if not n.startswith("PYSPARK_")}
    words = [sys.executable, "-c", query]
    done = subprocess.run(words, cwd=tmp_path, env=alone, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    assert re.search(r"reference|release", done.stdout.decode()), done.stdout
