"""`maxq check` of a dataset and of a store: each run as alone, in a line, the worst exit code."""

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from run_folders import history, stored

from maxq.harness.cli.main import run_cli
from maxq.histories.datasets import writing
from maxq.histories.store import JOURNAL, PARQUET, REPORT, RESULTS, RESULTS_EDN


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Of each kind of run one: whole, INVALID, killed, dead before it began, without events."""
    store = tmp_path / "runs"
    stored(store, history(5), 0)
    stored(store, history(6, lost=True), 1)
    stored(store, history(4)[:-3], 2, ended=False)
    (stored(store, [], 3, ended=False) / JOURNAL).unlink()
    stored(store, [], 4)
    return store


@pytest.fixture
def dataset(store: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """In four parts; two runs have rows in two of them."""
    monkeypatch.setattr(writing, "ROW_GROUP_ROWS", 5)
    monkeypatch.setattr(writing, "GROUPS_MAX", 3)
    out = store.with_name("season")
    assert run_cli(["compact", str(store), "--out", str(out)]) == 0
    assert len([*out.glob("part-*.parquet")]) == 4
    return out


def runs_of(store: Path) -> list[Path]:
    return sorted(store.glob("queue/2*"))


def told(capsys: pytest.CaptureFixture[str], *argv: object) -> tuple[int, str, str]:
    capsys.readouterr()
    code = run_cli([str(a) for a in argv])
    return code, *capsys.readouterr()


def documents(text: str) -> list[Mapping[str, Any]]:
    """What is said of each run; only a run's folder has a page."""
    return [{**json.loads(line), "report": None} for line in text.splitlines()]


def alone(capsys: pytest.CaptureFixture[str], runs: Sequence[Path]) -> list[Mapping[str, Any]]:
    found = [json.loads(told(capsys, "check", run, "--json")[1]) for run in runs]
    return [{**one, "report": None} for one in found]


