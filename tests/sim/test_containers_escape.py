"""What a slave in a container cannot store goes to a master beside it, before any other.

On machine b1 is the master of set b, alone. Its slave is in a container on b2, with the master of
set o. On b3 is the master of set p, alone. Claims: B12, E1, E4.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from reference_world import (
    BROKER,
    BROKER_CONF,
    NAMESRV,
    NAMESRV_CONF,
    Cluster,
    create_topic,
    messages,
)

from maxq.reference.wire import headers
from maxq.reference.wire.bodies import ConsumerData, HeartbeatBody
from maxq.reference.wire.codes import RequestCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.message import Message
from maxq.reference.wire.node_headers import RemoveBrokerRequest

# A task that a kill meets before its first step holds a coroutine that nobody will ever await.
pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
IP = "198.18.0.64"  # of the container
CONTAINER, SLAVE, BESIDE, FAR = f"{IP}:10811", f"{IP}:10911", f"{IP}:10921", "198.18.0.80:10911"
COMMON = {
    **BROKER_CONF, "enableSlaveActingMaster": "true", "messageDelayLevel": "1s 3s 8s",
    "brokerNotActiveTimeoutMillis": "3000", "registerNameServerPeriod": "10000",
    "slaveReadEnable": "true", "accessMessageInMemoryMaxRatio": "0",
    "compatibleWithOldNameSrv": "false",
    "transactionCheckInterval": "1000", "transactionTimeOut": "500",
}  # fmt: skip
PAIR = {**COMMON, "totalReplicas": "2", "inSyncReplicas": "2", "slaveTimeout": "1500"}
MASTER_CONF = {**PAIR, "brokerRole": "SYNC_MASTER", "brokerId": "0"}
SLAVE_CONF = {**PAIR, "brokerRole": "SLAVE", "brokerId": "1", "storePathRootDir": "/data/b"}
ALONE = {**COMMON, "brokerRole": "ASYNC_MASTER", "brokerId": "0", "autoCreateTopicEnable": "false"}
BESIDE_CONF = {**ALONE, "brokerName": "o", "listenPort": "10921", "storePathRootDir": "/data/o"}


class Crossed(Cluster):
    """The machines above; both sets know their neighbours' topics."""

    def __init__(self, *, remote: bool) -> None:
        super().__init__()
        self.up("namesrv", "namesrv", {**NAMESRV_CONF, "supportActingMaster": "true"})
        self.master = self.up("b1", "broker", MASTER_CONF)
        create_topic(self)
        self.write("b2", "/etc/b.conf", {**SLAVE_CONF, "enableRemoteEscape": str(remote).lower()})
        self.write("b2", "/etc/o.conf", BESIDE_CONF)
        paths = {"brokerConfigPaths": "/etc/b.conf:/etc/o.conf", "namesrvAddr": NAMESRV}
        self.container = self.up("b2", "container", paths)
        self.up("b3", "broker", {**ALONE, "brokerName": "p"})
        self.until(lambda: self.master.node.membership.in_sync_count == 2)
        self.sleep(13)  # the slave has the tables of its master, and again

    def topic_at(self, address: str, queues: int = 2) -> None:
        header = {"topic": "T", "defaultTopic": "TBW102", "readQueueNums": str(queues), "perm": "6",
                  "writeQueueNums": str(queues), "topicFilterType": "SINGLE_TAG"}  # fmt: skip
        assert self.ask(address, RequestCode.UPDATE_AND_CREATE_TOPIC, header).code == 0

    def delayed(self, body: bytes, queue_id: int) -> None:
        properties = f"DELAY\x011\x02UNIQ_KEY\x01K{body.decode()}\x02"
        assert self.send(BROKER, body, queue_id=queue_id, properties=properties).code == 0

    def half(self, body: bytes, queue_id: int) -> None:
        properties = f"TRAN_MSG\x01true\x02PGROUP\x01p\x02UNIQ_KEY\x01K{body.decode()}\x02"
        sent = self.send(BROKER, body, queue_id=queue_id, properties=properties, sys_flag=4)
        assert sent.code == 0

    def kill_master(self) -> None:
        slave = self.container.node.brokers[0].broker
        self.master.loop.kill()
        self.until(lambda: slave.membership.acts, seconds=5)

    def at(self, address: str, topic: str = "T") -> dict[bytes, Message]:
        """What queues of a topic hold, by body."""
        found: dict[bytes, Message] = {}
        for queue in range(4):
            pulled = self.pull(address, topic=topic, queue_id=queue, consumer_group="reader")
            found |= {m.body: m for m in messages(pulled)}
        return found

    def waiting_halves(self, address: str) -> set[str]:
        """Bodies of half messages that a broker asks about."""
        return {m.decode() for m in self.at(address, "RMQ_SYS_TRANS_HALF_TOPIC")}


@pytest.fixture(params=[True, False], ids=["remote", "local only"])
def crossed(request: pytest.FixtureRequest) -> Iterator[Crossed]:
    made = Crossed(remote=request.param)
    with made:
        yield made


