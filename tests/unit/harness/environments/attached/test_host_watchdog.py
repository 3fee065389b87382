"""What is owed to a host is given back: processes that were held, ended or begun."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from waiting import eventually

from maxq.harness.environments.attached import host_watchdog
from maxq.harness.environments.attached.host_nodes import HostNode
from maxq.harness.environments.attached.host_watchdog import Ledger
from maxq.harness.environments.process_life import started

BOUND_S = 20.0


class Sleeper:
    """A process that writes where its number is, and the node that it is."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "pid"
        self.process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        self.file.write_text(str(self.process.pid))
        self.node = HostNode("a", 1, start=f"echo begun >>{folder}/begun", pid=str(self.file))
        self.begun = folder / "begun"

    def state(self) -> str:
        text = Path(f"/proc/{self.process.pid}/stat").read_text()
        return text.rpartition(")")[2].split()[0]


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[Sleeper]:
    found = Sleeper(tmp_path)
    yield found
    found.process.kill()
    found.process.wait()


def test_what_cannot_be_written_is_not_owed(sleeper: Sleeper, tmp_path: Path) -> None:
    """Or the same would be taken at the second try, and nobody would give it back."""
    path = tmp_path / "absent" / "owed.json"
    ledger = Ledger(path)
    for _ in range(2):
        with pytest.raises(OSError, match="No such file"):
            ledger.owe_rules()
        with pytest.raises(OSError, match="No such file"):
            ledger.owe(sleeper.node)
    assert (ledger.rules, ledger.nodes) == (False, {})
    path.parent.mkdir()
    ledger.owe_rules()
    assert Ledger(path).rules


def test_a_held_process_is_let_go(sleeper: Sleeper, tmp_path: Path) -> None:
    path = tmp_path / "owed.json"
    Ledger(path).owe(sleeper.node)
    sleeper.process.send_signal(signal.SIGSTOP)
    assert eventually(lambda: sleeper.state() == "T", BOUND_S)
    assert Ledger(path).put_right() == []
    assert eventually(lambda: sleeper.state() == "S", BOUND_S)
    assert not path.exists()
    assert not sleeper.begun.exists()


def test_an_ended_process_is_started_once_it_is_over(sleeper: Sleeper, tmp_path: Path) -> None:
    path, pid = tmp_path / "owed.json", sleeper.process.pid
    Ledger(path).owe(sleeper.node, ended=[pid, started(pid)])
    sleeper.process.kill()
    sleeper.process.wait()
    assert Ledger(path).put_right() == []
    assert eventually(sleeper.begun.exists, BOUND_S)
    assert sleeper.begun.read_text() == "begun\n"


def test_one_that_was_just_begun_is_waited_for(
    sleeper: Sleeper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may not listen yet: a second one would stand in its way."""
    monkeypatch.setattr(host_watchdog, "BEGIN_S", 0.5)
    ledger = Ledger(tmp_path / "owed.json")
    ledger.owe(sleeper.node, begun=time.monotonic())
    assert ledger.put_right() == []
    assert not sleeper.begun.exists(), "it is there"
    sleeper.file.write_text("")
    ledger.owe(sleeper.node, begun=time.monotonic())
    begun = time.monotonic()
    assert ledger.put_right() == []
    assert time.monotonic() - begun >= 0.4
    assert eventually(sleeper.begun.exists, BOUND_S)


def test_what_does_not_end_stays_owed(
    sleeper: Sleeper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_watchdog, "END_S", 0.1)
    path, pid = tmp_path / "owed.json", sleeper.process.pid
    Ledger(path).owe(sleeper.node, ended=[pid, started(pid)])
    assert Ledger(path).put_right() == [f"a: process {pid} does not end"]
    assert Ledger(path).nodes.keys() == {"a"}


def test_a_ledger_that_is_none_owes_nothing(tmp_path: Path) -> None:
    (tmp_path / "owed.json").write_text('{"rules": ')
    assert Ledger(tmp_path / "owed.json").put_right() == []


AGENT = """import os, sys, time
from pathlib import Path
from maxq.harness.environments.attached import host_watchdog
from maxq.harness.environments.attached.host_watchdog import Ledger
os.setpgid(0, 0)
host_watchdog.HEAL_AFTER_S = float(sys.argv[2])
host_watchdog.set_out(lambda: Ledger(Path(sys.argv[1])))
print("out", flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize(("after_s", "kills"), [("60", True), ("0.5", False)],
                         ids=["killed", "deaf"])  # fmt: skip
def test_a_watchdog_outlives_its_agent(
    sleeper: Sleeper, tmp_path: Path, after_s: str, kills: bool
) -> None:
    """One that is killed; one that lives and hears of no harness, which then ends."""
    path = tmp_path / "owed.json"
    Ledger(path).owe(sleeper.node)
    sleeper.process.send_signal(signal.SIGSTOP)
    command = [sys.executable, "-c", AGENT, str(path), after_s]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ}) as agent:
        assert agent.stdout is not None
        assert agent.stdout.readline() == b"out\n"
        if kills:
            agent.kill()
        assert eventually(lambda: sleeper.state() == "S" and not path.exists(), BOUND_S)
        assert agent.wait(BOUND_S) == -signal.SIGKILL
