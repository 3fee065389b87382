"""An acting slave delivers what is delayed, and moves half messages, to another broker name."""

from collections.abc import Iterator
from typing import Any

import pytest
from reference_world import (
    BROKER,
    BROKER_CONF,
    NAMESRV_CONF,
    Cluster,
    Process,
    create_topic,
    ext,
    messages,
)

from maxq.reference.names import HALF_TOPIC
from maxq.reference.wire.codes import RequestCode
from maxq.reference.wire.message import Message, decode

# A task that a kill meets before its first step holds a coroutine that nobody will ever await.
pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
SLAVE, OTHER = "198.18.0.64:10911", "198.18.0.80:10911"
PAIR = {
    **BROKER_CONF, "totalReplicas": "2", "inSyncReplicas": "2", "slaveTimeout": "1500",
    "slaveReadEnable": "true", "enableSlaveActingMaster": "true", "enableRemoteEscape": "true",
    "brokerNotActiveTimeoutMillis": "3000", "registerNameServerPeriod": "10000",
    "messageDelayLevel": "1s 3s 8s", "transactionCheckInterval": "1000",
    "transactionTimeOut": "500", "compatibleWithOldNameSrv": "false",
}  # fmt: skip
MASTER_CONF = {**PAIR, "brokerRole": "SYNC_MASTER", "brokerId": "0"}
SLAVE_CONF = {**PAIR, "brokerRole": "SLAVE", "brokerId": "1"}
OTHER_CONF = {
    **BROKER_CONF, "brokerName": "o", "brokerRole": "ASYNC_MASTER", "brokerId": "0",
    "enableSlaveActingMaster": "true", "transactionCheckInterval": "1000",
    "transactionTimeOut": "500", "autoCreateTopicEnable": "false",
}  # fmt: skip
MASTER, ROLLBACK, COMMIT = "b1", 12, 8


class Pairs(Cluster):
    """Broker name b with master and slave, and broker name o with a master."""

    def __init__(self, **slave: str) -> None:
        super().__init__()
        self.up("namesrv", "namesrv", {**NAMESRV_CONF, "supportActingMaster": "true"})
        self.brokers: dict[str, Process] = {"b1": self.up("b1", "broker", MASTER_CONF)}
        create_topic(self)
        self.brokers["b2"] = self.up("b2", "broker", {**SLAVE_CONF, **slave})
        self.brokers["b3"] = self.up("b3", "broker", OTHER_CONF)
        self.until(lambda: self.brokers["b1"].node.membership.in_sync_count == 2)
        self.sleep(13)  # the slave has the tables of its master, and again

    def topic_elsewhere(self, topic: str = "T", perm: int = 6) -> None:
        header = {"topic": topic, "defaultTopic": "TBW102", "readQueueNums": "2", "perm": str(perm),
                  "writeQueueNums": "2", "topicFilterType": "SINGLE_TAG"}  # fmt: skip
        assert self.ask(OTHER, RequestCode.UPDATE_AND_CREATE_TOPIC, header).code == 0

    def delayed(self, body: bytes, level: int, topic: str = "T") -> None:
        properties = f"DELAY\x01{level}\x02UNIQ_KEY\x01K{body.decode()}\x02"
        assert self.send(BROKER, body, topic=topic, properties=properties).code == 0

    def half(self, body: bytes) -> dict[str, str]:
        properties = f"TRAN_MSG\x01true\x02PGROUP\x01p\x02UNIQ_KEY\x01K{body.decode()}\x02"
        answer = self.send(BROKER, body, properties=properties, sys_flag=4)
        assert answer.code == 0
        return ext(answer)

    def settle(self, sent: dict[str, str], how: int) -> None:
        place = int(sent["msgId"][-16:], 16)
        header = {"producerGroup": "p", "tranStateTableOffset": sent["queueOffset"], "msgId": "x",
                  "commitLogOffset": str(place), "commitOrRollback": str(how)}  # fmt: skip
        assert self.ask(BROKER, RequestCode.END_TRANSACTION, header).code == 0

    def kill_master(self) -> None:
        self.brokers["b1"].loop.kill()
        self.until(lambda: self.brokers["b2"].node.membership.acts, seconds=3)

    def at(self, address: str, topic: str = "T") -> list[Message]:
        """What consumers of a broker see of a topic."""
        found = []
        for queue in (0, 1):
            found += messages(self.pull(address, topic=topic, queue_id=queue))
        return found

    def there(self, topic: str = "T") -> list[bytes]:
        return sorted(m.body for m in self.at(OTHER, topic))

    def halves(self) -> list[Message]:
        """The half messages at the other broker, asked about or not."""
        store = self.brokers["b3"].node._store
        return [decode(store.record(u))[0] for _, u in store.units(HALF_TOPIC, 0, 0)]

    def reached(self, at: str = SLAVE) -> Any:
        return self.info(at).get("scheduleMessageOffset_2")


@pytest.fixture
def pairs() -> Iterator[Pairs]:
    made = Pairs()
    with made:
        yield made