@pytest.mark.parametrize("options", [(), ("--jobs", "2"), ("--memory", "2GB")])
def test_each_run_of_a_dataset_is_judged_as_alone(
    options: Sequence[str], store: Path, dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = alone(capsys, runs_of(store))

    code, out, _ = told(capsys, "check", dataset, "--json", *options)

    assert documents(out) == expected
    assert [one["valid"] for one in expected] == ["unknown", False, *["unknown"] * 3]
    assert code == 1


def test_a_dataset_stands_without_the_folders_that_it_is_of(
    store: Path, dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = alone(capsys, runs_of(store))
    shutil.rmtree(store)
    moved = dataset.rename(tmp_path / "elsewhere")
    assert documents(told(capsys, "check", moved, "--json")[1]) == expected


def test_a_line_says_each_verdict_and_what_it_was_before(
    store: Path, dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = told(capsys, "check", dataset)
    lines = out.splitlines()
    names = [f"queue/{run.name}" for run in runs_of(store)]
    assert code == 1
    assert [line.partition(": ")[0] for line in lines] == [*names, "5 runs"]
    assert lines[1].startswith(f"{names[1]}: INVALID: At least 1 of 6 ")
    assert lines[1].endswith(" (was valid)")
    assert lines[2].endswith(" (judged as far as it is recorded)")
    assert lines[5] == "5 runs: 1 INVALID, 4 unknown"
    assert err == ""


def test_a_store_is_judged_run_by_run_and_verdicts_are_stored(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    by_name = [told(capsys, "check", run, "--json")[1] for run in runs_of(store)]
    results = [(run / RESULTS).read_bytes() for run in runs_of(store)]
    for run in runs_of(store):
        for name in (RESULTS, RESULTS_EDN, REPORT):
            (run / name).unlink()

    for path in (store, store / "queue"):
        code, out, _ = told(capsys, "check", path, "--json")
        assert code == 1
        assert [json.loads(line) for line in out.splitlines()] == [*map(json.loads, by_name)]
        assert [(run / RESULTS).read_bytes() for run in runs_of(store)] == results
        assert all((run / REPORT).exists() for run in runs_of(store))


def test_a_campaign_s_folder_means_its_runs(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    campaign = tmp_path / "nightly"
    campaign.mkdir()
    shutil.move(store, campaign / "runs")
    (campaign / "junit.xml").write_text("")
    assert told(capsys, "check", campaign)[1].splitlines()[-1] == "5 runs: 1 INVALID, 4 unknown"
    assert told(capsys, "compact", campaign, "--out", tmp_path / "d")[1].startswith(
        f"{tmp_path / 'd'}: 5 runs, 2 of which did not end properly; "
    )


def test_a_damaged_table_in_a_store_is_no_damaged_history(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = runs_of(store)[1]
    expected = told(capsys, "check", run, "--json")[1]
    data = bytearray((run / PARQUET).read_bytes())
    data[len(data) // 2] ^= 1
    (run / PARQUET).write_bytes(data)
    assert documents(told(capsys, "check", store, "--json")[1])[1] == {
        **json.loads(expected), "report": None,
    }  # fmt: skip


def test_a_damaged_journal_in_a_store_is_named(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = runs_of(store)[1]
    (run / JOURNAL).write_bytes((run / JOURNAL).read_bytes().replace(b"10", b"11", 1))
    code, _, err = told(capsys, "check", store)
    assert code == 254
    assert f"error: queue/{run.name}: history.jsonl: lines 1 to " in err

    code, out, _ = told(capsys, "check", store, "--allow-truncated")
    assert "(damaged, and judged to event 0: lines 1 to " in out.splitlines()[1]


def test_runs_of_a_damaged_part_are_named_and_others_judged_when_that_is_enough(
    store: Path, dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = documents(told(capsys, "check", dataset, "--json")[1])
    (dataset / "part-00000.parquet").unlink()
    names = [f"queue/{run.name}" for run in runs_of(store)]

    code, out, err = told(capsys, "check", dataset)
    assert (code, out) == (254, "")
    assert err == (
        f"error: part-00000.parquet, which holds {names[0]}, is missing: `maxq compact` the runs "
        "again, or judge the others with --allow-truncated\n"
    )

    code, out, _ = told(capsys, "check", dataset, "--allow-truncated")
    assert code == 1
    assert out.splitlines()[0] == f"{names[0]}: unknown: part-00000.parquet is missing"
    code, out, _ = told(capsys, "check", dataset, "--allow-truncated", "--json")
    assert documents(out)[1:] == expected[1:]
    assert documents(out)[0]["verdict"] == "unknown: part-00000.parquet is missing"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--workload", "queue"), "--workload is for files: each run here says what it was"),
        (("--power",), "--power is for one run, and "),
        (("--explain",), "--explain is for one run, and "),
        (("--minimal", "small"), "--minimal is for one run, and "),
        (("--try-fix", "1"), "--try-fix is for one run, and "),
        (("--model", "register"), "it may hold several runs: give the dataset's folder"),
    ],
)
def test_what_is_of_one_run_is_refused(
    options: Sequence[str], said: str, dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = told(capsys, "check", dataset, *options)
    assert code == 254
    assert said in err


def test_files_without_a_config_need_their_workload(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = stored(tmp_path / "runs", history(6, lost=True))
    file, out = tmp_path / "one.parquet", tmp_path / "d"
    shutil.copy(run / PARQUET, file)
    assert run_cli(["compact", str(file), "--out", str(out)]) == 0

    code, _, err = told(capsys, "check", out)
    assert code == 254
    assert "Z was a file, which has no config: give its --workload" in err
    code, said, err = told(capsys, "check", out, "--workload", "queue", "--json")
    assert code == 1
    assert err.startswith("no config: assumed are settings that promise everything, ")
    assert json.loads(said) == json.loads(
        told(capsys, "check", file, "--workload", "queue", "--json")[1]
    )


def test_a_part_and_an_unfinished_dataset_are_no_histories(
    dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    part = dataset / "part-00000.parquet"
    for argv in (("check", part, "--workload", "queue"), ("export", dataset, "--format", "edn")):
        code, _, err = told(capsys, *argv)
        assert code == 254
        assert "it may hold several runs: give the dataset's folder to `maxq check`" in err
    (dataset / "dataset.json").rename(dataset / "unfinished.json")
    code, _, err = told(capsys, "check", dataset)
    assert code == 254
    assert f"{dataset} is not whole: `maxq compact` was cut off, run it again" in err
