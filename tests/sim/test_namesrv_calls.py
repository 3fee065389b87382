"""What operators, brokers and clients get from a name server beyond registration."""

import asyncio
import errno
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from reference_world import NAMESRV, NAMESRV_CONF, Cluster, ext

from maxq.reference import rpc
from maxq.reference.namesrv.kv import ENTRIES_MAX
from maxq.reference.rpc import Connection, Pool
from maxq.reference.wire import node_headers as headers
from maxq.reference.wire.codes import RequestCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.headers import to_ext
from maxq.reference.wire.route import (
    ClusterInfo,
    DataVersion,
    KVTable,
    MemberGroupBody,
    QueueData,
    RegisterBrokerBody,
    TopicConfig,
    TopicConfigSerializeWrapper,
    TopicList,
    TopicRouteData,
)
from maxq.reference.wire.seal import unseal

CONF = {**NAMESRV_CONF, "kvConfigPath": "/data/kvConfig.json"}
KV = "/data/kvConfig.json"
Ask = Callable[..., Awaitable[Frame]]


def register(broker_id: int, address: str, **more: Any) -> Frame:
    table = {n: TopicConfig(topic_name=n) for n in ("T1", "T2")}
    wrapper = TopicConfigSerializeWrapper(
        data_version=DataVersion(counter=1), topic_config_table=table
    )
    header = headers.RegisterBrokerRequest(
        broker_name="b", broker_addr=address, cluster_name="c", ha_server_addr=f"ha-{address}",
        broker_id=broker_id, enable_acting_master=True,
    )  # fmt: skip
    header = msgspec.structs.replace(header, **more)
    body = RegisterBrokerBody(topic_config_serialize_wrapper=wrapper).to_json()
    return Frame(code=RequestCode.REGISTER_BROKER, ext=to_ext(header), body=body)


def goodbye(address: str) -> Frame:
    header = headers.BrokerRequest(
        broker_name="b", broker_addr=address, cluster_name="c", broker_id=0
    )
    return Frame(code=RequestCode.UNREGISTER_BROKER, ext=to_ext(header))


def asking(cluster: Cluster, main: Callable[[Ask, Pool], Awaitable[None]], **more: Any) -> None:
    """Run a client that keeps its connection, and with it what it registers."""

    async def run(pool: Pool) -> None:
        async def ask(code: int, body: bytes | None = None, **header: object) -> Frame:
            frame = Frame(code=code, ext={k: str(v) for k, v in header.items()}, body=body)
            return await pool.call(NAMESRV, frame, timeout_s=5)

        await main(ask, pool)

    cluster.client(run, **more)


def addresses(answer: Frame) -> dict[int, str]:
    return TopicRouteData.from_json(answer.body).broker_datas[0].broker_addrs


# --- connections -------------------------------------------------------------------------------


def test_a_connection_takes_all_that_it_registered_along(cluster: Cluster) -> None:
    """Container: all brokers of a lost connection go at once, but not one that has registered
    over another since."""
    cluster.up("namesrv", "namesrv", CONF)

    async def main(pool: Pool) -> None:
        async with asyncio.TaskGroup() as group:
            shared = Pool(group)
            for at in range(3):
                frame = register(0, f"m{at}:1", broker_name=f"b{at}")
                await shared.call(NAMESRV, frame, timeout_s=5)
            again = register(0, "m2:1", broker_name="b2")
            await pool.call(NAMESRV, again, timeout_s=5)
            shared.close()
        await asyncio.sleep(0.1)
        frame = Frame(code=RequestCode.GET_BROKER_CLUSTER_INFO)
        info = ClusterInfo.from_json((await pool.call(NAMESRV, frame, timeout_s=5)).body)
        assert list(info.broker_addr_table) == ["b2"]

    cluster.client(main)
    cluster.until(lambda: cluster.logged("namesrv", "namesrv.broker.lost") == 3, seconds=1)
    info = cluster.ask(NAMESRV, RequestCode.GET_BROKER_CLUSTER_INFO)
    assert ClusterInfo.from_json(info.body).broker_addr_table == {}


