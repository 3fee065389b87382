"""A broker whose machine gets another address while it runs."""

import pytest
from reference_world import (
    BROKER,
    BROKER_CONF,
    CONTROLLER,
    CONTROLLER_CONF,
    JOINED,
    NAMESRV,
    NAMESRV_CONF,
    Cluster,
    Process,
    create_topic,
)

from maxq.reference.wire.bodies import BrokerReplicasInfo, HaRuntimeInfo
from maxq.reference.wire.codes import RequestCode
from maxq.reference.wire.route import TopicRouteData

# A task that a kill meets before its first step holds a coroutine that nobody will ever await.
pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
MOVED = "198.18.0.200"


def move(cluster: Cluster, name: str, address: str) -> None:
    """Give a machine another address; its process listens on all of them."""
    cluster.machines[name].stack.set_address(address)


def pair(cluster: Cluster, **settings: str) -> tuple[Process, Process]:
    """A master and a slave, both in the SyncStateSet."""
    cluster.up("namesrv", "namesrv", NAMESRV_CONF)
    cluster.up("controller", "controller", CONTROLLER_CONF)
    joined = {**JOINED, "allAckInSyncStateSet": "true", **settings}
    first = cluster.up("b1", "broker", joined)
    cluster.until(lambda: cluster.logged("b1", "broker.role") == 1)
    second = cluster.up("b2", "broker", joined)
    cluster.until(lambda: in_sync(cluster)[2] == {1, 2})
    create_topic(cluster)
    return first, second


def in_sync(cluster: Cluster) -> tuple[str | None, int, set[int]]:
    """Master's address, master epoch, members."""
    answer = cluster.ask(CONTROLLER, RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, {}, b'["b"]')
    known = BrokerReplicasInfo.from_json(answer.body).replicas_info_table["b"]
    members = {r.broker_id for r in known.in_sync_replicas}
    return known.master_address, known.master_epoch, members


def route(cluster: Cluster) -> dict[int, str]:
    answer = cluster.ask(NAMESRV, RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"})
    datas = TopicRouteData.from_json(answer.body).broker_datas
    return dict(datas[0].broker_addrs) if datas else {}


def status(cluster: Cluster, address: str) -> HaRuntimeInfo:
    answer = cluster.ask(address, RequestCode.GET_BROKER_HA_STATUS)
    return HaRuntimeInfo.from_json(answer.body)


def test_a_master_that_moves_keeps_its_id_epoch_and_slave(cluster: Cluster) -> None:
    first, _ = pair(cluster)
    assert cluster.send(BROKER, b"before").code == 0
    move(cluster, "b1", MOVED)
    cluster.until(lambda: in_sync(cluster)[0] == f"{MOVED}:10911", seconds=5)
    cluster.until(lambda: route(cluster).get(0) == f"{MOVED}:10911", seconds=5)
    cluster.until(lambda: in_sync(cluster)[2] == {1, 2}, seconds=10)
    assert cluster.send(f"{MOVED}:10911", b"after").code == 0
    cluster.sleep(20)
    assert in_sync(cluster) == (f"{MOVED}:10911", 1, {1, 2})
    slave = status(cluster, "198.18.0.64:10911").ha_client_runtime_info
    assert slave is not None
    assert slave.master_addr == f"{MOVED}:10912"
    assert first.healthy


def test_a_slave_that_moves_is_found_at_its_new_address(cluster: Cluster) -> None:
    _, second = pair(cluster)
    move(cluster, "b2", MOVED)
    cluster.until(lambda: route(cluster).get(2) == f"{MOVED}:10911", seconds=5)
    cluster.until(lambda: in_sync(cluster)[2] == {1, 2}, seconds=10)
    peers = [c.addr or "" for c in status(cluster, BROKER).ha_connection_info]
    assert [p.rpartition(":")[0] for p in peers] == [MOVED]
    assert second.healthy


def test_with_broker_ip1_nothing_changes(cluster: Cluster) -> None:
    cluster.up("namesrv", "namesrv", NAMESRV_CONF)
    cluster.up("b1", "broker", {**BROKER_CONF, "brokerIP1": BROKER.partition(":")[0]})
    create_topic(cluster)
    cluster.until(lambda: route(cluster) == {0: BROKER})
    move(cluster, "b1", MOVED)
    cluster.sleep(60)
    assert route(cluster) == {0: BROKER}
    assert cluster.logged("b1", "broker.address.changed") == 0


def test_without_a_controller_the_name_server_is_told(cluster: Cluster) -> None:
    cluster.up("namesrv", "namesrv", NAMESRV_CONF)
    cluster.up("b1", "broker", BROKER_CONF)
    create_topic(cluster)
    cluster.until(lambda: route(cluster) == {0: BROKER})
    move(cluster, "b1", MOVED)
    cluster.until(lambda: route(cluster) == {0: f"{MOVED}:10911"}, seconds=5)
    assert cluster.send(f"{MOVED}:10911", b"x").code == 0
