"""The command line in this process: every way to end, and what it prints."""

import contextlib
import errno
import json
import os
import re
import signal
import subprocess
import sys
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from small import SMALL_ARGS
from waiting import eventually, line_count

from maxq.harness.cli.given.failures import EXIT_CRASH, EXIT_USAGE
from maxq.harness.cli.main import run_cli
from maxq.harness.cluster.deployment import SetupFailed
from maxq.harness.contracts.environment import (
    Capability,
    EnvironmentLost,
    EnvironmentUnavailable,
    Lack,
    MissingCapability,
)
from maxq.harness.contracts.terminal import program
from maxq.harness.environments.choose import Facts
from maxq.harness.run import doctor, execute, stored_run
from maxq.harness.run.files.result_file import SCHEMA, ResultFile
from maxq.harness.schedule.options import Options
from maxq.histories.op import NEMESIS, Op
from maxq.histories.store import RESULTS, RESULTS_EDN, Run, RunStore, open_run

SIMULATED = ("test", "--environment", "simulated", *SMALL_ARGS, "--seed", "1", "--store")
SHORT = ("--time-limit", "2s", "--rate", "50")


def maxq(capsys: pytest.CaptureFixture[str], *argv: object) -> tuple[int, str, str]:
    """Run a command line: exit code, standard output, standard error."""
    code = run_cli([str(a) for a in argv])
    out, err = capsys.readouterr()
    return code, out, err


@pytest.fixture(scope="module")
def valid_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("valid")
    assert run_cli([*SIMULATED, str(folder), *SHORT]) == 0
    return (folder / "latest").resolve()


@pytest.fixture(scope="module")
def invalid_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("invalid")
    more = ("--time-limit", "15s", "--mutant", "ack_before_write")
    assert run_cli([*SIMULATED, str(folder), *more]) == 1
    return (folder / "latest").resolve()


def copied(run: Path, to: Path) -> Path:
    """A run's folder with its evidence and nothing else."""
    to.mkdir(parents=True)
    for name in ("config.json", "history.jsonl", "history.digests"):
        (to / name).write_bytes((run / name).read_bytes())
    return to


def test_a_valid_run_says_how_to_repeat_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = maxq(capsys, *SIMULATED, tmp_path, *SHORT)
    assert code == 0
    assert "verdict: valid" in out
    assert f"repeat:  {program()} test --env simulated" in out
    assert "commit:  " in out
    assert "\x1b" not in out + err, "colour and cursor movement only on a terminal"
    assert "starting 5 nodes" in err


def test_what_is_stored_is_what_the_schema_says(valid_run: Path, invalid_run: Path) -> None:
    for run in (valid_run, invalid_run):
        stored = msgspec.json.decode((run / RESULTS).read_bytes(), type=ResultFile)
        assert stored.schema == SCHEMA
        assert stored.first or stored.valid is True


