"""Long commands end soon after one signal, keep what there is, and go on where they were."""

import json
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from local_cluster import missing
from waiting import eventually, line_count

from maxq.harness.cli.given.ticker import Steps, cut, in_words
from maxq.harness.cli.main import run_cli
from maxq.harness.environments.leaks import left_of

MAXQ = (sys.executable, "-m", "maxq.harness.cli.main")
OVER_S = 5.0
MISSING = missing()


def interrupted(
    words: list[str], number: signal.Signals, seen: Path, lines: int
) -> tuple[str, str, float]:
    """What a command printed that was interrupted once a journal had so many lines, and how long it
    took to end: with the exit code of its signal, and nothing of it is left then."""
    process = subprocess.Popen([*MAXQ, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True, start_new_session=True)  # fmt: skip
    assert eventually(lambda: line_count(seen) >= lines or process.poll() is not None, 90)
    assert process.poll() is None, process.communicate()
    left = left_of(process.pid)
    begun = time.monotonic()
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    took = time.monotonic() - begun
    # A helper process of the interpreter goes once it notices that the command has gone.
    gone = eventually(lambda: not left.still_there(), begun + OVER_S - time.monotonic())
    assert gone, left.still_there()
    assert process.returncode == 128 + number, err
    return out, err, took


@pytest.mark.parametrize(("number", "jobs"), [
    (signal.SIGINT, 1), pytest.param(signal.SIGHUP, 2, marks=pytest.mark.campaign),
])  # fmt: skip
def test_seeds_that_are_interrupted_are_summed_and_gone_on_with(
    number: signal.Signals, jobs: int, tmp_path: Path
) -> None:
    words = ["simulate", "--seeds", "0..5", "--length", "8s", "--jobs", str(jobs), "--store",
             str(tmp_path)]  # fmt: skip
    journal = tmp_path / "simulated" / "reference" / "journal.jsonl"
    out, err, took = interrupted(words, number, journal, 2)
    assert took < OVER_S
    assert "verdicts: " in out
    assert f"--seeds 0..5 --length 8s --jobs {jobs}" in err.partition("go on:   ")[2]
    before = len(journal.read_bytes().splitlines())
    done = subprocess.run([*MAXQ, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    seeds = [json.loads(line)["seed"] for line in journal.read_bytes().splitlines()]
    assert sorted(seeds) == list(range(6)), "no seed was run twice, and none is short"
    assert len(seeds) > before


CAMPAIGN = """
name = "cut"
[[cell]]
env = ["simulated"]
time_limit = ["6s"]
seeds = 3
"""


def test_a_campaign_that_is_interrupted_goes_on(tmp_path: Path) -> None:
    """The run at work is a process of its own; it ends as well."""
    (tmp_path / "cut.toml").write_text(CAMPAIGN)
    folder = tmp_path / "campaigns" / "cut"
    words = ["campaign", str(tmp_path / "cut.toml"), "--fresh", "--store", str(tmp_path)]
    out, err, took = interrupted(words, signal.SIGTERM, folder / "journal.jsonl", 1)
    assert took < OVER_S
    assert re.search(r"^[12] of [12] passed$", out, re.M)
    [again] = [line.partition("go on:   ")[2] for line in err.splitlines() if "go on:" in line]
    assert "--fresh" not in again, "it would forget what is stored"
    done = subprocess.run(shlex.split(again), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "done before: 1. valid seed 1" in done.stdout
    names = [
        json.loads(line)["name"] for line in (folder / "journal.jsonl").read_bytes().splitlines()
    ]
    assert names == [f"1. valid seed {n}" for n in (1, 2, 3)]


@pytest.mark.local
@pytest.mark.skipif(bool(MISSING), reason=MISSING)
def test_runs_of_real_machines_are_cut_off_too(tmp_path: Path) -> None:
    """The run at work is not healed and read to its end: it is made again."""
    words = ["explore", "--env", "local", "--seeds", "0..1", "--length", "300s", "--store",
             str(tmp_path)]  # fmt: skip
    history = tmp_path / "latest" / "history.jsonl"
    out, err, took = interrupted(words, signal.SIGINT, history, 200)
    assert took < OVER_S
    assert "pairs of values met: 0 of" in out
    assert "maxq.harness.cli.main explore" in err
    assert not (tmp_path / "explored" / "journal.jsonl").exists()


def test_a_shrinking_that_is_interrupted_keeps_the_best(tmp_path: Path) -> None:
    failing = ("test", "--env", "simulated", "--seed", "1", "--time-limit", "15s")
    bug = ("--workload", "queue", "--mutant", "ack_without_replicas")
    assert run_cli([*failing, *bug, "--store", str(tmp_path)]) == 1
    run = tmp_path / "latest"
    words = ["shrink", str(run)]
    out, err, took = interrupted(words, signal.SIGTERM, run / "shrunk" / "tried.jsonl", 6)
    assert took < OVER_S
    assert "best so far: " in out
    assert "maxq.harness.cli.main shrink" in err
    script = run / "shrunk" / "best.jsonl"
    assert f"replay {script}" in out
    assert run_cli(["replay", str(script), "--store", str(tmp_path / "again")]) == 1


def test_a_part_of_a_run_is_judged_by_what_could_be_done_in_it(tmp_path: Path) -> None:
    """An hour was asked for, and a minute or so done when it was interrupted."""
    words = ["test", "--env", "simulated", "--seed", "1", "--workload", "queue", "--time-limit",
             "1h", "--store", str(tmp_path), "--json"]  # fmt: skip
    process = subprocess.Popen([*MAXQ, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True, start_new_session=True)  # fmt: skip
    journal = tmp_path / "latest" / "history.jsonl"
    assert eventually(lambda: journal.exists() and journal.stat().st_size >= 500_000, 90)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=120)
    printed = json.loads(out)
    assert printed["valid"] is True, printed["verdict"]
    assert process.returncode == 128 + signal.SIGINT
    assert run_cli(["check", str(tmp_path / "latest")]) == 0, "also when it is judged again"


def test_times_are_told_roughly() -> None:
    assert [in_words(s) for s in (4, 89, 600, 7_200)] == ["4 s", "89 s", "10 min", "2.0 h"]
    steps = Steps("runs", before=2)
    assert (steps.left(0, 9), steps.left(9, 9)) == ("", "")
    assert steps.line(2, 9, "", "1 failed") == "2 of 9 runs done; 1 failed"
    assert (cut("12345", 5), cut("123456", 5)) == ("12345", "1234…")
