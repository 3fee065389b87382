"""An agent of processes that it has not started, and what it says of their ends."""

import hashlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from waiting import eventually

from maxq.harness.environments.attached.host_agent import UNSEEN, HostAgent, probe
from maxq.harness.environments.attached.host_watchdog import Ledger
from maxq.harness.environments.machines.frames import Frames, framed

BOUND_S = 10.0
LISTENS = """import os, socket, sys
from pathlib import Path
listener = socket.create_server(("127.0.0.1", 0))
Path(sys.argv[1]).write_text(f"{os.getpid()} {listener.getsockname()[1]}")
listener.accept()
"""


class Node:
    """A process that listens, with a file that says its number."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "pid"
        self.process = subprocess.Popen([sys.executable, "-c", LISTENS, str(self.file)])
        assert eventually(lambda: self.file.exists() and " " in self.file.read_text(), BOUND_S)
        self.port = int(self.file.read_text().split()[1])

    def described(self, **more: str) -> dict[str, object]:
        return {"name": "a", "port": self.port, "start": "true", **more}


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    found = Node(tmp_path)
    yield found
    found.process.kill()
    found.process.wait()


def agent_of(node: Node, folder: Path, **more: str) -> HostAgent:
    agent = HostAgent(Ledger(folder / "owed.json"))
    assert agent.nodes([node.described(**more)]) == {"pids": {"a": node.process.pid}}
    return agent


def test_whoever_listens_at_its_port_is_a_node(node: Node, tmp_path: Path) -> None:
    agent = agent_of(node, tmp_path)
    assert probe("127.0.0.1", node.port, 1.0) == {"met": "open"}
    node.process.wait()  # it has accepted
    assert probe("127.0.0.1", node.port, 1.0) == {"met": "refused"}
    agent.reap()
    assert agent.status(node.process.pid) == {"code": UNSEEN, "stopped": False}
    assert agent.find("a") == {"pid": 0}


def test_the_end_by_a_signal_is_told_from_another(node: Node, tmp_path: Path) -> None:
    agent = agent_of(node, tmp_path, pid=str(node.file))
    pid = node.process.pid
    agent.strike("a", pid, signal.SIGSTOP)
    assert eventually(lambda: agent.status(pid) == {"code": None, "stopped": True}, BOUND_S)
    assert (tmp_path / "owed.json").exists(), "noted before it is done"
    agent.strike("a", pid, signal.SIGKILL)
    node.process.wait()
    agent.reap()
    assert agent.status(pid) == {"code": -signal.SIGKILL, "stopped": False}
    assert agent.strike("a", pid, signal.SIGKILL) == {}, "of an ended one it is no error"


def test_a_way_to_stop_takes_the_place_of_a_signal(node: Node, tmp_path: Path) -> None:
    stop = f"kill -INT {node.process.pid}; echo stopped >>{tmp_path}/stopped"
    agent = agent_of(node, tmp_path, stop=stop)
    agent.strike("a", node.process.pid, signal.SIGTERM)
    agent.strike("a", node.process.pid, signal.SIGCONT)
    owed = Ledger(tmp_path / "owed.json").nodes["a"]
    assert owed["ended"] is not None, "that it is to end is not forgotten"
    node.process.wait(BOUND_S)
    assert eventually((tmp_path / "stopped").exists, BOUND_S)
    assert node.process.returncode != -signal.SIGTERM
    agent.reap()
    assert agent.status(node.process.pid)["code"] == -signal.SIGTERM, "it was asked to end"


def test_a_start_waits_for_the_end_of_a_stop(node: Node, tmp_path: Path) -> None:
    """Or a supervisor might hear of them in the other order."""
    order = tmp_path / "order"
    stop, start = f"sleep 0.5; echo stop >>{order}", f"echo start >>{order}"
    agent = agent_of(node, tmp_path, stop=stop, start=start)
    agent.strike("a", node.process.pid, signal.SIGKILL)
    node.process.wait()
    agent.begin("a")
    assert eventually(lambda: order.read_text().count("\n") == 2, BOUND_S)
    assert order.read_text() == "stop\nstart\n"


def test_a_node_that_runs_is_not_begun_again(node: Node, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    agent = agent_of(node, tmp_path, start=f"touch {begun}", pid=f"cut -d ' ' -f 1 {node.file}")
    agent.begin("a")
    node.process.kill()
    node.process.wait()
    assert not begun.exists()
    agent.begin("a")
    assert eventually(begun.exists, BOUND_S)


def test_it_knows_which_addresses_are_its_own(tmp_path: Path) -> None:
    agent = HostAgent(Ledger(tmp_path / "owed.json"))
    assert agent.has("127.0.0.1") == {"has": True}
    assert agent.has("192.0.2.1") == {"has": False}


def test_nothing_is_started_or_opened_by_order(tmp_path: Path) -> None:
    """Whoever speaks to it names nodes; programs and files are those of their descriptions."""
    agent = HostAgent(Ledger(tmp_path / "owed.json"))
    assert set(agent.actions()) == {
        "nodes", "find", "begin", "signal", "status", "command", "filter", "caught", "connections",
        "reset", "has", "clock", "heal", "probe", "beat",
    }  # fmt: skip
    for order in (agent.begin, agent.find):
        with pytest.raises(KeyError):
            order("b")


MAIN = """import sys
from pathlib import Path
from maxq.harness.environments.attached import host_agent, host_watchdog
from maxq.harness.environments.attached.host_watchdog import Ledger
host_agent.CLAIM, host_agent.CLAIM_S = sys.argv[2].replace("@", "\\0"), 0.1
host_watchdog.BEGIN_S = 2.0
host_agent.Ledger = lambda: Ledger(Path(sys.argv[3]))
host_agent.main()
"""


class Started:
    """An agent in a process of its own, spoken to as a harness does."""

    def __init__(self, folder: Path) -> None:
        claim = f"@maxq-test/{hashlib.sha256(bytes(folder)).hexdigest()}"
        command = [sys.executable, "-c", MAIN, "22", claim, str(folder / "owed")]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, bufsize=0)
        self.frames, self.heard = Frames(), list[dict[str, Any]]()

    def ask(self, number: int, do: str, **request: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(framed({"id": number, "do": do, **request}))

    def hear(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        while not self.heard:
            piece = self.process.stdout.read(1 << 16)
            assert piece, "it has ended"
            self.heard += self.frames.take(piece)
        return self.heard.pop(0)

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.wait(BOUND_S) == 0
        assert self.process.stdout is not None
        self.process.stdout.close()


def test_signs_are_answered_while_a_node_is_put_right(tmp_path: Path) -> None:
    """Or the harness, and the watchdog, would take the agent for dead."""
    agent, begun = Started(tmp_path), tmp_path / "begun"
    assert agent.hear() == {"id": 0, "port": 22, "left": []}
    node = {"name": "a", "port": 1, "start": f"echo x >>{begun}", "pid": str(tmp_path / "none")}
    agent.ask(1, "nodes", nodes=[node])
    agent.ask(2, "begin", name="a")
    assert [agent.hear() for _ in range(2)] == [{"id": 1, "pids": {"a": 0}}, {"id": 2}]
    agent.ask(3, "heal")
    agent.ask(4, "beat")
    agent.ask(5, "nothing")
    unknown = {"id": 5, "error": "LookupError('no such action')"}
    assert [agent.hear() for _ in range(2)] == [{"id": 4}, unknown]
    assert agent.hear() == {"id": 3, "left": []}
    agent.end()
    again = "x\nx\n"  # since nobody saw it
    assert eventually(lambda: begun.read_text() == again, BOUND_S)


def test_one_agent_has_a_host(tmp_path: Path) -> None:
    first = Started(tmp_path)
    assert "error" not in first.hear()
    second = Started(tmp_path)
    assert second.hear() == {"id": 0, "error": "claimed"}
    second.end()
    first.end()