@pytest.mark.parametrize("kind", ["results", "schedule", "campaign"])
def test_a_schema_has_a_version(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = maxq(capsys, "schema", kind)
    found = json.loads(out)
    assert (code, found["$id"].rpartition(":")[0]) == (0, f"maxq:{kind}")
    assert found["$defs"]


def test_a_run_that_could_do_nothing_is_unknown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = ("--time-limit", "200ms", "--rate", "100000", "--concurrency", "2")
    quiet = [word if word != "kill" else "none" for word in SIMULATED]
    code, out, _ = maxq(capsys, *quiet, tmp_path, *more)
    assert code == 2
    assert "verdict: unknown" in out


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["tset"], "did you mean test"),
        (["test", "--nemesis", "kil"], "did you mean kill?"),
        (["test", "--workload", "queues"], "did you mean queue?"),
        (["test", "--environment", "simulate"], "did you mean simulated"),
        (["test", "--profile", "saef"], "did you mean safe?"),
        (["test", "--mutant", "ack_before_writ"], "did you mean ack_before_write"),
        (["test", "--timing", "medium"], "known: fast, stock"),
        (["test", "--release", "brokr=5.1.1"], "did you mean broker?"),
        (["test", "--release", "b0-3=5.1.1"], "no component or node 'b0-3'"),
        (["test", "--release", "broker=5.1.9"], "broker: no release 5.1.9, did you mean"),
        (["test", "--release", "broker"], "write NODE=RELEASE"),
        (["test", "--release", "c0=5.1.1,c0=5.1.0"], "c0 has two releases"),
        (["test", "--env", "simulated", "--release", "c0=5.1.1"], "the simulator is for our"),
        (["test", "--target", "rocketmq:5.1.0,broker=5.1.1"], "--release broker=5.1.1"),
        (["upgrade", "5.1.0-under-5.1.2"], "did you mean 5.1.0-under-5.1"),
        (["test", "--tmie-limit", "3s"], "--time-limit"),
        (["test", "--time-limit", "30 seconds"], "write it as 500ms, 30s"),
        (["test", "--time-limit", "0s"], "not between"),
        (["test", "--time-limit", "0.1ns"], "no duration"),
        (["test", "--time-limit", "999999h"], "not between"),
        (["test", "--rate", "0"], "0.1"),
        (["test", "--rate", "nan"], "nan"),
        (["test", "--concurrency", "1"], "2<=x"),
        (["test", "--seed", "-1"], "0<=x"),
        (["test", "--seed", str(2**64)], "0<=x"),
        (["test", "--nemesis", "none", "--nemesis", "kill"], "excludes"),
        (
            ["test", "--profile", "P-SAFE", "--environment", "simulated", "--replicas", "1"],
            "needs --replicas 2",
        ),
        (["test", "--plan", "--env", "local", "--nemesis", "disk"], "--env simulated can"),
        (["test", "--env", "docker", "--nemesis", "kill,disk"], "docker cannot do disk here"),
        (["check"], "Missing argument"),
        (["check", "no.parquet", "--jobs", "0"], "1<=x"),
        (["watch", "--cluster", "no.toml"], "does not exist"),
        (["check", "no/such/folder"], "does not exist"),
        ([], " test --target rocketmq:5.5.0      "),
    ],
)
def test_bad_arguments_name_what_is_near(
    argv: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    code, out, err = maxq(capsys, *argv)
    assert code == EXIT_USAGE
    assert said in err
    assert not out
    assert not list(tmp_path.iterdir()), "nothing was begun"


@pytest.mark.parametrize("argv", [["--help"], ["-h"], ["test", "--help"], ["--version"]])
def test_help_is_no_error(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert maxq(capsys, *argv)[0] == 0


def test_doctor_says_what_auto_says(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    without(monkeypatch)
    code, out, _ = maxq(capsys, "doctor")
    assert code == 0
    lines = out.splitlines()
    assert lines[:2] == [f"no  {line}" for line in LINES]
    assert lines[2].startswith("yes simulated:")
    assert lines[3].startswith("environment: simulated (chosen by auto: ")
    code, out, _ = maxq(capsys, "doctor", "--target", "rocketmq:5.5.0")
    assert code == 0
    assert "no  simulated: it runs reference nodes only, not rocketmq:5.5.0" in out
    assert "environment: none can do what is asked" in out


@pytest.mark.parametrize(
    ("failure", "want", "said"),
    [
        (MissingCapability("x cannot do kill"), EXIT_USAGE, "error: x cannot do kill"),
        (EnvironmentUnavailable("no bridge"), EXIT_CRASH, "error: no bridge"),
        (EnvironmentLost("the helper ended"), EXIT_CRASH, "error: the helper ended"),
        (SetupFailed("b0-0 did not start"), EXIT_CRASH, "error: b0-0 did not start"),
        (OSError(28, "No space left", "x"), EXIT_CRASH, "error: No space left: x"),
        (ZeroDivisionError("oops"), EXIT_CRASH, "please report it"),
        (KeyboardInterrupt(), 130, "interrupted by SIGINT; what was recorded can be judged"),
    ],
)  # fmt: skip
def test_each_failure_has_its_code_says_how_to_repeat_and_leaves_results(
    failure: BaseException, want: int, said: str, tmp_path: Path,
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    async def fail(*_: object, **__: object) -> None:
        raise failure

    monkeypatch.setattr(execute, "perform", fail)
    code, out, err = maxq(capsys, *SIMULATED, tmp_path)
    assert (code, out) == (want, "")
    assert said in err
    assert f"repeat:  {program()} test" in err
    assert err.count("Traceback") == isinstance(failure, ZeroDivisionError)
    results = json.loads((tmp_path / "latest" / RESULTS).read_bytes())
    assert results["valid"] == "unknown"
    assert type(failure).__name__ in results["error"]
    assert (tmp_path / "latest" / RESULTS_EDN).exists()
    assert not (tmp_path / "current").is_symlink()


def test_a_violation_is_told_also_when_the_run_ended_too_early(
    invalid_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """False, then crash: a real violation is never masked."""
    recorded = (invalid_run / "history.jsonl").read_bytes()

    async def fail(options: Any, environment: Any, target: Any, run: Run, *_: Any) -> None:
        (run.path / "history.jsonl").write_bytes(recorded)
        raise EnvironmentLost("gone")

    monkeypatch.setattr(execute, "perform", fail)
    code, out, err = maxq(capsys, *SIMULATED, tmp_path)
    assert code == 1
    assert "INVALID" in out
    assert "error: gone" in err


@pytest.mark.parametrize(
    ("number", "ends", "told"),
    [
        (errno.EIO, EXIT_CRASH, "error: no: results.json"),
        (errno.ENOSPC, 2, "the store is full: the verdict is not stored"),
    ],
)
def test_results_that_cannot_be_stored_are_no_success_but_the_verdict_is_told(
    number: int, ends: int, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    def fail(*_: object) -> None:
        raise OSError(number, "no", "results.json")

    monkeypatch.setattr(Run, "save_results", fail)
    code, out, err = maxq(capsys, *SIMULATED, tmp_path, *SHORT)
    assert code == ends
    assert "verdict: valid" in out
    assert told in err


def test_check_judges_as_the_run_did_and_stores_it(
    valid_run: Path, invalid_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number, run in enumerate((valid_run, invalid_run)):
        before = json.loads((run / RESULTS).read_bytes())
        copy = copied(run, tmp_path / str(number))
        code, _, err = maxq(capsys, "check", copy)
        assert (code, err) == (number, "")
        assert json.loads((copy / RESULTS).read_bytes()) == before
        assert (copy / RESULTS_EDN).exists()


def test_check_of_a_run_that_was_killed_judges_what_is_there(
    valid_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No end marker, the last line incomplete: as kill -9 and a full disk leave it."""
    run = copied(valid_run, tmp_path / "run")
    whole = (run / "history.jsonl").read_bytes()
    (run / "history.jsonl").write_bytes(whole[: len(whole) // 2])
    lines = (run / "history.jsonl").read_bytes().count(b"\n")
    digests = (run / "history.digests").read_bytes().splitlines(keepends=True)
    kept = [line for line in digests if json.loads(line)["lines"] <= lines]
    (run / "history.digests").write_bytes(b"".join(kept))
    code, out, err = maxq(capsys, "check", run)
    assert code == 2
    assert "operations have no digest" in err
    assert "verdict: unknown" in out
    assert "did not end properly" in err
    assert "incomplete last line of" in err
    assert json.loads((run / RESULTS).read_bytes())["valid"] == "unknown"
    assert not open_run(run).complete, "still a run that did not end"


def test_check_of_a_history_that_was_altered_names_the_lines_and_judges_nothing(
    valid_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = copied(valid_run, tmp_path / "run")
    lines = (run / "history.jsonl").read_bytes().splitlines(keepends=True)
    at = next(n for n, line in enumerate(lines) if b'"type":"ok"' in line and n > 40)
    lines[at] = lines[at].replace(b'"type":"ok"', b'"type":"info"')
    (run / "history.jsonl").write_bytes(b"".join(lines))
    code, out, err = maxq(capsys, "check", run)
    assert (code, out) == (EXIT_USAGE, "")
    found = re.search(r"history\.jsonl: lines (\d+) to (\d+): not as they were recorded", err)
    assert found is not None
    assert int(found[1]) <= at + 1 <= int(found[2])
    code, out, _ = maxq(capsys, "check", run, "--allow-truncated")
    assert code == 2
    assert "unknown" in out


def test_check_of_a_run_that_goes_on_leaves_its_results_alone(
    valid_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = copied(valid_run, tmp_path / "run")
    with stored_run.held(run) as free:
        assert free
        code, _, err = maxq(capsys, "check", run)
    assert code == 0
    assert "still goes on" in err
    assert not (run / RESULTS).exists()


def test_a_damaged_history_is_refused_with_line_and_reason(
    valid_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = copied(valid_run, tmp_path / "run")
    lines = (run / "history.jsonl").read_bytes().splitlines(keepends=True)
    lines[41] = b'{"index":41,"rubbish\n'
    (run / "history.jsonl").write_bytes(b"".join(lines))
    code, out, err = maxq(capsys, "check", run)
    assert (code, out) == (EXIT_USAGE, "")
    assert "history.jsonl: line 42: " in err
    for form in ((), ("--json",)):
        code, out, err = maxq(capsys, "check", run, "--allow-truncated", *form)
        assert code == 2
        assert "line 42: " in err
        assert "unknown" in out
    assert not (run / RESULTS).exists(), "a part of the evidence replaces no verdict"


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (None, "no config.json in run"),
        (b"{", "config.json: "),
        (b"[]", "config.json: "),
        (b"{}", "no config.json in run"),
        (b'{"seed":1}', "config.json: options: "),
        (b'{"options":{"environment":"simulated"}}', "missing required field `seed`"),
        (b'{"options":{"environment":"simulated","seed":"x"}}', "config.json: options: "),
        (b'{"options":{"environment":"x","seed":1,"workload":"bank"}}', "Expected `array`"),
        (
            b'{"options":{"environment":"x","seed":1,"workload":["bank"]}}',
            "'bank'; known: queue, lock",
        ),
        (b'{"options":{"environment":"x","seed":1,"profile":"P-X"}}', "P-X"),
    ],
)  # fmt: skip
def test_a_run_without_readable_options_is_a_clear_error(
    config: bytes | None, said: str, valid_run: Path, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    run = copied(valid_run, tmp_path / "run")
    (run / "config.json").unlink()
    if config is not None:
        (run / "config.json").write_bytes(config)
    code, out, err = maxq(capsys, "check", run)
    assert (code, out) == (EXIT_USAGE, "")
    assert said in err
    assert "Traceback" not in err
    assert not (run / RESULTS).exists()


def test_an_empty_folder_holds_no_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = maxq(capsys, "check", tmp_path)
    assert code == EXIT_USAGE
    assert "no history in" in err


def test_a_run_with_options_of_a_newer_version_is_judged(
    valid_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = copied(valid_run, tmp_path / "run")
    config = json.loads((run / "config.json").read_bytes())
    config["options"]["quantum"] = True
    (run / "config.json").write_bytes(json.dumps(config).encode())
    assert maxq(capsys, "check", run)[0] == 0


def test_a_verdict_that_cannot_be_stored_is_told_all_the_same(
    valid_run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied", "results.json")

    monkeypatch.setattr(Run, "save_verdict", refuse)
    code, out, err = maxq(capsys, "check", valid_run)
    assert code == 0
    assert "verdict: valid" in out
    assert "the verdict is not stored: Permission denied: results.json" in err


def test_a_store_that_cannot_be_made_is_our_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    code, _, err = maxq(capsys, *SIMULATED, tmp_path / "file" / "runs")
    assert code == EXIT_CRASH
    assert err.startswith("error: Not a directory: ")


LINES = ["docker: no engine", "local: ip is missing; apt-get install iproute2"]


def without(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine with neither an engine nor iproute2."""
    lacks = {"docker": Lack("no engine"), "local": Lack("ip is missing", package="iproute2")}
    for name, lack in lacks.items():
        could = frozenset(Capability)
        facts = Facts(environment=name, could=could, lacks=(lack,), machines_max=9, given="")
        monkeypatch.setitem(doctor.FACTS, name, partial(msgspec.structs.replace, facts))


def test_where_auto_finds_none_the_refusal_lists_each_and_nothing_is_begun(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    without(monkeypatch)
    for argv, why in (
        (
            ("test", "--target", "rocketmq:5.5.0"),
            "it runs reference nodes only, not rocketmq:5.5.0",
        ),
        (("up",), "a cluster is there only during a run"),
    ):
        code, out, err = maxq(capsys, *argv, "--store", tmp_path)
        assert (code, out) == (EXIT_CRASH, "")
        assert err.splitlines() == [
            "error: environment: none can do what is asked", *LINES, f"simulated: {why}"
        ]  # fmt: skip
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_tried_where_the_arguments_are_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "choose", None)
    code, _, err = maxq(capsys, "test", "--nemesis", "none,kill", "--store", tmp_path)
    assert (code, "none excludes other faults" in err) == (EXIT_USAGE, True)


def test_a_named_environment_never_falls_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none")
    monkeypatch.setattr(doctor, "choose", None)
    code, out, err = maxq(capsys, "test", "--env", "docker", *SMALL_ARGS, "--store", tmp_path)
    assert (code, out) == (EXIT_CRASH, "")
    assert "error: docker: no engine answers" in err


def test_nothing_stays_up_in_the_simulator(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = maxq(capsys, "up", "--env", "simulated", "--store", tmp_path)
    assert (code, "up needs --env docker or local" in err) == (EXIT_USAGE, True)


def test_auto_falls_back_to_the_simulator_and_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    without(monkeypatch)
    argv = ("test", *SMALL_ARGS, "--store", tmp_path, *SHORT, "--json")
    code, out, err = maxq(capsys, *argv)
    assert code == 0
    chosen = "environment: simulated (chosen by auto: virtual time in this process, needs nothing)"
    assert err.splitlines()[:3] == [*LINES, chosen]
    assert "--env simulated" in json.loads(out)["repeat"]


def test_a_random_seed_is_told_and_repeats_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = maxq(capsys, *SIMULATED[:-3], "--store", tmp_path / "a", *SHORT, "--json")
    repeat = json.loads(first[1])["repeat"].split()
    second = maxq(capsys, *repeat[1:], "--store", tmp_path / "b")
    assert (first[0], second[0]) == (0, 0)
    histories = [(tmp_path / d / "latest" / "history.jsonl").read_bytes() for d in "ab"]
    assert histories[0] == histories[1]


def test_a_full_disk_ends_the_run_with_a_verdict_and_a_readable_journal(tmp_path: Path) -> None:
    """The journal may have 40000 bytes; Python ignores SIGXFSZ, so the write just fails."""
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (40000, 40000)); "
    argv = [*SIMULATED, str(tmp_path)]
    body = f"from maxq.harness.cli.main import run_cli; import sys; sys.exit(run_cli({argv}))"
    done = subprocess.run(
        [sys.executable, "-c", limit + body], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    assert "the store is full: judged is what was recorded until then" in done.stderr
    assert "verdict: unknown: " in done.stdout
    assert "Traceback" not in done.stderr
    stored = open_run(tmp_path / "latest")
    assert len(stored.history) > 50
    assert not stored.complete
    assert run_cli(["check", str(tmp_path / "latest")]) == 2


def test_an_interrupted_simulation_comes_to_a_verdict(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "maxq.harness.cli.main",
        *SIMULATED,
        str(tmp_path),
        "--time-limit",
        "10m",
    ]
    run = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    journal = tmp_path / "current" / "history.jsonl"
    assert eventually(lambda: line_count(journal) >= 60, 60)
    run.send_signal(signal.SIGTERM)
    _, said = run.communicate(timeout=60)
    assert run.returncode == 128 + signal.SIGTERM, "whatever the verdict"
    assert "interrupted by SIGTERM: healing, reading everything, judging" in said
    assert "healed, and all works again" in said
    assert "Traceback" not in said
    assert "Exception ignored" not in said
    assert "not closed" not in said
    assert open_run(tmp_path / "latest").complete


def test_a_reader_that_goes_away_is_no_traceback(valid_run: Path) -> None:
    command = f"{sys.executable} -m maxq.harness.cli.main check {valid_run} --json | head -c 10"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60)
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


def test_a_terminal_without_letters_is_no_failure(invalid_run: Path) -> None:
    environ = {**os.environ, "PYTHONIOENCODING": "ascii", "NO_COLOR": "1"}
    command = [sys.executable, "-m", "maxq.harness.cli.main", "check", str(invalid_run)]
    done = subprocess.run(command, env=environ, capture_output=True, timeout=60)
    assert done.returncode == 1
    assert done.stdout.isascii()


def test_an_unfinished_history_of_a_nemesis_is_no_crash(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run that was killed during its first operation."""
    run = RunStore(tmp_path).create("queue", datetime.now(UTC))
    options = Options(environment="simulated", seed=1)
    run.save_config({"options": msgspec.to_builtins(options)})
    journal = run.open_journal()
    journal.append(Op("info", NEMESIS, "inspect", index=0, time=5))
    journal.abandon()
    code, out, _ = maxq(capsys, "check", run.path)
    assert code == 2
    assert "never completed" in out


@pytest.mark.parametrize("no_color", [True, False])
def test_progress_on_a_terminal_obeys_no_color(tmp_path: Path, no_color: bool) -> None:
    ours, theirs = os.openpty()
    environ = {k: v for k, v in os.environ.items() if k != "NO_COLOR"} | {"TERM": "xterm"}
    if no_color:
        environ["NO_COLOR"] = "1"
    command = [
        sys.executable,
        "-m",
        "maxq.harness.cli.main",
        *SIMULATED,
        str(tmp_path),
        "--time-limit",
        "9s",
    ]
    with subprocess.Popen(
        command, env=environ, stdout=subprocess.DEVNULL, stderr=theirs
    ) as running:
        os.close(theirs)
        seen = b""
        with contextlib.suppress(OSError):  # how a terminal says that its other end is closed
            while more := os.read(ours, 65_536):
                seen += more
    os.close(ours)
    assert running.returncode == 0
    assert b" s left" in seen
    assert b" ok/s" in seen
    assert seen.count(b"\x1b[?25l") == seen.count(b"\x1b[?25h") > 0, "the cursor comes back"
    assert (b"\x1b[32m" in seen) is not no_color
