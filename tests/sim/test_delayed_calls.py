"""Delayed messages, messages that consumers send back, and dead letters, over the simulated wire.

Delays are 1, 3 and 5 s; second tries wait for the third level at first, and stay there.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from reference_world import (
    BROKER,
    CONTROLLER_CONF,
    JOINED,
    NAMESRV_CONF,
    Cluster,
    bodies,
    broker_up,
    create_topic,
    ext,
    messages,
    send_header,
)

from maxq.harness.simulation.world import WALL_MS, SimHost
from maxq.reference.records import PhyOffset
from maxq.reference.wire import property as props
from maxq.reference.wire.bodies import LockRequest, MessageQueue, SubscriptionGroupConfig
from maxq.reference.wire.codes import RequestCode
from maxq.reference.wire.headers import SendBackRequest
from maxq.reference.wire.message import BatchElement, Message, encode_batch

# A task that a kill meets before its first step holds a coroutine that nobody will ever await.
pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
SLAVE = "198.18.0.64:10911"
LEVELS = {"messageDelayLevel": "1s 3s 5s"}
SCHEDULE, RETRY, DEAD = "SCHEDULE_TOPIC_XXXX", "%RETRY%g", "%DLQ%g"


def delayed(cluster: Cluster, body: bytes, level: int, *, at: str = BROKER) -> Any:
    answer = cluster.send(at, body, queue_id=1, properties=f"DELAY\x01{level}\x02TAGS\x01a\x02")
    assert answer.code == 0
    return ext(answer)


def there(cluster: Cluster, at: str = BROKER) -> list[bytes]:
    return bodies(cluster.pull(at, queue_id=1))


def reached(cluster: Cluster, at: str = BROKER) -> dict[str, int]:
    """How far delivery is, by level, as slaves copy it."""
    answer = cluster.ask(at, RequestCode.GET_ALL_DELAY_OFFSET)
    table: dict[str, int] = json.loads(answer.body or b"")["offsetTable"]
    return table


# --- delays --------------------------------------------------------------------------------------


def test_a_delayed_message_comes_when_its_time_has_come(cluster: Cluster) -> None:
    """The answer tells of the schedule topic; the copy has topic, queue, tag of the send.

    docs/spec/remoting.md 2.6
    """
    broker_up(cluster, **LEVELS)
    create_topic(cluster)
    sent = delayed(cluster, b"later", 2)
    assert (sent["queueId"], sent["queueOffset"]) == ("1", "0")
    cluster.send(BROKER, b"now", queue_id=1)
    cluster.sleep(2.7)
    assert there(cluster) == [b"now"]
    cluster.sleep(0.6)
    assert there(cluster) == [b"now", b"later"]
    copy = messages(cluster.pull(BROKER, queue_id=1))[1]
    assert (copy.topic, copy.queue_id, copy.queue_offset, copy.tags) == ("T", 1, 1, "a")
    assert copy.property_map()["REAL_TOPIC"] == "T"
    assert copy.born_timestamp == send_header().born_timestamp
    assert bodies(cluster.pull(BROKER, queue_id=1, subscription="a")) == [b"later"]
    cluster.sleep(0.6)  # synced as well
    assert cluster.info(BROKER)["scheduleMessageOffset_2"] == "1,1"


def test_levels_do_not_wait_for_each_other(cluster: Cluster) -> None:
    """Each level is a queue of its own; a level beyond the last is the last."""
    broker_up(cluster, **LEVELS)
    create_topic(cluster)
    for body, level in ((b"5a", 3), (b"1a", 1), (b"5b", 18), (b"3", 2), (b"1b", 1)):
        delayed(cluster, body, level)
    cluster.sleep(6)
    assert there(cluster) == [b"1a", b"1b", b"3", b"5a", b"5b"]
    assert reached(cluster) == {"1": 2, "2": 1, "3": 2}


def test_a_message_that_waits_survives_a_kill(cluster: Cluster) -> None:
    """The times stand in the log: after the restart each comes at its own."""
    process = broker_up(cluster, **LEVELS)
    create_topic(cluster)
    delayed(cluster, b"soon", 1)
    delayed(cluster, b"late", 3)
    cluster.sleep(0.7)
    process.loop.kill()
    cluster.sleep(2)
    broker_up(cluster, **LEVELS)
    cluster.sleep(0.5)
    assert there(cluster) == [b"soon"]
    cluster.sleep(3)
    assert there(cluster) == [b"soon", b"late"]


def test_what_was_delivered_is_not_delivered_again_once_that_is_written(cluster: Cluster) -> None:
    """A kill within flushDelayOffsetInterval repeats; a later one, or a stop, does not.

    docs/spec/remoting.md 2.6
    """
    process = broker_up(cluster, **LEVELS)
    create_topic(cluster)
    delayed(cluster, b"1", 1)
    cluster.sleep(2)
    process.loop.kill()
    process = broker_up(cluster, **LEVELS)
    cluster.sleep(1)
    assert there(cluster) == [b"1", b"1"]
    cluster.sleep(10)
    process.loop.kill()
    process = broker_up(cluster, **LEVELS)
    delayed(cluster, b"2", 1)
    cluster.sleep(2)
    process.task.cancel()
    cluster.until(process.task.done)
    process.loop.kill()
    broker_up(cluster, **LEVELS)
    cluster.sleep(1)
    assert there(cluster) == [b"1", b"1", b"2"]


def test_a_clock_that_is_set_back_does_not_hold_messages_for_long(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A time farther ahead than its delay is of a clock that was wrong: deliver."""
    broker_up(cluster, **LEVELS)
    create_topic(cluster)
    delayed(cluster, b"x", 2)
    monkeypatch.setattr(SimHost, "wall_ms", lambda _: WALL_MS - 3_600_000)
    cluster.sleep(0.5)
    assert there(cluster) == [b"x"]


