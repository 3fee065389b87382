"""``maxq generate-history``: a folder that `maxq check` judges, or a reason and nothing."""

import json
import shlex
from pathlib import Path

import pytest

from maxq.harness.cli.main import run_cli
from maxq.harness.contracts.plugins import restored
from maxq.harness.run import plugins
from maxq.workloads.generated.asked.kinds import KINDS


def generate(out: Path, *more: str) -> int:
    return run_cli(["generate-history", "--workload", "queue", "--ops", "200", *more,
                    "--out", str(out)])  # fmt: skip


@pytest.mark.parametrize("to", ["parquet", "jsonl"])
def test_what_is_generated_is_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], to: str
) -> None:
    assert generate(tmp_path / "made", "--format", to) == 0
    capsys.readouterr()
    assert run_cli(["check", str(tmp_path / "made")]) == 0
    said = capsys.readouterr().out
    assert "verdict: valid" in said
    command = next(line for line in said.splitlines() if line.startswith("repeat:"))
    words = command.removeprefix("repeat:").split()
    assert run_cli([*words[1:-1], str(tmp_path / "again")]) == 0
    for name in ("planted.json", f"history.{to}"):
        assert (tmp_path / "made" / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


def test_what_is_planted_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert generate(tmp_path / "made", "--anomalies", "lost-write=2,G1a=1") == 0
    said = capsys.readouterr().out
    assert "planted: lost-write=2" in said
    assert run_cli(["check", str(tmp_path / "made")]) == 1
    found = json.loads((tmp_path / "made" / "planted.json").read_bytes())["planted"]
    assert [p["kind"] for p in found] == ["lost-write", "lost-write", "G1a"]
    assert all(p["ops"] for p in found)


def test_what_cannot_be_done_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert generate(tmp_path / "made", "--anomalies", "lost-write=2000") == 254
    assert "there is place for" in capsys.readouterr().err
    assert generate(tmp_path / "made", "--anomalies", "int-send-skip=1") == 254
    assert "cannot be planted: allowed" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "mine").touch()
    assert generate(tmp_path / "made") == 254
    assert [p.name for p in tmp_path.rglob("*")] == ["made", "mine"]


def test_help_lists_every_kind(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["generate-history", "--anomalies", "help"]) == 0
    said = capsys.readouterr().out
    assert all(f"  {name} " in said for name in KINDS)


@pytest.mark.parametrize("to", ["parquet", "jsonl"])
def test_calls_of_a_model_are_made_and_judged_by_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], to: str
) -> None:
    asked = ["generate-history", "--model", "fifo-queue", "--ops", "80", "--keys", "2"]
    asked += ["--anomalies", "stale-answer=1", "--format", to, "--out", str(tmp_path / "made here")]
    assert run_cli(asked) == 0
    said = capsys.readouterr().out
    assert "planted: stale-answer at ops " in said
    command = shlex.split(said.splitlines()[-1].removeprefix("judge it: "))
    assert run_cli(command[1:]) == 1
    assert "INVALID: 80 calls on 2 keys are not linearizable" in capsys.readouterr().out
    (planted,) = json.loads((tmp_path / "made here" / "planted.json").read_bytes())["planted"]
    assert planted["kind"] == "stale-answer"
    assert run_cli(asked) == 254
    assert "is there already" in capsys.readouterr().err


def test_a_stack_of_ones_own_is_made_and_planted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugins, "_loaded", {})  # else tests behind this one would name it
    monkeypatch.setattr(plugins, "_modules", [])
    with restored():
        asked = ["generate-history", "--plugin", "stack_model", "--model", "stack", "--ops", "30"]
        asked += ["--anomalies", "double-effect=1", "--out", str(tmp_path / "made")]
        assert run_cli(asked) == 0
        path = str(tmp_path / "made" / "history.parquet")
        capsys.readouterr()
        assert run_cli(["check", path, "--plugin", "stack_model", "--model", "stack"]) == 1
        assert "operations are illegal by themselves" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--workload", "queue", "--model", "log"], "either --workload or --model"),
        (["--workload", "queue", "--keys", "3"], "--keys is for --model"),
        (["--workload", "list-append"], "list-append is a model: --model list-append"),
        (["--model", "log", "--at", "first"], "--at and --broker-sets are for --workload"),
        (["--model", "log", "--jobs", "2"], "--jobs is for --workload"),
        (["--model", "bank"], "of bank no histories are made"),
    ],
)
def test_options_of_the_other_kind_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], why: str
) -> None:
    assert run_cli(["generate-history", *words, "--out", str(tmp_path / "made")]) == 254
    assert why in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