def test_what_comes_late_over_an_older_connection_changes_nothing(cluster: Cluster) -> None:
    """When a cut heals, the kernel delivers an old registration, an old goodbye, and the end of
    their connection."""
    cluster.up("namesrv", "namesrv", CONF)

    async def main(old: Pool) -> None:
        async def shown() -> dict[int, str]:
            answer = await old.call(
                NAMESRV, Frame(code=RequestCode.GET_BROKER_CLUSTER_INFO, ext={}), timeout_s=5
            )
            return dict(ClusterInfo.from_json(answer.body).broker_addr_table["b"].broker_addrs)

        assert (await old.call(NAMESRV, register(0, "x:1"), timeout_s=5)).code == 0
        async with asyncio.TaskGroup() as group:
            new = Pool(group)
            assert (await new.call(NAMESRV, register(2, "x:1"), timeout_s=5)).code == 0
            assert (await old.call(NAMESRV, register(0, "x:1"), timeout_s=5)).code == 0
            assert await shown() == {2: "x:1"}
            assert (await old.call(NAMESRV, goodbye("x:1"), timeout_s=5)).code == 0
            assert await shown() == {2: "x:1"}
            for connection in old.release():
                connection.close()
            await asyncio.sleep(1)
            assert await shown() == {2: "x:1"}
            new.close()

    cluster.client(main)


def test_the_silent_are_cut_off_unless_others_speak_for_themselves(cluster: Cluster) -> None:
    """A connection is closed when the last of its brokers has expired, not before.

    docs/spec/acting-master.md 1.6
    """
    cluster.up("namesrv", "namesrv", CONF)

    async def main(pool: Pool) -> None:
        quiet = register(0, "m1:1", broker_name="b1", heartbeat_timeout_millis=1000)
        loud = register(0, "m2:1", broker_name="b2", heartbeat_timeout_millis=5000)
        await pool.call(NAMESRV, quiet, timeout_s=5)
        await pool.call(NAMESRV, loud, timeout_s=5)
        connection = await pool.get(NAMESRV)
        await asyncio.sleep(3)
        assert not connection.closed
        await asyncio.sleep(5)
        assert connection.closed

    cluster.client(main)
    assert cluster.logged("namesrv", "namesrv.broker.expired") == 2
    assert cluster.logged("namesrv", "namesrv.broker.lost") == 0


# --- routes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("on", [True, False])
def test_an_acting_master_is_shown_where_it_is_switched_on(cluster: Cluster, on: bool) -> None:
    """supportActingMaster; 901 and 106 stay raw; 327 disables it until the next wipe.

    docs/spec/acting-master.md 1.7
    """
    cluster.up("namesrv", "namesrv", {**CONF, "supportActingMaster": str(on).lower()})

    async def main(ask: Ask, pool: Pool) -> None:
        for broker_id in (0, 2, 3):
            await pool.call(NAMESRV, register(broker_id, f"m{broker_id}:1"), timeout_s=5)
        master = {"brokerName": "b", "brokerAddr": "m0:1", "clusterName": "c", "brokerId": 0}
        assert (await ask(104, **master)).code == 0
        route = await ask(105, topic="T1")
        assert addresses(route) == ({0: "m2:1", 3: "m3:1"} if on else {2: "m2:1", 3: "m3:1"})
        assert [q.perm for q in TopicRouteData.from_json(route.body).queue_datas] == [4]
        group = MemberGroupBody.from_json((await ask(901, clusterName="c", brokerName="b")).body)
        assert group.broker_member_group is not None
        assert group.broker_member_group.broker_addrs == {2: "m2:1", 3: "m3:1"}
        assert ext(await ask(327, brokerName="b")) == {"addTopicCount": "2"}
        assert addresses(await ask(105, topic="T1")) == {2: "m2:1", 3: "m3:1"}
        assert ext(await ask(205, brokerName="b")) == {"wipeTopicCount": "2"}

    asking(cluster, main)


