"""The table of bad input (design, section 9): one test a row, on real processes and real files."""

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from small import SMALL_ARGS
from test_reference_process import Node, ask, free_ports

BOUND_S = 60
SIMULATED = ("test", *SMALL_ARGS, "--env", "simulated", "--time-limit", "2s", "--seed", "1")


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Node]]:
    nodes: list[Node] = []

    def make(role: str, text: str) -> Node:
        nodes.append(Node(tmp_path / "node", role, text))
        return nodes[-1]

    yield make
    for node in nodes:
        node.process.kill()
        node.process.wait()


def maxq(*argv: object, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "maxq.harness.cli.main", *map(str, argv)],
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=BOUND_S,
    )


def test_garbage_on_the_wire(start: Callable[..., Node], tmp_path: Path) -> None:
    """Connection closed or the protocol's own code; the node lives; nothing logged per byte."""
    [port] = free_ports(1)
    own = f"kvConfigPath={tmp_path}/kvConfig.json\n"
    node = start("namesrv", f"listenPort={port}\nbindAddress=127.0.0.1\n{own}")
    node.until("namesrv.started")
    quiet = node.log.stat().st_size
    too_long, no_header = (2**31 - 1).to_bytes(4, "big"), b"\0\0\0\x08\0\0\0\x04{{{{"
    for garbage in (too_long + bytes(1 << 16), no_header, os.urandom(1 << 16)):
        with socket.create_connection(("127.0.0.1", port), BOUND_S) as peer:
            peer.settimeout(BOUND_S)
            try:
                peer.sendall(garbage)
                peer.shutdown(socket.SHUT_WR)
                while peer.recv(4096):
                    """Until it closes."""
            except ConnectionError:
                continue
    assert ask(f"127.0.0.1:{port}", 31_000, {}).code == 3
    assert node.process.poll() is None
    assert node.log.stat().st_size - quiet < 4096


def until_it_answers(node: Node, port: int) -> None:
    """Until the controller gives the next broker id, which it can once its entry is applied."""
    wanted = {"clusterName": "c", "brokerName": "b"}
    end = time.monotonic() + BOUND_S
    while ask(f"127.0.0.1:{port}", 1012, wanted).code != 0:
        assert time.monotonic() < end, node.log.read_text()
        with contextlib.suppress(subprocess.TimeoutExpired):
            node.process.wait(0.02)


def test_a_damaged_store(start: Callable[..., Node], tmp_path: Path) -> None:
    """What cannot be recovered without breaking a promise is refused: file, offset, why."""
    peers, store = free_ports(1), tmp_path / "store"
    [port] = peers
    config = (
        f"controllerDLegerGroup=g\ncontrollerDLegerPeers=c0-127.0.0.1:{port}\n"
        f"controllerDLegerSelfId=c0\ncontrollerStorePath={store}\nbindAddress=127.0.0.1\n"
    )
    node = start("controller", config)
    node.until("raft.leader")
    until_it_answers(node, port)  # so its first entry is synced, and noted beside the log
    node.process.terminate()
    assert node.ends() == 0
    [log] = store.rglob("log")
    whole = log.read_bytes()
    log.write_bytes(whole[:-3])
    shorter = start("controller", config)
    assert shorter.ends() == 1
    assert f"{log}: the log ends in term 0 at entry 0, and had reached" in shorter.log.read_text()
    (log.parent / "watermark").unlink()
    node = start("controller", config)  # a torn end is cut
    node.until("raft.leader", count=2)
    node.process.terminate()
    assert node.ends() == 0
    data = bytearray(whole)
    data[13] ^= 0xFF  # the first record, with a good one behind it
    log.write_bytes(bytes(data) + whole)
    broken = start("controller", config)
    assert broken.ends() == 1
    said = broken.log.read_text()
    assert str(log) in said
    assert "at byte 0" in said


def test_an_unreadable_history(tmp_path: Path) -> None:
    """Line number and reason; the readable part with --allow-truncated."""
    assert maxq(*SIMULATED, "--store", tmp_path).returncode == 0
    run = (tmp_path / "latest").resolve()
    lines = (run / "history.jsonl").read_bytes().splitlines(keepends=True)
    lines[40] = b'{"index":40,"time":"soon"}\n'
    (run / "history.jsonl").write_bytes(b"".join(lines))
    refused = maxq("check", run)
    assert refused.returncode == 254
    assert "line 41" in refused.stderr
    readable = maxq("check", run, "--allow-truncated")
    assert readable.returncode == 2
    assert "judged are the first 40 events" in readable.stderr


@pytest.mark.parametrize(
    ("argv", "nearest"),
    [
        (("test", "--nemesis", "partitoin"), "did you mean partition"),
        (("test", "--workload", "lokc"), "did you mean lock?"),
        (("test", "--profile", "sfae"), "did you mean safe?"),
        (("test", "--env", "dokcer"), "did you mean docker?"),
        (("test", "--mutant", "lock_without_quorm"), "did you mean lock_without_quorum"),
        (("list", "nemesis"), "did you mean nemeses?"),
        (("test", "--tme-limit", "5s"), "--time-limit"),
    ],
)
def test_an_unknown_name(argv: tuple[str, ...], nearest: str) -> None:
    """Exit 254, the nearest valid names."""
    done = maxq(*argv)
    assert done.returncode == 254
    assert nearest in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("line", "said"),
    [("listenPrt=9876", "listenPort"), ("listenPort=many", "many"), ("listenPort=99999", "99999")],
)
def test_a_wrong_configuration_of_a_node(start: Callable[..., Node], line: str, said: str) -> None:
    """Unknown or wrong keys of RocketMQ: refused with file and line."""
    node = start("namesrv", f"# ours\n{line}\n")
    assert node.ends() == 2
    told = node.log.read_text()
    assert f"{node.config}" in told
    assert "2" in told
    assert said in told


def test_a_missing_environment(tmp_path: Path) -> None:
    """What is missing, how to get it, which environment works instead."""
    nowhere = f"unix://{tmp_path}/no-engine"
    docker = maxq("test", "--env", "docker", "--store", tmp_path, DOCKER_HOST=nowhere)
    assert docker.returncode == 255
    assert "no engine answers" in docker.stderr
    assert "docker.io" in docker.stderr
    assert "--env" in docker.stderr
    (tmp_path / "bin").mkdir()
    bare = {"PATH": str(tmp_path / "bin")}
    cut = maxq("test", "--env", "local", "--store", tmp_path, **bare)
    assert cut.returncode == 254
    assert "cannot do cut, which --nemesis partition needs: no packet rules" in cut.stderr
    local = maxq("test", "--env", "local", "--nemesis", "kill", "--store", tmp_path, **bare)
    assert local.returncode == 255
    assert "unshare is missing (package util-linux)" in local.stderr
    assert "simulated" in local.stderr
    told = maxq("doctor", DOCKER_HOST=nowhere)
    assert told.returncode == 0
    assert "no  docker" in told.stdout
    assert "yes simulated" in told.stdout
