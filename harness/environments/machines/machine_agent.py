"""What an agent does on the machines it holds: processes, sockets, addresses, packet rules.

The agent of the local environment holds many machines, each a network namespace; the one of a
container holds one, its own. Both serve one peer, the harness, over a Unix socket that keeps the
borders of packets: one packet a request, one a reply, in order; JSON, with at most one descriptor
on a reply. Requests are short: nothing here waits for a peer of the network.

Rules for those who edit it: this module also runs inside containers and on hosts of others, which
may have Python 3.9 (`maxq.harness.environments.attached.host_agent`), so it imports nothing but the
standard library and what stands beside it.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Mapping
from io import FileIO
from pathlib import Path
from typing import Any, Protocol

from maxq.harness.environments.machines import packet_filter, rights

PACKET_MAX = 65_536  # bytes of a request or reply; below what a socket buffer holds
CLONE_NEWNS, CLONE_NEWNET = 0x00020000, 0x40000000
MS_BIND = 4096
DEVICE = "eth0"  # of every machine, towards the others
HOSTS = b"/etc/hosts"

_libc = ctypes.CDLL(None, use_errno=True)

# What a request's action gives back: an answer, and maybe a socket that goes with it.
Action = Callable[..., Any]


class Net(Protocol):
    """The network of a machine."""

    def enter(self) -> None:
        """Be in it from now on."""
        ...


class Namespace:
    """A network namespace, held by a descriptor of it."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def enter(self) -> None:
        if _libc.setns(self._fd, CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns")


class Here:
    """The network that this program is in anyway."""

    def enter(self) -> None:
        pass


class Agent:
    """Machines, their processes, and what is asked of them.

    Args:
        home: the network that this program itself belongs to.
    """

    def __init__(self, home: Net) -> None:
        self._home = home
        self.nets: dict[str, Net] = {}
        self.spaces: dict[str, int] = {}  # namespaces of mounts, of machines that have their own
        self._detoured: set[str] = set()  # machines whose connections go through proxies
        self._ended: dict[int, int] = {}
        self._children: set[int] = set()

    def actions(self) -> dict[str, Action]:
        """What a peer may ask for, by name."""
        return {
            "spawn": self.spawn,
            "signal": self.signal,
            "status": self.status,
            "command": self.command,
            "socket": self.socket,
            "address": self.address,
            "filter": self.filter,
            "caught": self.caught,
            "detours": self.detours,
            "redirected": self.redirected,
            "space": self.space,
            "plug": self.plug,
            "forget": self.forget,
            "connections": self.connections,
            "reset": self.reset,
        }

    def spawn(
        self,
        name: str,
        argv: list[str],
        log: str,
        folder: str,
        env: dict[str, str],
        hosts: str | None = None,
        user: tuple[int, int] | None = None,
    ) -> dict[str, Any]:
        """Start a process on a machine, in a session of its own, with output to a file.

        Args:
            hosts: a file that the process sees as its /etc/hosts; None: the one that is there.
            user: the user and group that it runs as; None: those of this program.
        """
        net = self.nets[name]
        pid = os.fork()
        if pid == 0:
            try:
                _redirect(log)  # first, so that a failure of the rest can be read there
                net.enter()
                if name in self.spaces:
                    _enter_space(self.spaces[name])
                os.setsid()
                # Or the node would inherit what this program ignores, or who started the harness:
                # nohup ignores SIGHUP.
                for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
                    signal.signal(number, signal.SIG_DFL)
                if hosts is not None:
                    _show_as_hosts(hosts)
                if user is not None:
                    os.setgroups([])
                    os.setgid(user[1])
                    os.setuid(user[0])
                rights.keep()  # none: a node needs no more than any program of its user
                os.chdir(folder)
                os.execvpe(argv[0], argv, env)
            except BaseException as error:
                os.write(2, f"cannot start {argv}: {error}\n".encode())
            finally:
                os._exit(127)
        self._children.add(pid)
        self._ended.pop(pid, None)  # numbers come again
        return {"pid": pid}

    def signal(self, pid: int, number: int, family: bool = False) -> dict[str, Any]:
        """Send a signal to a process that `spawn` started; to all of its session with `family`."""
        if pid in self._children and pid not in self._ended:
            os.kill(pid, number)
            if family:
                with contextlib.suppress(ProcessLookupError):  # it has not begun its session yet
                    os.killpg(pid, number)
        return {}

    def status(self, pid: int) -> dict[str, Any]:
        """How a process ended; no code while it lives. Whether it is stopped."""
        if pid not in self._children:
            raise KeyError(f"process {pid} was never started")
        code = self._ended.get(pid)
        return {"code": code, "stopped": code is None and _state(pid) == "T"}

    def command(self, pid: int) -> dict[str, Any]:
        """The command line of a process, as the kernel has it; empty of one that has ended."""
        if pid not in self._children:
            raise KeyError(f"process {pid} was never started")
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            return {"argv": [word.decode(errors="replace") for word in words[:-1]]}
        return {"argv": []}

    def socket(
        self, name: str, source: str, past: bool = False
    ) -> tuple[dict[str, Any], socket.socket]:
        """Make a TCP socket on a machine, bound to one of its addresses. With `past` what is sent
        goes past the machine's proxies, where it has some."""
        self.nets[name].enter()
        try:
            made = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        finally:
            self._home.enter()
        try:
            if past and name in self._detoured:
                made.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, packet_filter.PAST)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            made.setsockopt(socket.IPPROTO_IP, socket.IP_BIND_ADDRESS_NO_PORT, 1)
            made.bind((source, 0))
        except BaseException:
            made.close()
            raise
        return {}, made

    def address(self, name: str, remove: list[str], add: list[str]) -> dict[str, Any]:
        """Take addresses from a machine, and give it others, each as ``address/prefix``."""
        # The old one goes first: the kernel takes the later ones of a network with its first.
        for address in remove:
            run("ip", "addr", "del", address, "dev", DEVICE, inside=self.nets[name])
        for address in add:
            run("ip", "addr", "add", address, "dev", DEVICE, inside=self.nets[name])
        self._show_way(name)
        return {}

    def filter(self, name: str, ruleset: str) -> dict[str, Any]:
        """Replace a machine's cuts, or its losses."""
        run("nft", "-f", "-", inside=self.nets[name], text=ruleset)
        return {}

    def caught(self, name: str) -> dict[str, Any]:
        """Packets that a machine's rules have caught."""
        listing = run("nft", "-j", "list", "ruleset", "inet", inside=self.nets[name])
        return {"cut": packet_filter.caught(listing), "lost": packet_filter.lost(listing)}

    def detours(self, name: str, ruleset: str) -> dict[str, Any]:
        """Lead a machine's connections through proxies of it."""
        self._detoured.add(name)
        self._show_way(name)
        run("nft", "-f", "-", inside=self.nets[name], text=ruleset)
        return {}

    def redirected(self, name: str) -> dict[str, Any]:
        """How many connections a machine's detours have led."""
        listing = run("nft", "-j", "list", "counters", inside=self.nets[name])
        return packet_filter.redirected(listing)

    def _show_way(self, name: str) -> None:
        """Aliases need a route, which goes with the last address and with the cable."""
        if name in self._detoured:
            words = ("replace", f"{packet_filter.ALIASES}.0/24", "dev", DEVICE)
            run("ip", "route", *words, inside=self.nets[name])

    def space(self, name: str) -> tuple[dict[str, Any], FileIO]:
        """Hand out a machine's namespace of mounts."""
        return {}, FileIO(os.dup(self.spaces[name]))

    def plug(self, name: str, up: bool) -> dict[str, Any]:
        """Take a machine's cable out, or put it in: without it nothing comes and nothing leaves."""
        run("ip", "link", "set", DEVICE, "up" if up else "down", inside=self.nets[name])
        if up:
            self._show_way(name)
        return {}

    def forget(self, name: str) -> dict[str, Any]:
        """End all TCP connections of a machine. Their resets go where its cable leads."""
        run("ss", "--kill", "--tcp", "--all", inside=self.nets[name])
        left = run("ss", "--no-header", "--numeric", "--tcp", "--all", inside=self.nets[name])
        if left.strip():
            first = left.splitlines()[0]
            raise OSError(f"connections stay (no CONFIG_INET_DIAG_DESTROY?): {first}")
        return {}

    def connections(self, name: str, block: str) -> dict[str, Any]:
        """The TCP connections of a machine with a block of addresses, by both ends."""
        words = ("ss", "--no-header", "--numeric", "--tcp", *_established(block))
        lines = run(*words, inside=self.nets[name]).splitlines()
        return {"ends": [[_plain(end) for end in line.split()[2:4]] for line in lines]}

    def reset(self, name: str, block: str, ports: list[int]) -> dict[str, Any]:
        """End them by resets, where the kernel can (CONFIG_INET_DIAG_DESTROY); of certain ports
        only, where any are named."""
        ends = " or ".join(f"{end} = :{port:d}" for port in ports for end in ("sport", "dport"))
        these = (*_established(block), *(["and", f"( {ends} )"] if ends else ()))
        run("ss", "--kill", "--numeric", "--tcp", *these, inside=self.nets[name])
        return {}

    def reap(self) -> None:
        """Collect every ended child; PID 1 also inherits the children of its children."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid in self._children:
                self._ended[pid] = os.waitstatus_to_exitcode(status)


def _established(block: str) -> tuple[str, ...]:
    """What selects the connections with a block of addresses."""
    if packet_filter.BLOCK.fullmatch(block) is None:
        raise ValueError(f"no block of addresses: {block!r}")
    return ("state", "established", "dst", block)


def _plain(end: str) -> str:
    """``ip:port`` of what `ss` prints, which is in brackets for sockets of both families."""
    return end.replace("[::ffff:", "").replace("]", "")


def _redirect(log: str) -> None:
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    null = os.open("/dev/null", os.O_RDONLY)
    for source, target in ((null, 0), (out, 1), (out, 2)):
        os.dup2(source, target)


def _enter_space(fd: int) -> None:
    if _libc.setns(fd, CLONE_NEWNS) != 0:
        raise OSError(ctypes.get_errno(), "setns of mounts")


def _show_as_hosts(path: str) -> None:
    """Have a file as /etc/hosts, in a mount namespace of this process alone."""
    if _libc.unshare(CLONE_NEWNS) != 0:
        raise OSError(ctypes.get_errno(), "unshare of mounts")
    if _libc.mount(path.encode(), HOSTS, None, MS_BIND, None) != 0:
        raise OSError(ctypes.get_errno(), f"mount of {path} on {HOSTS.decode()}")


def _state(pid: int) -> str:
    """The kernel's letter for what a process does; empty if there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return text.rpartition(")")[2].split()[0]  # its name, before that, may hold anything


def run(*command: str, inside: Net, text: str = "") -> str:
    """Run a program in a machine's network; what it printed.

    Raises:
        OSError: it failed; the message says how.
    """
    done = subprocess.run(
        command, preexec_fn=inside.enter, input=text, capture_output=True, text=True
    )
    if done.returncode != 0:
        why = done.stderr.strip() or done.returncode
        raise OSError(f"{' '.join(command)}: {why}")
    return done.stdout


def serve(peer: socket.socket, agent: Agent, actions: Mapping[str, Action]) -> None:
    """Answer requests until the harness is gone."""
    while packet := peer.recv(PACKET_MAX):
        fds: list[int] = []
        made: socket.socket | FileIO | None = None
        agent.reap()
        try:
            request = json.loads(packet)
            answer = actions[request.pop("do")](**request)
            if isinstance(answer, tuple):
                answer, made = answer
                fds = [made.fileno()]
        except (OSError, LookupError, TypeError, ValueError) as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        socket.send_fds(peer, [json.dumps(answer).encode()], fds)
        if made is not None:
            made.close()