def test_a_full_disk_delays_delivery(cluster: Cluster) -> None:
    broker_up(cluster, **LEVELS)
    create_topic(cluster)
    delayed(cluster, b"x", 1)
    disk = cluster.machines["b1"].disk
    room, disk._room = disk._room, -100_000  # tables that are replaced give some of it back
    cluster.sleep(2)
    assert there(cluster) == []
    assert reached(cluster) == {}
    disk._room = room
    cluster.sleep(1)
    assert there(cluster) == [b"x"]


# --- second tries --------------------------------------------------------------------------------


def back(cluster: Cluster, message: Message, level: int = 0, **more: Any) -> Any:
    request = SendBackRequest(
        offset=message.physical_offset, group="g", delay_level=level, origin_topic="T", **more
    )
    return cluster.ask(BROKER, RequestCode.CONSUMER_SEND_MSG_BACK, request)


def group(cluster: Cluster, **more: Any) -> None:
    body = SubscriptionGroupConfig(group_name="g", **more).to_json()
    assert cluster.ask(BROKER, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, body).code == 0


def only(cluster: Cluster, topic: str, offset: int = 0) -> Message:
    [message] = messages(cluster.pull(BROKER, topic=topic, queue_offset=offset))
    return message


def test_a_message_comes_again_until_it_is_a_dead_letter(cluster: Cluster) -> None:
    """Every second try is a copy that knows its origin; the last is for an operator.

    docs/spec/remoting.md 2.11
    """
    broker_up(cluster, **LEVELS)
    create_topic(cluster)
    group(cluster, retry_max_times=2)
    cluster.send(BROKER, b"x", properties="UNIQ_KEY\x01U\x02")
    tried = first = only(cluster, "T")
    for times in (1, 2):
        assert back(cluster, tried).code == 0
        cluster.sleep(4.5)
        found = cluster.pull(BROKER, topic=RETRY, queue_offset=times - 1)
        assert messages(found) == []
        cluster.sleep(1)
        tried = only(cluster, RETRY, times - 1)
        assert (tried.body, tried.reconsume_times) == (b"x", times)
        told = tried.property_map()
        assert (told["RETRY_TOPIC"], told["ORIGIN_MESSAGE_ID"]) == ("T", first.msg_id)
        assert told["UNIQ_KEY"] == "U"
    assert back(cluster, tried).code == 0
    dead = only(cluster, DEAD)
    assert (dead.body, dead.reconsume_times) == (b"x", 3)
    cluster.sleep(10)
    assert len(messages(cluster.pull(BROKER, topic=RETRY))) == 2
    assert reached(cluster) == {"3": 2}


