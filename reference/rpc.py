"""Calls, one-way messages and servers over remoting frames: the only user of connections.

Nodes and the harness's client share this module. A connection carries requests in both directions
at once: each side numbers its own requests (`opaque`), and only the response flag distinguishes an
answer from a request. Nothing here retries.

What a caller can learn from a failure decides between `fail` and `info`, so it is kept apart:

* `NotSent`: no byte of the request left this process; certainly nothing happened.
* `ConnectionLost`, `TimeoutError`: the request may have been executed, or may be later.

What peers make a node hold is bounded, and who does not read or finish what it has begun is cut
off (`maxq.reference.bounds`).

A connection is closed after a call on it has timed out: its peer may be paused, and an answer that
comes after the caller gave up must not be taken for anything. Units: seconds.

Source: RocketMQ ``NettyRemotingAbstract``; answers to unknown codes and failed handlers as there.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, Protocol

import msgspec

from maxq.reference.bounds import FRAME_S_MAX, HALF_FREE_BYTES, Bounds
from maxq.reference.records import InvariantViolation, LocalProtocolError, RemoteProtocolError
from maxq.reference.wire.frame import INT32_MAX, ONEWAY_FLAG, Decoder, Frame, encode

CONNECT_TIMEOUT_S = 3.0
IN_FLIGHT_MAX = 4096  # requests of one peer that may wait at the same time
SYSTEM_ERROR, SYSTEM_BUSY, NOT_SUPPORTED = 1, 2, 3


class NotSent(ConnectionError):
    """Refused before the first byte left: certainly nothing happened."""


class ConnectionLost(ConnectionError):
    """The connection ended after the request was handed to it: the outcome is unknown."""


Reply = Frame | None
# A handler that waits for a task's sake gives a coroutine, which becomes a task. Where others wait
# for it, it gives a plain future, which costs none and must end with a reply or cancelled.
Handler = Callable[[Frame, "Connection"], Reply | Awaitable[Reply]]
Wired = tuple[asyncio.BaseTransport, asyncio.BaseProtocol]


class Dial(Protocol):
    """Opens a connection; the environment's dialer, or the running loop's own."""

    def __call__(
        self, factory: Callable[[], asyncio.Protocol], host: str, port: int
    ) -> Awaitable[Wired]: ...


def loop_dial(factory: Callable[[], asyncio.Protocol], host: str, port: int) -> Awaitable[Wired]:
    """Dial through the running loop."""
    return asyncio.get_running_loop().create_connection(factory, host, port)


def refuse(request: Frame, connection: "Connection") -> Reply:
    """Answer that the request code is not served here."""
    return request.answer(NOT_SUPPORTED, f" request type {request.code} not supported")


class Connection(asyncio.Protocol):
    """One connection, open or lost. Made by `connect` and, `accepted`, by `serve`."""

    def __init__(
        self,
        group: asyncio.TaskGroup,
        handler: Handler,
        bounds: "Bounds[Connection]",
        *,
        accepted: bool = False,
        turns: "Turns | None" = None,
    ) -> None:
        self._turns = turns
        self._queued = 0  # requests that wait for their turn
        self._group = group
        self._bounds = bounds
        self._handler = handler
        self._accepted = accepted
        self._decoder = Decoder()
        self._transport: asyncio.Transport | None = None
        self._waiting: dict[int, asyncio.Future[Frame]] = {}
        self._last_opaque = 0
        self._in_flight = 0
        self._unread = False  # the peer does not read as fast as it is written to
        self._late: asyncio.TimerHandle | None = None  # while a frame has begun
        self._on_close: list[Callable[[Connection], None]] = []
        self.serial = 0  # of those that a server accepted, in order; from 1
        self.remote = ""  # "ip:port" of the peer
        self.local = ""

    @property
    def closed(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    def on_close(self, callback: Callable[["Connection"], None]) -> None:
        """Call `callback` once, when the connection has ended for whatever reason."""
        self._on_close.append(callback)

    async def call(self, request: Frame, *, timeout_s: float) -> Frame:
        """Send a request and wait for its answer.

        Raises:
            NotSent: the connection had ended before.
            ConnectionLost: it ended while waiting.
            TimeoutError: no answer in time; the connection is closed.
        """
        future: asyncio.Future[Frame] = asyncio.get_running_loop().create_future()
        opaque = self._write(request, future)
        try:
            async with asyncio.timeout(timeout_s):
                return await future
        except TimeoutError:
            self.close()
            raise
        finally:
            self._waiting.pop(opaque, None)

    def oneway(self, request: Frame) -> None:
        """Send a request that must not be answered.

        Raises:
            NotSent: the connection had ended before.
        """
        self._write(msgspec.structs.replace(request, flag=request.flag | ONEWAY_FLAG), None)

    def close(self) -> None:
        """End the connection after what is already written."""
        if self._transport is not None:
            self._transport.close()

    def _write(self, request: Frame, future: asyncio.Future[Frame] | None) -> int:
        if self._transport is None or self._transport.is_closing():
            raise NotSent(f"connection to {self.remote or 'no peer'} is closed")
        opaque = self._last_opaque = self._last_opaque % INT32_MAX + 1
        # Encoding comes first: what cannot be written must not be waited for.
        data = encode(msgspec.structs.replace(request, opaque=opaque))
        if future is not None:
            self._waiting[opaque] = future
        self._send(self._transport, data)
        return opaque

    def _send(self, transport: asyncio.Transport, data: bytes) -> None:
        transport.write(data)
        if self._unread:
            self._cut_off(self._bounds.unread.hold(self, transport.get_write_buffer_size()))

    def _cut_off(self, others: "list[Connection]", why: str = "too much is unread") -> None:
        for other in others:
            self._bounds.log("rpc.peer.cut-off", peer=other.remote, why=why)
            if other._transport is not None:
                other._transport.abort()  # what is written would never leave

    # The rest is called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert_transport(transport)
        self._transport = transport  # type: ignore[assignment] # checked just above
        self.remote = address_text(transport.get_extra_info("peername"))
        self.local = address_text(transport.get_extra_info("sockname"))

    def data_received(self, data: bytes) -> None:
        try:
            frames = self._decoder.feed(data)
        except RemoteProtocolError as error:
            self._bounds.log("rpc.peer.nonsense", peer=self.remote, why=str(error))
            self.close()  # RocketMQ closes without a word; so do we
            return
        if self._decoder.pending or self._late is not None:  # most reads are whole frames
            self._note_half(ended=bool(frames))
        for frame in frames:
            if frame.is_response:
                waiting = self._waiting.pop(frame.opaque, None)
                if waiting is not None and not waiting.done():
                    waiting.set_result(frame)
            elif self._turns is None:
                self._serve(frame)
            else:
                self._queued += 1
                self._turns.put(self, frame)
        if self._queued:
            self._read_or_rest()

    def take_turn(self, request: Frame) -> None:
        """Serve a request for which the turn has come."""
        self._queued -= 1
        self._serve(request)
        if not self._queued:
            self._read_or_rest()

    def _read_or_rest(self) -> None:
        """Read no more while requests wait for their turn. Nor from a peer that does not read its
        answers: it gets no more requests served. Only the accepting side may do so: if both did,
        each could wait for ever for the other to read."""
        if self._transport is None or self._transport.is_closing():
            return
        if self._queued or (self._unread and self._accepted):
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def _note_half(self, *, ended: bool) -> None:
        """Count what is there of a frame that has not ended, and give it its time."""
        pending = self._decoder.pending
        if self._late is not None and (ended or not pending):
            self._late.cancel()
            self._late = None
        if pending and self._late is None:
            self._late = asyncio.get_running_loop().call_later(FRAME_S_MAX, self._on_late)
        counted = pending if pending > HALF_FREE_BYTES else 0
        self._cut_off(self._bounds.half.hold(self, counted), "too much of frames is there")

    def _on_late(self) -> None:
        self._late = None
        self._cut_off([self], f"a frame did not end within {FRAME_S_MAX} s")

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._turns is not None:  # what it said last counts, and before the end of it does
            for request in self._turns.taken(self):
                self.take_turn(request)
        self._bounds.half.hold(self, 0)
        self._bounds.unread.hold(self, 0)
        if self._late is not None:
            self._late.cancel()
            self._late = None
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            if not future.done():
                future.set_exception(ConnectionLost(f"connection to {self.remote} lost: {exc}"))
        callbacks, self._on_close = self._on_close, []
        for callback in callbacks:
            callback(self)

    def pause_writing(self) -> None:
        self._unread = True
        self._read_or_rest()

    def resume_writing(self) -> None:
        self._unread = False
        self._bounds.unread.hold(self, 0)
        self._read_or_rest()

    def _serve(self, request: Frame) -> None:
        if self._in_flight >= IN_FLIGHT_MAX:
            self._reply(request, request.answer(SYSTEM_BUSY, "[OVERLOAD]too many requests"))
            return
        try:
            result = self._handler(request, self)
        except InvariantViolation:
            raise
        except Exception as error:  # the protocol's own answer to a failed handler
            result = request.answer(SYSTEM_ERROR, f"{type(error).__name__}: {error}")
        if isinstance(result, asyncio.Future):
            self._in_flight += 1
            result.add_done_callback(partial(self._on_result, request))
        elif not isinstance(result, Frame | None):
            self._in_flight += 1
            spawned = spawn(self._group, self._finish(request, result))
            if not spawned and asyncio.iscoroutine(result):
                result.close()
        else:
            self._reply(request, result)

    def _on_result(self, request: Frame, result: asyncio.Future[Reply]) -> None:
        self._in_flight -= 1
        if not result.cancelled():
            self._reply(request, result.result())

    async def _finish(self, request: Frame, result: Awaitable[Reply]) -> None:
        try:
            reply = await answered(request, result)
        finally:
            self._in_flight -= 1
        self._reply(request, reply)

    def _reply(self, request: Frame, reply: Reply) -> None:
        if reply is None or request.is_oneway or self.closed or self._transport is None:
            return
        try:
            data = encode(reply)
        except LocalProtocolError as error:  # longer than a frame, as an echo of the request can be
            data = encode(request.answer(SYSTEM_ERROR, f"answer cannot be written: {error}"))
        self._send(self._transport, data)


class Turns:
    """Requests of one node that wait for their turn, where several share an event loop.

    Of each node one is served at a time. The loop carries out what is due in the order in which it
    became so: each of the others has its turn before the next.
    """

    def __init__(self) -> None:
        self._waiting: deque[tuple[Connection, Frame]] = deque()
        self._due = False

    def put(self, connection: Connection, request: Frame) -> None:
        """A request has come."""
        self._waiting.append((connection, request))
        self._call()

    def taken(self, connection: Connection) -> list[Frame]:
        """Take out what waits of one connection."""
        found = [request for of, request in self._waiting if of is connection]
        self._waiting = deque(w for w in self._waiting if w[0] is not connection)
        return found

    def clear(self) -> None:
        """Serve no more of them."""
        self._waiting.clear()

    def _call(self) -> None:
        if self._waiting and not self._due:
            self._due = True
            asyncio.get_running_loop().call_soon(self._run)

    def _run(self) -> None:
        self._due = False
        if self._waiting:
            connection, request = self._waiting.popleft()
            connection.take_turn(request)
        self._call()


async def answered(request: Frame, work: Awaitable[Reply]) -> Reply:
    """What a handler answers; where it fails, the protocol's own answer to that."""
    try:
        return await work
    except InvariantViolation:
        raise  # our bug: the task group dies with it, and so does the node
    except Exception as error:
        return request.answer(SYSTEM_ERROR, f"{type(error).__name__}: {error}")