def test_what_is_delayed_comes_elsewhere_and_at_its_time(pairs: Pairs) -> None:
    """E1, E2: real topic, no delay any more; what was delivered before is not sent again."""
    pairs.topic_elsewhere()
    pairs.delayed(b"before", 1)
    pairs.sleep(16)  # delivered by the master, and the slave knows
    pairs.delayed(b"a", 2)
    pairs.delayed(b"b", 3)
    pairs.kill_master()
    pairs.sleep(1)
    assert pairs.there() == []
    pairs.sleep(3)
    assert pairs.there() == [b"a"]
    [copy] = pairs.at(OTHER)
    properties = copy.property_map()
    assert (properties["REAL_TOPIC"], properties["WAIT"], copy.topic) == ("T", "false", "T")
    assert "DELAY" not in properties
    pairs.sleep(5)
    assert pairs.there() == [b"a", b"b"]
    assert pairs.reached() == "1,1"


def test_without_a_target_it_waits_and_holds_up_none(pairs: Pairs) -> None:
    """E1: a topic that no other broker has, or that nobody may write there; then one may."""
    create_topic(pairs, "U")
    pairs.topic_elsewhere()
    pairs.topic_elsewhere("U", perm=4)
    pairs.sleep(13)  # the slave knows topic U
    pairs.delayed(b"first", 2, "U")
    pairs.delayed(b"second", 2)
    pairs.kill_master()
    pairs.sleep(6)
    assert (pairs.there(), pairs.there("U")) == ([b"second"], [])
    assert pairs.reached() == "0,2"  # before the first that waits
    pairs.topic_elsewhere("U")
    pairs.until(lambda: pairs.there("U") == [b"first"], seconds=6)
    assert (pairs.there(), pairs.reached()) == ([b"second"], "2,2")


def test_a_target_that_is_gone_gets_it_when_it_is_back(pairs: Pairs) -> None:
    """E1: what nobody has taken counts as not delivered."""
    pairs.topic_elsewhere()
    pairs.delayed(b"a", 2)
    pairs.brokers["b3"].loop.kill()
    pairs.kill_master()
    pairs.sleep(6)
    assert pairs.reached() == "0,1"
    pairs.brokers["b3"] = pairs.up("b3", "broker", OTHER_CONF)
    pairs.until(lambda: pairs.there() == [b"a"], seconds=20)
    assert pairs.reached() == "1,1"


def test_nothing_leaves_without_the_key_and_the_master_delivers_it() -> None:
    pairs = Pairs(enableRemoteEscape="false")
    with pairs:
        pairs.topic_elsewhere()
        pairs.delayed(b"a", 2)
        pairs.half(b"h")
        pairs.kill_master()
        pairs.sleep(6)
        assert (pairs.there(), pairs.halves()) == ([], [])
        pairs.up("b1", "broker", MASTER_CONF)
        pairs.until(lambda: [m.body for m in pairs.at(BROKER)] == [b"a"], seconds=10)


def test_it_ends_with_the_acting(pairs: Pairs) -> None:
    """The returned master delivers what comes due from then on."""
    pairs.topic_elsewhere()
    pairs.delayed(b"late", 3)
    pairs.kill_master()
    pairs.up("b1", "broker", MASTER_CONF)
    pairs.until(lambda: not pairs.brokers["b2"].node.membership.acts, seconds=3)
    pairs.until(lambda: [m.body for m in pairs.at(BROKER)] == [b"late"], seconds=10)
    pairs.sleep(3)
    assert pairs.there() == []


def test_only_open_half_messages_move(pairs: Pairs) -> None:
    """E6, E8: what was committed or rolled back before is not asked about elsewhere."""
    pairs.topic_elsewhere()
    committed, rolled_back = pairs.half(b"c"), pairs.half(b"r")
    pairs.half(b"open")
    pairs.settle(committed, COMMIT)
    pairs.settle(rolled_back, ROLLBACK)
    pairs.sleep(0.4)
    pairs.kill_master()
    pairs.until(lambda: bool(pairs.halves()), seconds=5)
    pairs.sleep(2)
    assert {m.body for m in pairs.halves()} == {b"open"}
    moved = pairs.halves()[0]
    properties = moved.property_map()
    assert (properties["REAL_TOPIC"], properties["PGROUP"]) == ("T", "p")
    assert properties["UNIQ_KEY"] == "Kopen"
    assert pairs.there() == []


def test_a_half_message_that_cannot_move_stays(pairs: Pairs) -> None:
    """E4: however often it is tried. The returned master asks about it."""
    pairs.half(b"open")
    pairs.kill_master()
    pairs.sleep(40)
    slave = pairs.brokers["b2"].node
    assert (slave._tables.offset(HALF_TOPIC, "CID_RMQ_SYS_TRANS", 0) or 0) == 0
    pairs.topic_elsewhere()
    pairs.until(lambda: {m.body for m in pairs.halves()} == {b"open"}, seconds=6)


def test_of_copies_of_one_transaction_the_newest_moves(pairs: Pairs) -> None:
    """A producer that sends again, and checks of the master, make copies with one key."""
    pairs.topic_elsewhere()
    for _ in range(3):
        pairs.half(b"open")
    pairs.sleep(3.2)  # checked some times
    pairs.kill_master()
    pairs.until(lambda: bool(pairs.halves()), seconds=5)
    pairs.sleep(3)
    assert len({m.property_map()["UNIQ_KEY"] for m in pairs.halves()}) == 1
    assert pairs.logged("b2", "broker.transaction.moved") == 1
