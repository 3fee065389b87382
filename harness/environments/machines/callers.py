"""Containers that call the harness: a socket in a folder that both see, and a link to each.

Process 1 of such a container is an agent (`maxq.harness.environments.machines.container_agent`). It
ends when its link does, and the engine removes the container.
"""

import asyncio
import os
import shutil
import socket
import struct
from collections.abc import Collection
from pathlib import Path

from maxq.harness.contracts.environment import EnvironmentLost
from maxq.harness.environments.machines.agent_client import Link
from maxq.reference.records import some

CALL_TIMEOUT_S = 30.0  # from the start of a container to its call
NAME_MAX = 128  # bytes of a machine's name
SOCKET = "socket"
INSIDE = "/maxq/harness"  # where a container finds the folder of the socket
CREDENTIALS = struct.Struct("3i")  # of a peer: process, user, group


class Callers:
    """Who is expected to call, and has.

    Args:
        folder: of the socket; made by `listen`.
        lost: what is said once an agent has ended, before its name.
    """

    def __init__(self, folder: Path, lost: str) -> None:
        self.folder = folder
        self.links: dict[str, Link] = {}
        self.pids: dict[str, int] = {}  # of processes 1, as this machine numbers them
        self._lost = lost
        self._listener: socket.socket | None = None
        self._first_lost: asyncio.Future[str] | None = None

    def listen(self, backlog: int) -> None:
        """Be there before the first container is, so that one that calls in vain knows it."""
        self._first_lost = asyncio.get_running_loop().create_future()
        self.folder.mkdir(parents=True, mode=0o700, exist_ok=True)
        listener = self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listener.setblocking(False)
        # Through a descriptor of its folder: the path of a run may be longer than a name of a
        # socket can be.
        fd = os.open(self.folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            listener.bind(f"/proc/self/fd/{fd}/{SOCKET}")
        finally:
            os.close(fd)
        listener.listen(backlog)

    async def take(self, expected: Collection[str]) -> None:
        """Wait until every container has called.

        Raises:
            TimeoutError: one has not; says which, and what is usually wrong.
        """
        wanted = set(expected)
        try:
            async with asyncio.timeout(CALL_TIMEOUT_S):
                while wanted - self.links.keys():
                    await self._take_one()
        except TimeoutError:
            silent = ", ".join(sorted(wanted - self.links.keys()))
            raise TimeoutError(
                f"no call from {silent} within {CALL_TIMEOUT_S:.0f} s: it has ended, or the engine "
                f"is not of this machine, or does not see {self.folder.parent}"
            ) from None

    async def _take_one(self) -> None:
        loop = asyncio.get_running_loop()
        sock, _ = await loop.sock_accept(some(self._listener, "it listens before it makes"))
        name = (await loop.sock_recv(sock, NAME_MAX)).decode()
        peer = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
        self.pids[name] = CREDENTIALS.unpack(peer)[0]

        def ended() -> None:
            first = self._first_lost
            if self.links.get(name) is link and first is not None and not first.done():
                first.set_result(name)

        link = self.links[name] = Link(sock, lost=f"{self._lost}{name}", on_close=ended)

    def dismiss(self, name: str) -> None:
        """End a link on purpose: its agent ends, and nothing is lost."""
        if (link := self.links.pop(name, None)) is not None:
            link.close()

    async def lost(self) -> None:
        """Wait until an agent ends that nobody dismissed.

        Raises:
            EnvironmentLost: it has, or nobody has called yet.
        """
        if self._first_lost is None:
            raise EnvironmentLost(f"{self._lost}none is up")
        raise EnvironmentLost(f"{self._lost}{await asyncio.shield(self._first_lost)}")

    def link(self, name: str) -> Link:
        """The link to an agent.

        Raises:
            EnvironmentLost: there is none.
        """
        if name not in self.links:
            raise EnvironmentLost(f"{self._lost}none is up")
        return self.links[name]

    def forget_folder(self) -> None:
        """Remove the folder: containers keep what they have mounted, and who is killed from now on
        leaves none."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def close(self) -> None:
        """End all links, and listen no more."""
        listener, self._listener = self._listener, None
        links, self.links = self.links, {}
        for link in links.values():
            link.close()  # process 1 reads end of file
        if listener is not None:
            listener.close()
        self.forget_folder()
