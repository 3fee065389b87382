"""What brokers and tools get from a name server and a controller, over the simulated wire."""

import asyncio
import zlib
from typing import Any

import msgspec
import pytest
from reference_world import (
    BROKER_CONF,
    CONTROLLER,
    CONTROLLER_CONF,
    JOINED,
    NAMESRV,
    NAMESRV_CONF,
    Cluster,
    ext,
)

from maxq.reference.rpc import ConnectionLost, Pool
from maxq.reference.wire import node_headers as headers
from maxq.reference.wire.bodies import BrokerReplicasInfo, ElectMasterBody, SyncStateSet
from maxq.reference.wire.codes import RequestCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.headers import to_ext
from maxq.reference.wire.route import (
    ClusterInfo,
    DataVersion,
    MemberGroupBody,
    RegisterBrokerBody,
    TopicConfig,
    TopicConfigSerializeWrapper,
    TopicList,
    TopicRouteData,
    body_crc32,
)

# --- name server -------------------------------------------------------------------------------

TABLE = {n: TopicConfig(topic_name=n) for n in ("T1", "T2")}
VERSION = DataVersion(counter=1, state_version=1, timestamp=1)
BODY = RegisterBrokerBody(
    topic_config_serialize_wrapper=TopicConfigSerializeWrapper(
        data_version=VERSION, topic_config_table=TABLE
    )
).to_json()
HEADER = headers.RegisterBrokerRequest(
    broker_name="b", broker_addr="m:1", cluster_name="c", ha_server_addr="m:2", broker_id=0,
    enable_acting_master=False, body_crc32=body_crc32(BODY),
)  # fmt: skip


def register(body: bytes | None = BODY, **more: Any) -> Frame:
    header = msgspec.structs.replace(HEADER, **more)
    return Frame(code=RequestCode.REGISTER_BROKER, ext=to_ext(header), body=body)


def packed(text: bytes) -> bytes:
    return len(text).to_bytes(4, "big") + text


COMPRESSED = zlib.compress(
    packed(VERSION.to_json()) + (2).to_bytes(4, "big") + packed(b"T1 4 4 6 SINGLE_TAG {}")
    + packed(b"T2 4 4 6 SINGLE_TAG {}") + packed(b"[]")
)  # fmt: skip


