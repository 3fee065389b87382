"""The simulated network's connections: two ends, and a flow of segments each way, as TCP has them.

A flow delivers bytes in order and once, but not as they were written: now and then a segment is
split, or reaches its reader together with the next. What a machine does not take, or what is lost
on the way, is sent again, after 200 ms and then twice as long each time, until it is taken or,
after 15 times, the connection ends (ETIMEDOUT); so after a silent cut has healed the stream goes
on, late. Nothing is sent again sooner (RFC 5681, fast retransmit): requests and answers seldom have
the three segments behind a lost one that this takes. Both directions are needed: without
acknowledgements a sender falls silent after one window. All this is the work of kernels: it goes on
while a process is paused, and after it has died. Times are ns.

Source: RFC 6298 (retransmission), and what Linux does: 200 ms at least (TCP_RTO_MIN), tcp_retries2,
orphaned sockets.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol

from maxq.harness.contracts.draws import Draws
from maxq.harness.simulation.loop import SimHandle, SimLoop

LATENCY_NS = (50_000, 500_000)
QUANTUM_NS = 1_000_000  # draws of one of these are equal, so that small shifts leave them alone
SPLIT_SHARE, MERGED_SHARE = 128, 128  # of 4096 segments
SPLIT_GAP_NS = 100_000  # the rest of a split segment comes at most so much later
MERGED_BYTES_MAX = 65_536
HIGH_WATER, LOW_WATER = 65_536, 16_384  # bytes in flight at which a writer is paused, resumed
RETRY_NS, RETRY_NS_MAX = 200_000_000, 120_000_000_000
RETRIES_MAX = 15
CALM_BITS = 0xFFFF_FFFF_8000_0000  # neither split nor merged, and of the middle latency
WINDOW = 10  # segments that may be under way without an acknowledgement

Address = tuple[str, int]
Verdict = Literal["take", "drop", "reset", "nobody"]  # what becomes of a packet
Payload = bytes | None | ConnectionError  # None: no more will come; an error: a reset


class Link:
    """The way from one machine to another: how long each packet takes; with
    `constant_latency` all the same, and none is split or merged."""

    __slots__ = ("_constant_latency", "_draws")

    def __init__(self, draws: Draws, *, constant_latency: bool = False) -> None:
        self._draws = draws
        self._constant_latency = constant_latency

    def bits(self, now_ns: int, length: int) -> int:
        """What is drawn for a packet of a length, sent now."""
        if self._constant_latency:
            return CALM_BITS
        return self._draws.bits(now_ns // QUANTUM_NS, length)

    def latency_ns(self, now_ns: int, length: int) -> int:
        """How long such a packet takes."""
        return latency_of(self.bits(now_ns, length))

    def first_port(self, count: int) -> int:
        """Where the ports begin, of `count`, from which this way is dialled."""
        return self._draws.below(count)


def latency_of(bits: int) -> int:
    """The latency that 64 drawn bits mean; decided by the lower half."""
    low, high = LATENCY_NS
    return low + ((bits & 0xFFFF_FFFF) * (high - low + 1) >> 32)


class SimTransport(asyncio.Transport):
    """One end of a connection. `protocol` is set when its process learns of the connection."""

    def __init__(self, loop: SimLoop, local: Address, remote: Address) -> None:
        super().__init__({"sockname": local, "peername": remote})
        self.loop = loop
        self.local, self.remote = local, remote
        self.protocol: Any = None
        self.peer: SimTransport | None = None
        self.flow: Flow | None = None  # to the peer
        self.gone = False  # a reset ended it: its kernel knows nothing of it any more
        self._in_flight = 0
        self._paused_writer = False
        self._reading = True
        self._held: deque[bytes | None] = deque()  # arrived while reading was paused; None: end
        self._closing = False
        self._lost = False

    # What a protocol may call.

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._closing or not data or self.flow is None:
            return
        content = bytes(data)
        self._in_flight += len(content)
        self.flow.send(content)
        if self._in_flight > HIGH_WATER and not self._paused_writer:
            self._paused_writer = True
            self.protocol.pause_writing()

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            if self.flow is not None:
                self.flow.send(None)
            self.loop.call_soon(self.end, None)

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

    # What the network calls, in the process of this end.

    @property
    def lost(self) -> bool:
        return self._lost

    @property
    def known(self) -> bool:
        """Whether its kernel has anything to do with it still: for its process, or for what that
        has left to be sent."""
        over = self._lost or not self.loop.alive
        return not self.gone and not (over and self.flow is not None and self.flow.idle)

    def made(self, protocol: Any) -> None:
        """The process learns of the connection."""
        self.protocol = protocol
        protocol.connection_made(self)

    def arrived(self, payload: Payload) -> None:
        if self._lost:
            return
        if type(payload) is bytes and self._reading and not self._held and not self._closing:
            self._heard(payload)  # as nearly all
            return
        if isinstance(payload, ConnectionError):
            self.end(payload)
            return
        self._held.append(payload)
        self._drain()

    def _drain(self) -> None:
        while self._held and self._reading and not self._lost:
            data = self._held.popleft()
            if data is None:
                self.close()
                self.end(None)
                return
            self._heard(data)

    def _heard(self, data: bytes) -> None:
        if self.peer is not None:
            self.peer._consumed(len(data))
        if not self._closing:
            self.protocol.data_received(data)

    def _consumed(self, count: int) -> None:
        self._in_flight -= count
        if self._paused_writer and self._in_flight < LOW_WATER:
            self._paused_writer = False
            self.loop.call_soon(self.protocol.resume_writing)

    def end(self, error: Exception | None) -> None:
        """The connection is over for this end."""
        if not self._lost:
            self._lost = self._closing = True
            if self.protocol is not None:
                self.protocol.connection_lost(error)

    def reset(self, error: ConnectionError | TimeoutError) -> None:
        """The kernel of this end drops the connection."""
        if not self.gone:
            self.gone = True
            self.loop.interrupt(self.end, error)


class Lateness(Protocol):
    """What makes packets late."""

    def late_ns(self, now_ns: int, length: int) -> int:
        """How much longer one takes that is sent now."""


def late_ns(late: Sequence[Lateness], now_ns: int, length: int) -> int:
    """How much longer a packet takes that all of them concern: as long as by the longest."""
    return max((rule.late_ns(now_ns, length) for rule in late), default=0)


class Ways(Protocol):
    """What a flow needs of the network (`maxq.harness.simulation.network.Network`)."""

    version: int

    @property
    def now_ns(self) -> int:
        """Virtual time."""

    def at(self, when_ns: int, callback: Callable[..., object], *args: object) -> SimHandle:
        """Let a kernel do something, whatever its processes do."""

    def link(self, source: str, target: str, port: int) -> Link:
        """The way from an address to another."""

    def late(self, source: Address, target: Address) -> Sequence[Lateness]:
        """What makes packets late on this way."""

    def lossy(self, source: Address, target: Address) -> bool:
        """Whether packets are lost this way."""

    def verdict(
        self, source: Address, target: Address, length: int = 0, *, reset: bool = False
    ) -> Verdict:
        """What becomes of a packet of so many bytes that is sent now."""


class Flow:
    """One direction of a connection, in the kernels of both its ends."""

    def __init__(
        self, network: Ways, source: SimTransport, target: SimTransport, link: Link
    ) -> None:
        self._network = network
        self._source = source
        self._target = target
        self._link = link
        self._queue: deque[Payload] = deque()  # sent, and not taken yet
        self._first = 0  # the number of the first in the queue
        self.arrives_ns = 0  # nothing arrives before what was sent before
        self._unacknowledged = 0
        self._stalled = False  # only the head is sent, again and again
        self._retries = 0
        self._retrying: SimHandle | None = None
        self._clear = -1  # the version of the network in which the way is known to be free
        self._late: Sequence[Lateness] = ()
        self._late_version = -1

    @property
    def idle(self) -> bool:
        """Whether everything sent was taken."""
        return not self._queue

    def send(self, payload: Payload) -> None:
        if self._source.gone:
            return
        network, length = self._network, len(payload) if isinstance(payload, bytes) else 0
        bits = self._link.bits(network.now_ns, length)
        if self._late_version != network.version:
            self._late_version = network.version
            self._late = network.late(self._source.local, self._source.remote)
        arrives = network.now_ns + latency_of(bits)
        if self._late:
            arrives += late_ns(self._late, network.now_ns, length)
        # The upper half says whether the segment is merged or split, and where.
        if isinstance(payload, bytes):
            if (bits >> 40) & 0xFFF < MERGED_SHARE:
                payload = self._with_last(payload)
            if bits >> 52 < SPLIT_SHARE and length > 1:
                where = (bits >> 32) & 0xFFFFF
                cut = 1 + (where * (len(payload) - 1) >> 20)
                self._send_at(arrives, payload[:cut])
                payload, arrives = payload[cut:], arrives + (where * SPLIT_GAP_NS >> 20)
        self._send_at(arrives, payload)

    def _send_at(self, arrives_ns: int, payload: Payload) -> None:
        self._queue.append(payload)
        self.arrives_ns = max(self.arrives_ns, arrives_ns)
        if not self._stalled:
            number = self._first + len(self._queue) - 1
            self._network.at(self.arrives_ns, self._arrive, number)

    def _with_last(self, payload: bytes) -> bytes:
        """Let the segment before this one, if it is under way, arrive with this one: its reader
        looks only then."""
        last = self._queue[-1] if self._queue else None
        if not isinstance(last, bytes) or len(last) + len(payload) > MERGED_BYTES_MAX:
            return payload
        self._queue[-1] = b""
        return last + payload

    def _arrive(self, number: int) -> None:
        """A segment reaches the machine of the target, for the first time."""
        if number < self._first or self._source.gone:
            return  # it was taken when it was sent again
        known = self._clear == self._network.version and not self._stalled
        if known and number == self._first and not self._unacknowledged:
            self._take()
            return
        verdict = self._verdict()
        if self._stalled or number > self._first or self._unacknowledged >= WINDOW:
            return  # behind a gap, or more than a kernel sends without an answer
        if verdict == "take":
            self._take()
            if self._acknowledged():
                self._unacknowledged = 0
                self._stop_retrying()
                self._clear = -1 if self._lossy() else self._network.version
            else:
                self._unacknowledged += 1
                self._retry_later()
        elif not (verdict == "reset" and self._rejected()):
            self._stalled = True
            self._retry_later()

    def _retry(self) -> None:
        self._retrying = None
        if self._source.gone:
            return
        verdict = self._verdict()
        if verdict == "take":
            if not self._unacknowledged and self._queue:
                self._take()
                self._unacknowledged = 1
            if self._acknowledged():
                self._flush()
                return
        elif verdict == "reset" and self._rejected():
            return
        self._stalled = True
        self._retries += 1
        if self._retries > RETRIES_MAX:
            self._source.reset(TimeoutError(110, "connection timed out"))
        else:
            self._retry_later()

    def _flush(self) -> None:
        """The way is free again. Where packets are lost, it is so until the next loss: what came
        behind a gap has been kept, and each further gap is waited for anew."""
        self._unacknowledged, self._stalled = 0, False
        self._stop_retrying()
        lossy = self._lossy()
        while self._queue and not self._source.gone:
            if lossy and self._verdict() != "take":
                self._stalled = True
                self._retry_later()
                return
            self._take()

    def _stop_retrying(self) -> None:
        self._retries = 0
        if self._retrying is not None:
            self._retrying.cancel()
            self._retrying = None

    def _retry_later(self) -> None:
        if self._retrying is None:
            wait = min(RETRY_NS << self._retries, RETRY_NS_MAX)
            self._retrying = self._network.at(self._network.now_ns + wait, self._retry)

    def _take(self) -> None:
        """The machine of the target takes the first segment."""
        payload = self._queue.popleft()
        self._first += 1
        if payload == b"":
            return  # its bytes come with the next segment
        if not self._target.gone:
            self._target.loop.interrupt(self._target.arrived, payload)
        elif not isinstance(payload, ConnectionError) and self._hears_reset():
            self._source.reset(ConnectionResetError(104, "connection reset by peer"))

    def _lossy(self) -> bool:
        """Whether segments or their acknowledgements are lost."""
        here, there = self._source.local, self._source.remote
        return self._network.lossy(here, there) or self._network.lossy(there, here)

    def _verdict(self) -> Verdict:
        """What becomes of the first segment, if it is sent now."""
        head = self._queue[0] if self._queue else None
        length = len(head) if isinstance(head, bytes) else 0
        return self._network.verdict(self._source.local, self._source.remote, length)

    def _acknowledged(self) -> bool:
        """Send the target's acknowledgement; whether it is taken."""
        verdict = self._network.verdict(self._source.remote, self._source.local)
        if verdict == "reset":  # it answers the acknowledgement, so the target hears it
            self._target.reset(ConnectionResetError(104, "connection reset by peer"))
        return verdict == "take"

    def _rejected(self) -> bool:
        """The target's machine answers with a reset; whether that is taken."""
        if self._hears_reset():
            self._source.reset(ConnectionResetError(104, "connection reset by peer"))
        return self._source.gone

    def _hears_reset(self) -> bool:
        return self._network.verdict(self._source.remote, self._source.local,
                                     reset=True) == "take"  # fmt: skip


def join(network: Ways, near: SimTransport, far: SimTransport) -> None:
    """Make two ends a connection; `near` has dialled."""
    near.peer, far.peer = far, near
    for end, other in ((near, far), (far, near)):
        link = network.link(end.local[0], other.local[0], far.local[1])
        end.flow = Flow(network, end, other, link)
