"""Runs whose links are slow, in namespaces: a valid one, whose sends take as long as the link to
the slave, and what is said where a proxy ends or an environment cannot do what is asked."""

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

from maxq.harness.environments.machines import toxiproxy_server

WHY = missing() or str(toxiproxy_server.lacking() or "")
pytestmark = [
    pytest.mark.local,
    pytest.mark.skipif(bool(WHY), reason=WHY),
    pytest.mark.timeout(300),
]
HEADER: dict[str, Any] = {"item": "header", "name": "slow links", "length": 20, "options": {
    "environment": "local", "workload": ["queue"], "profile": "P-SAFE", "controllers": 3,
    "broker_sets": 1, "replicas": 2, "nemesis": ["change-address"]}}  # fmt: skip
LOADS = (
    {"item": "load", "id": "w", "until": 20, "rate": 20},
    {"item": "load", "id": "r", "f": "poll", "until": 20, "rate": 4},
)
LATE = {"ms": 200, "jitter_ms": 50, "from": "master", "ports": "ha"}
# From the master to a slave, and while a cut strikes, which is proven as ever; then all of a
# controller's links, narrow and late, which moves to another address meanwhile. Before that all
# connections of the slave are reset.
ACTS = (
    {"id": "d", "f": "start-delay", "when": {"at": 2}, "who": {"part": "slave"}, "args": LATE},
    {"id": "p", "f": "start-partition", "when": {"after": "d", "at": 4},
     "who": {"part": "controller-leader"}},
    {"id": "p.h", "f": "stop-partition", "when": {"after": "p", "at": 1}, "who": {"of": "p"}},
    {"id": "d.h", "f": "stop-delay", "when": {"after": "p.h"}, "who": {"of": "d"}},
    {"id": "z", "f": "reset-connections", "when": {"after": "d.h"}, "who": {"part": "slave"}},
    {"id": "c", "f": "start-delay", "when": {"after": "z", "at": 1},
     "who": {"part": "controller"}, "args": {"ms": 40, "kb_s": 500, "ways": "both"}},
    {"id": "m", "f": "change-address", "when": {"after": "c"}, "who": {"of": "c"}},
    {"id": "c.h", "f": "stop-delay", "when": {"after": "m", "at": 1}, "who": {"of": "c"}},
)  # fmt: skip


def replayed(folder: Path, header: dict[str, Any], *acts: Any) -> subprocess.CompletedProcess[str]:
    """A run of a schedule with these acts."""
    script = folder / "links.jsonl"
    lines = [header, *LOADS, *({"item": "act", **act} for act in acts)]
    script.write_text("".join(json.dumps(line) + "\n" for line in lines))
    command = [sys.executable, "-m", "maxq.harness.cli.main", "replay", str(script),
               "--store", str(folder / "runs")]  # fmt: skip
    return subprocess.run(command, capture_output=True, text=True, timeout=200)


def history(store: Path) -> list[dict[str, Any]]:
    path = store / "latest" / "history.jsonl"
    return [json.loads(line) for line in path.read_bytes().splitlines()] if path.exists() else []


def done(ops: list[dict[str, Any]], f: str) -> list[tuple[int, dict[str, Any]]]:
    """When each act of a kind had been done, and what it has seen of each node."""
    return [
        (op["time"], seen)
        for op in ops
        if op.get("f") == f and isinstance(op.get("value"), dict)
        for name, seen in op["value"].items()
        if name != "nobody"
    ]


def sends_ms(ops: list[dict[str, Any]], begin: int, end: int) -> list[float]:
    """How long sends took that began and were acknowledged between these times, sorted."""
    begun, took = {}, []
    for op in ops:
        if op.get("f") == "send" and op["type"] == "invoke":
            begun[op["process"]] = op["time"]
        elif op.get("f") == "send" and op["type"] == "ok":
            since = begun.pop(op["process"])
            if begin <= since and op["time"] <= end:
                took.append((op["time"] - since) / 1e6)
    return sorted(took)


@pytest.mark.campaign  # each machine is tried by the conformance tests
def test_sends_wait_for_a_slave_whose_link_is_slow_and_nothing_that_was_promised_breaks(
    tmp_path: Path,
) -> None:
    run = replayed(tmp_path, HEADER, *ACTS)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "verdict: valid" in run.stdout
    ops = history(tmp_path / "runs")
    (late_at, late), (_, controller) = done(ops, "start-delay")
    (cut_at, cut), (over_at, over) = done(ops, "start-partition")[0], done(ops, "stop-delay")[0]
    for seen in (late, controller, cut, over):
        assert seen["holds"], seen
    assert (late["straight"], late["redirected"]) == ([], 1)
    took = sends_ms(ops, late_at, cut_at)
    assert 150 <= took[0] < took[len(took) // 2] <= 270, took
    assert sends_ms(ops, over_at, over_at + 10**9)[0] < 50
    assert all(ms >= 79 for ms in controller["asked_ms"].values())
    assert all(450 <= rate <= 550 for rate in controller["echo_kb_s"].values())
    config = json.loads((tmp_path / "runs" / "latest" / "config.json").read_text())
    assert "toxiproxy-server, sha256 " in config["toxiproxy"]


def test_a_bandwidth_is_refused_in_the_simulator_before_anything_is_started(
    tmp_path: Path,
) -> None:
    header = {**HEADER, "options": {**HEADER["options"], "environment": "simulated"}}
    act = {"id": "d", "f": "start-delay", "who": {"part": "slave"}, "args": {"kb_s": 100}}
    run = replayed(tmp_path, header, act)
    assert run.returncode not in (0, 1)
    assert "simulated cannot do bandwidth, which act d (start-delay) needs: kb_s" in run.stderr


def test_a_run_ends_in_a_sentence_when_a_toxiproxy_does(tmp_path: Path) -> None:
    harness = start(tmp_path, "--nemesis", "delay", "--time-limit", "60s", "--seed", "3")
    try:
        assert eventually(lambda: len(history(tmp_path)) > 20, 120)
        proxy = min(toxiproxies(tmp_path))
        os.kill(proxy, signal.SIGKILL)
        said, errors = harness.communicate(timeout=60)
    finally:
        harness.kill()
    assert harness.returncode == 255, said + errors
    assert "ended with code -9, and with it the connections of" in said + errors
    assert "Traceback" not in said + errors
    assert eventually(lambda: not processes_of(tmp_path), 5)


def toxiproxies(folder: Path) -> list[int]:
    """The toxiproxies of a run, by the folders that they work in."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                program, where = os.readlink(entry / "exe"), os.readlink(entry / "cwd")
            except OSError:
                continue
            if "toxiproxy" in program and Path(where).is_relative_to(folder):
                found.append(int(entry.name))
    return found