def test_a_consumer_names_the_level_and_how_often(cluster: Cluster) -> None:
    broker_up(cluster, **LEVELS)
    create_topic(cluster)
    group(cluster)
    cluster.send(BROKER, b"x")
    first = only(cluster, "T")
    assert back(cluster, first, 1).code == 0
    cluster.sleep(1.3)
    assert only(cluster, RETRY).property_map()[props.DELAY] == "1"
    assert back(cluster, first, max_reconsume_times=0).code == 0
    assert back(cluster, first, -1).code == 0
    assert len(messages(cluster.pull(BROKER, topic=DEAD))) == 2


def test_what_cannot_be_sent_back(cluster: Cluster) -> None:
    """26 without a group, 1 without a message; a group without retries is answered 0.

    docs/spec/remoting.md 2.11
    """
    broker_up(cluster, autoCreateSubscriptionGroup="false", **LEVELS)
    create_topic(cluster)
    cluster.send(BROKER, b"x")
    nothing = Message(topic="T", body=b"")
    end = cluster.info(BROKER)["commitLogMaxOffset"]
    assert back(cluster, nothing).code == 26
    group(cluster, retry_queue_nums=0)
    assert back(cluster, nothing).code == 0
    group(cluster)
    unknown = Message(topic="T", body=b"", physical_offset=PhyOffset(7))
    answer = back(cluster, unknown)
    assert (answer.code, answer.remark) == (1, "look message by offset failed, 7")
    cluster.ask(BROKER, RequestCode.UPDATE_BROKER_CONFIG, {}, b"brokerPermission=4")
    assert back(cluster, nothing).code == 16
    assert cluster.info(BROKER)["commitLogMaxOffset"] == end


def test_what_is_sent_back_makes_its_group(cluster: Cluster) -> None:
    """As 5.5.0 does, unless autoCreateSubscriptionGroup is false."""
    process = broker_up(cluster, **LEVELS)
    create_topic(cluster)
    cluster.send(BROKER, b"x")
    assert back(cluster, only(cluster, "T"), 1).code == 0
    assert "g" in process.node._tables.groups
    cluster.sleep(1.3)
    assert only(cluster, RETRY).body == b"x"


def test_a_client_sends_to_the_retry_topic_itself(cluster: Cluster) -> None:
    """What was tried more often than allowed is a dead letter, and not delayed.

    docs/spec/remoting.md 2.4
    """
    broker_up(cluster, **LEVELS)
    group(cluster)
    create_topic(cluster, RETRY)
    text = "DELAY\x011\x02"
    for times, body in ((2, b"again"), (3, b"dead")):
        answer = cluster.send(
            BROKER, body, topic=RETRY, reconsume_times=times, max_reconsume_times=2, properties=text
        )
        assert answer.code == 0
    assert only(cluster, DEAD).body == b"dead"
    cluster.sleep(1.3)
    assert only(cluster, RETRY).body == b"again"


def test_a_batch_to_a_retry_topic_is_refused_also_by_who_gives_up(cluster: Cluster) -> None:
    broker_up(cluster, **LEVELS)
    group(cluster)
    create_topic(cluster, RETRY)
    body = encode_batch([BatchElement(body=b"x")])
    assert cluster.send(BROKER, body, topic=RETRY, reconsume_times=99, batch=True).code == 13


def test_who_consumes_in_order_sends_only_dead_letters(cluster: Cluster) -> None:
    """A group that holds locks tries again in place, so what it sends is given up."""
    broker_up(cluster, **LEVELS)
    group(cluster)
    create_topic(cluster, RETRY)
    queue = MessageQueue(broker_name="b", queue_id=0, topic="T")
    lock = LockRequest(client_id="c", consumer_group="g", mq_set=(queue,)).to_json()
    assert cluster.ask(BROKER, RequestCode.LOCK_BATCH_MQ, {}, lock).code == 0
    assert cluster.send(BROKER, b"x", topic=RETRY, reconsume_times=1).code == 0
    assert only(cluster, DEAD).body == b"x"
    assert messages(cluster.pull(BROKER, topic=RETRY)) == []


# --- with replicas -------------------------------------------------------------------------------

JOINED_DELAYS = {
    **JOINED, **LEVELS, "allAckInSyncStateSet": "true", "checkSyncStateSetPeriod": "500",
    "haMaxTimeSlaveNotCatchup": "4000", "controllerHeartBeatTimeoutMills": "3000",
}  # fmt: skip