@pytest.mark.parametrize(
    "frame",
    [
        register(),
        register(body_crc32=0),
        register(COMPRESSED, compressed=True, body_crc32=0),
        msgspec.structs.replace(register(), flag=2),
    ],
    ids=["plain", "no crc", "compressed", "one-way"],
)
def test_registrations_are_taken_in_every_form(cluster: Cluster, frame: Frame) -> None:
    """Compressed, unchecked, and one-way, as 5.1.1 announces retry topics; the TCP close
    of the broker's connection unregisters it at once.

    docs/spec/remoting.md 4.1 and 4.2
    """
    cluster.up("namesrv", "namesrv", NAMESRV_CONF)

    async def main(pool: Pool) -> Frame:
        if frame.is_oneway:
            await pool.oneway(NAMESRV, frame)
        else:
            assert (await pool.call(NAMESRV, frame, timeout_s=5)).code == 0
        route = Frame(code=RequestCode.GET_ROUTEINFO_BY_TOPIC, ext={"topic": "T2"})
        return await pool.call(NAMESRV, route, timeout_s=5)

    answer = cluster.client(main)
    assert TopicRouteData.from_json(answer.body).broker_datas[0].broker_addrs == {0: "m:1"}
    msgspec.json.decode(answer.body or b"")  # strict: every key is quoted
    cluster.until(lambda: cluster.logged("namesrv", "namesrv.broker.lost") == 1, seconds=1)
    assert cluster.ask(NAMESRV, RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T2"}).code == 17


@pytest.mark.parametrize(
    ("frame", "code", "remark"),
    [
        (register(body_crc32=7), 1, "crc32 not match"),
        (register(b"{", body_crc32=0), 1, "RemoteProtocolError"),
        (register(b"not zlib", compressed=True, body_crc32=0), 1, "RemoteProtocolError"),
        (register(COMPRESSED[:-9], compressed=True, body_crc32=0), 1, "RemoteProtocolError"),
    ],
)
def test_registrations_that_are_refused(
    cluster: Cluster, frame: Frame, code: int, remark: str
) -> None:
    """Code 1 with the reason; nothing is remembered (docs/spec/remoting.md 4.1)."""
    cluster.up("namesrv", "namesrv", NAMESRV_CONF)
    answer = cluster.client(lambda pool: pool.call(NAMESRV, frame, timeout_s=5))
    assert answer.code == code
    assert remark in (answer.remark or "")
    info = cluster.ask(NAMESRV, RequestCode.GET_BROKER_CLUSTER_INFO)
    assert ClusterInfo.from_json(info.body).broker_addr_table == {}


def test_silence_expires_and_signs_of_life_keep(cluster: Cluster) -> None:
    """heartbeatTimeoutMillis without 103, 322 or 904; a stale master changes nothing.

    docs/spec/remoting.md 4.2
    """
    cluster.up("namesrv", "namesrv", NAMESRV_CONF)
    life = {"brokerName": "b", "brokerAddr": "m:1", "clusterName": "c", "brokerId": "0"}
    stale = RegisterBrokerBody(topic_config_serialize_wrapper=TopicConfigSerializeWrapper(
        data_version=DataVersion(), topic_config_table=TABLE)).to_json()  # fmt: skip

    async def main(pool: Pool) -> None:

        async def ask(code: int, body: bytes | None = None) -> Frame:
            frame = Frame(code=code, ext={**life, "topic": "T1"}, body=body)
            return await pool.call(NAMESRV, frame, timeout_s=5)

        await pool.call(NAMESRV, register(heartbeat_timeout_millis=3000), timeout_s=5)
        old = register(stale, broker_addr="old:1", body_crc32=0)
        assert (await pool.call(NAMESRV, old, timeout_s=5)).code == 0
        for code in (RequestCode.BROKER_HEARTBEAT, RequestCode.QUERY_DATA_VERSION) * 3:
            await asyncio.sleep(2.5)
            answer = await ask(code, VERSION.to_json())
            assert answer.code == 0
            assert code != RequestCode.QUERY_DATA_VERSION or ext(answer)["changed"] == "false"
        assert (await ask(RequestCode.GET_ROUTEINFO_BY_TOPIC)).code == 0
        group = await ask(RequestCode.GET_BROKER_MEMBER_GROUP)
        members = MemberGroupBody.from_json(group.body).broker_member_group
        assert members is not None
        assert members.broker_addrs == {0: "m:1"}
        topics = await ask(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        assert TopicList.from_json(topics.body).topic_list == ("T1", "T2")
        await asyncio.sleep(4.5)
        assert (await ask(RequestCode.GET_ROUTEINFO_BY_TOPIC)).code == 17

    cluster.client(main)
    assert cluster.logged("namesrv", "namesrv.broker.registered") == 1  # not the stale one
    assert cluster.logged("namesrv", "namesrv.broker.expired") == 1


def test_a_killed_broker_is_out_of_the_route_at_once(cluster: Cluster) -> None:
    """And again in it after a restart (docs/spec/remoting.md 4.2)."""
    cluster.up("namesrv", "namesrv", NAMESRV_CONF)
    for _ in range(2):
        process = cluster.up("b1", "broker", BROKER_CONF)
        cluster.sleep(0.1)
        answer = cluster.ask(NAMESRV, RequestCode.GET_BROKER_CLUSTER_INFO)
        table = ClusterInfo.from_json(answer.body).broker_addr_table
        assert table["b"].broker_addrs == {0: "198.18.0.48:10911"}
        process.loop.kill()
        cluster.sleep(0.1)
        answer = cluster.ask(NAMESRV, RequestCode.GET_BROKER_CLUSTER_INFO)
        assert ClusterInfo.from_json(answer.body).broker_addr_table == {}


# --- controller --------------------------------------------------------------------------------

SET = {"clusterName": "c", "brokerName": "b"}
CODE = "10.0.0.5:10911;1"


def beat_once(cluster: Cluster, header: dict[str, str]) -> None:
    """Send a heartbeat over a connection that stays: its end would be the broker's."""
    loop, _ = cluster.world.process(cluster.machines["relay"])

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            answer = await Pool(group).call(CONTROLLER, Frame(code=904, ext=header), timeout_s=5)
            assert answer.code == 0
            await loop.create_future()

    loop.create_task(main())
    cluster.sleep(0.1)


def test_controller_answers_by_the_tables(cluster: Cluster) -> None:
    """Codes and shapes, before and after the first election.

    docs/spec/remoting.md 8.3; docs/spec/controller-ha.md 2.4
    """
    cluster.up("controller", "controller", CONTROLLER_CONF)

    def ask(code: int, body: bytes | None = None, **more: object) -> Frame:
        return cluster.ask(CONTROLLER, code, {**SET, **{k: str(v) for k, v in more.items()}}, body)

    meta = ext(ask(1005))
    assert meta["controllerLeaderAddress"] == CONTROLLER
    assert (meta["isLeader"], meta["peers"]) == ("true", f"n0:{CONTROLLER};")
    assert ext(ask(1012))["nextBrokerId"] == "1"
    assert ask(1004).code == 2008
    assert ask(1002, brokerId=1).code == 2010
    assert ask(1003, brokerId=1, brokerAddress="x:1").code == 2010
    assert ask(904, brokerId=1, brokerAddr="x:1").code == 2010
    assert ask(904, brokerAddr="x:1").code == 2005
    assert ask(1013, appliedBrokerId=2, registerCheckCode=CODE).code == 2014
    assert ask(1013, appliedBrokerId=1, registerCheckCode="").code == 2005
    for _ in range(2):
        assert ask(1013, appliedBrokerId=1, registerCheckCode=CODE).code == 0
    assert ask(1013, appliedBrokerId=1, registerCheckCode="other").code == 2014
    assert ext(ask(1012))["nextBrokerId"] == "2"
    registered = ask(1003, brokerId=1, brokerAddress="10.0.0.9:10911")
    assert registered.code == 0
    assert "masterAddress" not in ext(registered)
    assert SyncStateSet.from_json(registered.body) == SyncStateSet()
    assert ask(1002, brokerId=-1).code == 2004  # nobody is known to live
    beat_once(cluster, {**SET, "brokerId": "1", "brokerAddr": "10.0.0.9:10911",
                        "heartbeatTimeoutMills": "3000"})  # fmt: skip
    elected = ask(1002, brokerId=1)
    assert elected.code == 0
    assert ext(elected) == {
        "masterBrokerId": "1", "masterAddress": "10.0.0.9:10911",
        "masterEpoch": "1", "syncStateSetEpoch": "1",
    }  # fmt: skip
    body = ElectMasterBody.from_json(elected.body)
    assert body.broker_member_group is not None
    assert body.broker_member_group.broker_addrs == {1: "10.0.0.9:10911"}
    again = ask(1002, brokerId=-1)
    assert (again.code, ext(again)) == (2011, ext(elected))
    assert ElectMasterBody.from_json(again.body) == ElectMasterBody(sync_state_set=(1,))
    assert ext(ask(1004))["masterAddress"] == "10.0.0.9:10911"
    assert ext(ask(1003, brokerId=1, brokerAddress="10.0.0.9:10911"))["masterEpoch"] == "1"
    copy = ask(1003, brokerId=1, brokerAddress="10.0.0.8:10911")  # the owner of the id is alive
    assert (copy.code, "10.0.0.9:10911, which is alive" in (copy.remark or "")) == (2014, True)
    info = BrokerReplicasInfo.from_json(ask(1006, b'["b","x"]').body).replicas_info_table["b"]
    assert [(r.broker_id, r.alive) for r in info.in_sync_replicas] == [(1, True)]
    cluster.sleep(9)
    registered = ask(1003, brokerId=1, brokerAddress="10.0.0.9:10911")
    assert "masterAddress" not in ext(registered)  # a dead master is not named here,
    assert ext(ask(1004))["masterAddress"] == "10.0.0.9:10911"  # but it is here
    for code in (1014, 310):
        assert ask(code).code == 3


def test_masters_and_epochs_survive_a_controller_restart(cluster: Cluster) -> None:
    """S3: the epoch never goes back; a broker that moved keeps its id and its role."""
    controller = cluster.up("controller", "controller", CONTROLLER_CONF)
    process = cluster.up("b1", "broker", JOINED)
    cluster.until(lambda: cluster.logged("b1", "broker.role") == 1)
    before = ext(cluster.ask(CONTROLLER, 1004, SET))
    controller.loop.kill()
    process.loop.kill()
    cluster.up("controller", "controller", CONTROLLER_CONF)
    assert ext(cluster.ask(CONTROLLER, 1004, SET)) == before
    cluster.up("b1", "broker", {**JOINED, "brokerIP1": "198.18.0.48", "listenPort": "20911"})
    cluster.until(lambda: cluster.logged("b1", "broker.role") == 2)
    after = ext(cluster.ask(CONTROLLER, 1004, SET))
    # A master that was restarted leads again only under an epoch of its own.
    assert after == {**before, "masterAddress": "198.18.0.48:20911", "masterEpoch": "2"}


def test_a_controller_with_a_full_disk_ends_and_forgets_nothing(cluster: Cluster) -> None:
    """S1: what it cannot write it does not answer; a Raft node that cannot write is no node."""
    process = cluster.up("controller", "controller", CONTROLLER_CONF)
    disk = cluster.machines["controller"].disk
    room = disk._room
    disk.charge(room)
    claim = {**SET, "appliedBrokerId": "1", "registerCheckCode": CODE}
    with pytest.raises(ExceptionGroup) as caught:
        cluster.ask(CONTROLLER, 1013, claim)
    assert isinstance(caught.value.exceptions[0], ConnectionLost)
    cluster.until(process.task.done)
    disk.charge(-room)
    process.loop.kill()
    cluster.up("controller", "controller", CONTROLLER_CONF)
    assert ext(cluster.ask(CONTROLLER, 1012, SET))["nextBrokerId"] == "1"
    assert cluster.ask(CONTROLLER, 1013, claim).code == 0
