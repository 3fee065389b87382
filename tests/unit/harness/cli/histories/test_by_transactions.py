"""``maxq check FILE --model list-append``: what is printed of transactions, and the exit code."""

import json
from pathlib import Path

import pytest

from maxq.harness.cli.main import run_cli
from maxq.harness.contracts.terminal import program

SKEW = """\
{:process 0, :type :invoke, :f :txn, :value [[:r :x nil] [:append :y 1]]}
{:process 1, :type :invoke, :f :txn, :value [[:r :y nil] [:append :x 1]]}
{:process 0, :type :ok, :f :txn, :value [[:r :x []] [:append :y 1]]}
{:process 1, :type :ok, :f :txn, :value [[:r :y []] [:append :x 1]]}
"""
NAMELESS = """\
{:index 0 :type :invoke :value [[:append 1 1]]}
{:index 1 :type :ok :value [[:append 1 1]]}
{:index 2 :type :invoke :value [[:r 1 nil]]}
{:index 3 :type :ok :value [[:r 1 [1]]]}
"""


def checked(
    capsys: pytest.CaptureFixture[str], path: Path, text: str, *words: str
) -> tuple[int, str, str]:
    path.write_text(text)
    code = run_cli(["check", str(path), *words])
    told = capsys.readouterr()
    return code, told.out, told.err


def test_a_cycle_is_told_step_by_step(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "history.edn"
    code, out, _ = checked(capsys, path, SKEW, "--model", "list-append")
    assert code == 1
    assert "INVALID: 2 transactions of list-append are not strict-serializable: G2-item." in out
    assert 'T1 = op 0 (process 0): [r "x" []; append "y" 1]' in out
    assert "T1 < T2 (rw): T1 read key" in out
    assert "broken:  repeatable-read, and what includes" in out
    assert "strong-snapshot-isolation" in out
    assert f"repeat:  {program()} check {path} --model list-append" in out


def test_a_weaker_model_allows_it_and_still_says_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = ("--model", "list-append", "--consistency", "snapshot-isolation")
    code, out, _ = checked(capsys, tmp_path / "history.edn", SKEW, *words)
    assert code == 0
    assert "valid: 2 transactions of list-append are snapshot-isolation." in out
    assert "G2-item, which this model allows" in out
    assert "--consistency snapshot-isolation" in out


def test_as_json(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, out, _ = checked(capsys, tmp_path / "h.edn", SKEW, "--model", "list-append", "--json")
    found = json.loads(out)
    assert (code, found["valid"]) == (1, False)
    (anomaly,) = found["transactions"]["anomalies"]
    assert (anomaly["name"], anomaly["witness"]) == ("G2-item", [0, 1])
    assert found["keys"][0]["by"] == "dependencies"


def test_operations_without_a_process_are_paired_with_their_neighbours(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, out, _ = checked(capsys, tmp_path / "h.edn", NAMELESS, "--model", "list-append")
    assert code == 0
    assert "valid: 2 transactions" in out


def test_a_text_of_sessions_is_judged_without_times(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    text = "w 0 1\n-----\nw 0 2\n=====\nr 0 2\nw 1 1\n=====\nr 0 1\nr 1 1\n"
    words = ("--model", "rw-register", "--consistency", "causal")
    code, out, _ = checked(capsys, tmp_path / "h.txt", text, *words)
    assert code == 1
    assert "are not causal: causal-cycle" in out
    assert "T2 < T1 (co): T2 also wrote key 0, and op 6, which sees T2, read 1 there, of T1" in out
    assert "kept:    read-atomic" in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--model", "list-append", "--consistency", "serialisable"), "did you mean serializable"),
        (("--model", "list-append", "--consistency", "causal"), "causal cannot be said"),
        (("--model", "register", "--consistency", "serializable"), "are for transactions"),
    ],
)
def test_what_cannot_be_asked_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    code, _, err = checked(capsys, tmp_path / "h.edn", SKEW, *words)
    assert code not in (0, 1, 2)
    assert said in " ".join(err.split())
