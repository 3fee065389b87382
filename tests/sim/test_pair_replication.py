"""A master and its slave without controllers: what is copied, what a SYNC_MASTER answers, and what
each says of the other when their logs cannot be one."""

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from reference_world import (
    BROKER,
    BROKER_CONF,
    NAMESRV_CONF,
    Cluster,
    Process,
    bodies,
    create_topic,
    ext,
    messages,
)

from maxq.reference.wire.codes import RequestCode
from maxq.reference.wire.headers import OffsetResponse, from_ext
from maxq.reference.wire.node_headers import HaInfo

# A task that a kill meets before its first step holds a coroutine that nobody will ever await.
pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
SLAVE = "198.18.0.64:10911"
PAIR = {
    **BROKER_CONF, "totalReplicas": "2", "inSyncReplicas": "2", "slaveTimeout": "1500",
    "slaveReadEnable": "true", "registerNameServerPeriod": "10000",
}  # fmt: skip
MASTER_CONF = {**PAIR, "brokerRole": "SYNC_MASTER", "brokerId": "0"}
SLAVE_CONF = {**PAIR, "brokerRole": "SLAVE", "brokerId": "1"}
NO_COPIES = "in-sync replicas not enough"


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster() as made:
        made.up("namesrv", "namesrv", NAMESRV_CONF)
        made.up("b1", "broker", MASTER_CONF)
        create_topic(made)
        yield made


def slave_up(cluster: Cluster, **settings: str) -> Process:
    return cluster.up("b2", "broker", {**SLAVE_CONF, **settings})


def copied(cluster: Cluster) -> bool:
    mine, theirs = (cluster.machines[m].disk.files for m in ("b1", "b2"))
    path = f"/data/commitlog/{0:020}"
    return mine.get(path) is not None and mine.get(path) == theirs.get(path)


def in_sync(cluster: Cluster, process: Process, count: int) -> None:
    cluster.until(lambda: process.node.membership.in_sync_count == count)


def test_a_sync_master_takes_sends_once_a_slave_is_in_sync(cluster: Cluster) -> None:
    """S6: with inSyncReplicas=2 nothing is stored alone, and what is acknowledged is there twice;
    S8: byte for byte. The slave has the tables at once, and reads to the end of its log."""
    alone = cluster.send(BROKER, b"alone")
    assert (alone.code, alone.remark) == (1, NO_COPIES)
    process = slave_up(cluster)
    cluster.until(lambda: process.node.membership.plain.slave.connected)
    cluster.sleep(1)
    assert cluster.send(BROKER, b"x").code == 0
    assert copied(cluster)
    assert bodies(cluster.pull(SLAVE)) == [b"x"]
    role = cluster.info(SLAVE)
    assert (role["maxq.role"], role["maxq.outOfGroup"]) == ("slave", "")
    told = cluster.ask(BROKER, RequestCode.EXCHANGE_BROKER_HA_INFO)
    assert from_ext(HaInfo, told.ext).master_ha_address == "198.18.0.48:10912"


def test_a_cut_link_gives_12_until_housekeeping_ends_it_then_1(cluster: Cluster) -> None:
    """As 5.5.0 does; what was answered 12 is in the log, and can be read."""
    process = slave_up(cluster)
    cluster.until(lambda: process.node.membership.plain.slave.connected)
    cluster.sleep(1)
    assert cluster.send(BROKER, b"0").code == 0
    cluster.world.network.cut("b1", "b2") if hasattr(cluster.world.network, "cut") else None
    process.loop.pause() if hasattr(process.loop, "pause") else process.loop.kill()
