"""Requests of several nodes of one process, which take turns; on the loopback of this machine."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from reference_nodes import HOST

from maxq.reference import rpc
from maxq.reference.bounds import Bounds
from maxq.reference.records import InvariantViolation
from maxq.reference.rpc import Connection, Reply, Turns
from maxq.reference.wire.frame import ONEWAY_FLAG, Decoder, Frame, encode

COUNT = 200


def encoded(first: int, flag: int = 0) -> bytes:
    """Requests in one piece, as a peer sends that does not wait for answers."""
    return b"".join(encode(Frame(code=n, opaque=n, flag=flag)) for n in range(first, first + COUNT))


class Two:
    """Two ports whose nodes share a loop; what was served, by port and code."""

    def __init__(self) -> None:
        self.served: list[tuple[str, int]] = []
        self.turns = {"x": Turns(), "y": Turns()}
        self.ports: dict[str, int] = {}
        self._wanted = COUNT
        self._there = asyncio.Event()

    async def until(self, count: int) -> None:
        """Wait until so many requests were served."""
        self._wanted = count
        if len(self.served) < count:
            await self._there.wait()

    async def serve(self, group: asyncio.TaskGroup) -> list[rpc.Server]:
        servers = []
        for name, turns in self.turns.items():

            def handle(request: Frame, connection: Connection, name: str = name) -> Reply:
                self.served.append((name, request.code))
                if len(self.served) == self._wanted:
                    self._there.set()
                return request.answer(0, name)

            server = await rpc.serve(HOST, 0, handle, group=group, bounds=Bounds(), turns=turns)
            listener = server._listener
            assert isinstance(listener, asyncio.Server)
            self.ports[name] = listener.sockets[0].getsockname()[1]
            servers.append(server)
        return servers


def in_both(case: Callable[[Two], Awaitable[None]]) -> Two:
    async def run() -> None:
        async with asyncio.timeout(20), asyncio.TaskGroup() as group:
            servers = await two.serve(group)
            await case(two)
            for server in servers:
                server.close()

    two = Two()
    asyncio.run(run())
    return two


async def answers(reader: asyncio.StreamReader, count: int) -> int:
    """Read so many answers."""
    decoder, found = Decoder(), 0
    while found < count:
        found += len(decoder.feed(await reader.read(1 << 16)))
    return found


def test_a_flood_at_one_does_not_hold_up_the_other() -> None:
    """Of two that have many requests each the turns alternate, and all are answered in order."""

    async def case(two: Two) -> None:
        streams = [await asyncio.open_connection(HOST, two.ports[name]) for name in ("x", "y")]
        for _, writer in streams:
            writer.write(encoded(0))
        for reader, writer in streams:
            assert await answers(reader, COUNT) == COUNT
            writer.close()

    two = in_both(case)
    for name in ("x", "y"):
        assert [code for of, code in two.served if of == name] == list(range(COUNT))
    both = two.served[two.served.index(("y", 0)) :][:COUNT]
    longest = max(len(run) for run in "".join(of for of, _ in both).split("y"))
    assert longest <= 2, "x has one request between two of y's"


def test_what_a_peer_says_last_counts() -> None:
    """It sends, does not wait, and closes: all of that is served, before the end is noticed."""

    async def case(two: Two) -> None:
        _, writer = await asyncio.open_connection(HOST, two.ports["x"])
        writer.write(encoded(0, ONEWAY_FLAG))
        writer.close()
        await two.until(COUNT)

    assert in_both(case).served == [("x", code) for code in range(COUNT)]


def test_a_node_that_ends_serves_no_more_of_what_waits() -> None:
    """Its store may be closed by then."""

    async def case(two: Two) -> None:
        _, writer = await asyncio.open_connection(HOST, two.ports["x"])
        writer.write(encoded(0))
        await two.until(1)
        two.turns["x"].clear()
        writer.close()
        await writer.wait_closed()

    assert len(in_both(case).served) < COUNT


@pytest.mark.parametrize("error", [ValueError("planted"), InvariantViolation("planted")])
def test_a_handler_that_fails_is_judged_as_without_turns(error: Exception) -> None:
    """An answer of code 1; of our own bugs the loop hears, whose handler knows the node."""
    heard: list[object] = []

    async def case() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, c: heard.append(c["exception"]))

        def handle(request: Frame, connection: Connection) -> Reply:
            raise error

        async with asyncio.TaskGroup() as group:
            server = await rpc.serve(HOST, 0, handle, group=group, turns=Turns())
            listener = server._listener
            assert isinstance(listener, asyncio.Server)
            port = listener.sockets[0].getsockname()[1]
            connection = await rpc.connect(f"{HOST}:{port}", group=group)
            try:
                answer = await connection.call(Frame(code=1), timeout_s=0.5)
                assert (answer.code, answer.remark) == (1, "ValueError: planted")
            except TimeoutError:
                assert isinstance(error, InvariantViolation)
            connection.close()
            server.close()

    asyncio.run(case())
    assert heard == ([error] if isinstance(error, InvariantViolation) else [])
