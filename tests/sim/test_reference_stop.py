"""A node that is asked to stop while requests come in stops without a failure."""

import asyncio

import pytest
from reference_world import BROKER, CONTROLLER, CONTROLLER_CONF, JOINED, Cluster, Controllers

from maxq.reference.rpc import Pool
from maxq.reference.wire.frame import Frame


def load(cluster: Cluster, address: str, code: int, count: int = 400) -> None:
    """Ask again and again from another machine, over one connection."""
    loop, _ = cluster.world.process(cluster.machines["client"])

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            pool = Pool(group)
            for _ in range(count):
                try:
                    await pool.call(address, Frame(code=code, ext={}), timeout_s=1)
                except OSError:
                    await asyncio.sleep(0.001)

    loop.create_task(main())


@pytest.mark.parametrize("delay_us", [0, 130, 270, 410, 733, 1009])
def test_a_stop_under_load_is_clean(cluster: Cluster, delay_us: int) -> None:
    """A failure in a callback would end a real node with exit code 1."""
    controller = cluster.up("controller", "controller", CONTROLLER_CONF)
    broker = cluster.up("b1", "broker", JOINED)
    cluster.until(lambda: cluster.logged("b1", "broker.role") == 1)
    for address, code in ((CONTROLLER, 1012), (CONTROLLER, 1004), (BROKER, 310), (BROKER, 34)):
        load(cluster, address, code)
    cluster.sleep(0.01 + delay_us / 1e6)
    for process in (broker, controller):
        process.loop.call_soon(process.task.cancel)
    cluster.until(lambda: broker.task.done() and controller.task.done())
    for process in (broker, controller):
        assert process.task.cancelled()
        assert process.loop.failures == []


def test_a_controller_that_is_held_and_then_stopped_stops_cleanly(cluster: Cluster) -> None:
    """What came while it was held is there at once with the wish to stop, and wants to be written.
    (Seen first in a simulated run under pause and stop: the log was closed already.)"""
    group = Controllers(cluster)
    leader = group.leader()
    follower = next(name for name in group.processes if name != leader)
    held = group.processes[follower]
    held.loop.pause()
    everybody = ";".join(group.addresses.values())
    cluster.up("b1", "broker", {**JOINED, "controllerAddr": everybody})
    cluster.until(lambda: cluster.logged("b1", "broker.role") == 1)
    held.loop.call_soon(held.task.cancel)
    held.loop.resume()
    cluster.until(lambda: held.task.done())
    assert held.task.cancelled()
    assert held.loop.failures == []
