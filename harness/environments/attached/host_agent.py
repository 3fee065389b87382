"""The agent on a host that is reached over ssh: a few nodes of somebody else, and their network.

It does what agents do (`maxq.harness.environments.machines.machine_agent`), as root, for processes
that it has not started. It speaks frames over its standard streams, which are those of an ssh
channel, and makes no descriptors: it dials itself. It ends with its link, or when it has heard
nothing for `SILENT_S`; then its watchdog puts everything right.

One agent a host: it holds a name of the kernel's, and so does its watchdog until all is right.

Rules for those who edit it: this module runs on hosts of others, which may have Python 3.9, so it
imports nothing but the standard library and what goes there with it. Units: seconds.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from maxq.harness.environments.attached import host_watchdog
from maxq.harness.environments.attached.host_nodes import HostNode
from maxq.harness.environments.attached.host_watchdog import Ledger
from maxq.harness.environments.machines.frames import BEAT, SILENT_S, Frames, framed
from maxq.harness.environments.machines.machine_agent import Action, Agent, Here
from maxq.harness.environments.process_life import is_over, started

CLAIM = "\0maxq/host"
CLAIM_S, POLL_S = 3.0, 0.05
UNSEEN = -1  # the exit code of a process that ended by itself: nobody here was told it
PIECE = 1 << 16
KEPT = ("status", "command", "caught", "connections", "reset")  # of what every agent does
SLOW = ("probe", "heal", "begin")  # these have threads, so that signs are answered meanwhile
ENDING = (signal.SIGKILL, signal.SIGTERM)
# What a dial without an answer meets: no host has the address, or no way leads there.
NO_ROUTE = frozenset((errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ETIMEDOUT))


class HostAgent(Agent):
    """Nodes that were there before.

    Args:
        ledger: of what is owed to the host.
    """

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(Here())
        self._ledger = ledger
        self._nodes: dict[str, HostNode] = {}
        self._since: dict[int, int] = {}  # when each process began
        self._sent: dict[int, int] = {}  # the last signal that was to end it

    def actions(self) -> dict[str, Action]:
        every = super().actions()
        own: dict[str, Action] = {
            "nodes": self.nodes,
            "find": self.find,
            "begin": self.begin,
            "signal": self.strike,
            "filter": self.rule,
            "has": self.has,
            "clock": self.clock,
            "heal": self.heal,
            "probe": probe,
            BEAT: self.beat,
        }
        return {**{name: every[name] for name in KEPT}, **own}

    def nodes(self, nodes: list[dict[str, Any]]) -> dict[str, Any]:
        """Be told which nodes are here; the process of each, 0 where there is none."""
        pids = {}
        for described in nodes:
            node = HostNode(**described)
            node.known()
            self._nodes[node.name], self.nets[node.name] = node, Here()
            pids[node.name] = self.find(node.name)["pid"]
        return {"pids": pids}

    def find(self, name: str) -> dict[str, Any]:
        """The process of a node, which is looked after from now on; 0: there is none."""
        pid = self._nodes[name].process()
        since = started(pid) if pid else None
        if since is None:
            return {"pid": 0}
        if self._since.get(pid) != since:
            self._children.add(pid)
            self._since[pid] = since
            self._ended.pop(pid, None)  # numbers come again
            self._sent.pop(pid, None)
        return {"pid": pid}

    def begin(self, name: str) -> dict[str, Any]:
        """Have a node started; `find` says when it is there."""
        node = self._nodes[name]
        host_watchdog.await_end(self._ledger.stopping(node))  # or both would be at work
        self._ledger.owe(node, begun=time.monotonic())
        if not node.process():  # somebody else may have been quicker
            node.begin()
        return {}

    def strike(self, name: str, pid: int, number: int) -> dict[str, Any]:
        """Send a signal to a node's process. Who would start it again after its end is kept from
        it; where there is a way to stop a node, that takes the place of SIGTERM."""
        node = self._nodes[name]
        if pid in self._ended:
            return {}
        if number not in ENDING:
            if name not in self._ledger.nodes:  # or more is known of it
                self._ledger.owe(node)
            self.signal(pid, number)
            return {}
        ended = (pid, self._since[pid])
        self._ledger.owe(node, ended=ended)
        self._sent[pid] = number
        if number == signal.SIGKILL or not node.has_stop:
            self.signal(pid, number)
        self._ledger.owe(node, ended=ended, stopping=node.hold_down())
        return {}

    def rule(self, name: str, ruleset: str) -> dict[str, Any]:
        """As `filter` of every agent."""
        self._ledger.owe_rules()
        return self.filter(name, ruleset)

    def has(self, address: str) -> dict[str, Any]:
        """Whether an address is one of this host's."""
        with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
            own.bind((address, 0))
            return {"has": True}
        return {"has": False}

    def clock(self) -> dict[str, Any]:
        """What this host's wall clock shows (ns)."""
        return {"ns": time.time_ns()}

    def heal(self) -> dict[str, Any]:
        """Put everything right; what could not be."""
        return {"left": self._ledger.put_right()}

    def beat(self) -> dict[str, Any]:
        """Be heard of."""
        return {}

    def reap(self) -> None:
        """See which processes of others have ended, and by whose doing. It has no own children but
        for moments, which whoever starts them waits for, in whatever thread."""
        for pid, since in self._since.items():
            if pid not in self._ended and is_over(pid, since):
                self._ended[pid] = -self._sent[pid] if pid in self._sent else UNSEEN


