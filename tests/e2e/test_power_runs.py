"""Runs whose machines lose their power, in namespaces and in containers: a valid one, and what a
harness leaves that is killed meanwhile."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from local_cluster import missing
from waiting import eventually

from maxq.harness.contracts.environment import EnvironmentUnavailable
from maxq.harness.environments.disks import leaks, node_disk
from maxq.harness.environments.engine import client as docker_engine
from maxq.harness.environments.engine.leaks import Cleaned
from maxq.harness.environments.leaks import left_of


def no_engine() -> str:
    try:
        docker_engine.connect().close()
    except EnvironmentUnavailable as error:
        return str(error)
    return ""


def world_of(name: str, why: str) -> Any:
    why = why or str(node_disk.lacking() or "")
    marks = [getattr(pytest.mark, name), pytest.mark.skipif(bool(why), reason=why)]
    return pytest.param(name, marks=marks)


WORLDS = [world_of("local", missing()), world_of("docker", no_engine())]
pytestmark = [
    pytest.mark.serial,
    pytest.mark.timeout(300),
    pytest.mark.parametrize("where", WORLDS),
]
ARGS = (
    *("--workload", "queue", "--nemesis", "power", "--profile", "all", "--controllers", "1"),
    *("--broker-sets", "1", "--replicas", "2", "--rate", "50", "--seed", "5"),
)
MOUNTS = Path("/proc/mounts")


def start(where: str, folder: Path, *args: str) -> subprocess.Popen[str]:
    command = [
        sys.executable, "-m", "maxq.harness.cli.main", "test", "--environment", where, *ARGS,
        "--store", str(folder), *args,
    ]  # fmt: skip
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def strikes(run: Path) -> list[dict[str, Any]]:
    """What completed losses of power told of each node, in a journal."""
    path = run / "history.jsonl"
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    ops = [json.loads(line) for line in lines if b'"power-loss"' in line and line[-1:] == b"\n"]
    return [op["value"] for op in ops if isinstance(op.get("value"), dict)]


def test_nodes_lose_what_they_had_not_synced_and_nothing_that_was_promised(
    where: str, tmp_path: Path
) -> None:
    run = start(where, tmp_path, "--time-limit", "10s", "--json")
    out, _ = run.communicate(timeout=280)
    said = json.loads(out)
    assert run.returncode == 0, said
    told = [seen for struck in strikes(tmp_path / "latest") for seen in struck.values()]
    assert told
    for seen in told:
        assert (seen["holds"], seen["code"]) == (True, -signal.SIGKILL)
        assert min(seen["lost_bytes"], seen["lost_names"]) >= 0
    kept = tmp_path / "latest" / "nodes" / "b0-0" / "store" / "commitlog"
    assert list(kept.iterdir()), "stores are collected before their disks go"
    assert leaks.of(run.pid) == []


def test_nothing_is_left_of_a_harness_that_is_killed(where: str, tmp_path: Path) -> None:
    harness = start(where, tmp_path, "--time-limit", "60s")
    try:
        assert eventually(lambda: strikes(tmp_path / "latest"), 250)
        left = left_of(harness.pid)
        assert len(leaks.of(harness.pid)) == 4, "a name server, a controller, two brokers"
        assert str(tmp_path) not in MOUNTS.read_text(), "only machines see their disks"
        assert any("loop device" in what for what in left.still_there())
    finally:
        os.kill(harness.pid, signal.SIGKILL)
        harness.communicate()
    assert eventually(lambda: not left.still_there(), 20), left.still_there()
    assert str(tmp_path) not in MOUNTS.read_text()
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert max(path.stat().st_size for path in files) < node_disk.TRIAL_BYTES, "no image has a name"
    assert leaks.clean() == Cleaned()
