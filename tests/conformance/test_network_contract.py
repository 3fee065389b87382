"""Connections and clocks mean the same on the machine and in the simulator."""

import asyncio
import errno
import socket
from typing import Any

import pytest
from both_worlds import Run, in_both_worlds

from maxq.reference.host import Host

run = in_both_worlds  # the fixture
PATIENCE_S = 10.0
PORT = 20_930
BIG = 4_000_000  # bytes: more than kernels hold for a reader that does not read


class End(asyncio.Protocol):
    """Remembers what it met."""

    def __init__(self) -> None:
        self.heard = b""
        self.events: list[str] = []
        self.lost: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        self.transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.events.append("made")

    def data_received(self, data: bytes) -> None:
        self.heard += data

    def pause_writing(self) -> None:
        self.events.append("pause")

    def resume_writing(self) -> None:
        self.events.append("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        self.events.append("lost")
        self.lost.set_result(exc)


class Listener:
    """Accepts connections on a port."""

    def __init__(self) -> None:
        self.ends: list[End] = []
        self.server: Any = None

    async def listen(self, host: str, port: int) -> "Listener":
        self.server = await asyncio.get_running_loop().create_server(self._accept, host, port)
        return self

    def _accept(self) -> End:
        self.ends.append(End())
        return self.ends[-1]


async def dial(host: str, port: int) -> End:
    return (await asyncio.get_running_loop().create_connection(End, host, port))[1]


async def pair(host: Host, port: int) -> tuple[End, End, Listener]:
    """A connection's two ends, and who listens."""
    listener = await Listener().listen("0.0.0.0", port)
    near = await dial(host.addresses()[0], port)
    await until(lambda: bool(listener.ends and listener.ends[0].transport))
    return near, listener.ends[0], listener


async def until(done: Any) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not done():  # noqa: ASYNC110 # nothing tells what the other side's kernel did
            await asyncio.sleep(0.002)


async def end_of(end: End) -> Exception | None:
    async with asyncio.timeout(PATIENCE_S):
        return await end.lost


def test_ends_know_each_others_addresses(run: Run) -> None:
    async def case(host: Host, folder: str) -> None:
        near, far, listener = await pair(host, PORT)
        mine, theirs = near.transport, far.transport
        assert mine.get_extra_info("sockname") == theirs.get_extra_info("peername")
        assert mine.get_extra_info("peername") == theirs.get_extra_info("sockname")
        assert theirs.get_extra_info("sockname") == (host.addresses()[0], PORT)
        near.transport.close()
        listener.server.close()

    run(case)


def test_what_was_written_before_a_close_arrives(run: Run) -> None:
    async def case(host: Host, folder: str) -> None:
        near, far, listener = await pair(host, PORT + 1)
        near.transport.write(b"a")
        near.transport.write(b"bc")
        near.transport.close()
        near.transport.close()
        near.transport.write(b"too late")
        assert near.transport.is_closing()
        assert near.events == ["made"], "the end is told later, not inside of the call"
        assert await end_of(near) is None
        assert await end_of(far) is None, "an end of the stream closes the other end as well"
        assert far.heard == b"abc"
        assert (near.events, far.events) == (["made", "lost"], ["made", "lost"])
        listener.server.close()

    run(case)


def test_a_writer_is_paused_by_a_reader_that_does_not_read(run: Run) -> None:
    async def case(host: Host, folder: str) -> None:
        near, far, listener = await pair(host, PORT + 2)
        far.transport.pause_reading()
        near.transport.write(bytes(3 * BIG))
        near.transport.write(b"!")
        await asyncio.sleep(0.05)
        assert near.events == ["made", "pause"]
        assert near.transport.get_write_buffer_size() > 0
        heard = len(far.heard)
        far.transport.resume_reading()
        await until(lambda: len(far.heard) == 3 * BIG + 1)
        await until(lambda: near.events == ["made", "pause", "resume"])
        assert heard < 3 * BIG
        assert far.heard.endswith(b"\0!")
        near.transport.close()
        listener.server.close()

    run(case)


def test_the_end_of_a_stream_waits_for_a_reader_too(run: Run) -> None:
    async def case(host: Host, folder: str) -> None:
        near, far, listener = await pair(host, PORT + 3)
        far.transport.pause_reading()
        near.transport.write(b"last words")
        near.transport.close()
        await asyncio.sleep(0.05)
        assert (far.heard, far.events) == (b"", ["made"])
        far.transport.resume_reading()
        assert await end_of(far) is None
        assert far.heard == b"last words"
        listener.server.close()

    run(case)


def test_nobody_listening_refuses(run: Run) -> None:
    async def case(host: Host, folder: str) -> None:
        with pytest.raises(ConnectionRefusedError) as caught:
            await dial(host.addresses()[0], PORT + 4)
        assert caught.value.errno == errno.ECONNREFUSED

    run(case)


def test_a_name_that_nobody_knows_is_an_error_of_names(run: Run) -> None:
    async def case(host: Host, folder: str) -> None:
        with pytest.raises(socket.gaierror):
            await dial("no such host", PORT)

    run(case)


def test_only_own_addresses_can_be_listened_on_and_each_once(run: Run) -> None:
    async def case(host: Host, folder: str) -> None:
        with pytest.raises(OSError, match=r"203\.0\.113\.9|requested address") as caught:
            await Listener().listen("203.0.113.9", PORT + 5)
        assert caught.value.errno == errno.EADDRNOTAVAIL
        own = host.addresses()[0]
        listener = await Listener().listen(own, PORT + 5)
        for address in (own, "0.0.0.0"):
            with pytest.raises(OSError, match="in use") as caught:
                await Listener().listen(address, PORT + 5)
            assert caught.value.errno == errno.EADDRINUSE
        listener.server.close()

    run(case)


def test_who_stops_listening_keeps_his_connections(run: Run) -> None:
    async def case(host: Host, folder: str) -> None:
        near, far, listener = await pair(host, PORT + 6)
        listener.server.close()
        await asyncio.sleep(0)
        with pytest.raises(ConnectionRefusedError):
            await dial(host.addresses()[0], PORT + 6)
        near.transport.write(b"still here")
        await until(lambda: far.heard == b"still here")
        again = await Listener().listen("0.0.0.0", PORT + 6)
        other = await dial(host.addresses()[0], PORT + 6)
        await until(lambda: len(again.ends) == 1)
        for end in (near, other):
            end.transport.close()
        again.server.close()

    run(case)


def test_who_gives_up_a_dial_leaves_nothing(run: Run) -> None:
    async def case(host: Host, folder: str) -> None:
        listener = await Listener().listen("0.0.0.0", PORT + 7)
        dialling = asyncio.get_running_loop().create_task(dial(host.addresses()[0], PORT + 7))
        await asyncio.sleep(0)
        dialling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await dialling
        await asyncio.sleep(0.05)
        for end in listener.ends:  # a kernel may have accepted before
            assert await end_of(end) is None
        listener.server.close()

    run(case)


def test_an_aborted_connection_is_over_for_both(run: Run) -> None:
    async def case(host: Host, folder: str) -> None:
        near, far, listener = await pair(host, PORT + 8)
        far.transport.abort()
        assert await end_of(far) is None
        assert not isinstance(await end_of(near), TimeoutError)
        listener.server.close()

    run(case)


def test_clocks_go_forward_in_their_units(run: Run) -> None:
    async def case(host: Host, folder: str) -> None:
        loop = asyncio.get_running_loop()
        wall, monotonic = host.wall_ms(), loop.time()
        assert isinstance(wall, int)
        assert 1_600_000_000_000 < wall < 4_000_000_000_000, "ms since 1970"
        for _ in range(5):
            await asyncio.sleep(0.02)
            took_wall, took = host.wall_ms() - wall, loop.time() - monotonic
            assert took > 0.0199, "no time is shorter than asked for"
            assert abs(took_wall - took * 1000) < 20
            wall, monotonic = host.wall_ms(), loop.time()

    run(case)


def test_timers_run_in_the_order_of_their_times(run: Run) -> None:
    async def case(host: Host, folder: str) -> None:
        loop = asyncio.get_running_loop()
        fired: list[int] = []
        ended = loop.create_future()
        for ms in (30, 10, 20):
            loop.call_later(ms / 1000, fired.append, ms)
        cancelled = loop.call_later(0.015, fired.append, 15)
        at = loop.call_at(loop.time() + 0.04, ended.set_result, None)
        cancelled.cancel()
        assert cancelled.cancelled()
        assert at.when() > loop.time()
        loop.call_soon(fired.append, 0)
        await ended
        assert fired == [0, 10, 20, 30]

    run(case)