def probe(host: str, port: int, timeout_s: float) -> dict[str, Any]:
    """What a dial from here meets, within so long."""
    try:
        socket.create_connection((host, port), timeout_s).close()
    except (ConnectionRefusedError, ConnectionResetError):
        return {"met": "refused"}
    except socket.timeout:  # an error of its own before Python 3.10  # noqa: UP041
        return {"met": "silent"}
    except OSError as error:
        if error.errno in NO_ROUTE:
            return {"met": "silent"}
        raise
    return {"met": "open"}


class Service:
    """Answers what comes on the standard streams, by its number.

    Args:
        agent: who acts.
        heard: called for each sign of a harness.
    """

    def __init__(self, agent: HostAgent, heard: Callable[[], None]) -> None:
        self._agent = agent
        self._actions = agent.actions()
        self._heard = heard
        self._writing = threading.Lock()

    def run(self) -> None:
        """Until the link ends, or nothing has come for `SILENT_S`."""
        frames = Frames()
        while select.select([0], [], [], SILENT_S)[0]:
            piece = os.read(0, PIECE)
            if not piece:
                return
            self._heard()
            for request in frames.take(piece):
                number, do = request.pop("id"), request.pop("do")
                job = (number, self._actions.get(do, _unknown), request)
                if do in SLOW:
                    threading.Thread(target=self._answer, args=job, daemon=True).start()
                    continue
                self._agent.reap()
                self._answer(*job)

    def _answer(self, number: int, action: Action, request: dict[str, Any]) -> None:
        try:
            answer = action(**request)
        except (OSError, LookupError, TypeError, ValueError) as error:
            known = str(error) if isinstance(error, OSError) else repr(error)
            answer = {"error": known}
        self.say({**answer, "id": number})

    def say(self, message: dict[str, Any]) -> None:
        """Send a message."""
        data = framed(message)
        with self._writing:
            while data:
                data = data[os.write(1, data) :]


def _unknown(**request: Any) -> dict[str, Any]:
    raise LookupError("no such action")


def claimed() -> socket.socket | None:
    """The name that says that a run tests this host; None: another has it, and not because it has
    only just ended."""
    claim = socket.socket(socket.AF_UNIX)
    end = time.monotonic() + CLAIM_S
    while True:
        with contextlib.suppress(OSError):
            claim.bind(CLAIM)
            return claim
        if time.monotonic() > end:
            claim.close()
            return None
        time.sleep(POLL_S)


def main() -> None:
    os.environ["PATH"] = os.environ.get("PATH", "") + ":/usr/sbin:/sbin:/usr/bin:/bin"
    with contextlib.suppress(OSError):  # it leads its session anyway
        os.setpgid(0, 0)
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        # The link decides when it ends; what it starts would inherit that a signal is ignored.
        signal.signal(number, lambda number, frame: None)
    claim = claimed()
    if claim is None:
        os.write(1, framed({"id": 0, "error": "claimed"}))
        return
    left = Ledger().put_right()  # of a run whose agent and watchdog were killed
    beat = host_watchdog.set_out(Ledger)
    ledger = Ledger()
    service = Service(HostAgent(ledger), lambda: _beaten(beat))
    try:
        service.say({"id": 0, "port": int(sys.argv[1]), "left": left})
        service.run()
    except BrokenPipeError:
        pass  # the link has ended
    except _WatchdogDiedError:
        ledger.put_right()


class _WatchdogDiedError(Exception):
    """Nobody else would put anything right any more."""


def _beaten(beat: int) -> None:
    try:
        os.write(beat, b"b")
    except BrokenPipeError:
        raise _WatchdogDiedError from None


if __name__ == "__main__":
    main()
