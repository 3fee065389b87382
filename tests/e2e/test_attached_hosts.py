"""A cluster on hosts with a real sshd, which Max-Q did not start: tested, and left as it was."""

import asyncio
import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hosts_here import image_or_why
from waiting import eventually

from maxq.harness.cli.main import run_cli
from maxq.harness.client.discovery import discover
from maxq.harness.contracts.existing import ClusterFileError
from maxq.histories.store import open_run
from maxq.reference.rpc import loop_dial

MISSING = image_or_why()[1]
if not MISSING:
    from ssh_world import Hosts, Pair

BOUND_S, HEALED_S = 60.0, 45.0
PORTS = {"n": 9876, "a": 10911, "b": 10911}
pytestmark = [
    pytest.mark.docker,
    pytest.mark.serial,
    pytest.mark.timeout(300),
    pytest.mark.skipif(bool(MISSING), reason=MISSING),
]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator["Pair"]:
    hosts = Hosts(tmp_path_factory.mktemp("hosts"), image_or_why()[0])
    try:
        yield Pair(hosts)
    finally:
        hosts.stop()


def served(pair: "Pair") -> bool:
    return pair.whole() and all(pair.hosts.listens(name, port) for name, port in PORTS.items())


def lists_both(name_server: str) -> bool:
    """Whether a name server knows both brokers."""
    with contextlib.suppress(ClusterFileError):
        return len(asyncio.run(discover(loop_dial, [name_server], "")).cluster.broker) == 2
    return False


def asked(pair: "Pair", store: Path) -> list[str]:
    return ["test", "--cluster", str(pair.file()), "--nemesis", "restart,partition", "--only",
            "broker-b", "--time-limit", "12s", "--interval", "1s", "--seed", "5",
            "--store", str(store)]  # fmt: skip


def struck(pair: "Pair", store: Path) -> "subprocess.Popen[str]":
    """A harness with a fault of whose the cluster suffers now."""
    assert eventually(lambda: served(pair), BOUND_S)
    harness = subprocess.Popen(
        [sys.executable, "-m", "maxq.harness.cli.main", *asked(pair, store), "--yes", "mine"],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    if eventually(lambda: not pair.whole(), BOUND_S):
        return harness
    harness.kill()
    raise AssertionError(f"no fault was at work: {harness.communicate()[1]}")


def test_a_cluster_on_hosts_is_tested_and_left_as_it_was(
    pair: "Pair", tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    hosts, store = pair.hosts, tmp_path / "runs"
    name_server = f"{hosts.at['n']}:9876"
    assert eventually(lambda: served(pair) and lists_both(name_server), BOUND_S)
    before = pair.pids()
    assert run_cli(asked(pair, store)) == 2
    said, _ = capfd.readouterr()
    assert f"ssh admin@{hosts.at['a']}:22 broker-a.service" in said
    assert run_cli([*asked(pair, store), "--yes", "another"]) == 254
    assert (pair.pids(), store.exists()) == (before, False), "nothing is done without consent"

    capfd.readouterr()
    assert run_cli([*asked(pair, store), "--yes", "mine", "--json"]) in (0, 2), "a busy machine"
    results = json.loads(capfd.readouterr()[0])
    assert results["valid"] is not False
    assert {"restart", "start-partition"} <= {fault["f"] for fault in results["faults"]}
    assert all(fault["holds"] for fault in results["faults"])
    config = json.loads((store / "latest" / "config.json").read_text())
    assert config["left"] == []
    assert config["clocks"].keys() == {f"admin@{at}:22" for at in hosts.at.values()}
    offsets = [of["ahead_ms"] for both in config["clocks"].values() for of in both.values()]
    assert len(offsets) == 6
    assert max(map(abs, offsets)) < 100, "they have this machine's clock"
    assert pair.whole()
    assert pair.pids() != before, "something was killed"
    assert [hosts.owes(name) for name in hosts.at] == [False] * 3


@pytest.mark.campaign  # a link that is cut shows the same, and more
def test_hosts_are_as_before_when_the_harness_is_killed(pair: "Pair", tmp_path: Path) -> None:
    harness = struck(pair, tmp_path / "runs")
    harness.send_signal(signal.SIGKILL)
    harness.communicate()
    assert eventually(pair.whole, HEALED_S)
    assert open_run(tmp_path / "runs" / "latest").history.ops


def test_hosts_are_as_before_when_the_link_is_cut(pair: "Pair", tmp_path: Path) -> None:
    harness = struck(pair, tmp_path / "runs")
    for name in pair.hosts.at:
        pair.hosts.pull(name)
    try:
        assert eventually(pair.whole, HEALED_S)
        _, said = harness.communicate(timeout=BOUND_S)
    finally:
        for name in pair.hosts.at:
            pair.hosts.plug(name)
    assert harness.returncode == 255
    assert "is lost; its watchdog there puts everything right within 45 s" in said