def test_an_unknown_group_has_no_members(cluster: Cluster) -> None:
    """Code 0, the asked cluster echoed, no addresses (docs/spec/acting-master.md 1.8)."""
    cluster.up("namesrv", "namesrv", CONF)
    answer = cluster.ask(NAMESRV, 901, {"clusterName": "x", "brokerName": "y"})
    assert answer.code == 0
    group = msgspec.json.decode(answer.body or b"")["brokerMemberGroup"]
    assert group == {"brokerAddrs": {}, "brokerName": "y", "cluster": "x"}


def test_a_name_server_may_wait_before_it_answers_routes(cluster: Cluster) -> None:
    """needWaitForService gates 105 and nothing else (docs/spec/acting-master.md 1.7)."""
    wait = {"needWaitForService": "true", "waitSecondsForService": "5"}
    cluster.up("namesrv", "namesrv", {**CONF, **wait})
    answer = cluster.ask(NAMESRV, 105, {"topic": "T"})
    assert (answer.code, answer.remark) == (1, "name server not ready")
    assert cluster.ask(NAMESRV, 106).code == 0
    cluster.sleep(5)
    assert cluster.ask(NAMESRV, 105, {"topic": "T"}).code == 17


def test_topic_lists_and_topics_by_command(cluster: Cluster) -> None:
    """206, 224, 304, 216, 217, and the two switches of the lists (docs/spec/remoting.md 2.16)."""
    cluster.up("namesrv", "namesrv", CONF)

    async def main(ask: Ask, pool: Pool) -> None:
        async def listed(code: int, **header: object) -> TopicList:
            return TopicList.from_json((await ask(code, **header)).body)

        await pool.call(NAMESRV, register(0, "m:1"), timeout_s=5)
        queues = TopicRouteData(queue_datas=(QueueData(broker_name="b", perm=6),))
        assert (await ask(217, queues.to_json(), topic="N")).code == 0
        assert (await ask(217, topic="None")).code == 0
        assert (await listed(206)).topic_list == ("N", "T1", "T2")
        assert (await ask(216, topic="T1")).code == 0
        assert (await ask(216, topic="T2", clusterName="other")).code == 0
        assert (await listed(224, cluster="c")).topic_list == ("N", "T2")
        assert (await listed(224, cluster="other")).topic_list == ()
        assert await listed(304) == TopicList(broker_addr="m:1", topic_list=("b", "c"))
        off = b"enableTopicList=false\nenableAllTopicList=false\n"
        assert (await ask(318, off)).code == 0
        for code in (206, 224):
            assert (await ask(code, cluster="c")).remark == "disable"

    asking(cluster, main)


# --- settings ----------------------------------------------------------------------------------


def test_settings_by_command(cluster: Cluster) -> None:
    """319 shows what 318 has changed; 16 for what must not change; gone with the process.

    docs/spec/remoting.md 2.16
    """
    process = cluster.up("namesrv", "namesrv", CONF)
    assert cluster.ask(NAMESRV, 318, {}, b"supportActingMaster=true\n").code == 0
    assert cluster.ask(NAMESRV, 318, {}, b"kvConfigPath=/x\n").code == 16
    assert cluster.ask(NAMESRV, 318, {}, b"listenPort=1\n").code == 16
    assert cluster.ask(NAMESRV, 318, {}, b"nonsense=1\n").code == 29
    shown = (cluster.ask(NAMESRV, 319).body or b"").decode()
    assert "supportActingMaster=true\n" in shown
    assert "kvConfigPath=/data/kvConfig.json\n" in shown
    process.loop.kill()
    cluster.up("namesrv", "namesrv", CONF)
    assert b"supportActingMaster=false\n" in (cluster.ask(NAMESRV, 319).body or b"")


