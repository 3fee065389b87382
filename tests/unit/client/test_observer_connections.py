"""What an observer is told of one node, and that it asks the node, not half a connection to it."""

import asyncio

from harness.client.observer import Observer
from harness.client.outcome import Fail
from harness.simulation.world import World
from histories.observed import RouteView, decoded, encoded
from histories.op import Op
from reference import rpc
from reference.wire.codes import RequestCode, ResponseCode
from reference.wire.frame import Frame
from reference.wire.route import ClusterInfo, QueueData, TopicRouteData

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


def test_permissions_are_asked_topic_by_topic_until_one_is_not_told() -> None:
    world = World(1)
    asked: list[str] = []

    def answer(request: Frame, connection: rpc.Connection) -> Frame:
        if request.code == RequestCode.GET_BROKER_CLUSTER_INFO:
            return request.answer(0, body=ClusterInfo().to_json())
        topic = (request.ext or {})["topic"]
        asked.append(topic)
        if topic == "known":
            queues = (QueueData(broker_name="b0", perm=4), QueueData(broker_name="b1", perm=6))
            return request.answer(0, body=TopicRouteData(queue_datas=queues).to_json())
        code = ResponseCode.TOPIC_NOT_EXIST if topic == "unknown" else ResponseCode.SYSTEM_ERROR
        return request.answer(code, "no")

    async def main(_: object) -> RouteView | Fail:
        async with asyncio.TaskGroup() as group:
            observer = Observer(rpc.loop_dial, group)
            told = await observer.route("n0", ADDRESS, ("known", "unknown", "busy", "never"))
            observer.close()
        return told

    machine = world.add_machine("n0", "198.18.0.16")
    loop, _ = world.process(machine)

    async def serve() -> None:
        async with asyncio.TaskGroup() as group:
            await rpc.serve("0.0.0.0", 9876, answer, group=group)
            await loop.create_future()

    loop.create_task(serve())
    try:
        told = world.run(world.add_machine("client", "198.18.0.2"), main)
    finally:
        world.close()
    assert isinstance(told, RouteView)
    assert told.perms == {"known": {"b0": 4, "b1": 6}, "unknown": {}}
    assert asked == ["known", "unknown", "busy"]


def test_a_view_of_an_older_history_has_no_permissions() -> None:
    old = {"node": "n0", "sets": {"b0": {"0": "b0-0:1"}}}
    done = Op("ok", 1, "observe-route", old, None, 1, 0, None)
    view = decoded(done, RouteView)
    assert view.perms is None
    assert encoded(view) == old
