"""Slow ways between machines of every real environment: how slow, in which direction, what stays as
it is, and how it is told that something is not as it should be."""

import asyncio
import signal
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from real_machines import (
    ECHO,
    LONG_S,
    PORT,
    SHORT_S,
    WORLDS,
    Line,
    Real,
    line,
    meets,
    nobody,
    nth,
    python_of,
    until,
    world,
)

from maxq.harness.contracts.environment import Cut, Delay, Detour, EnvironmentLost
from maxq.harness.environments.disks import node_disk
from maxq.harness.environments.machines import toxiproxy_server
from maxq.harness.environments.machines.machine import LinkedMachine

LACKING = toxiproxy_server.lacking()
pytestmark = [
    pytest.mark.parametrize("where", WORLDS),
    pytest.mark.skipif(LACKING is not None, reason=str(LACKING)),
    pytest.mark.timeout(300),
]
UNCOVERED = PORT + 1
Body = Callable[[Real, LinkedMachine, LinkedMachine], Coroutine[Any, Any, None]]


def run(where: str, folder: Path, main: Body) -> None:
    world(where, folder, main, proxies=True)


async def echoes_ms(one: Line, count: int) -> list[float]:
    """How long echoes take on a connection."""
    took = []
    for _ in range(count):
        begun = time.monotonic()
        assert await one.answered(LONG_S)
        took.append((time.monotonic() - begun) * 1000)
    return took


def test_packets_are_late_in_established_connections_too_until_they_are_prompt(
    where: str, tmp_path: Path
) -> None:
    async def main(environment: Real, a: LinkedMachine, b: LinkedMachine) -> None:
        async with line(a.dial, b.address) as from_a, line(b.dial, a.address) as from_b:
            assert min(await echoes_ms(from_a, 5)) < 20
            late = Delay("b", b.block, 200, 50)
            await a.set_delay([late])
            assert await a.delays() == [late]
            for one in (from_a, from_b):  # whoever has dialled
                took = await echoes_ms(one, 8)
                assert 150 <= min(took) <= sorted(took)[4] <= 250, took
            assert await a.detour() == Detour((), 2)
            assert (await a.echo("b")).ms >= 149
            await b.set_delay([Delay("a", a.block, 100)])
            assert min(await echoes_ms(from_a, 3)) >= 250, "both directions"
            for machine in (a, b):
                await machine.set_delay([])
                assert await machine.delays() == []
            assert min(await echoes_ms(from_a, 5)) < 20

    run(where, tmp_path, main)


class Sink(asyncio.Protocol):
    """Counts what comes."""

    def __init__(self) -> None:
        self.count = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.count += len(data)


def test_no_more_comes_than_the_bandwidth_lets_through(where: str, tmp_path: Path) -> None:
    """Of what an echo sends back, which is all that it was sent."""

    async def main(environment: Real, a: LinkedMachine, b: LinkedMachine) -> None:
        await a.set_delay([Delay("b", b.block, kb_s=100)])
        _, sink = await a.dial(Sink, b.address, PORT)
        assert isinstance(sink, Sink)
        sink.transport.write(bytes(1_000_000))
        await until(lambda: came(sink, 20_000))
        first, begun = sink.count, time.monotonic()
        await until(lambda: came(sink, first + 200_000))
        rate = (sink.count - first) / 1000 / (time.monotonic() - begun)
        assert rate == pytest.approx(100, rel=0.1)
        echo = await a.echo("b")
        assert echo.kb_s == pytest.approx(100, rel=0.1)
        sink.transport.abort()

    async def came(sink: Sink, count: int) -> bool:
        return sink.count >= count

    run(where, tmp_path, main)


def test_packets_that_are_later_than_anybody_waits_are_proven_and_end(
    where: str, tmp_path: Path
) -> None:
    """No echo of them is waited for; all is prompt at once when they end."""

    async def main(environment: Real, a: LinkedMachine, b: LinkedMachine) -> None:
        async with line(a.dial, b.address) as one:
            await a.set_delay([Delay("b", b.block, 61_000, kb_s=500)])
            assert not await one.answered(SHORT_S)
            echo = await a.echo("b")
            assert echo.ms == 5_000
            assert echo.kb_s == pytest.approx(500, rel=0.1)
            await a.set_delay([])
            assert await a.delays() == []
            assert min(await echoes_ms(one, 3)) < 20

    run(where, tmp_path, main)


