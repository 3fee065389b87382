"""The commands on schedules: what they refuse, and that they say what was meant instead."""

from pathlib import Path

import pytest

from maxq.harness.cli.main import run_cli
from maxq.harness.contracts.terminal import program
from maxq.harness.schedule.format import SCHEDULE, Act, Header, Load, Schedule, When, Who, encode

TINY = Schedule(
    header=Header(
        length=2.0,
        seed=1,
        options={"workload": ["queue"], "profile": "P-ALL", "controllers": 1, "replicas": 1},
    ),
    loads=(
        Load(id="w", until=2.0, rate=10.0),
        Load(id="r", until=2.0, rate=5.0, f="poll", threads=(0,)),
    ),
    acts=(
        Act(id="k", f="kill", when=When(at=0.5), who=Who(part="broker")),
        Act(id="k.h", f="start", when=When(after="k", at=0.25), who=Who(of="k")),
    ),
)


def maxq(capsys: pytest.CaptureFixture[str], *argv: object) -> tuple[int, str, str]:
    code = run_cli([str(a) for a in argv])
    out, err = capsys.readouterr()
    return code, out, err


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    (tmp_path / "tiny.jsonl").write_bytes(encode(TINY))
    return tmp_path / "tiny.jsonl"


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("repaly", "x"), "no command 'repaly', did you mean replay"),
        (("simulat",), "did you mean simulate"),
        (("shrnk", "x"), "did you mean shrink"),
        (("exploer",), "did you mean explore or"),
        (("replay",), "Missing argument 'RUN'"),
        (("replay", "nowhere"), "'nowhere' does not exist"),
        (("shrink", "nowhere"), "'nowhere' does not exist"),
        (("replay", ".", "--env", "dokcer"), "'dokcer' is unknown, did you mean docker?"),
        (("replay", ".", "--env", "auto"), "known: docker, local, simulated"),
        (("replay", ".", "--mutant", "ack_befor_write"), "did you mean ack_before_write"),
        (("replay", ".", "--times", "0"), "0 is not in the range"),
        (("replay", ".", "--tmes", "3"), "--times"),
        (("shrink", ".", "--budget", "0"), "0 is not in the range"),
        (("shrink", ".", "--signatur", "x"), "--signature"),
        (("simulate",), "Missing option '--seeds'"),
        (("simulate", "--seeds", "9..1"), "the last seed is before the first"),
        (("simulate", "--seeds", "1", "--length", "15 s"), "write it as 500ms, 30s"),
        (("simulate", "--seeds", "1", "--verify", "101%"), "is no share; write one such as 1%"),
        (("simulate", "--seeds", "1", "--verify", "some"), "is no share"),
        (("simulate", "--seeds", "1", "--jobs", "0"), "0 is not in the range"),
        (("simulate", "--seeds", "1", "--mutant", "lock_without_quorm"), "did you mean lock_with"),
        (("explore", "--env", "simulated"), "Missing option '--seeds'"),
        (("explore", "--seeds", "1"), "Missing option '--env'"),
        (("explore", "--seeds", "x", "--env", "local"), "'x' names no seeds"),
        (("explore", "--seeds", "1", "--env", "locl"), "did you mean local?"),
        (("test", "--set", "flushDiskType=SYNC_FLUSH"), "is no setting; write ROLE:KEY=VALUE"),
        (("test", "--set", "broker:flushDiskTyp=X"), "did you mean flushDiskType"),
        (("test", "--set", "brokr:flushDiskType=X"), "the role namesrv, controller or broker"),
        (("test", "--ending", "each"), "did you mean each-replica?"),
        (("test", "--env", "simulated", "--pinned", "11"), "--pinned is more than --concurrency"),
        (("test", "--pinned", "-1"), "-1 is not in the range"),
    ],
)
def test_a_wrong_use_says_what_was_meant(
    argv: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = maxq(capsys, *argv)
    assert (code, out) == (254, "")
    assert said in " ".join(err.split())
    assert "Traceback" not in err


@pytest.mark.parametrize("command", ["replay", "shrink"])
def test_what_is_no_schedule_is_refused_with_its_place(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text('{"item": "header"}\n{"item": "act", "id": "k", "ff": "kill"}\n')
    code, _, err = maxq(capsys, command, path)
    assert code == 254
    assert "error: mine.jsonl, line 2: " in err
    assert "unknown field" in err
    empty = tmp_path / "folder"
    empty.mkdir()
    code, _, err = maxq(capsys, command, empty)
    assert code == 254
    assert f"{SCHEDULE}: No such file" in err


def test_a_schedule_that_nobody_can_perform_is_a_usage_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for item, said in (
        ('{"item": "call", "id": "x", "at": 1, "thread": 44, "value": [0, 0, 1]}', "no thread 44"),
        ('{"item": "load", "id": "x", "f": "turn", "workload": "lock", "until": 3, "rate": 1,'
         '"threads": [3, 4]}', "x/1: lock has turns of threads 0 to 3, no turn of thread 4"),
        ('{"item": "call", "id": "x", "at": 1, "thread": 1, "workload": "lokc"}',
         "the run has no workload 'lokc'"),
    ):  # fmt: skip
        path = tmp_path / "mine.jsonl"
        path.write_text(f'{{"item": "header", "length": 2}}\n{item}\n')
        code, _, err = maxq(capsys, "replay", path, "--store", tmp_path)
        assert code == 254, err
        assert said in err


def test_a_replay_says_its_verdict_and_how_to_do_it_again(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = maxq(capsys, "replay", tiny, "--store", tmp_path)
    assert code == 0
    run = (tmp_path / "latest").resolve()
    assert "verdict: valid" in out
    assert f"repeat:  {program()} replay {run}" in out
    code, out, err = maxq(capsys, "replay", run, "--json", "--store", tmp_path)
    assert code == 0
    assert f'"repeat": "maxq replay {(tmp_path / "latest").resolve()}"' in out
    assert err == ""


def test_exploring_tells_each_seed_and_what_was_met(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As on real machines, in the simulator: runs are stored with their reports."""
    words = ("--seeds", "2..3", "--env", "simulated", "--length", "3s", "--store", tmp_path)
    code, out, _ = maxq(capsys, "explore", *words)
    lines = out.splitlines()
    assert code in (0, 2)
    seeds = [line.partition(":")[0] for line in lines if line.startswith("seed ")]
    assert seeds == ["seed 2", "seed 3"]
    assert lines[2].endswith("claim, by runs")
    assert lines[-1].startswith("pairs of values met: ")
    assert "acknowledged, " in lines[0]
    assert " faults  " in lines[0]
    for line in lines[:2]:
        path = next(word for word in line.split() if word.startswith(str(tmp_path)))
        assert (Path(path) / "report.html").exists()
        assert (Path(path) / SCHEDULE).exists()
    assert lines[-1].split(": ")[1].split(" of ")[0].isdecimal()