def test_what_waits_goes_to_the_master_beside_it(crossed: Crossed) -> None:
    """B12: into the queue that it was meant for, and to nobody else."""
    for address in (BESIDE, FAR):
        crossed.topic_at(address)
    for queue_id in (0, 1):
        crossed.delayed(f"d{queue_id}".encode(), queue_id)
        crossed.half(f"h{queue_id}".encode(), queue_id)
    crossed.kill_master()
    crossed.until(lambda: crossed.at(BESIDE).keys() >= {b"d0", b"d1"})
    assert {body: m.queue_id for body, m in crossed.at(BESIDE).items()} == {b"d0": 0, b"d1": 1}
    crossed.until(lambda: crossed.waiting_halves(BESIDE) == {"h0", "h1"})
    assert (crossed.at(FAR), crossed.waiting_halves(FAR)) == ({}, set())


def test_a_queue_that_is_not_there_is_no_place(crossed: Crossed) -> None:
    """E1: RocketMQ stores it there all the same, where no consumer looks. Here it goes to another
    set, or waits for its own master."""
    crossed.topic_at(BESIDE, queues=1)
    crossed.topic_at(FAR)
    crossed.delayed(b"d0", 0)
    crossed.delayed(b"d1", 1)
    remote = crossed.container.node.brokers[0].file.config.enable_remote_escape
    crossed.kill_master()
    crossed.until(lambda: b"d0" in crossed.at(BESIDE))
    if remote:
        crossed.until(lambda: b"d1" in crossed.at(FAR))
    else:
        crossed.sleep(10)
        assert crossed.at(FAR) == {}
        crossed.up("b1", "broker", MASTER_CONF)
        crossed.until(lambda: b"d1" in crossed.at(BROKER))
    assert crossed.at(BESIDE).keys() == {b"d0"}


def send_back(crossed: Crossed, address: str, offset: int, **more: Any) -> Frame:
    header = headers.SendBackRequest(
        offset=offset, group="g", delay_level=0, origin_msg_id="x", origin_topic="T", **more
    )
    return crossed.ask(address, RequestCode.CONSUMER_SEND_MSG_BACK, header)


def know_group(crossed: Crossed, address: str) -> None:
    body = HeartbeatBody(client_id="c", consumer_data_set=(ConsumerData(group_name="g"),))
    assert crossed.ask(address, RequestCode.HEART_BEAT, body=body.to_json()).code == 0


def sent(crossed: Crossed) -> int:
    """A message of set b that its slave has; where it is in the log."""
    answer = crossed.send(BROKER, b"again")
    assert answer.code == 0
    return int((answer.ext or {})["msgId"][-16:], 16)


def test_what_is_sent_back_to_a_slave_is_stored_beside_it(crossed: Crossed) -> None:
    """The original is in the slave's log, the copy in its neighbour's; dead letters as well."""
    offset = sent(crossed)
    know_group(crossed, BESIDE)
    assert send_back(crossed, SLAVE, offset).code == 0
    crossed.until(lambda: b"again" in crossed.at(BESIDE, "%RETRY%g"))
    copy = crossed.at(BESIDE, "%RETRY%g")[b"again"]
    assert (copy.reconsume_times, copy.property_map()["RETRY_TOPIC"]) == (1, "T")
    assert send_back(crossed, SLAVE, offset, max_reconsume_times=0).code == 0
    assert b"again" in crossed.at(BESIDE, "%DLQ%g")
    assert crossed.at(SLAVE, "%RETRY%g") == crossed.at(BROKER, "%RETRY%g") == {}


def test_a_slave_without_a_master_beside_it_refuses(crossed: Crossed) -> None:
    offset = sent(crossed)
    header = RemoveBrokerRequest(broker_cluster_name="c", broker_name="o", broker_id=0)
    assert crossed.ask(CONTAINER, RequestCode.REMOVE_BROKER, header).code == 0
    refused = send_back(crossed, SLAVE, offset)
    assert (refused.code, refused.remark) == (1, "no master available along with this broker")
    assert send_back(crossed, FAR, offset).code == 1  # a master that has no such message


def test_a_broker_of_a_container_suggests_no_slave(crossed: Crossed) -> None:
    """RocketMQ's pull answers name broker 0 in a container; alone they name a slave for what is no
    longer in memory."""
    crossed.send(BROKER, b"old")
    suggested = {}
    for address in (BROKER, SLAVE, BESIDE, FAR):
        know_group(crossed, address)
        if address in (BESIDE, FAR):
            crossed.topic_at(address)
            crossed.send(address, b"old")
        pulled = crossed.pull(address)
        assert pulled.code == 0
        suggested[address] = (pulled.ext or {})["suggestWhichBrokerId"]
    assert suggested == {BROKER: "1", SLAVE: "0", BESIDE: "0", FAR: "1"}
