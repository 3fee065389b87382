"""What an observer is told of one node, and that it asks the node, not half a connection to it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from maxq.harness.client.observer import Observer
from maxq.harness.contracts.outcome import Fail
from maxq.harness.simulation.world import World
from maxq.histories.observed import AddressedSet, ControllerView, RouteView, decoded, encoded
from maxq.histories.op import Op
from maxq.reference import rpc
from maxq.reference.wire.codes import RequestCode, ResponseCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.lenient_json import dumps
from maxq.reference.wire.route import (
    BrokerData,
    BrokerMemberGroup,
    ClusterInfo,
    MemberGroupBody,
    QueueData,
    TopicRouteData,
)

ADDRESS = "198.18.0.16:9876"
Ask = Callable[[Observer], Awaitable[Any]]


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


def told_by(answer: Callable[[Frame, rpc.Connection], Frame], ask: Ask) -> Any:
    """What an observer makes of a node's answers."""
    world = World(1)
    loop, _ = world.process(world.add_machine("n0", "198.18.0.16"))

    async def serve() -> None:
        async with asyncio.TaskGroup() as group:
            await rpc.serve("0.0.0.0", 9876, answer, group=group)
            await loop.create_future()

    async def main(_: object) -> Any:
        async with asyncio.TaskGroup() as group:
            observer = Observer(rpc.loop_dial, group)
            told = await ask(observer)
            observer.close()
        return told

    loop.create_task(serve())
    try:
        return world.run(world.add_machine("client", "198.18.0.2"), main)
    finally:
        world.close()


def test_permissions_are_asked_topic_by_topic_until_one_is_not_told() -> None:
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

    topics = ("known", "unknown", "busy", "never")
    told = told_by(answer, lambda observer: observer.route("n0", ADDRESS, topics))
    assert told.perms == {"known": {"b0": 4, "b1": 6}, "unknown": {}}
    assert asked == ["known", "unknown", "busy"]


def test_of_what_is_not_as_in_quiet_times_the_raw_group_is_asked_for() -> None:
    raw = {"b0": {1: "x:1"}, "b1": {0: "y:1"}, "b2": {0: "z:1", 1: "z:2"}}
    asked: list[str] = []

    def answer(request: Frame, connection: rpc.Connection) -> Frame:
        ext = request.ext or {}
        table = {
            name: BrokerData(broker_addrs=of, broker_name=name, cluster="c",
                             enable_acting_master=name != "b1")
            for name, of in raw.items()
        }  # fmt: skip
        if request.code == RequestCode.GET_BROKER_CLUSTER_INFO:
            return request.answer(0, body=ClusterInfo(broker_addr_table=table).to_json())
        if request.code == RequestCode.GET_BROKER_MEMBER_GROUP:
            asked.append(f"{ext['clusterName']}/{ext['brokerName']}")
            group = BrokerMemberGroup(broker_addrs=raw[ext["brokerName"]])
            return request.answer(0, body=MemberGroupBody(broker_member_group=group).to_json())
        acting = msgspec.structs.replace(table["b0"], broker_addrs={0: "x:1"})
        queues = tuple(
            QueueData(broker_name=n, perm=p) for n, p in zip(raw, (4, 6, 4), strict=True)
        )
        datas = (acting, table["b1"], table["b2"])
        return request.answer(
            0, body=TopicRouteData(queue_datas=queues, broker_datas=datas).to_json()
        )

    told = told_by(answer, lambda observer: observer.route("n0", ADDRESS, ("t",)))
    assert asked == ["c/b0", "c/b2"]
    assert told.groups == {"b0": {"1": "x:1"}, "b2": {"0": "z:1", "1": "z:2"}}
    assert told.shown == {"t": {"b0": {"0": "x:1"}}}
    assert told.acting == ("b0", "b2")


def test_sets_of_a_release_that_knows_brokers_by_their_addresses() -> None:
    known = {
        "masterAddress": "a:1",
        "masterEpoch": 2,
        "syncStateSetEpoch": 5,
        "inSyncMembers": [{"address": "b:1", "brokerId": 2}, {"address": "a:1", "brokerId": 0}],
    }
    nobody = {"masterAddress": "", "masterEpoch": 3, "syncStateSetEpoch": 6, "inSyncMembers": []}

    replicas = [{"brokerId": 3, "address": "b:1"}, {"brokerId": 0, "address": "a:1"}]
    later = {
        "masterAddress": "a:1",
        "masterEpoch": 2,
        "syncStateSetEpoch": 5,
        "inSyncReplicas": replicas,
        "notInSyncReplicas": [],
    }

    def answer(request: Frame, connection: rpc.Connection) -> Frame:
        table = {
            "inSyncStateTable": {"b0": known, "b1": nobody},
            "replicasInfoTable": {"b2": later},
        }
        return request.answer(0, body=dumps(table))

    told = told_by(answer, lambda observer: observer.controller("c0", ADDRESS, ["b0", "b1"]))
    assert told.sets == {}, "5.0.0 and 5.1.0, which has ids as well, and 0 for a master"
    assert told.by_address["b2"] == told.by_address["b0"]
    assert told.by_address["b0"] == AddressedSet(
        master_address="a:1", master_epoch=2, sync_state_set=("a:1", "b:1"), sync_state_set_epoch=5
    )
    assert told.by_address["b1"].master_address == ""
    assert "by_address" not in encoded(ControllerView(node="c0", sets={})), "as in older histories"


def test_a_view_of_an_older_history_has_no_permissions() -> None:
    old = {"node": "n0", "sets": {"b0": {"0": "b0-0:1"}}}
    done = Op("ok", 1, "observe-route", old, None, 1, 0, None)
    view = decoded(done, RouteView)
    assert view.perms is None
    assert encoded(view) == old
