"""A master and its slave without controllers: what is copied, what a SYNC_MASTER answers, and what
each says of the other when their logs cannot be one."""

import asyncio
import struct
from collections.abc import Iterator

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
)

from maxq.reference.rpc import Pool
from maxq.reference.wire.codes import RequestCode
from maxq.reference.wire.headers import OffsetResponse, from_ext
from maxq.reference.wire.node_headers import HaInfo

# A task that a kill meets before its first step holds a coroutine that nobody will ever await.
pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
SLAVE, THIRD = "198.18.0.64:10911", "198.18.0.80:10911"
PAIR = {
    **BROKER_CONF, "totalReplicas": "2", "inSyncReplicas": "2", "slaveTimeout": "1500",
    "slaveReadEnable": "true", "registerNameServerPeriod": "10000",
}  # fmt: skip
MASTER_CONF = {**PAIR, "brokerRole": "SYNC_MASTER", "brokerId": "0"}
SLAVE_CONF = {**PAIR, "brokerRole": "SLAVE", "brokerId": "1"}
NO_COPIES = "in-sync replicas not enough"


class Pair(Cluster):
    """A cluster whose first broker is a master without controllers."""

    first: Process


@pytest.fixture
def cluster() -> Iterator[Pair]:
    made = Pair()
    with made:
        made.up("namesrv", "namesrv", NAMESRV_CONF)
        made.first = made.up("b1", "broker", MASTER_CONF)
        create_topic(made)
        yield made


def slave_up(cluster: Pair, **settings: str) -> Process:
    process = cluster.up("b2", "broker", {**SLAVE_CONF, **settings})
    return process


def joined(cluster: Pair, process: Process) -> None:
    """Until a slave copies, and its master knows that it is in sync."""
    cluster.until(lambda: process.node.membership.plain.slave.connected)
    cluster.sleep(0.5)


def log(cluster: Pair, machine: str, start: int = 0) -> bytes:
    return (cluster.disk(machine, f"/data/commitlog/{start:020}") or b"").rstrip(b"\0")


def test_a_sync_master_takes_sends_once_a_slave_is_in_sync(cluster: Pair) -> None:
    """S6: with inSyncReplicas=2 nothing is stored alone, and what is acknowledged is there twice;
    S8: byte for byte. The slave has the tables at once, and reads to the end of its log."""
    alone = cluster.send(BROKER, b"alone")
    assert (alone.code, alone.remark) == (1, f"{NO_COPIES}: 1 < 2")
    joined(cluster, slave_up(cluster))
    assert cluster.send(BROKER, b"x").code == 0
    assert log(cluster, "b1") == log(cluster, "b2") != b""
    assert bodies(cluster.pull(SLAVE)) == [b"x"]
    told = cluster.info(SLAVE)
    assert (told["maxq.role"], told["maxq.outOfGroup"]) == ("slave", "")
    info = cluster.ask(BROKER, RequestCode.EXCHANGE_BROKER_HA_INFO)
    assert from_ext(HaInfo, info.ext).master_ha_address == "198.18.0.48:10912"
    assert not ext(cluster.ask(SLAVE, RequestCode.EXCHANGE_BROKER_HA_INFO))


def test_a_silent_slave_gives_12_until_housekeeping_ends_its_link_then_1(cluster: Pair) -> None:
    """As 5.5.0 does; what was answered 12 is in the log, and can be read."""
    process = slave_up(cluster)
    joined(cluster, process)
    assert cluster.send(BROKER, b"0").code == 0
    process.loop.pause()
    assert [cluster.send(BROKER, body).code for body in (b"1", b"2")] == [12, 12]
    assert bodies(cluster.pull(BROKER)) == [b"0", b"1", b"2"]
    cluster.sleep(20)
    refused = cluster.send(BROKER, b"3")
    assert (refused.code, refused.remark) == (1, f"{NO_COPIES}: 1 < 2")
    process.loop.resume()
    cluster.until(lambda: cluster.first.node.membership.in_sync_count == 2)
    assert cluster.send(BROKER, b"4").code == 0
    assert bodies(cluster.pull(SLAVE)) == [b"0", b"1", b"2", b"4"]


def test_with_degrading_a_master_alone_takes_sends() -> None:
    """enableAutoInSyncReplicas: as many as are in sync, and minInSyncReplicas at least."""
    with Cluster() as cluster:
        auto = {**MASTER_CONF, "enableAutoInSyncReplicas": "true", "namesrvAddr": ""}
        cluster.up("b1", "broker", auto)
        create_topic(cluster)
        assert cluster.send(BROKER, b"x").code == 0


