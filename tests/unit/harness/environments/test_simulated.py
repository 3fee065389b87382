"""Verbs that only simulated machines have, and how real ones refuse them."""

import asyncio
from collections.abc import Awaitable, Callable
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest

from maxq.harness.contracts.environment import (
    CLIENT_ADDRESS,
    REAL_ONLY,
    SIMULATED_ONLY,
    Capability,
    Cut,
    Delay,
    Dropped,
    Loss,
    Machine,
    MachineSpec,
    MissingCapability,
)
from maxq.harness.environments.docker import DockerEnvironment
from maxq.harness.environments.local import LocalEnvironment
from maxq.harness.environments.machines.machine import LinkedMachine, Place
from maxq.harness.environments.simulated import SimulatedEnvironment, SimulatedMachine
from maxq.harness.simulation.world import WALL_MS, World

Verb = Callable[[Machine], Awaitable[Any]]
VERBS: dict[Capability, list[Verb]] = {
    Capability.DRIFT: [lambda m: m.set_clock(0, 5)],
    Capability.DISK: [
        lambda m: m.set_disk(full=True),
        lambda m: m.try_disk(timeout_s=1),
    ],
}


def in_world(main: Callable[[World, SimulatedMachine, SimulatedMachine], Awaitable[None]]) -> None:
    """Do something with two machines, a and b."""
    world = World(1)

    async def body(_: object) -> None:
        environment = SimulatedEnvironment(world)
        await environment.up([MachineSpec(name="a"), MachineSpec(name="b")])
        await main(world, environment.machine("a"), environment.machine("b"))
        await environment.down()

    try:
        world.run(world.add_machine("client", CLIENT_ADDRESS), body)
    finally:
        world.close()


def test_every_capability_of_the_simulator_alone_is_refused_by_name(tmp_path: Path) -> None:
    place = Place(
        environment="local", network=IPv4Network("198.18.0.0/24"), client="", env={}, python=""
    )
    machine = LinkedMachine(
        None,  # type: ignore[arg-type] # a refusal needs no agent
        place,
        "a",
        block=IPv4Network("198.18.0.16/28"),
        folder=tmp_path,
        hosts=tmp_path / "hosts",
    )
    assert set(VERBS) == SIMULATED_ONLY
    for capability, verbs in VERBS.items():
        for verb in verbs:
            with pytest.raises(MissingCapability, match=f"local cannot do {capability.value}: "):
                asyncio.run(verb(machine))  # type: ignore[arg-type]
    assert not SIMULATED_ONLY & DockerEnvironment(tmp_path).capabilities
    assert not SIMULATED_ONLY & LocalEnvironment(tmp_path).capabilities
    assert SimulatedEnvironment.capabilities == frozenset(Capability) - REAL_ONLY
    for needs_disk in (machine.power_loss(), machine.fill(95)):
        with pytest.raises(MissingCapability, match=r"local cannot do [a-z-]+: .* no disks of"):
            asyncio.run(needs_disk)
    for needs_clock in (machine.set_clock(5, 0), machine.clock(None)):
        with pytest.raises(MissingCapability, match=r"local cannot do clock: .* no clocks of"):
            asyncio.run(needs_clock)
    for needs_proxy in (machine.set_delay(()), machine.delays(), machine.detour()):
        with pytest.raises(MissingCapability, match="local cannot do delay: no proxies"):
            asyncio.run(needs_proxy)


def test_a_clock_is_off_and_drifts_from_when_it_was_set() -> None:
    async def main(world: World, a: SimulatedMachine, b: SimulatedMachine) -> None:
        clocks = [world.process(world.machines[name])[1].wall_ms for name in "ab"]

        def off() -> int:
            return clocks[0]() - clocks[1]()

        await asyncio.sleep(100)
        await a.set_clock(-5000, 0)
        assert off() == -5000
        await asyncio.sleep(100)
        assert off() == -5000
        await a.set_clock(0, 500)  # 0.5 ms a second
        assert off() == 0
        await asyncio.sleep(100)
        assert off() == 50
        await a.set_clock(0, -500)
        await asyncio.sleep(100)
        assert off() == -50
        await a.set_clock(0, 0)
        assert off() == 0
        assert clocks[1]() == WALL_MS + round(asyncio.get_running_loop().time() * 1000)

    in_world(main)


def test_disk_verbs_reach_the_disk() -> None:
    async def main(world: World, a: SimulatedMachine, b: SimulatedMachine) -> None:
        await a.put("/a/f", b"\1")
        await a.set_disk(full=True)
        with pytest.raises(OSError, match="no space"):
            world.machines["a"].disk.open("/a/f").pwrite(b"x", 0)
        await a.set_disk()
        world.machines["a"].disk.open("/a/f").pwrite(b"x", 0)

    in_world(main)


def test_a_machine_is_away_for_a_moment_when_it_loses_its_power() -> None:
    async def main(world: World, a: SimulatedMachine, b: SimulatedMachine) -> None:
        async with asyncio.TaskGroup() as group:
            loss = group.create_task(a.power_loss())
            await asyncio.sleep(0.05)
            assert await b.probe(a.address, 9, timeout_s=0.1) == "silent"
            assert not loss.done()
            assert await loss == {"lost_bytes": 0, "lost_names": 0}
            assert await b.probe(a.address, 9, timeout_s=0.1) == "refused"

    in_world(main)


def test_a_loss_drops_its_share_one_way_beside_a_cut_and_ends() -> None:
    """As tests/conformance/test_machine_verbs.py asks of real machines."""

    async def main(world: World, a: SimulatedMachine, b: SimulatedMachine) -> None:
        await a.lose([Loss(source="b", block=b.block, percent=50)])
        await a.cut([Cut(source="b", block=b.block)])
        assert await b.probe(a.address, 9, timeout_s=0.3) == "silent"
        assert await a.lost_packets() == {"b": Dropped(0, 0)}, "it sees what no cut has caught"
        await a.cut([])
        for _ in range(300):
            await b.probe(a.address, 9, timeout_s=0.3)
        seen = (await a.lost_packets())["b"]
        assert seen.of >= 300
        assert 0.3 < seen.packets / seen.of < 0.7
        assert await b.lost_packets() == {}
        await b.set_address("198.18.0.33")
        assert await b.probe(a.address, 9, timeout_s=60) == "refused"
        assert (await a.lost_packets())["b"].of > seen.of, "it outlives a change of address"
        await a.lose([])
        assert await a.lost_packets() == {}

    in_world(main)


def test_delays_are_in_ms() -> None:
    async def main(world: World, a: SimulatedMachine, b: SimulatedMachine) -> None:
        own, strange = Delay("a", a.block, 40), Delay("x", "198.18.1.0/28", 999)
        other = Delay("a", a.block, 900, ports=(8,))
        loop = asyncio.get_running_loop()
        for delays, least, most in (([own, strange, other], 0.040, 0.042), ([], 0, 0.002)):
            await b.set_delay(delays)
            assert list(await b.delays()) == delays
            begun = loop.time()
            assert await a.probe(b.address, 9, timeout_s=1) == "refused"
            assert least <= loop.time() - begun <= most

    in_world(main)
