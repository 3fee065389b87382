"""Runs whose machines have wrong clocks, in namespaces: a valid one, by a schedule whose acts
strike nodes that run and one that is down, and what a harness leaves that is killed meanwhile."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from local_cluster import missing, processes_of, start
from waiting import eventually

from maxq.harness.environments.machines import wrong_clock

WHY = missing() or str(wrong_clock.lacking() or "")
pytestmark = [
    pytest.mark.local,
    pytest.mark.skipif(bool(WHY), reason=WHY),
    pytest.mark.timeout(200),
]
HOUR_MS = 3_600_000
STEP = {"args": {"offset_ms": HOUR_MS}}
HEADER = {"item": "header", "name": "wrong clocks", "length": 30, "options": {
    "environment": "local", "workload": ["queue"], "profile": "P-SAFE", "controllers": 3,
    "broker_sets": 1, "replicas": 2}}  # fmt: skip
# The leading controller's clock, a master's, and that of a slave which is down and starts with it.
ACTS = (
    {"id": "c", "f": "bump-clock", "when": {"at": 1}, "who": {"part": "controller-leader"}, **STEP},
    {"id": "c.h", "f": "reset-clock", "when": {"after": "c", "at": 3}, "who": {"of": "c"}},
    {"id": "m", "f": "bump-clock", "when": {"after": "c.h", "at": 1}, "who": {"part": "master"},
     "args": {"offset_ms": -HOUR_MS}},
    {"id": "m.h", "f": "reset-clock", "when": {"after": "m", "at": 3}, "who": {"of": "m"}},
    {"id": "k", "f": "kill", "when": {"after": "m.h", "at": 1}, "who": {"part": "slave"}},
    {"id": "d", "f": "bump-clock", "when": {"after": "k"}, "who": {"of": "k"}, **STEP},
    {"id": "s", "f": "start", "when": {"after": "d"}, "who": {"of": "k"}},
    {"id": "d.h", "f": "reset-clock", "when": {"after": "s", "at": 1}, "who": {"of": "d"}},
)  # fmt: skip
LOADS = (
    {"item": "load", "id": "w", "until": 30, "rate": 20},
    {"item": "load", "id": "r", "f": "poll", "until": 30, "rate": 8},
)


def replayed(folder: Path, *acts: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    """A run of a schedule with these acts."""
    script = folder / "clocks.jsonl"
    lines = [HEADER, *LOADS, *({"item": "act", **act} for act in acts)]
    script.write_text("".join(json.dumps(line) + "\n" for line in lines))
    command = [sys.executable, "-m", "maxq.harness.cli.main", "replay", str(script),
               "--store", str(folder / "runs")]  # fmt: skip
    return subprocess.run(command, capture_output=True, text=True, timeout=180)


def proofs(store: Path) -> list[tuple[str, dict[str, Any]]]:
    """What each completed act on a clock has seen, of each node, in order."""
    path = store / "latest" / "history.jsonl"
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    ops = [json.loads(line) for line in lines if b"-clock" in line and line[-1:] == b"\n"]
    return [(op["f"], seen) for op in ops if isinstance(op.get("value"), dict)
            for name, seen in op["value"].items() if name != "nobody"]  # fmt: skip


@pytest.mark.campaign  # each machine is tried by the conformance tests
def test_clocks_go_wrong_and_right_again_and_nothing_that_was_promised_breaks(
    tmp_path: Path,
) -> None:
    done = replayed(tmp_path, *ACTS)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "verdict: valid" in done.stdout
    seen = [(f, what.get("off_ms"), what.get("followed"), what.get("moved_s"), what["holds"])
            for f, what in proofs(tmp_path / "runs")]  # fmt: skip
    bumped, reset = "bump-clock", "reset-clock"
    assert [(f, off, followed) for f, off, followed, _, _ in seen] == [
        (bumped, HOUR_MS, True), (reset, 0, True),
        (bumped, -HOUR_MS, True), (reset, 0, True),
        (bumped, HOUR_MS, None), (reset, 0, True),
    ]  # fmt: skip
    assert all(holds for *_, holds in seen)
    moved = [list(by.values()) for *_, by, _ in seen if by]
    near = [[pytest.approx(s, abs=2)] for s in (-3600, 3600, -3600)]
    assert moved == near, "a master back and forth; a slave that began an hour ahead, back"


def test_a_drift_is_refused_before_anything_is_started(tmp_path: Path) -> None:
    args = {"args": {"drift_ppm": 50_000}}
    done = replayed(tmp_path, {"id": "a", "f": "bump-clock", "who": {"part": "master"}, **args})
    said = "local cannot do clock-drift, which act a (bump-clock) needs: drift is for the simulator"
    assert done.returncode not in (0, 1)
    assert said in done.stderr
    assert "starting" not in done.stderr + done.stdout


def test_nothing_is_left_of_a_harness_that_is_killed_while_a_clock_is_wrong(
    tmp_path: Path,
) -> None:
    def left() -> set[str]:
        return {name for name in os.listdir("/dev/shm") if "faketime" in name}

    before = left()
    harness = start(tmp_path, "--nemesis", "clock", "--time-limit", "60s", "--seed", "3")
    try:
        assert eventually(lambda: proofs(tmp_path), 120)
        assert processes_of(tmp_path)
    finally:
        harness.send_signal(signal.SIGKILL)
        harness.communicate()
    assert eventually(lambda: not processes_of(tmp_path), 5)
    assert left() <= before