def test_a_cut_is_proven_by_probes_as_where_no_proxies_are(where: str, tmp_path: Path) -> None:
    """A process that dials meets the proxy; a probe goes past it, and is never late."""

    async def main(environment: Real, a: LinkedMachine, b: LinkedMachine) -> None:
        await a.set_delay([Delay("b", b.block, 2_000)])
        assert await a.probe(b.address, PORT, timeout_s=SHORT_S) == "open"
        assert await a.probe(b.address, PORT + 9, timeout_s=SHORT_S) == "refused"
        for reset, met in ((False, "silent"), (True, "refused")):
            await b.cut([Cut("a", a.block, reset)])
            assert await a.probe(b.address, PORT, timeout_s=SHORT_S) == met
            assert (await b.cut_packets())["a"] > 0
        await b.cut([])
        assert await meets(a, b)
        await a.set_delay([])
        async with line(a.dial, b.address) as one:
            await b.cut([Cut("a", a.block)])
            assert not await one.answered(SHORT_S)
            await b.cut([])
            assert await one.answered(LONG_S)

    run(where, tmp_path, main)


def test_proxies_follow_a_machine_to_another_address(where: str, tmp_path: Path) -> None:
    async def main(environment: Real, a: LinkedMachine, b: LinkedMachine) -> None:
        before = b.address
        await b.set_address(nth(b, 1))
        await until(lambda: meets(a, b))
        await a.set_delay([Delay("b", b.block, 100)])
        for one, other in ((a, b), (b, a)):
            async with line(one.dial, other.address) as late:
                assert min(await echoes_ms(late, 3)) >= 100
        assert await a.probe(before, PORT, timeout_s=SHORT_S) == "silent"
        assert (await a.detour()).straight == ()

    run(where, tmp_path, main)


def test_a_connection_that_no_proxy_covers_is_told(where: str, tmp_path: Path) -> None:
    async def main(environment: Real, a: LinkedMachine, b: LinkedMachine) -> None:
        other = ECHO.replace(str(PORT), str(UNCOVERED))
        await b.spawn([python_of(environment), "-c", other], log="other.log")
        await until(lambda: listens(a, b))
        transport, _ = await a.dial(asyncio.Protocol, b.address, UNCOVERED)
        await a.set_delay([Delay("b", b.block, 50, ports=(PORT,))])
        assert (await a.detour()).straight == ()
        await a.set_delay([Delay("b", b.block, 50)])
        (straight,) = (await a.detour()).straight
        assert straight.endswith(f">{b.address}:{UNCOVERED}")
        assert straight.startswith(f"{a.address}:")
        transport.close()

    async def listens(a: LinkedMachine, b: LinkedMachine) -> bool:
        return await a.probe(b.address, UNCOVERED, timeout_s=LONG_S) == "open"

    run(where, tmp_path, main)


def test_a_toxiproxy_that_ends_ends_the_environment_in_a_sentence(
    where: str, tmp_path: Path
) -> None:
    async def main(environment: Real, a: LinkedMachine, b: LinkedMachine) -> None:
        lost = asyncio.ensure_future(environment.lost())
        assert environment._proxies is not None
        await b.signal(environment._proxies._servers["b"].pid, signal.SIGKILL)
        with pytest.raises(EnvironmentLost, match=r"^toxiproxy on b ended with code -9, and with "):
            await asyncio.wait_for(lost, LONG_S)

    run(where, tmp_path, main)


def test_a_machine_without_slow_ways_has_no_proxy(where: str, tmp_path: Path) -> None:
    async def main(environment: Real, a: LinkedMachine, b: LinkedMachine) -> None:
        assert environment._proxies is None
        assert await a.redirected() == {}
        async with line(a.dial, b.address):
            assert await a.connections("127.0.0.0/8") == frozenset()
            assert [there for _, there in await a.connections(b.block)] == [f"{b.address}:{PORT}"]

    world(where, tmp_path, main)


def test_nobody_is_at_the_other_end(where: str, tmp_path: Path) -> None:
    """A proxy takes what is dialled, and ends it when it meets nobody."""

    async def main(environment: Real, a: LinkedMachine, b: LinkedMachine) -> None:
        async with line(a.dial, b.address) as one:
            await b.signal(b._pids[1], signal.SIGKILL)  # its echo, after its toxiproxy
            await asyncio.wait_for(one.lost.wait(), LONG_S)
        async with line(a.dial, b.address) as late:
            await asyncio.wait_for(late.lost.wait(), LONG_S)
        assert await a.probe(nobody(b), PORT, timeout_s=SHORT_S) == "silent"

    run(where, tmp_path, main)


@pytest.mark.skipif(node_disk.lacking() is not None, reason=str(node_disk.lacking()))
def test_after_a_loss_of_power_the_proxies_are_back_with_their_delays(
    where: str, tmp_path: Path
) -> None:
    async def main(environment: Real, a: LinkedMachine, b: LinkedMachine) -> None:
        lost = asyncio.ensure_future(environment.lost())
        late = Delay("b", b.block, 100)
        await a.set_delay([late])
        await a.power_loss()
        assert await a.delays() == [late]
        async with line(a.dial, b.address) as one:
            assert min(await echoes_ms(one, 3)) >= 100
        assert await a.detour() == Detour((), 1)
        assert not lost.done(), "it was no toxiproxy that ended by itself"
        lost.cancel()

    world(where, tmp_path, main, proxies=True, disks=True)