class Pair(Cluster):
    """A master and a slave in one SyncStateSet."""

    def __init__(self) -> None:
        super().__init__()
        self.up("namesrv", "namesrv", NAMESRV_CONF)
        self.up("controller", "controller", CONTROLLER_CONF)
        self.master = self.up("b1", "broker", JOINED_DELAYS)
        self.until(lambda: self.logged("b1", "broker.role") == 1)
        self.slave = self.up("b2", "broker", JOINED_DELAYS)
        self.until(lambda: in_sync(self) == 2)
        create_topic(self)


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = Pair()
    with made:
        yield made


def in_sync(cluster: Cluster) -> int:
    answer = cluster.ask(BROKER, RequestCode.GET_BROKER_HA_STATUS)
    return 1 + int(json.loads(answer.body or b"")["inSyncSlaveNums"])


def test_a_position_counts_only_once_the_replicas_have_the_copy(pair: Pair) -> None:
    """S6: a slave that knew the position without the copy would, as a master, never deliver it."""
    delayed(pair, b"x", 2)
    pair.sleep(2.8)
    pair.slave.loop.pause()
    pair.sleep(1)
    end = pair.info(BROKER)["commitLogMaxOffset"]
    pair.sleep(1)
    assert pair.info(BROKER)["commitLogMaxOffset"] == end, "the copy is in the log"
    assert (reached(pair), there(pair)) == ({}, [])
    pair.until(lambda: in_sync(pair) == 1)
    pair.sleep(1)
    assert (reached(pair), there(pair)) == ({"2": 1}, [b"x"])


def test_the_next_master_delivers(pair: Pair) -> None:
    """S6: what waits is replicated, and so is what was delivered; here nothing comes twice, since
    the slave has copied the table of positions."""
    delayed(pair, b"1", 1)
    pair.sleep(15)
    delayed(pair, b"2", 3)
    pair.master.loop.kill()
    pair.until(lambda: pair.logged("b2", "broker.role") == 2)
    pair.sleep(6)
    assert there(pair, SLAVE) == [b"1", b"2"]


def test_dead_letters_are_there_after_a_fail_over(pair: Pair) -> None:
    """S6: slaves copy the topics every 12 s, so the next master may not know theirs."""
    group(pair, retry_max_times=0)
    pair.send(BROKER, b"x")
    pair.sleep(12)  # the topic is known to the slave
    assert back(pair, only(pair, "T")).code == 0
    pair.master.loop.kill()
    pair.until(lambda: pair.logged("b2", "broker.role") == 2)
    pair.sleep(2)
    assert pair.ask(SLAVE, RequestCode.GET_TOPIC_CONFIG, {"topic": DEAD}).code == 17
    assert bodies(pair.pull(SLAVE, topic=DEAD)) == [b"x"]
    assert bodies(pair.pull(SLAVE, topic="%DLQ%h")) == []
    assert pair.pull(SLAVE, topic="%DLQ%h").code == 17


def test_sending_back_waits_for_the_replicas(pair: Pair) -> None:
    """S6: 0 only with the copy at the replicas: its sender takes the original for consumed."""
    group(pair)
    pair.send(BROKER, b"x")
    pair.sleep(1)
    original = only(pair, "T")
    assert back(pair, original).code == 0
    pair.slave.loop.pause()
    answer = back(pair, original)
    assert (answer.code, answer.remark) == (1, "FLUSH_SLAVE_TIMEOUT")
    refused = SendBackRequest(offset=original.physical_offset, group="g", delay_level=0)
    pair.slave.loop.resume()
    assert pair.ask(SLAVE, RequestCode.CONSUMER_SEND_MSG_BACK, refused).code == 2


def test_sending_back_needs_as_many_replicas_as_a_send(pair: Pair) -> None:
    pair.slave.loop.kill()
    pair.until(lambda: in_sync(pair) == 1)
    # Alone and with minInSyncReplicas=2 it refuses; the setting is read at the start.
    pair.send(BROKER, b"x")
    pair.master.loop.kill()
    pair.up("b1", "broker", {**JOINED_DELAYS, "minInSyncReplicas": "2"})
    pair.until(lambda: pair.logged("b1", "broker.role") >= 2)
    group(pair)
    answer = back(pair, Message(topic="T", body=b""))
    assert (answer.code, answer.remark) == (1, "IN_SYNC_REPLICAS_NOT_ENOUGH")
