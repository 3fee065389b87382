"""Clusters as people have them, and what is found of each; nodes are stubs on one machine."""

import asyncio
from collections.abc import Callable, Mapping

import pytest

from maxq.harness.client.discovery import Found, _no_answer, discover
from maxq.harness.contracts.existing import ClusterFileError
from maxq.harness.simulation.world import World
from maxq.reference import rpc
from maxq.reference.records import RemoteProtocolError
from maxq.reference.rpc import ConnectionLost
from maxq.reference.wire.bodies import BrokerReplicasInfo, ReplicaIdentity, ReplicasInfo
from maxq.reference.wire.codes import RequestCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.headers import to_ext
from maxq.reference.wire.node_headers import MetadataResponse
from maxq.reference.wire.route import BrokerData, ClusterInfo, KVTable

HOST = "198.18.0.16"
N, M = f"{HOST}:9876", f"{HOST}:9877"
A, B, C = f"{HOST}:10911", f"{HOST}:10921", f"{HOST}:9878"
Answers = Callable[[Frame], Frame]


def namesrv(*sets: BrokerData) -> Answers:
    table = {data.broker_name: data for data in sets}
    return lambda request: request.answer(0, body=ClusterInfo(broker_addr_table=table).to_json())


def broker(release: str, **settings: str) -> Answers:
    def answer(request: Frame) -> Frame:
        if request.code == RequestCode.GET_BROKER_CONFIG:
            text = "".join(f"{key}={value}\n" for key, value in settings.items())
            return request.answer(0, body=text.encode())
        return request.answer(0, body=KVTable(table={"brokerVersionDesc": release}).to_json())

    return answer


def controller(leader: str, **replicas: Mapping[int, str]) -> Answers:
    def answer(request: Frame) -> Frame:
        if request.code == RequestCode.CONTROLLER_GET_METADATA_INFO:
            return request.answer(0, ext=to_ext(MetadataResponse(controller_leader_address=leader)))
        infos = {
            name: ReplicasInfo(in_sync_replicas=tuple(
                ReplicaIdentity(broker_id=i, broker_address=at) for i, at in ids.items()
            ))
            for name, ids in replicas.items()
        }  # fmt: skip
        return request.answer(0, body=BrokerReplicasInfo(replicas_info_table=infos).to_json())

    return answer


def refuses(request: Frame) -> Frame:
    return request.answer(16, "no permission: accessKey is null")


def set_of(name: str, cluster: str = "c", **ids: str) -> BrokerData:
    addresses = {int(number[1:]): at for number, at in ids.items()}
    return BrokerData(broker_name=name, cluster=cluster, broker_addrs=addresses)


def found_by(nodes: Mapping[str, Answers | None], *namesrvs: str, name: str = "") -> Found:
    """What is found; a node that is None takes connections and says nothing."""
    world = World(1)
    loop, _ = world.process(world.add_machine("m", HOST))

    async def serve() -> None:
        async with asyncio.TaskGroup() as group:
            for at, answers in nodes.items():
                port = int(at.rpartition(":")[2])
                silent = loop.create_future()

                async def answer(
                    request: Frame, connection: rpc.Connection,
                    answers: Answers | None = answers, silent: asyncio.Future[Frame] = silent,
                ) -> Frame:  # fmt: skip
                    return await silent if answers is None else answers(request)

                await rpc.serve("0.0.0.0", port, answer, group=group)
            await loop.create_future()

    async def main(_: object) -> Found:
        return await discover(rpc.loop_dial, namesrvs or (N,), name)

    loop.create_task(serve())
    try:
        return world.run(world.add_machine("client", "198.18.0.2"), main)
    finally:
        world.close()


def test_a_pair_of_an_old_release_whose_name_has_odd_letters() -> None:
    nodes = {N: namesrv(set_of("broker-a_%1", _0=A, _1=B)), A: broker("V4_9_7"), B: None}
    found = found_by(nodes, N, N)
    assert [(b.name, b.id, b.address) for b in found.cluster.broker] == [
        ("broker-a_%1-0", 0, A), ("broker-a_%1-1", 1, B),
    ]  # fmt: skip
    assert len(found.cluster.namesrv) == 1
    lines = dict(found.lines)
    assert lines["namesrv-0"] == "broker sets: 1"
    assert lines["broker-a_%1-0"] == f"{A}, V4_9_7"
    assert lines["broker-a_%1-1"].startswith(f"{B}, no answer: ")


def test_with_controllers_also_a_replica_that_is_away_and_ids_are_theirs() -> None:
    asks = {"enableControllerMode": "true", "controllerAddr": f"{HOST}:1;{C}"}
    nodes = {
        N: namesrv(set_of("x", _0=B)), B: broker("V5_5_0", **asks),
        C: controller(C, x={1: A, 2: B}),
    }  # fmt: skip
    found = found_by(nodes)
    assert [(b.id, b.address) for b in found.cluster.broker] == [(1, A), (2, B)]
    assert [m.address for m in found.cluster.controller] == [f"{HOST}:1", C]
    lines = dict(found.lines)
    assert (lines["controller-1"], lines["x-2"]) == ("leads", f"{B}, V5_5_0")
    assert lines["controller-0"].startswith("no answer: ")
    assert lines["x-1"].startswith(f"{A}, no answer: ")


def test_of_several_clusters_one_is_named() -> None:
    nodes = {N: namesrv(set_of("x", _0=A), set_of("y", "d", _0=B)), A: broker("V5_3_3")}
    with pytest.raises(ClusterFileError, match="know the clusters c, d: --name says which"):
        found_by(nodes)
    with pytest.raises(ClusterFileError, match="know the clusters c, d"):
        found_by(nodes, name="e")
    assert [b.set for b in found_by(nodes, name="c").cluster.broker] == ["x"]


def test_name_servers_that_know_different_brokers_are_put_together() -> None:
    nodes = {N: namesrv(set_of("x", _0=A)), M: namesrv(set_of("x", _1=B)), A: None, B: None}
    assert [b.id for b in found_by(nodes, N, M).cluster.broker] == [0, 1]


@pytest.mark.parametrize(
    ("nodes", "why"),
    [
        ({N: refuses}, "refused with code 16: no permission: accessKey is null"),
        ({N: None}, "no name server answers"),
        ({N: refuses}, r"refused with code 16: .*; Max-Q does not sign requests \(ACL\)"),
        ({N: namesrv()}, "no broker has registered"),
        ({N: lambda request: request.answer(0, body=b"<html>")}, "no name server answers"),
        (
            {N: namesrv(set_of("x", _0=A)),
             A: broker("V5_5_0", enableControllerMode="true", controllerAddr=C)},
            f"no controller that leads answers, of {C}",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_found_is_said(nodes: Mapping[str, Answers | None], why: str) -> None:
    with pytest.raises((ClusterFileError, RemoteProtocolError), match=why):
        found_by(nodes)


def test_a_broker_that_wants_signatures_and_one_that_ends_connections_are_told_apart() -> None:
    found = found_by({N: namesrv(set_of("x", _0=A)), A: refuses})
    assert dict(found.lines)["x-0"].endswith("does not sign requests (ACL)")
    lost = ConnectionLost(f"connection to {A} lost: None")
    assert "TLS" in _no_answer(lost)
    assert _no_answer(TimeoutError()).endswith("it hangs, or is no node of RocketMQ")
    assert "TLS" not in _no_answer(ConnectionRefusedError("nobody listens"))
