"""The reference as real processes on loopback: arguments, signals, kill -9, locks.

Everything waits for a condition, with a bound.
"""

import asyncio
import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from reference_nodes import free_port

from maxq.reference.rpc import Pool
from maxq.reference.wire.codes import RequestCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.headers import PullRequest, SendRequest, to_ext
from maxq.reference.wire.message import decode_all
from maxq.reference.wire.route import KVTable

T = TypeVar("T")
ROOT = Path(__file__).parents[2]
BOUND_S = 15.0
SEND = SendRequest(
    topic="T", producer_group="p", default_topic="TBW102", default_topic_queue_nums=1,
    queue_id=0, sys_flag=0, born_timestamp=1, flag=0,
)  # fmt: skip
PULL = PullRequest(
    topic="T", consumer_group="g", queue_id=0, queue_offset=0, max_msg_nums=32, sys_flag=4,
    commit_offset=0, suspend_timeout_millis=0, sub_version=0, subscription="*",
)  # fmt: skip


def free_ports(count: int) -> list[int]:
    """Ports that are free, also below and behind as a broker needs, of which none is another's."""
    taken: set[int] = set()
    rng = random.Random(os.urandom(8))
    return [free_port(rng, taken) for _ in range(count)]


class Node:
    """One process of the reference."""

    def __init__(self, folder: Path, role: str, text: str, *more: str) -> None:
        folder.mkdir(exist_ok=True)
        self.config = folder / f"{role}.conf"
        self.config.write_text(text)
        self.log = folder / f"{role}.log"
        command = [
            sys.executable,
            "-m",
            "maxq.reference",
            role,
            "--config",
            str(self.config),
            *more,
        ]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, cwd=ROOT, stderr=log, stdout=log)

    def traces(self) -> list[str]:
        lines = self.log.read_text().splitlines()
        return [json.loads(line)["trace"] for line in lines if line.startswith("{")]

    def until(self, trace: str, *, count: int = 1) -> None:
        end = time.monotonic() + BOUND_S
        while self.traces().count(trace) < count:
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < end, f"no {trace}: {self.log.read_text()}"
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(0.02)

    def ends(self) -> int:
        return self.process.wait(BOUND_S)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Node]]:
    nodes: list[Node] = []

    def make(role: str, text: str, *more: str, folder: str = "node") -> Node:
        nodes.append(Node(tmp_path / folder, role, text, *more))
        return nodes[-1]

    yield make
    for node in nodes:
        node.process.kill()
        node.process.wait()


def ask(address: str, code: int, ext: dict[str, str], body: bytes | None = None) -> Frame:
    async def main(pool: Pool) -> Frame:
        return await pool.call(address, Frame(code=code, ext=ext, body=body), timeout_s=10)

    return client(main)


def client(main: Callable[[Pool], Awaitable[T]]) -> T:
    async def run() -> T:
        async with asyncio.TaskGroup() as group:
            pool = Pool(group)
            result = await main(pool)
            pool.close()
        return result

    return asyncio.run(run())


def bodies(address: str) -> list[bytes]:
    answer = ask(address, RequestCode.PULL_MESSAGE, to_ext(PULL))
    return [m.body for m in decode_all(answer.body or b"")]


def broker_text(store: Path, port: int, more: str = "") -> str:
    return (
        f"storePathRootDir={store}\nlistenPort={port}\nbrokerIP1=127.0.0.1\n"
        f"bindAddress=127.0.0.1\nmappedFileSizeCommitLog=65536\nbrokerName=b\n{more}"
    )


@pytest.mark.parametrize(
    ("role", "text", "where"),
    [
        (
            "broker",
            "# a broker\nlistenPort=many\n",
            "broker.conf:2: listenPort=many: not a whole number",
        ),
        ("broker", "brokerNme=b\n", "broker.conf:1: unknown key brokerNme; did you mean"),
        (
            "namesrv",
            "\n\nlistenPort=70000\n",
            "namesrv.conf:3: listenPort=70000: not at most 65535",
        ),
        ("controller", "controllerDLegerPeers=n0\n", "controller.conf:1: controllerDLegerPeers"),
        ("controller", "", "controllerDLegerPeers [] lacks"),
    ],
)
def test_a_bad_configuration_exits_2_with_file_and_line(
    start: Callable[..., Node], role: str, text: str, where: str
) -> None:
    """Refused before anything is opened; one line, no traceback."""
    node = start(role, text)
    assert node.ends() == 2
    said = node.log.read_text()
    assert said.startswith("error: ")
    assert where in said
    assert said.count("\n") == 1


def test_missing_files_roles_and_mutants_exit_2(start: Callable[..., Node], tmp_path: Path) -> None:
    """Wrong arguments."""
    node = start("namesrv", "", "--config", str(tmp_path / "none"))
    assert node.ends() == 2
    assert str(tmp_path / "none") in node.log.read_text()
    wrong = start("broker", "", "--mutant", "nobody", folder="mutant")
    assert wrong.ends() == 2
    assert "unknown mutant 'nobody'; there are: absent_removed" in wrong.log.read_text()
    assert start("proxy", "", folder="role").ends() == 2


