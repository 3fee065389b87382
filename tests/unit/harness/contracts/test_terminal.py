"""No name that comes from a cluster or a history acts on the terminal."""

import json
import sys
from pathlib import Path

import pytest
from history_recorder import Recorder

from maxq.harness.cli.main import run_cli
from maxq.harness.contracts.terminal import one_line, pasted, printable
from maxq.histories.jsonl import JournalWriter

ROOT = Path(__file__).parents[4]
# Sets the title of the window, deletes the screen (also with the one byte of C1), begins a line,
# goes back, and reverses what follows.
EVIL = "b0-0\x1b]0;mine\x07\x1b[2J\x9b2J\nverdict: valid\r\x7f\u202e\u2066\u2028"


@pytest.fixture
def evil(tmp_path: Path) -> Path:
    recorder = Recorder()
    recorder.assign(1, 0, seek=True)
    recorder.fault("kill", **{EVIL: True})
    for offset in range(3):
        recorder.send(0, 10 + offset, offset, broker=f"{EVIL}:1")
    recorder.poll(1, (0, 10), (2, 12), end={0: 3})
    path = tmp_path / "history.jsonl"
    with JournalWriter(path) as writer:
        for op in recorder.ops:
            writer.append(op)
    return path


def controls(text: str) -> list[str]:
    return [c for c in text if c != "\n" and (not c.isprintable() or c in "\u202e\u2066")]


@pytest.mark.parametrize("more", [[], ["-v"]], ids=["", "-v"])
def test_names_of_a_history_are_printed_escaped(
    evil: Path, more: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_cli(["check", str(evil), "--workload", "queue", *more]) == 1
    out, err = capsys.readouterr()
    said = "".join(out.split()).replace(" ", "")
    assert "b0-0\\u001b]0;mine\\u0007\\u001b[2J\\u009b2J" in said
    assert controls(out + err) == []
    assert [line for line in out.splitlines() if line.startswith("verdict: valid")] == []


def test_json_holds_the_names_and_no_control_character(
    evil: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_cli(["check", str(evil), "--workload", "queue", "--json"]) == 1
    out, _ = capsys.readouterr()
    assert controls(out) == []
    assert EVIL in json.loads(out)["faults"][0]["nodes"]


def test_a_damaged_history_is_named_escaped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "\x1b[2J.jsonl"
    path.write_text("[]\n")
    assert run_cli(["check", str(path), "--workload", "queue"]) == 254
    assert "\\u001b[2J.jsonl: line 1" in capsys.readouterr().err


def test_a_wrong_argument_is_named_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["test", "--nemesis", "\x1b]0;mine\x07"]) == 254
    assert controls(capsys.readouterr().err) == []


def test_ordinary_text_stays_as_it_is() -> None:
    text = "verdict: ungültig, 消息 b0-0\n\t2 of 3"
    assert printable(text) == text
    assert one_line("a\nb\tc") == "a\\u000ab\\u0009c"


def test_nothing_else_prints() -> None:
    """What is printed elsewhere is not escaped."""
    printing = {
        str(path.relative_to(ROOT / "maxq"))
        for path in (ROOT / "maxq" / "harness").rglob("*.py")
        if "click.echo" in path.read_text() or "click.secho" in path.read_text()
    }
    assert printing == {"harness/contracts/terminal.py"}


@pytest.mark.parametrize(
    ("argv", "orig", "called"),
    [
        (".venv/bin/maxq", ["python3", ".venv/bin/maxq", "test"], ".venv/bin/maxq"),
        ("{here}/a b/maxq", ["python3", "{here}/a b/maxq"], "'a b/maxq'"),
        ("/elsewhere/maxq", ["python3", "/elsewhere/maxq"], "/elsewhere/maxq"),
        ("{here}/bin/maxq", ["python3", "{here}/bin/maxq"], "maxq"),  # on the PATH
        ("/x/main.py", ["{here}/p/python", "-m", "maxq.harness.cli.main", "test"],
         "p/python -m maxq.harness.cli.main"),
    ],
)  # fmt: skip
def test_a_command_can_be_pasted(
    argv: str, orig: list[str], called: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "bin" / "maxq"
    script.parent.mkdir()
    script.touch(0o755)
    run = tmp_path / "runs" / "queue" / "20261128T000000.000Z"
    run.mkdir(parents=True)
    (tmp_path / "runs" / "latest").symlink_to(run)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(script.parent))
    monkeypatch.setattr(sys, "argv", [argv.format(here=tmp_path)])
    monkeypatch.setattr(sys, "orig_argv", [word.format(here=tmp_path) for word in orig])
    found = pasted("maxq replay runs/latest --set 'broker:a=b c'")
    where = run.relative_to(tmp_path)
    assert found == f"{called} replay {where} --set 'broker:a=b c'"