def assert_transport(transport: asyncio.BaseTransport) -> None:
    """Refuse transports that cannot carry a stream."""
    if not hasattr(transport, "write"):
        raise InvariantViolation(f"not a stream transport: {transport!r}")


def spawn(group: asyncio.TaskGroup, work: Coroutine[Any, Any, None]) -> bool:
    """Start a task, unless its group is ending: a stopping node begins nothing new."""
    try:
        group.create_task(work)
    except RuntimeError:
        work.close()
        return False
    return True


def address_text(name: object) -> str:
    """Write a socket name as ``ip:port``."""
    return f"{name[0]}:{name[1]}" if isinstance(name, tuple) and len(name) >= 2 else str(name)


def split_address(address: str) -> tuple[str, int]:
    """Read ``host:port``.

    Raises:
        ValueError: there is no port, or it is no port number.
    """
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"not an address (host:port): {address!r}")
    return host, int(port)


async def connect(
    address: str,
    *,
    group: asyncio.TaskGroup,
    handler: Handler = refuse,
    dial: Dial = loop_dial,
    bounds: Bounds[Connection] | None = None,
    timeout_s: float = CONNECT_TIMEOUT_S,
) -> Connection:
    """Open a connection to ``host:port``; without `bounds` it has its own.

    Raises:
        NotSent: refused, unreachable, or not connected in time; or no address. Addresses come from
            others, and a master's may be gone since it was looked at: neither breaks who asks.
    """
    try:
        host, port = split_address(address)
    except ValueError as error:
        raise NotSent(str(error)) from None
    connection = Connection(group, handler, bounds or Bounds())
    try:
        async with asyncio.timeout(timeout_s):
            await dial(lambda: connection, host, port)
    except (OSError, TimeoutError) as error:
        connection.close()
        raise NotSent(f"cannot connect to {address}: {error or type(error).__name__}") from None
    return connection