def test_a_life_of_a_broker(start: Callable[..., Node], tmp_path: Path) -> None:
    """S2, S6: kill -9 keeps what was acknowledged, and the id; one process a store; SIGTERM and
    SIGINT are a clean stop with code 0."""
    port, controller_port, rival_port = free_ports(3)
    store = tmp_path / "store"
    controller = start(
        "controller",
        f"controllerDLegerGroup=g\ncontrollerDLegerPeers=n0-127.0.0.1:{controller_port}\n"
        f"controllerDLegerSelfId=n0\ncontrollerStorePath={tmp_path}/controller\n"
        "bindAddress=127.0.0.1\n",
        folder="controller-node",
    )
    controller.until("controller.started")
    text = broker_text(
        store, port, f"enableControllerMode=true\ncontrollerAddr=127.0.0.1:{controller_port}\n"
    )
    first = start("broker", text, "--mutant", "")
    first.until("broker.role")
    address = f"127.0.0.1:{port}"
    sent = [b"%d" % at for at in range(5)]
    for body in sent:
        assert ask(address, RequestCode.SEND_MESSAGE, to_ext(SEND), body).code == 0
    identity = (store / "brokerIdentity").read_bytes()

    rival = start("broker", broker_text(store, rival_port), folder="rival")
    assert rival.ends() == 1
    assert f"another process holds it: '{store}/lock'" in rival.log.read_text()

    os.kill(first.process.pid, signal.SIGKILL)
    assert first.ends() == -signal.SIGKILL
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port)).close()

    second = start("broker", text, folder="second")
    second.until("broker.role")
    assert bodies(address) == sent
    assert (store / "brokerIdentity").read_bytes() == identity
    assert identity.startswith(b"DefaultCluster#b#1#crc32=")
    info = KVTable.from_json(ask(address, RequestCode.GET_BROKER_RUNTIME_INFO, {}).body).table
    assert (info["maxq.brokerId"], info["maxq.role"], info["maxq.mutant"]) == ("1", "master", "")

    second.process.send_signal(signal.SIGTERM)
    assert second.ends() == 0
    assert second.traces()[-1] == "node.stopped"
    controller.process.send_signal(signal.SIGINT)
    assert controller.ends() == 0


def namesrv_text(port: int, kv: Path) -> str:
    return f"listenPort={port}\nbindAddress=127.0.0.1\nkvConfigPath={kv}\n"


def test_two_name_servers_do_not_share_a_file_of_settings(
    start: Callable[..., Node], tmp_path: Path
) -> None:
    """Each would replace it by what it knows, and so undo what the other has answered for."""
    kv = tmp_path / "kvConfig.json"
    ports = free_ports(2)
    first = start("namesrv", namesrv_text(ports[0], kv))
    first.until("namesrv.started")
    rival = start("namesrv", namesrv_text(ports[1], kv), folder="rival")
    assert rival.ends() == 1
    assert f"another process holds it: '{kv}.lock'" in rival.log.read_text()

    os.kill(first.process.pid, signal.SIGKILL)
    first.ends()
    second = start("namesrv", namesrv_text(ports[1], kv), folder="second")
    second.until("namesrv.started")


def test_a_namesrv_stops_at_once_and_warns_of_java_keys(
    start: Callable[..., Node], tmp_path: Path
) -> None:
    """One warning for a key that only the Java system uses."""
    (port,) = free_ports(1)
    node = start("namesrv", f"{namesrv_text(port, tmp_path / 'kv')}rocketmqHome=/x\n")
    node.until("namesrv.started")
    assert node.traces().count("config.ignored") == 1
    answer = ask(f"127.0.0.1:{port}", RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"})
    assert answer.code == 17
    taken = start("namesrv", namesrv_text(port, tmp_path / "other"), folder="taken")
    assert taken.ends() == 1
    assert "address already in use" in taken.log.read_text()
    node.process.send_signal(signal.SIGTERM)
    assert node.ends() == 0


@pytest.mark.parametrize(
    ("path", "content", "why"),
    [
        ("brokerIdentity", b"torn", "brokerIdentity: "),
        ("commitlog/00000000000000000007", b"", "do not meet here"),
        ("config/topics.json", b"{", "topics.json: "),
    ],
)
def test_a_damaged_store_exits_1_and_says_which_file(
    start: Callable[..., Node], tmp_path: Path, path: str, content: bytes, why: str
) -> None:
    """Refuses to start; one line that names the file."""
    file = tmp_path / "store" / path
    file.parent.mkdir(parents=True)
    file.write_bytes(content)
    more = "enableControllerMode=true\ncontrollerAddr=127.0.0.1:1\n"
    node = start("broker", broker_text(tmp_path / "store", free_ports(1)[0], more))
    assert node.ends() == 1
    said = [line for line in node.log.read_text().splitlines() if line.startswith("error: ")]
    assert len(said) == 1
    assert str(tmp_path / "store" / path.partition("/")[0]) in said[0]
    assert why in said[0]