def order(key: str = "T1", value: str | None = "b:4") -> dict[str, str]:
    base = {"namespace": "ORDER_TOPIC_CONFIG", "key": key}
    return base if value is None else {**base, "value": value}


def test_kv_settings_survive_the_process(cluster: Cluster) -> None:
    """100, 101, 102, 219; on disk before they are answered (docs/spec/remoting.md 2.16)."""
    process = cluster.up("namesrv", "namesrv", CONF)
    assert cluster.ask(NAMESRV, 101, order(value=None)).code == 22
    assert cluster.ask(NAMESRV, 219, {"namespace": "ORDER_TOPIC_CONFIG"}).code == 22
    assert cluster.ask(NAMESRV, 100, order()).code == 0
    assert cluster.ask(NAMESRV, 100, order("T2", "b:8")).code == 0
    assert cluster.ask(NAMESRV, 100, {"namespace": "n", "key": "k", "value": "é=\n"}).code == 0
    assert cluster.ask(NAMESRV, 102, order("T2", None)).code == 0
    assert cluster.ask(NAMESRV, 102, order("none", None)).code == 0
    stored = msgspec.json.decode(unseal(cluster.disk("namesrv", KV) or b""))
    assert stored == {"configTable": {"ORDER_TOPIC_CONFIG": {"T1": "b:4"}, "n": {"k": "é=\n"}}}
    process.loop.kill()
    cluster.up("namesrv", "namesrv", CONF)
    assert ext(cluster.ask(NAMESRV, 101, order(value=None))) == {"value": "b:4"}


def test_kv_settings_are_read_at_the_start(cluster: Cluster) -> None:
    """A damaged file refuses to start by its name; a whole one is used."""
    disk = cluster.machines["namesrv"].disk
    disk.files[KV] = bytearray(b'{"configTable":{"n":{"k":"v"}')
    with pytest.raises(Exception, match=r"kvConfig\.json"):
        cluster.up("namesrv", "namesrv", CONF)
    disk.files[KV] = bytearray(b'{"configTable":{"n":{"k":"v"}}}')
    cluster.up("namesrv", "namesrv", CONF)
    assert ext(cluster.ask(NAMESRV, 101, {"namespace": "n", "key": "k"})) == {"value": "v"}
    table = cluster.ask(NAMESRV, 219, {"namespace": "n"}).body
    assert KVTable.from_json(table).table == {"k": "v"}


@pytest.mark.parametrize(
    ("code", "header"),
    [(100, {"namespace": "n", "key": "k"}), (100, {"namespace": "n", "value": "v"}),
     (101, {"namespace": "n"}), (102, {"namespace": "n"}), (219, {})],
)  # fmt: skip
def test_kv_requests_without_a_needed_field(
    cluster: Cluster, code: int, header: dict[str, str]
) -> None:
    cluster.up("namesrv", "namesrv", CONF)
    answer = cluster.ask(NAMESRV, code, header)
    assert answer.code == 1
    assert "BadHeader" in (answer.remark or "")


def test_kv_settings_that_cannot_be_stored_change_nothing(cluster: Cluster) -> None:
    """A full disk."""
    cluster.up("namesrv", "namesrv", CONF)
    disk = cluster.machines["namesrv"].disk
    room = disk._room
    disk.charge(room)
    answer = cluster.ask(NAMESRV, 100, order())
    assert answer.code == 1
    assert str(errno.ENOSPC) in (answer.remark or "")
    disk.charge(-room)
    assert cluster.ask(NAMESRV, 101, order(value=None)).code == 22