class Server:
    """A listening address and its connections."""

    def __init__(self) -> None:
        self.connections: dict[Connection, None] = {}  # a dict keeps the order of arrival
        self.accepted_count = 0
        self._listener: asyncio.AbstractServer | None = None

    def close(self) -> None:
        """Stop listening and close every connection."""
        if self._listener is not None:
            self._listener.close()
        for connection in list(self.connections):
            connection.close()


async def serve(
    host: str,
    port: int,
    handler: Handler,
    *,
    group: asyncio.TaskGroup,
    bounds: Bounds[Connection] | None = None,
    turns: Turns | None = None,
) -> Server:
    """Listen on ``host:port`` and answer requests with `handler`; without `bounds` all connections
    of this port share their own. Without `turns` requests are served as they are read.

    Raises:
        OSError: the address is taken or not this machine's.
    """
    server = Server()
    shared = bounds or Bounds()

    def accept() -> Connection:
        connection = Connection(group, handler, shared, accepted=True, turns=turns)
        server.accepted_count += 1
        connection.serial = server.accepted_count
        server.connections[connection] = None
        connection.on_close(lambda c: server.connections.pop(c, None) and None)
        return connection

    server._listener = await asyncio.get_running_loop().create_server(accept, host, port)
    return server


class Pool:
    """At most one open connection an address, dialled when first needed. `greet` makes the one-way
    request that is the first on each."""

    def __init__(
        self,
        group: asyncio.TaskGroup,
        *,
        handler: Handler = refuse,
        dial: Dial = loop_dial,
        bounds: Bounds[Connection] | None = None,
        greet: Callable[[str], Frame] | None = None,
    ) -> None:
        self._group = group
        self._greet = greet
        self._bounds = bounds or Bounds()
        self._handler = handler
        self._dial = dial
        self._open: dict[str, Connection] = {}
        self._dialling: dict[str, asyncio.Future[Connection]] = {}
        self._posted: dict[str, Frame] = {}  # the newest that waits for a dial, by address

    async def get(self, address: str) -> Connection:
        """Return the open connection to `address`, or make it. Raises NotSent."""
        known = self._open.get(address)
        if known is not None and not known.closed:
            return known
        if address in self._dialling:
            return await asyncio.shield(self._dialling[address])
        waiters: asyncio.Future[Connection] = asyncio.get_running_loop().create_future()
        self._dialling[address] = waiters
        try:
            made = await connect(
                address,
                group=self._group,
                handler=self._handler,
                dial=self._dial,
                bounds=self._bounds,
            )
            if self._greet is not None:
                made.oneway(self._greet(address))
        except BaseException as error:
            # Whoever waited on this attempt shares its failure, never its cancellation.
            shared = error if isinstance(error, NotSent) else NotSent(f"dial given up: {address}")
            waiters.set_exception(shared)
            waiters.exception()  # there may be no waiter
            raise
        finally:
            del self._dialling[address]
        self._open[address] = made
        waiters.set_result(made)
        return made

    async def call(self, address: str, request: Frame, *, timeout_s: float) -> Frame:
        """Call over the pooled connection; errors as `Connection.call`."""
        connection = await self.get(address)
        return await connection.call(request, timeout_s=timeout_s)

    async def oneway(self, address: str, request: Frame) -> None:
        """Send a one-way request over the pooled connection. Raises NotSent."""
        (await self.get(address)).oneway(request)

    def post(self, address: str, request: Frame) -> None:
        """Send a one-way request; without a connection dial, and send the newest one then.

        For messages that the sender repeats anyway: nothing queues up for a peer that is away.
        """
        known = self._open.get(address)
        if known is not None and not known.closed:
            known.oneway(request)
            return
        dials = address in self._posted
        self._posted[address] = request
        if not dials and not spawn(self._group, self._dial_and_post(address)):
            del self._posted[address]

    async def _dial_and_post(self, address: str) -> None:
        try:
            connection = await self.get(address)
            connection.oneway(self._posted[address])
        except NotSent:
            pass  # the next message tries again
        finally:
            del self._posted[address]

    def release(self) -> tuple[Connection, ...]:
        """Forget the open connections, for the caller to close; the next calls dial anew."""
        released = tuple(self._open.values())
        self._open.clear()
        return released

    def close(self) -> None:
        """Close every connection."""
        for connection in self._open.values():
            connection.close()
        self._open.clear()
