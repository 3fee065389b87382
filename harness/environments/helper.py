"""The helper of the local environment: PID 1 of a world of namespaces that it dies with.

``unshare`` starts this program in user, PID, mount and network namespaces of its own, so it needs
no privileges outside. It makes one network namespace a machine, joined by a bridge, spawns nodes
in them, and hands out *sockets made inside*, because an ordinary user may not enter a namespace
from outside. It serves one peer, the harness, over an inherited Unix socket. When the harness
ends, however it ends, this program reads end of file and exits; it is PID 1, so the kernel ends
every process of the run, and the namespaces, bridges and addresses go with the last of them.

One packet a request, one a reply, in order; JSON, with at most one descriptor on a reply.
Run as ``python -m harness.environments.helper FD``.
"""

import contextlib
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from typing import Any

PACKET_MAX = 65_536  # bytes of a request or reply; below what a socket buffer holds
PREFIX = 20  # the run's network is a /20; a machine owns a block of 16 addresses of it
CLONE_NEWNET = 0x40000000
BRIDGE = "maxq0"
IGNORED = (signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ)  # by this program, or by Python in it

_libc = ctypes.CDLL(None, use_errno=True)


class Net:
    """A network namespace, held by a descriptor of it."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def enter(self) -> None:
        if _libc.setns(self._fd, CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns")


class Helper:
    """The namespaces, their processes, and the requests of the harness."""

    def __init__(self) -> None:
        self._home = Net(os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC))
        self._nets: dict[str, Net] = {}
        self._ended: dict[int, int] = {}
        self._children: set[int] = set()

    def do_bridge(self) -> dict[str, Any]:
        """Make what the machines are joined by."""
        ip("link", "set", "lo", "up")
        ip("link", "add", BRIDGE, "type", "bridge")
        ip("link", "set", BRIDGE, "up")
        return {}

    def do_machine(self, name: str, addresses: list[str]) -> dict[str, Any]:
        """Make a machine: a namespace, a cable to the bridge, its addresses."""
        outside = f"v{len(self._nets)}"
        ready, go = os.pipe(), os.pipe()
        pid = os.fork()
        if pid == 0:  # lives only until the parent holds the new namespace
            failed = _libc.unshare(CLONE_NEWNET) != 0
            os.write(ready[1], b"n" if failed else b"y")
            os.read(go[0], 1)
            os._exit(0)
        try:
            if os.read(ready[0], 1) != b"y":
                raise OSError("cannot make a network namespace")
            ip("link", "add", outside, "type", "veth", "peer", "name", "eth0", "netns", str(pid))
            net = Net(os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC))
        finally:
            os.write(go[1], b"x")
            os.waitpid(pid, 0)
            for fd in (*ready, *go):
                os.close(fd)
        ip("link", "set", outside, "master", BRIDGE, "up")
        self._nets[name] = net
        ip("link", "set", "lo", "up", inside=net)
        for address in addresses:
            ip("addr", "add", f"{address}/{PREFIX}", "dev", "eth0", inside=net)
        ip("link", "set", "eth0", "up", inside=net)
        return {}

    def do_spawn(
        self, name: str, argv: list[str], log: str, folder: str, env: dict[str, str]
    ) -> dict[str, Any]:
        """Start a process on a machine, in a session of its own, with output to a file."""
        net = self._nets[name]
        pid = os.fork()
        if pid == 0:
            try:
                net.enter()
                os.setsid()
                for number in IGNORED:  # or the node would inherit that they are ignored
                    signal.signal(number, signal.SIG_DFL)
                out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
                null = os.open("/dev/null", os.O_RDONLY)
                for source, target in ((null, 0), (out, 1), (out, 2)):
                    os.dup2(source, target)
                os.chdir(folder)
                os.execvpe(argv[0], argv, env)
            except BaseException as error:
                os.write(2, f"cannot start {argv}: {error}\n".encode())
            finally:
                os._exit(127)
        self._children.add(pid)
        self._ended.pop(pid, None)  # numbers come again
        return {"pid": pid}

    def do_signal(self, pid: int, number: int) -> dict[str, Any]:
        """Send a signal to a process that `do_spawn` started."""
        if pid in self._children and pid not in self._ended:
            os.kill(pid, number)
        return {}

    def do_status(self, pid: int) -> dict[str, Any]:
        """How a process ended; no code while it lives."""
        if pid not in self._children:
            raise KeyError(f"process {pid} was never started")
        return {"code": self._ended.get(pid)}

    def do_socket(self, name: str, source: str) -> tuple[dict[str, Any], socket.socket]:
        """Make a TCP socket on a machine, bound to one of its addresses."""
        self._nets[name].enter()
        try:
            made = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        finally:
            self._home.enter()
        try:
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            made.setsockopt(socket.IPPROTO_IP, socket.IP_BIND_ADDRESS_NO_PORT, 1)
            made.bind((source, 0))
        except BaseException:
            made.close()
            raise
        return {}, made

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


def ip(*args: str, inside: Net | None = None) -> None:
    """Run iproute2, in another namespace if given."""
    enter = None if inside is None else inside.enter
    done = subprocess.run(["ip", *args], preexec_fn=enter, capture_output=True, text=True)
    if done.returncode != 0:
        raise OSError(f"ip {' '.join(args)}: {done.stderr.strip() or done.returncode}")


def serve(peer: socket.socket) -> None:
    """Answer requests until the harness is gone."""
    helper = Helper()
    actions: dict[str, Callable[..., Any]] = {
        name[3:]: getattr(helper, name) for name in dir(helper) if name.startswith("do_")
    }
    while packet := peer.recv(PACKET_MAX):
        fds: list[int] = []
        made: socket.socket | None = None
        helper.reap()
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


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the harness decides when to end
    peer = socket.socket(fileno=int(sys.argv[1]))
    peer.set_inheritable(False)
    with contextlib.suppress(ConnectionError):  # the harness is gone
        serve(peer)
    # PID 1 leaves, and the kernel takes the rest with it.


if __name__ == "__main__":
    main()
