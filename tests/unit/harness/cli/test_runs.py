"""``maxq runs`` and ``maxq serve`` on the command line."""

import json
import re
import shutil
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from small import SMALL_ARGS

from maxq.checkers.judgement.lost import Lost
from maxq.harness.cli.main import run_cli
from maxq.harness.experiments.overview.entries import MARKS_MAX, SORTS, Entry, State, trend


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("store")
    for seed in ("1", "2"):
        words = ("test", "--environment", "simulated", *SMALL_ARGS, "--seed", seed)
        run_cli([*words, "--time-limit", "2s", "--store", str(folder)])
    return folder


def maxq(capsys: pytest.CaptureFixture[str], *argv: object) -> tuple[int, str, str]:
    code = run_cli([str(a) for a in argv])
    out, err = capsys.readouterr()
    return code, out, err


def test_a_run_writes_the_page_of_its_store(store: Path) -> None:
    assert (store / "index.html").read_text().count("<tr") == 3


def test_runs_are_listed_newest_first(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = maxq(capsys, "runs", "--store", store)
    assert code == 0
    assert len(re.findall(r"^20\d\d-\d\d-\d\d \d\d:\d\d:\d\d  (valid|unknown)", out, re.M)) == 2
    assert f"page:    {store / 'index.html'}" in out
    code, out, _ = maxq(capsys, "runs", "--store", store, "--json")
    assert [run["settings"]["seed"] for run in json.loads(out)] == ["2", "1"]
    code, out, _ = maxq(capsys, "runs", "--store", store, "--filter", "seed 1", "--json")
    (run,) = json.loads(out)
    assert (run["settings"]["seed"], run["settings"]["env"]) == ("1", "simulated")
    code, out, _ = maxq(capsys, "runs", "--store", store, "--verdict", "damaged")
    assert out.startswith("there are no such runs")


def test_runs_are_sorted_by_what_came_of_them() -> None:
    def run(name: str, state: State, lost: int | None, faults: int) -> Entry:
        messages = Lost(lost=lost, acknowledged=9)
        return Entry(name=name, state=state, said="", messages=messages, fault_count=faults)

    found = [run("a", "valid", None, 3), run("b", "invalid", 2, 1), run("c", "unknown", 7, 9)]
    orders = {"newest": "abc", "verdict": "bca", "lost": "cba", "faults": "cab"}
    for sort, order in orders.items():
        assert "".join(entry.name for entry in sorted(found, key=SORTS[sort])) == order
    assert trend(found) == "?X."
    assert trend([run("d", "running", None, 0), *found * 20]) == "…" + ("?X." * 20)[-MARKS_MAX:]


def test_campaigns_of_a_store_are_a_row_each(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inner = tmp_path / "campaigns" / "nightly" / "runs"
    inner.parent.mkdir(parents=True)
    inner.symlink_to(store)
    assert "no such runs" in maxq(capsys, "runs", "--store", tmp_path, "--campaigns")[1]
    inner.unlink()
    shutil.copytree(store, inner, symlinks=True)
    code, out, _ = maxq(capsys, "runs", "--store", tmp_path, "--campaigns")
    assert code == 0
    assert re.search(r"^campaigns/nightly +2 (valid|unknown) +0 +[.?]{2}$", out, re.M), out


def test_a_hostile_folder_is_listed_and_prints_no_control(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evil = tmp_path / "b\x1b[2Jx\u202e" / "20260101T000000.000Z"
    evil.mkdir(parents=True)
    (evil / "results.json").write_text('{"valid": true, "verdict": "valid: \\u001b]0;x\\u0007"}')
    (evil / "config.json").write_bytes((store / "latest" / "config.json").read_bytes())
    (evil / "history.jsonl").write_text('{"end":true,"count":0}\n')
    code, out, err = maxq(capsys, "runs", "--store", tmp_path)
    assert code == 0
    assert "\\u001b]0;x" in out
    assert [c for c in out + err if c != "\n" and not c.isprintable()] == []


def test_two_runs_stand_beside_each_other(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, other = sorted(p for p in (store / "queue").iterdir() if not p.is_symlink())
    code, out, _ = maxq(capsys, "runs", one, other)
    assert code == 0
    assert re.search(r"^seed +1 +2$", out, re.M)
    assert maxq(capsys, "runs", one)[0] == 254


def test_a_store_that_is_not_there_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in ("runs", "serve"):
        code, _, err = maxq(capsys, command, "--store", tmp_path / "none")
        assert (code, "--store names another one" in err) == (254, True)


def test_serve_answers_and_ends_at_a_signal(store: Path) -> None:
    command = [sys.executable, "-m", "maxq.harness.cli.main", "serve", "--store", str(store)]
    with subprocess.Popen([*command, "--port", "0"], stdout=subprocess.PIPE, text=True) as serving:
        try:
            assert serving.stdout is not None
            address = serving.stdout.readline().split()[0]
            assert address.startswith("http://127.0.0.1:")
            with urllib.request.urlopen(address, timeout=20) as answer:
                assert b"2 runs" in answer.read()
        finally:
            serving.send_signal(signal.SIGTERM)
        assert serving.wait(10) == 0
