"""Process 1 of a container: the agent of one machine, for as long as the harness lives.

It calls the harness at a Unix socket in a folder that both see, says which machine it is, and
serves what is asked (`maxq.harness.environments.machines.machine_agent`). The harness listens
before it makes the first container, so a container without a waiting harness meets a refusal and
ends at once; and when the harness ends, however it ends, this program reads end of file and exits.
As it is process 1 the kernel then ends every process of the container, and the engine removes it.

Run as ``python -m maxq.harness.environments.machines.container_agent MACHINE SOCKET RIGHT...``
inside a container, with the right to change routes (NET_ADMIN). It keeps the rights that are named:
what the run's faults need (`maxq.harness.environments.engine.rights`).

With ``--guest`` first it is in a network that is not the run's: it changes no route, and as it ends
it takes its rules out.
"""

import contextlib
import signal
import socket
import sys
from types import FrameType

from maxq.harness.environments.machines import packet_filter, rights
from maxq.harness.environments.machines.machine_agent import Agent, Here, run, serve

GUEST = "--guest"


def _end(number: int, frame: FrameType | None) -> None:
    sys.exit(0)


def main() -> None:
    signal.signal(signal.SIGTERM, _end)  # the kernel spares process 1 what it does not handle
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    guest = sys.argv[1] == GUEST
    name, path, *needed = sys.argv[1 + guest :]
    if not guest:
        # Some engines add a way out even to a network that has none; a packet for elsewhere must
        # fail at once here as in local, not wait for a gateway that does not exist.
        run("ip", "route", "flush", "exact", "default", inside=Here())
    rights.keep(*needed)
    peer = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    peer.connect(path)
    peer.send(name.encode())
    agent = Agent(Here())
    agent.nets[name] = Here()
    try:
        with contextlib.suppress(ConnectionError):  # the harness is gone
            serve(peer, agent, agent.actions())
    finally:
        if guest:
            run("nft", "-f", "-", inside=Here(), text=packet_filter.NOTHING)


if __name__ == "__main__":
    main()
