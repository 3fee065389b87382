"""The agent of the local environment: PID 1 of a world of namespaces that it dies with.

``unshare`` starts this program in user, PID, mount and network namespaces of its own, so it needs
no privileges outside. It makes one network namespace a machine, joined by a bridge, spawns nodes
in them, and hands out *sockets made inside*, because an ordinary user may not enter a namespace
from outside. It serves one peer, the harness, over an inherited Unix socket
(`maxq.harness.environments.machines.machine_agent`). When the harness ends, however it ends, this
program reads end of file and exits; it is PID 1, so the kernel ends every process of the run, and
the namespaces, bridges and addresses go with the last of them.

Run as ``python -m maxq.harness.environments.machines.netns_agent FD``.
"""

import contextlib
import ctypes
import os
import signal
import socket
import sys
from functools import partial
from typing import Any

from maxq.harness.environments.machines import rights
from maxq.harness.environments.machines.machine_agent import (
    CLONE_NEWNET,
    CLONE_NEWNS,
    DEVICE,
    Action,
    Agent,
    Here,
    Namespace,
    Net,
    run,
    serve,
)

BRIDGE = "maxq0"
KEPT = ("NET_ADMIN", "SYS_ADMIN", "SYS_CHROOT")  # for networks, and to enter namespaces

_libc = ctypes.CDLL(None, use_errno=True)


def ip(*args: str, inside: Net | None = None) -> None:
    """Run iproute2, in another namespace if given."""
    run("ip", *args, inside=inside or Here())


def make_bridge() -> dict[str, Any]:
    """Make what the machines are joined by."""
    ip("link", "set", "lo", "up")
    ip("link", "add", BRIDGE, "type", "bridge")
    ip("link", "set", BRIDGE, "up")
    return {}


def make_memory() -> dict[str, Any]:
    """Have shared memory apart from the host's for all that is started from now on: what processes
    leave there goes with this world. libfaketime leaves some of each."""
    if _libc.mount(b"maxq", b"/dev/shm", b"tmpfs", 0, None) != 0:
        raise OSError(ctypes.get_errno(), "mount of shared memory")
    return {}


def make_machine(
    agent: Agent, name: str, addresses: list[str], space: bool = False
) -> dict[str, Any]:
    """Make a machine: a namespace, a cable to the bridge, its addresses (``address/prefix``); with
    `space` mounts of its own, too."""
    outside = f"v{len(agent.nets)}"
    ready, go = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:  # lives only until the parent holds the new namespace
        failed = _libc.unshare(CLONE_NEWNET | (CLONE_NEWNS if space else 0)) != 0
        os.write(ready[1], b"n" if failed else b"y")
        os.read(go[0], 1)
        os._exit(0)
    try:
        if os.read(ready[0], 1) != b"y":
            raise OSError("cannot make a network namespace")
        ip("link", "add", outside, "type", "veth", "peer", "name", DEVICE, "netns", str(pid))
        net = Namespace(os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC))
        if space:
            agent.spaces[name] = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.write(go[1], b"x")
        os.waitpid(pid, 0)
        for fd in (*ready, *go):
            os.close(fd)
    ip("link", "set", outside, "master", BRIDGE, "up")
    agent.nets[name] = net
    ip("link", "set", "lo", "up", inside=net)
    agent.address(name, [], addresses)
    ip("link", "set", DEVICE, "up", inside=net)
    return {}


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the harness decides when to end
    rights.keep(*KEPT)
    peer = socket.socket(fileno=int(sys.argv[1]))
    peer.set_inheritable(False)
    agent = Agent(Namespace(os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)))
    made: dict[str, Action] = {
        "bridge": make_bridge,
        "memory": make_memory,
        "machine": partial(make_machine, agent),
    }
    with contextlib.suppress(ConnectionError):  # the harness is gone
        serve(peer, agent, {**agent.actions(), **made})
    # PID 1 leaves, and the kernel takes the rest with it.


if __name__ == "__main__":
    main()
