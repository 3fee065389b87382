"""How late the harness is: every wake-up that a long wait stands for is counted."""

import asyncio

from maxq.harness.run.process.lateness import EVERY_S, Lateness
from maxq.harness.simulation.world import World


def test_nothing_was_measured_yet() -> None:
    assert Lateness().told() == {}


def test_a_loop_in_time_is_never_late() -> None:
    async def main(_: object) -> dict[str, float]:
        lateness = Lateness()
        task = asyncio.get_running_loop().create_task(lateness.watch())
        await asyncio.sleep(100.5 * EVERY_S)
        task.cancel()
        return lateness.told()

    world = World(1)
    told = world.run(world.add_machine("m", "198.18.0.1"), main)
    assert told == {"p50": 0.0, "p99": 0.0, "max": 0.0, "wakes": 100}


def test_one_long_wait_is_as_many_late_wake_ups_as_it_swallowed() -> None:
    lateness = Lateness()
    lateness.note(5 * EVERY_S)
    told = lateness.told()
    assert told["wakes"] == 5
    assert told["max"] == 5 * EVERY_S * 1000
    assert told["p50"] == 3 * EVERY_S * 1000
