"""What both sides of replication stand on: the log, an inbox of events, a connection.

Units: bytes; times are ns of the node's monotonic clock.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, Protocol, TypeVar

from maxq.reference.node import now_ns
from maxq.reference.records import PhyOffset, RemoteProtocolError
from maxq.reference.rpc import CONNECT_TIMEOUT_S, address_text, split_address
from maxq.reference.wire import ha as wire

E = TypeVar("E")


class LogAccess(Protocol):
    """What replication needs of a commit log. Bytes here are raw; files close with BLANK bytes."""

    @property
    def start(self) -> PhyOffset:
        """First byte that is kept; equal to `end` where the log is empty."""
        ...

    @property
    def end(self) -> PhyOffset: ...

    @property
    def pooled_end(self) -> PhyOffset:
        """`end` with what waits in this process for its file (transientStorePoolEnable)."""
        ...

    @property
    def durable(self) -> PhyOffset:
        """Everything before this is on the disk."""
        ...

    def whole_end(self) -> PhyOffset:
        """End of the last whole record: a slave's log may end within one."""
        ...

    def read_range(self, offset: PhyOffset, size_max: int) -> bytes:
        """Read from `offset` up to `size_max` bytes, the end of the file, or of the log."""
        ...

    def checked(self, offset: PhyOffset, data: bytes) -> Callable[[], None]:
        """Judge what is to be appended at `offset`, which is the end; in an empty log it may be
        any.

        Returns:
            What appends it, if nothing is appended or cut in between. It raises OSError where the
            disk is full or failed; nothing was appended then.

        Raises:
            RemoteProtocolError: a recovery would not take it back.
        """
        ...

    def commit(self) -> None:
        """Write what waits in this process to its file. Raises OSError."""
        ...

    async def truncate(self, offset: PhyOffset) -> None:
        """Cut to `offset`, durably: the bytes behind never come back. 0 empties the log."""
        ...

    async def trim(self, start: PhyOffset) -> None:
        """Let the log begin with the file that begins at `start`, durably. Raises OSError."""
        ...

    async def vouch(self) -> None:
        """Make sure that a recovery takes what was appended back, also a record that looks torn;
        nothing to do for others. Raises OSError."""
        ...

    async def sync(self) -> PhyOffset:
        """Make all appended before the call durable; returns up to where."""
        ...


class Inbox(Generic[E]):
    """Events of one task, in order of arrival."""

    def __init__(self) -> None:
        self._events: deque[tuple[E, asyncio.Future[None] | None]] = deque()
        self._wake: asyncio.Future[None] | None = None

    def post(self, event: E) -> None:
        self._events.append((event, None))
        self.ring()

    async def done(self, event: E) -> None:
        """Post, and wait until everything that follows from the event is carried out."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._events.append((event, future))
        self.ring()
        await future

    def ring(self) -> None:
        """Wake the task, be there an event or not."""
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    async def wait(self, deadline_ns: int | None) -> None:
        """Return when there is an event, after a `ring`, or when the deadline has passed."""
        if self._events:
            return
        loop = asyncio.get_running_loop()
        self._wake = loop.create_future()
        timer = None
        if deadline_ns is not None:
            timer = loop.call_later(max(deadline_ns - now_ns(), 0) / 1e9, self.ring)
        try:
            await self._wake
        finally:
            self._wake = None
            if timer is not None:
                timer.cancel()

    def taken(self) -> Iterator[E]:
        """Take out what is there now, one by one; an event is done when the next one is asked
        for."""
        for _ in range(len(self._events)):
            event, future = self._events.popleft()
            yield event
            if future is not None and not future.done():
                future.set_result(None)


class HaPort:
    """The HA port of a broker. It is bound with the broker's other ports; who connects before
    somebody serves there is sent away."""

    def __init__(self) -> None:
        self._accept: Callable[[], asyncio.Protocol] = SentAway
        self._listener: asyncio.AbstractServer | None = None

    async def bind(self, host: str, port: int) -> None:
        """Listen. Raises OSError: the address is taken or not this machine's."""
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(lambda: self._accept(), host, port)

    def serve(self, accept: Callable[[], asyncio.Protocol]) -> None:
        """Who connects from now on is accepted by `accept`."""
        self._accept = accept

    def close(self) -> None:
        """Listen no more; connections go on."""
        if self._listener is not None:
            self._listener.close()


class SentAway(asyncio.Protocol):
    """A connection that ends as it begins."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


class Tickets:
    """Who waits for replicas, by number."""

    def __init__(self) -> None:
        self._waiting: dict[int, Callable[[str], None]] = {}
        self._count = 0

    def take(self, then: Callable[[str], None]) -> int:
        """A number for who is called once: with an empty string, or with why it was given up."""
        self._count += 1
        self._waiting[self._count] = then
        return self._count

    def answer(self, ticket: int, why: str = "") -> None:
        """Call the one of a number."""
        self._waiting.pop(ticket)(why)


class Queued:
    """How many packets of each connection are in an inbox; of one with too many no more are
    read."""

    def __init__(self, links: Mapping[int, "Link"], most: int) -> None:
        self._links = links
        self._most = most
        self._count: dict[int, int] = {}

    def add(self, number: int) -> None:
        """One has come in."""
        count = self._count[number] = self._count.get(number, 0) + 1
        if count == self._most and number in self._links:
            self._links[number].hold(reading=False)

    def remove(self, number: int) -> None:
        """One was taken out."""
        left = self._count[number] = self._count[number] - 1
        if left == self._most // 2 and number in self._links:
            self._links[number].hold(reading=True)
        if not left:
            del self._count[number]


class Link(asyncio.Protocol):
    """One HA connection of either side: bytes in, packets out."""

    def __init__(
        self,
        decoder: wire.Decoder[Any],
        *,
        made: Callable[[], None],
        received: Callable[[Any], None],
        lost: Callable[[str], None],
    ) -> None:
        self._decoder = decoder
        self._made, self._received, self._lost = made, received, lost
        self._transport: asyncio.Transport | None = None
        self.nonsense = ""  # why the peer's bytes could not be read
        self._given_up = False

    async def dial(self, address: str) -> str:
        """Connect to ``ip:port``; returns why that did not work, empty if it did."""
        try:
            host, port = split_address(address)
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                await asyncio.get_running_loop().create_connection(lambda: self, host, port)
        except (OSError, TimeoutError, ValueError) as error:
            self.close()
            return f"{type(error).__name__}: {error}"
        return ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment] # HA speaks over streams only
        if self._given_up:
            transport.close()
        else:
            self._made()

    def data_received(self, data: bytes) -> None:
        if self._given_up:
            return
        try:
            for packet in self._decoder.feed(data):
                self._received(packet)
        except RemoteProtocolError as error:
            self.nonsense = str(error)
            self._lost(self.nonsense)
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if not self._given_up:
            self._given_up = True
            self._lost(str(exc or "closed by the peer"))

    @property
    def peer(self) -> str:
        """The other end's ``ip:port``; empty while there is none."""
        if self._transport is None:
            return ""
        return address_text(self._transport.get_extra_info("peername"))

    def send(self, packet: bytes) -> None:
        """Write a packet, in one write; nothing happens on a closed connection."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(packet)

    def hold(self, *, reading: bool) -> None:
        """Stop or go on reading."""
        if self._transport is not None and not self._transport.is_closing():
            if reading:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def close(self) -> None:
        """End the connection, also one that is still being dialled; nothing more is heard of it."""
        self._given_up = True
        if self._transport is not None:
            self._transport.close()