def test_a_name_server_that_may_not_write_settings_serves_routes(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an ordinary user has it with RocketMQ's own path: settings are refused one by one."""
    disk = cluster.machines["namesrv"].disk

    def denied(path: str, **_: bool) -> None:
        raise PermissionError(errno.EACCES, "denied", path)

    monkeypatch.setattr(disk, "lock", denied)
    cluster.up("namesrv", "namesrv", CONF)
    assert cluster.ask(NAMESRV, 101, order(value=None)).code == 22
    monkeypatch.setattr(disk, "open", denied)
    assert cluster.ask(NAMESRV, 100, order()).code == 1


def test_the_number_of_kv_settings_is_bounded(cluster: Cluster) -> None:
    """A new one is refused; a known one may change."""
    many = {"configTable": {"n": {str(i): "" for i in range(ENTRIES_MAX)}}}
    cluster.machines["namesrv"].disk.files[KV] = bytearray(msgspec.json.encode(many))
    cluster.up("namesrv", "namesrv", CONF)
    assert "limit" in (cluster.ask(NAMESRV, 100, order()).remark or "")
    assert cluster.ask(NAMESRV, 100, {"namespace": "n", "key": "7", "value": "new"}).code == 0


@pytest.mark.parametrize("on", [True, False])
def test_ordered_topics_in_routes_and_registrations(cluster: Cluster, on: bool) -> None:
    """orderTopicConf if orderMessageEnable; the KVTable body of 103 if
    returnOrderTopicConfigToBroker, and only once there is something.

    docs/spec/remoting.md 2.16 and 4.1
    """
    switches = {"orderMessageEnable": str(on), "returnOrderTopicConfigToBroker": str(on)}
    cluster.up("namesrv", "namesrv", {**CONF, **{k: v.lower() for k, v in switches.items()}})

    async def main(ask: Ask, pool: Pool) -> None:
        first = await pool.call(NAMESRV, register(0, "m:1"), timeout_s=5)
        assert first.body is None
        await ask(100, **order())
        then = await pool.call(NAMESRV, register(0, "m:1"), timeout_s=5)
        route = TopicRouteData.from_json((await ask(105, topic="T1")).body)
        other = TopicRouteData.from_json((await ask(105, topic="T2")).body)
        assert other.order_topic_conf is None
        if on:
            assert then.body == b'{"table":{"T1":"b:4"}}'
            assert route.order_topic_conf == "b:4"
        else:
            assert (then.body, route.order_topic_conf) == (None, None)

    asking(cluster, main)


# --- 905 ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("on", [True, False])
def test_groups_are_told_of_their_smallest_id_where_it_is_switched_on(
    cluster: Cluster, on: bool
) -> None:
    """One-way, in order; an address that cannot be reached, or is none, stops nobody.

    docs/spec/acting-master.md 1.11
    """
    cluster.up("namesrv", "namesrv", {**CONF, "notifyMinBrokerIdChanged": str(on).lower()})
    heard: list[dict[str, str]] = []

    def hear(request: Frame, connection: Connection) -> None:
        assert request.is_oneway
        heard.append(ext(request))

    async def main(pool: Pool) -> None:
        async with asyncio.TaskGroup() as group:
            server = await rpc.serve("0.0.0.0", 10911, hear, group=group)
            at = "198.18.0.2:10911"
            for broker_id, address in ((4, "no address"), (3, "198.18.0.9:1"), (2, at), (0, "m")):
                await pool.call(NAMESRV, register(broker_id, address), timeout_s=5)
            await asyncio.sleep(5)
            gone = {"brokerName": "b", "brokerAddr": "m", "clusterName": "c", "brokerId": "0"}
            await pool.call(NAMESRV, Frame(code=104, ext=gone), timeout_s=5)
            await asyncio.sleep(5)
            server.close()

    cluster.client(main)
    told = [
        {"minBrokerId": "0", "minBrokerAddr": "m", "haBrokerAddr": "ha-m"},
        {"minBrokerId": "2", "minBrokerAddr": "198.18.0.2:10911", "offlineBrokerAddr": "m"},
    ]
    assert heard == (told if on else [])
