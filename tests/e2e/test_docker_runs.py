"""Whole runs in real containers, as a user makes them: a valid one, and one of each mutant."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from docker_here import missing

from maxq.harness.environments.engine import client as docker_engine

MISSING = missing()
pytestmark = [
    pytest.mark.docker,
    pytest.mark.serial,
    pytest.mark.timeout(300),
    pytest.mark.skipif(bool(MISSING), reason=MISSING),
]
# Each with the fault that brings it out; of seed 16 the first partition isolates the master.
MUTANTS = {
    "ack_before_write": ("S6", "queue", "kill", "10s"),
    "ack_without_replicas": ("S6", "queue", "partition", "12s"),
    "elect_keeps_epoch": ("S5", "queue", "kill", "8s"),
    "lock_without_quorum": ("L2", "lock", "none", "16s"),
    "new_id_each_start": ("S2", "registration", "kill", "12s"),
}
AT_EACH_CHANGE = ("ack_without_replicas",)  # the others are a campaign


def maxq(store: Path, *words: str) -> tuple[int, dict[str, Any]]:
    command = [
        sys.executable,
        "-m",
        "maxq.harness.cli.main",
        "test",
        "--env",
        "docker",
        "--seed",
        "16",
    ]
    done = subprocess.run(
        [*command, *words, "--store", str(store), "--json"],
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def left() -> list[str]:
    """Containers and networks of runs."""
    engine = docker_engine.connect()
    try:
        return [f"{r.kind} {r.name}" for r in engine.remains()]
    finally:
        engine.close()


def test_a_run_in_containers_is_valid_and_leaves_nothing(tmp_path: Path) -> None:
    """Kills, cuts and moves, each proven; replicas equal at the end."""
    before = left()
    code, told = maxq(tmp_path, "--workload", "queue,registration", "--time-limit", "15s")
    assert (code, told["valid"]) == (0, True), told["verdicts"]
    struck = {fault["f"] for fault in told["faults"]}
    assert {"kill", "start-partition", "change-address"} <= struck
    assert all(fault["holds"] for fault in told["faults"])
    replicas = next(v for v in told["verdicts"] if v["checker"] == "replicas")
    assert replicas["counts"]["members-read"] == 3
    assert set(left()) <= set(before)


@pytest.mark.parametrize("mutant", [
    pytest.param(name, marks=() if name in AT_EACH_CHANGE else pytest.mark.campaign)
    for name in sorted(MUTANTS)
])  # fmt: skip
def test_a_mutant_in_containers_is_caught_by_its_claim(tmp_path: Path, mutant: str) -> None:
    claim, workload, nemesis, limit = MUTANTS[mutant]
    words = ("--workload", workload, "--nemesis", nemesis, "--time-limit", limit)
    code, told = maxq(tmp_path, *words, "--mutant", mutant)
    assert code == 1, told["verdicts"]
    assert claim in {anomaly["claim"] for anomaly in told["anomalies"]}
