"""Real processes in Linux network namespaces, driven through the command line as a user would."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.environments.api import EnvironmentUnavailable
from harness.environments.local import check

try:
    check()
    MISSING = ""
except EnvironmentUnavailable as error:
    MISSING = str(error)

pytestmark = [pytest.mark.local, pytest.mark.skipif(bool(MISSING), reason=MISSING)]


def maxq(*args: str) -> list[str]:
    return [sys.executable, "-m", "harness.cli", *args]


def run_json(folder: Path, *args: str) -> tuple[int, dict[str, object]]:
    command = maxq("test", "--environment", "local", "--store", str(folder), "--json", *args)
    done = subprocess.run(command, capture_output=True, timeout=110)
    assert done.stdout, done.stderr.decode()
    return done.returncode, json.loads(done.stdout)


def namespaces() -> set[str]:
    """The network namespaces of all processes on this machine."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*/ns/net"):
        try:
            found.add(os.readlink(entry))
        except OSError:  # ended meanwhile
            continue
    return found


def processes_of(folder: Path) -> list[str]:
    """Command lines of processes that name a folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in words:
            found.append(words)
    return found


def eventually(condition: Callable[[], object], timeout_s: float) -> bool:
    """Whether a condition comes true in time."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return bool(condition())


def test_kill_and_restart_lose_nothing(tmp_path: Path) -> None:
    """S6, S10, S11 on real processes; every fault proven; nothing left behind."""
    before = namespaces()
    code, verdict = run_json(tmp_path, "--time-limit", "10s", "--seed", "5")
    assert (code, verdict["valid"]) == (0, True)
    faults = verdict["faults"]
    assert isinstance(faults, list)
    assert {f["f"] for f in faults} == {"kill", "start", "await-recovery"}
    assert all(f["holds"] for f in faults)
    run = Path(str(verdict["run"]))
    assert (run / "results.edn").read_text().startswith("{")
    assert (run / "nodes" / "b0-0" / "node.log").stat().st_size > 0
    logs = list((run / "nodes" / "b0-0" / "store" / "commitlog").iterdir())
    assert 0 < sum(f.stat().st_size for f in logs) < 16 << 20, "cut to their end"
    assert eventually(lambda: namespaces() == before, 5)
    assert not processes_of(tmp_path)


@pytest.mark.parametrize("attempt", [1, 2, 3])
def test_the_first_mutant_is_caught(tmp_path: Path, attempt: int) -> None:
    """S6: a broker that acknowledges at once and writes a second later."""
    code, verdict = run_json(
        tmp_path, "--time-limit", "8s", "--mutant", "ack_before_write", "--seed", str(attempt)
    )
    assert code == 1
    anomalies = verdict["anomalies"]
    assert isinstance(anomalies, list)
    assert any(a["name"] in ("lost-write", "lost-tail") for a in anomalies)


def test_a_killed_harness_leaves_nothing_behind_but_its_history(tmp_path: Path) -> None:
    """kill -9 in mid-run: processes and namespaces go, the journal can be judged."""
    before = namespaces()
    command = maxq(
        "test", "--environment", "local", "--time-limit", "60s", "--store", str(tmp_path)
    )
    harness = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    journal = tmp_path / "latest" / "history.jsonl"

    def running() -> bool:
        return journal.exists() and journal.read_bytes().count(b"\n") > 200

    try:
        assert eventually(running, 60)
        assert processes_of(tmp_path)
    finally:
        harness.send_signal(signal.SIGKILL)
        harness.wait()
    assert eventually(lambda: not processes_of(tmp_path) and namespaces() <= before, 5)
    judged = subprocess.run(
        maxq("check", str(tmp_path / "latest"), "--json"), capture_output=True, timeout=60
    )
    assert judged.returncode == 2, "the final reads are missing, so it must be unknown"
    assert b"did not end properly" in judged.stderr
    assert json.loads(judged.stdout)["valid"] == "unknown"


def test_an_interrupt_cleans_up(tmp_path: Path) -> None:
    """Control-C stops the run, leaves nothing, and is our own failure (255), not a verdict."""
    command = maxq(
        "test", "--environment", "local", "--time-limit", "60s", "--store", str(tmp_path)
    )
    harness = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
    assert eventually(lambda: (tmp_path / "latest" / "history.jsonl").exists(), 60)
    harness.send_signal(signal.SIGINT)
    _, told = harness.communicate(timeout=30)
    assert harness.returncode == 255
    assert b"interrupted" in told
    assert eventually(lambda: not processes_of(tmp_path), 5)
