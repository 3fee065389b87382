"""What a run owes a host, and the process there that gives it back when nobody else does.

The agent of a run writes down what it takes before it takes it. Its watchdog, outside of its group
of processes, puts everything right once the agent has ended, however it ended, or once it has heard
of no harness for `HEAL_AFTER_S`. Should both be killed, the next agent does it first.

Rules for those who edit it: this module runs on hosts of others, which may have Python 3.9, so it
imports nothing but the standard library and what goes there with it. Units: seconds.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from maxq.harness.environments.attached.host_nodes import HostNode
from maxq.harness.environments.machines import packet_filter
from maxq.harness.environments.machines.machine_agent import Here, run
from maxq.harness.environments.process_life import is_over

OWED = Path("/run/maxq-owed.json")
HEAL_AFTER_S = 30.0  # after the last sign of a harness
END_S = 20.0  # in which a process ends that was told to
BEGIN_S = 30.0  # in which one that was started is seen
POLL_S = 0.2
NOTHING_YET: dict[str, Any] = {"ended": None, "stopping": None, "begun": None}


class Ledger:
    """What is owed: rules of ours, and nodes whose processes were held, ended or begun.

    Args:
        path: where it is written.
    """

    def __init__(self, path: Path = OWED) -> None:
        self._path = path
        self.rules = False
        self.nodes: dict[str, dict[str, Any]] = {}
        with contextlib.suppress(FileNotFoundError, ValueError, KeyError, TypeError):
            found = json.loads(path.read_bytes())
            self.rules, self.nodes = found["rules"], found["nodes"]

    def owe_rules(self) -> None:
        """Note that there may be rules of ours."""
        if not self.rules:
            self._write(rules=True, nodes=self.nodes)

    def owe(self, node: HostNode, **what: Any) -> None:
        """Note what may be done to a node: `ended`, the number and start of a process that is to
        end; `stopping`, of one that sees to it; `begun`, when it was started (s, of the clock that
        only runs). None: nothing."""
        owed = {node.name: {**node._asdict(), **NOTHING_YET, **what}}
        self._write(rules=self.rules, nodes={**self.nodes, **owed})

    def stopping(self, node: HostNode) -> list[int] | None:
        """The process that sees to it that a node is down, as was noted."""
        found: list[int] | None = self.nodes.get(node.name, NOTHING_YET)["stopping"]
        return found

    def _write(self, *, rules: bool, nodes: dict[str, dict[str, Any]]) -> None:
        """Owe this from now on. What cannot be written is not owed: whoever asked must not take it,
        as on a full disk."""
        beside = self._path.with_suffix(".new")
        beside.write_text(json.dumps({"rules": rules, "nodes": nodes}))
        beside.replace(self._path)
        self.rules, self.nodes = rules, nodes

    def put_right(self) -> list[str]:
        """Give back all that is owed; what could not be."""
        left = []
        if self.rules:
            try:
                run("nft", "-f", "-", inside=Here(), text=packet_filter.NOTHING)
                self.rules = False
            except OSError as error:
                left.append(str(error))
        for name, owed in list(self.nodes.items()):
            try:
                _give_back(dict(owed))
                del self.nodes[name]
            except (OSError, TypeError, ValueError) as error:
                left.append(f"{name}: {error}")
        if left:
            self._write(rules=self.rules, nodes=self.nodes)
        else:
            self._path.unlink(missing_ok=True)
        return left


def _give_back(owed: dict[str, Any]) -> None:
    """Have a node run."""
    ended, stopping, begun = (owed.pop(key) for key in NOTHING_YET)
    node = HostNode(**owed)
    for process in (ended, stopping):
        await_end(process)
    if begun is not None:
        _seen(lambda: bool(node.process()), begun + BEGIN_S - time.monotonic())
    pid = node.process()
    if not pid:
        node.begin()
    else:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def await_end(process: Sequence[int] | None) -> None:
    """Wait for the end of a process.

    Raises:
        OSError: it does not end for long.
    """
    if process is not None and not _seen(lambda: is_over(*process), END_S):
        raise OSError(f"process {process[0]} does not end")


def _seen(condition: Callable[[], bool], within_s: float) -> bool:
    end = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(POLL_S)
    return True


def set_out(ledger: Callable[[], Ledger]) -> int:
    """Start a watchdog of this process; the descriptor to which whoever hears of a harness writes a
    byte. What this process holds the watchdog holds until it ends."""
    beats, beat = os.pipe()
    agent = os.getpid()
    if os.fork() == 0:
        try:
            os.close(beat)
            os.setsid()
            null = os.open("/dev/null", os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(null, stream)
            _watch(beats, agent)
            ledger().put_right()
        finally:
            os._exit(0)
    os.close(beats)
    return beat


def _watch(beats: int, agent: int) -> None:
    """Return when the agent has ended; one that hears nothing is killed with its children."""
    while select.select([beats], [], [], HEAL_AFTER_S)[0]:
        if not os.read(beats, 1 << 12):
            return
    with contextlib.suppress(ProcessLookupError):
        os.killpg(agent, signal.SIGKILL)
