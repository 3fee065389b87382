"""A harness's side of an agent: requests in order, and how its end is noticed."""

import asyncio
import errno
import json
import os
import socket
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from maxq.harness.contracts.environment import EnvironmentLost
from maxq.harness.environments.machines.machine_agent import PACKET_MAX

Answer = tuple[dict[str, Any], int | None]


class Asked(Protocol):
    """An agent, however it is reached."""

    async def ask(self, do: str, **request: object) -> Answer:
        """Ask the agent; returns its answer, and a descriptor if it sent one.

        Raises:
            EnvironmentLost: it has ended.
            OSError: it could not do what was asked.
        """
        ...


class Link:
    """Requests to an agent, answered in order.

    Args:
        sock: a connected socket that keeps the borders of packets and does not block.
        lost: what to say once the agent has ended.
        on_close: called once, when the link ends from either side.
    """

    def __init__(self, sock: socket.socket, *, lost: str, on_close: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        self.lost = lost
        self.gone: asyncio.Future[None] = loop.create_future()
        self._sock = sock
        self._on_close = on_close
        self._unsent: deque[bytes] = deque()
        self._waiting: deque[asyncio.Future[Answer]] = deque()
        loop.add_reader(sock, self._read)

    async def ask(self, do: str, **request: object) -> Answer:
        """As `Asked` says."""
        packet = json.dumps({"do": do, **request}).encode()
        if len(packet) > PACKET_MAX:
            raise OSError(errno.EMSGSIZE, f"{do}: request too long: {len(packet)} > {PACKET_MAX}")
        if self.gone.done():
            raise EnvironmentLost(self.lost)
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        self._unsent.append(packet)
        self._write()
        try:
            answer, fd = await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled() and future.exception() is None:
                _close(future.result()[1])  # answered and cancelled in the same moment
            raise
        if "error" in answer:
            raise OSError(f"{do}: {answer['error']}")
        return answer, fd

    def _write(self) -> None:
        """Send what is not sent; wait for room where many ask at once."""
        loop = asyncio.get_running_loop()
        try:
            while self._unsent:
                self._sock.send(self._unsent[0])
                self._unsent.popleft()
        except BlockingIOError:
            loop.add_writer(self._sock, self._write)
            return
        except OSError:
            self.close()
            return
        loop.remove_writer(self._sock)

    def _read(self) -> None:
        try:
            packet, fds, _, _ = socket.recv_fds(self._sock, PACKET_MAX, 1, socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            return
        except OSError:
            packet, fds = b"", []
        if not packet:
            self.close()
            return
        future = self._waiting.popleft()
        fd = fds[0] if fds else None
        if future.done():  # whoever asked has given up
            _close(fd)
        else:
            future.set_result((json.loads(packet), fd))

    def close(self) -> None:
        """End the link; the agent reads end of file, and whoever waits learns that it is lost."""
        if not self.gone.done():
            loop = asyncio.get_running_loop()
            loop.remove_reader(self._sock)
            loop.remove_writer(self._sock)
            self._sock.close()
            self._on_close()
            self.gone.set_result(None)
        self._unsent.clear()
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():
                future.set_exception(EnvironmentLost(self.lost))


def _close(fd: int | None) -> None:
    if fd is not None:
        os.close(fd)
