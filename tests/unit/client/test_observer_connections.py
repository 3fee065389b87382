"""An observer whose node lost its power sees the node, not the half of its old connection."""

import asyncio

from harness.client.observer import Observer
from harness.client.outcome import Fail
from harness.simulation.world import World
from histories.observed import RouteView
from reference import rpc
from reference.wire.codes import RequestCode
from reference.wire.frame import Frame
from reference.wire.route import ClusterInfo

ADDRESS = "198.18.0.16:9876"


def test_a_dead_connection_is_no_answer() -> None:
    world = World(1)
    machine = world.add_machine("n0", "198.18.0.16")

    def start() -> None:
        loop, _ = world.process(machine)

        def answer(request: Frame, connection: rpc.Connection) -> Frame:
            assert request.code == RequestCode.GET_BROKER_CLUSTER_INFO
            return request.answer(0, body=ClusterInfo().to_json())

        async def serve() -> None:
            async with asyncio.TaskGroup() as group:
                await rpc.serve("0.0.0.0", 9876, answer, group=group)
                await loop.create_future()

        loop.create_task(serve())

    async def main(_: object) -> None:
        async with asyncio.TaskGroup() as group:
            observer = Observer(rpc.loop_dial, group)
            assert isinstance(await observer.route("n0", ADDRESS), RouteView)
            machine.lose_power()
            assert isinstance(await observer.route("n0", ADDRESS), Fail), "nobody is there"
            start()
            await asyncio.sleep(1)
            assert isinstance(await observer.route("n0", ADDRESS), RouteView)
            machine.lose_power()
            start()
            await asyncio.sleep(1)
            assert isinstance(await observer.route("n0", ADDRESS), RouteView)
            observer.close()

    try:
        start()
        world.run(world.add_machine("client", "198.18.0.2"), main)
    finally:
        world.close()
