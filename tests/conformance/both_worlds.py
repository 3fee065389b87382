"""One case of the contract of hosts, run on the machine and in the simulator"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from maxq.harness.simulation.world import World
from maxq.reference.host import Host, RealHost

Case = Callable[[Host, str], Awaitable[None]]
Run = Callable[[Case], None]


def on_real(case: Case, tmp_path: Path) -> None:
    """On this machine, on its loopback interface."""
    asyncio.run(case(RealHost(seed=1, address="127.0.0.1"), str(tmp_path)))  # type: ignore[arg-type]


def on_simulated(case: Case, tmp_path: Path) -> None:
    """On a machine of a world of its own."""
    world = World(1)
    try:
        world.run(world.add_machine("a", "198.18.0.16"), lambda host: case(host, "/data"))  # type: ignore[arg-type,return-value]
    finally:
        world.close()


@pytest.fixture(params=[on_real, on_simulated], ids=["real", "simulated"])
def in_both_worlds(request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    """Runs a case in one of the two worlds."""
    return lambda case: request.param(case, tmp_path)
