"""Two machines of a real environment that echo, and lines to them."""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any, TypeVar

import pytest

from maxq.harness.contracts.environment import Capability, EnvironmentUnavailable, MachineSpec
from maxq.harness.environments import docker
from maxq.harness.environments.docker import DockerEnvironment
from maxq.harness.environments.engine.client import connect
from maxq.harness.environments.local import LocalEnvironment, check, lacking
from maxq.harness.environments.machines.machine import LinkedMachine
from maxq.reference.rpc import Dial


def missing(environment: str) -> str:
    """Why an environment cannot be tried here; empty if it can."""
    try:
        if environment == "docker":
            connect().close()
            return ""
        check()
    except EnvironmentUnavailable as error:
        return str(error)
    needed = {Capability.CUT, Capability.LOSS, Capability.CHANGE_ADDRESS}
    return "; ".join(str(why) for what, why in lacking().items() if what in needed)


def world_of(environment: str, mark: pytest.MarkDecorator) -> Any:
    why = missing(environment)
    return pytest.param(environment, marks=[mark, pytest.mark.skipif(bool(why), reason=why)])


WORLDS = [world_of("local", pytest.mark.local), world_of("docker", pytest.mark.docker)]
Real = LocalEnvironment | DockerEnvironment
T = TypeVar("T")
PORT = 7007  # one that takes no right
SHORT_S, LONG_S = 0.3, 10.0
ECHO = f"""
import socket, threading
def serve(c):
    while data := c.recv(100):
        c.sendall(data)
s = socket.create_server(('0.0.0.0', {PORT}))
while True:
    threading.Thread(target=serve, args=s.accept()[:1], daemon=True).start()
"""


def make(
    where: str, folder: Path, *, disks: bool = False, clocks: bool = False, proxies: bool = False
) -> Real:
    say = partial(print, file=sys.stderr)
    kind = LocalEnvironment if where == "local" else DockerEnvironment
    return kind(folder, disks=disks, clocks=clocks, proxies=proxies, say=say)


def python_of(environment: Real) -> str:
    return docker.PYTHON if environment.name == "docker" else sys.executable


def nth(machine: LinkedMachine, index: int) -> str:
    """An address of a machine's block."""
    return str(IPv4Network(machine.block)[index])


def nobody(last: LinkedMachine) -> str:
    """An address of the network that no machine has."""
    return str(IPv4Address(last.address) + 64)


def world(
    where: str,
    folder: Path,
    main: Callable[[Real, LinkedMachine, LinkedMachine], Coroutine[Any, Any, T]],
    *,
    disks: bool = False,
    clocks: bool = False,
    proxies: bool = False,
) -> T:
    """Do something in a world of two machines that echo."""

    async def body() -> T:
        environment = make(where, folder, disks=disks, clocks=clocks, proxies=proxies)
        await environment.up([MachineSpec(name="a", ports=(PORT,)),
                              MachineSpec(name="b", ports=(PORT,))])  # fmt: skip
        try:
            a, b = environment.machine("a"), environment.machine("b")
            for machine in (a, b):
                await machine.spawn([python_of(environment), "-c", ECHO], log="echo.log")
            for machine, other in ((a, b), (b, a)):
                await until(lambda m=machine, o=other: meets(o, m))  # type: ignore[misc]
            return await main(environment, a, b)
        finally:
            await environment.down()

    return asyncio.run(body())


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    for _ in range(500):
        if await condition():
            return
        await asyncio.sleep(0.02)
    raise TimeoutError


async def meets(source: LinkedMachine, target: LinkedMachine) -> bool:
    return await source.probe(target.address, PORT, timeout_s=LONG_S) == "open"


class Line(asyncio.Protocol):
    """A connection that says something and waits for the echo."""

    def __init__(self) -> None:
        self.echo = asyncio.Event()
        self.lost = asyncio.Event()
        self.error: Exception | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.echo.set()

    def connection_lost(self, error: Exception | None) -> None:
        self.error = error
        self.lost.set()

    async def answered(self, timeout_s: float) -> bool:
        self.echo.clear()
        self.transport.write(b"x")
        try:
            await asyncio.wait_for(self.echo.wait(), timeout_s)
        except TimeoutError:
            return False
        return True


@asynccontextmanager
async def line(dial: Dial, host: str) -> AsyncIterator[Line]:
    _, protocol = await dial(Line, host, PORT)
    assert isinstance(protocol, Line)
    try:
        yield protocol
    finally:
        protocol.transport.abort()
        await protocol.lost.wait()