def test_a_slave_that_is_longer_says_so_and_stays_out(cluster: Pair) -> None:
    """A8, A9: its master lost its log. Nothing is acknowledged with one copy, and nothing of the
    slave's is overwritten, also when the master's log has grown beyond it."""
    slave = slave_up(cluster)
    joined(cluster, slave)
    assert cluster.send(BROKER, b"x" * 300).code == 0
    kept = log(cluster, "b2")
    cluster.first.loop.kill()
    for path in [p for p in cluster.machines["b1"].disk.files if p.startswith("/data/")]:
        del cluster.machines["b1"].disk.files[path]
    cluster.up("b1", "broker", {**MASTER_CONF, "inSyncReplicas": "1"})
    create_topic(cluster)
    cluster.until(lambda: cluster.logged("b2", "ha.slave.out") == 1)
    told = cluster.info(SLAVE)["maxq.outOfGroup"]
    assert told.startswith(f"this log ends at {len(kept)}, the master's is 0 to 0")
    assert cluster.send(BROKER, b"y" * 900).code == 0
    cluster.sleep(5)
    assert log(cluster, "b2") == kept
    assert "was longer than the master's" in cluster.info(SLAVE)["maxq.outOfGroup"]


@pytest.mark.parametrize(
    ("first", "second", "fault"),
    [(10**9, None, "reports 1000000000, beyond the end of the log"),
     (-1, None, "reports -1, before the start of the log"),
     (0, 10**9, "reports 1000000000, beyond what it was sent"),
     (7, 3, "reports 3, after 7")],
)  # fmt: skip
def test_a_report_that_cannot_be_is_counted_nowhere(
    cluster: Pair, first: int, second: int | None, fault: str
) -> None:
    """5.5.0 takes each for an acknowledgement. The offset 7 lies inside of a record."""
    process = slave_up(cluster)
    joined(cluster, process)
    assert cluster.send(BROKER, b"x").code == 0
    process.loop.kill()
    cluster.until(lambda: cluster.first.node.membership.in_sync_count == 1)

    async def strange(pool: Pool) -> bytes:
        reader, writer = await asyncio.open_connection("198.18.0.48", 10912)
        for offset in (first, second):
            if offset is not None:
                writer.write(struct.pack(">q", offset))
                await asyncio.sleep(0.2)
        return await reader.read(-1)

    cluster.client(strange)
    told = cluster.info(BROKER)["maxq.refusedSlaves"]
    assert told.startswith("198.18.0.2:")
    assert fault in told
    assert cluster.logged("b1", "ha.slave.closed") >= 1
    assert cluster.send(BROKER, b"y").code == 1


def test_an_empty_slave_begins_at_its_masters_last_file(cluster: Pair) -> None:
    """As Java's; the queues go on where the master's do, and the log begins there after a start."""
    joined(cluster, slave_up(cluster))
    bodies_sent = [bytes([65 + n]) * 9000 for n in range(20)]
    for body in bodies_sent:
        assert cluster.send(BROKER, body).code == 0
    end = int(cluster.info(BROKER)["commitLogMaxOffset"])
    last = end - end % 65536
    assert last > 0
    process = cluster.up("b3", "broker", {**SLAVE_CONF, "brokerId": "2"})
    joined(cluster, process)
    cluster.until(lambda: process.node._store.end == end)
    told = cluster.info(THIRD)
    assert (told["commitLogMinOffset"], told["commitLogMaxOffset"]) == (str(last), str(end))
    assert log(cluster, "b1", last) == log(cluster, "b3", last)
    bounds = cluster.ask(THIRD, RequestCode.GET_MAX_OFFSET, {"topic": "T", "queueId": "0"})
    assert from_ext(OffsetResponse, bounds.ext).offset == 20
    process.loop.kill()
    again = cluster.up("b3", "broker", {**SLAVE_CONF, "brokerId": "2"})
    joined(cluster, again)
    assert cluster.send(BROKER, b"Z").code == 0
    assert cluster.info(THIRD)["commitLogMinOffset"] == str(last)
    assert log(cluster, "b1", last) == log(cluster, "b3", last)


def test_the_ha_address_can_be_set_by_hand(cluster: Pair) -> None:
    """The name server still says who is asked for tables."""
    process = slave_up(cluster, haMasterAddress="198.18.0.48:10912")
    joined(cluster, process)
    assert cluster.send(BROKER, b"x").code == 0
    assert process.node.membership.master_ha_address == ""
