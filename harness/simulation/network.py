"""The simulated network: ordered byte streams between addresses, with seeded latency.

A connection delivers bytes in order and once, or ends. Each direction draws its latencies from a
stream of its own. A dial to an address where nobody listens is refused; the death of a process
resets its connections and frees its ports, as a kernel does.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from harness.simulation.loop import SimLoop

LATENCY_NS = (50_000, 500_000)
HIGH_WATER, LOW_WATER = 65_536, 16_384  # bytes in flight at which a writer is paused, resumed
EPHEMERAL_PORT = 32_768

Factory = Callable[[], Any]


class SimTransport(asyncio.Transport):
    """One end of a connection."""

    def __init__(self, loop: SimLoop, protocol: Any, local: tuple[str, int],
                 remote: tuple[str, int], number: int) -> None:  # fmt: skip
        super().__init__({"sockname": local, "peername": remote})
        self.loop = loop
        self.protocol = protocol
        self.peer: SimTransport | None = None
        self._rng = loop.scheduler.rng(f"net/{number}/{local[0]}>{remote[0]}")
        self._arrives_ns = 0  # the last byte sent arrives then; later ones never before
        self._in_flight = 0
        self._paused_writer = False
        self._reading = True
        self._held: deque[bytes | None] = deque()  # arrived while reading was paused; None: end
        self._closing = False
        self._lost = False

    # What a protocol may call.

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._closing or not data or self.peer is None:
            return
        content = bytes(data)
        self._in_flight += len(content)
        self._send(self.peer._arrive, content)
        if self._in_flight > HIGH_WATER and not self._paused_writer:
            self._paused_writer = True
            self.protocol.pause_writing()

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            if self.peer is not None:
                self._send(self.peer._arrive, None)
            self.loop.call_soon(self._end, None)

    def abort(self) -> None:
        self.close()

    def is_closing(self) -> bool:
        return self._closing

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        if not self._reading:
            self._reading = True
            self.loop.call_soon(self._drain)

    def is_reading(self) -> bool:
        return self._reading

    def get_write_buffer_size(self) -> int:
        return self._in_flight

    # The wire.

    def _send(self, deliver: Callable[..., None], *args: Any) -> None:
        """Run `deliver` at the peer after a latency, in order."""
        if self.peer is None:
            return
        scheduler = self.loop.scheduler
        arrives = scheduler.now_ns + self._rng.randint(*LATENCY_NS)
        self._arrives_ns = max(self._arrives_ns, arrives)
        peer_loop = self.peer.loop
        if peer_loop.alive:
            handle = asyncio.Handle(deliver, args, peer_loop.stock)
            scheduler.at(self._arrives_ns, handle, peer_loop)

    def _arrive(self, data: bytes | None) -> None:
        if not self._lost:
            self._held.append(data)
            self._drain()

    def _drain(self) -> None:
        while self._held and self._reading and not self._lost:
            data = self._held.popleft()
            if data is None:
                self.close()
                self._end(None)
                return
            if self.peer is not None:
                self.peer._consumed(len(data))
            if not self._closing:
                self.protocol.data_received(data)

    def _consumed(self, count: int) -> None:
        self._in_flight -= count
        if self._paused_writer and self._in_flight < LOW_WATER:
            self._paused_writer = False
            self.loop.call_soon(self.protocol.resume_writing)

    def reset(self) -> None:
        """The peer's process died: what was on its way still comes, then the end."""
        if self.peer is not None:
            self.peer._send(self._end, ConnectionResetError(104, "connection reset by peer"))

    def _end(self, error: Exception | None) -> None:
        if not self._lost:
            self._lost = self._closing = True
            self.protocol.connection_lost(error)


class SimServer:
    """A listening address."""

    def __init__(self, network: "Network", key: tuple[str, int], loop: SimLoop) -> None:
        self._network, self._key, self._loop = network, key, loop

    def close(self) -> None:
        self._network.stop_listening(self._key, self._loop)


class Network:
    """Who listens where, and the connections between processes."""

    def __init__(self) -> None:
        self._listeners: dict[tuple[str, int], tuple[SimLoop, Factory]] = {}
        self._ends: dict[SimLoop, list[SimTransport]] = {}
        self._connections = 0

    def listening(self, address: str, port: int) -> bool:
        return (address, port) in self._listeners

    def listen(self, loop: SimLoop, factory: Factory, host: str, port: int) -> SimServer:
        key = (loop.address if host in ("", "0.0.0.0") else host, port)
        if key[0] != loop.address:
            raise OSError(99, f"cannot assign requested address: {host}")
        if key in self._listeners:
            raise OSError(98, f"address already in use: {key[0]}:{key[1]}")
        self._listeners[key] = (loop, factory)
        return SimServer(self, key, loop)

    def stop_listening(self, key: tuple[str, int], loop: SimLoop) -> None:
        if self._listeners.get(key, (None, None))[0] is loop:
            del self._listeners[key]

    async def dial(
        self, loop: SimLoop, factory: Factory, host: str, port: int
    ) -> tuple[SimTransport, Any]:
        self._connections += 1
        number = self._connections
        rng = loop.scheduler.rng(f"dial/{number}")
        await asyncio.sleep(rng.randint(*LATENCY_NS) / 1e9)
        listener = self._listeners.get((host, port))
        if listener is None:
            raise ConnectionRefusedError(111, f"connection refused: {host}:{port}")
        server_loop, server_factory = listener
        local = (loop.address, EPHEMERAL_PORT + number % 30_000)
        near = SimTransport(loop, factory(), local, (host, port), number)
        far = SimTransport(server_loop, server_factory(), (host, port), local, number)
        near.peer, far.peer = far, near
        for end in (near, far):
            ends = self._ends.setdefault(end.loop, [])
            ends[:] = [e for e in ends if not e._lost] + [end]
        # The server learns of the connection before any byte of it can arrive.
        server_loop.call_soon(far.protocol.connection_made, far)
        near.protocol.connection_made(near)
        return near, near.protocol

    def process_died(self, loop: SimLoop) -> None:
        for key in [k for k, (owner, _) in self._listeners.items() if owner is loop]:
            del self._listeners[key]
        for end in self._ends.pop(loop, []):
            if not end._lost and end.peer is not None:
                end.peer.reset()
