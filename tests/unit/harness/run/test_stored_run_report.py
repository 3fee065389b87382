"""The report of a run: where it is, who says so, and that nothing hangs on it."""

import json
from pathlib import Path

import pytest
from small import SMALL_ARGS

from maxq.harness.cli.main import run_cli
from maxq.histories.store import REPORT, RESULTS

SHORT = ("--environment", "simulated", *SMALL_ARGS, "--seed", "1", "--time-limit", "2s")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reported")
    assert run_cli(["test", *SHORT, "--store", str(folder)]) == 0
    return (folder / "latest").resolve()


def test_a_run_ends_with_the_path_of_its_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_cli(["test", *SHORT, "--store", str(tmp_path)]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    path = Path(last.removeprefix("report:").strip())
    assert path == (tmp_path / "latest").resolve() / REPORT
    assert path.read_text().startswith("<!doctype html>")


def test_check_writes_it_anew(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run / REPORT).unlink()
    assert run_cli(["check", str(run), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["report"] == str(run / REPORT)
    assert "maxq check" in (run / REPORT).read_text()


def test_a_report_that_cannot_be_written_changes_no_verdict(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (run / REPORT).unlink(missing_ok=True)
    (run / REPORT).mkdir()
    before = (run / RESULTS).read_bytes()
    try:
        assert run_cli(["check", str(run)]) == 0
    finally:
        (run / REPORT).rmdir()
    out, err = capsys.readouterr()
    assert "the report is not written: " in err
    assert "verdict: valid" in out
    assert "report:" not in out
    assert (run / RESULTS).read_bytes() == before
