"""``maxq trends`` as a user runs it, and the tables that ``maxq check`` writes of the same runs."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from maxq.harness.cli.main import run_cli

Said = tuple[int, str, str]
ASKED = ("--env", "simulated", "--workload", "queue", "--nemesis", "partition",
         "--time-limit", "8s", "--seed", "3")  # fmt: skip


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    def run(*argv: object) -> Said:
        capsys.readouterr()
        code = run_cli([str(a) for a in argv])
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Path]:
    """Two simulated runs of one seed: one that keeps all, and one in which messages are lost."""
    store, found = tmp_path_factory.mktemp("judged"), dict[bool, Path]()
    words = [*ASKED, "--store", str(store)]
    for lost, bug in ((False, []), (True, ["--mutant", "ack_without_replicas"])):
        assert run_cli(["test", *words, *bug]) == lost
        found[lost] = (store / "latest").resolve()
    return found


Nights = Callable[..., Path]


@pytest.fixture
def night(judged: dict[bool, Path]) -> Nights:
    """A night of three runs, copies of one, or the last of the other."""

    def made(folder: Path, *, lost: bool = False, day: int = 1) -> Path:
        for hour in range(3):
            own = folder / "runs" / "queue" / f"202601{day:02}T0{hour}0000.000Z"
            shutil.copytree(judged[lost and hour == 2], own)
        return folder

    return made


def test_a_night_that_lost_something_is_worse(
    tmp_path: Path, told: Callable[..., Said], night: Nights
) -> None:
    nights = tmp_path / "nights"
    for day, name in enumerate("abc", start=1):
        night(nights / name, lost=name == "c", day=day)
    code, out, _ = told("trends", nights)
    assert code == 1
    assert "The newest night, c (3 runs), beside 2 nights before (6 runs)." in out
    said = "worse: no acknowledged message lost (S6): broken in 1 of 3 runs, before in 0 of 6"
    assert said in out
    assert "no acknowledged message lost" in (nights / "trends.html").read_text()
    assert told("trends", nights, "--fail-on", "nothing")[0] == 0
    code, out, _ = told("trends", nights, "--json")
    [shown] = {change["run"] for change in json.loads(out) if change["kind"] == "worse"}
    assert told("check", shown)[0] == 1, "the run that it names shows it"


def test_equal_nights_are_no_change_and_one_is_not_compared(
    tmp_path: Path, told: Callable[..., Said], night: Nights
) -> None:
    night(tmp_path)
    code, out, _ = told("trends", tmp_path)
    assert (code, "there is nothing to compare it with" in out) == (2, True)
    night(tmp_path, day=2)
    code, out, _ = told("trends", tmp_path)
    assert (code, "Nothing that could be compared is better or worse" in out) == (0, True), out


def test_what_is_wrong_is_said(tmp_path: Path, told: Callable[..., Said], night: Nights) -> None:
    code, _, err = told("trends", tmp_path)
    assert (code, f"there is no run in {tmp_path}" in err) == (254, True)
    night(tmp_path)
    code, _, err = told("trends", tmp_path, "--page", "/dev/null/page.html")
    assert (code, "--page: /dev/null/page.html: Not a directory" in err) == (254, True)
    code, _, err = told("check", next((tmp_path / "runs" / "queue").iterdir()), "--verdicts", "out")
    assert (code, "--verdicts is of several runs" in err) == (254, True)


def rows(folder: Path, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(folder / name).to_pylist()
    return found


def test_tables_of_a_store_and_of_its_dataset_are_equal_and_say_what_verdicts_say(
    tmp_path: Path, told: Callable[..., Said], night: Nights
) -> None:
    store, season = night(tmp_path, lost=True) / "runs", tmp_path / "season"
    assert told("compact", store, "--out", season)[0] == 0
    code, out, _ = told("check", store, "--json", "--verdicts", tmp_path / "one")
    assert code == 1
    assert told("check", season, "--verdicts", tmp_path / "other")[0] == 1
    for name in ("claims.parquet", "recoveries.parquet"):
        assert rows(tmp_path / "one", name) == rows(tmp_path / "other", name)
    said = [json.loads(line) for line in out.splitlines()]
    claims = rows(tmp_path / "one", "claims.parquet")
    assert [(r["claim"], r["status"]) for r in claims] == [
        (c["claim"], c["status"]) for verdict in said for c in verdict["claims"]
    ]
    assert [bool(r["lost"]) for r in claims if r["claim"] == "S6"] == [False, False, True]
    [broken] = [r for r in claims if (r["claim"], r["status"]) == ("S6", "broken")]
    assert broken["anomalies"] == [("lost-write", broken["lost"])]
    assert broken["mutant"] == "ack_without_replicas"
    faults = rows(tmp_path / "one", "recoveries.parquet")
    assert len(faults) == sum(len(verdict["recoveries"]) for verdict in said) > 0
