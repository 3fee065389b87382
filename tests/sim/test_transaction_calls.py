"""Transactions over the simulated wire: half messages, ends, questions, and a fail-over.

Producers are asked about what is open for 2 s, every second; twice at most.
"""

from typing import Any

import pytest
from reference_world import (
    BROKER,
    CONTROLLER_CONF,
    JOINED,
    NAMESRV_CONF,
    Cluster,
    Process,
    bodies,
    broker_up,
    create_topic,
    ext,
    messages,
)

from maxq.reference.names import HALF_TOPIC, OP_TOPIC
from maxq.reference.records import PhyOffset, QueueOffset
from maxq.reference.rpc import Connection, Pool
from maxq.reference.wire import property as props
from maxq.reference.wire.bodies import HeartbeatBody, ProducerData
from maxq.reference.wire.codes import RequestCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.headers import (
    CheckTransactionRequest,
    EndTransactionRequest,
    from_ext,
    to_ext,
)
from maxq.reference.wire.message import Message, decode, encode_at

# A task that a kill meets before its first step holds a coroutine that nobody will ever await.
pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
SLAVE = "198.18.0.64:10911"
TIMES = {
    "transactionTimeOut": "2000", "transactionCheckInterval": "1000", "transactionCheckMax": "2",
}  # fmt: skip
COMMIT, ROLLBACK, UNKNOWN = 8, 12, 0
NOT_FOUND = "Find prepared transaction message failed"


def half(cluster: Cluster, body: bytes, *, at: str = BROKER) -> EndTransactionRequest:
    """Send a half message; returns what commits it."""
    key = f"KEY-{body.decode()}"
    text = f"TRAN_MSG\x01true\x02PGROUP\x01p\x02UNIQ_KEY\x01{key}\x02TAGS\x01a\x02"
    answer = cluster.send(at, body, queue_id=1, sys_flag=4, properties=text)
    assert answer.code == 0, answer.remark
    told = ext(answer)
    assert (told["queueId"], told["transactionId"]) == ("1", key)
    return EndTransactionRequest(
        producer_group="p",
        tran_state_table_offset=int(told["queueOffset"]),
        commit_log_offset=int(told["msgId"][-16:], 16),
        commit_or_rollback=COMMIT,
        msg_id=key,
        transaction_id=key,
    )


def end(cluster: Cluster, h: EndTransactionRequest, decision: int, *, at: str = BROKER) -> Any:
    ext = {**to_ext(h), "commitOrRollback": str(decision)}
    answer = cluster.ask(at, RequestCode.END_TRANSACTION, ext)
    return answer.code, answer.remark or ""


def pair(cluster: Cluster, **settings: str) -> tuple[Process, Process]:
    """A master and a slave that is in sync and knows the topic."""
    cluster.up("namesrv", "namesrv", NAMESRV_CONF)
    cluster.up("controller", "controller", CONTROLLER_CONF)
    settings = {**JOINED, **TIMES, "allAckInSyncStateSet": "true", **settings}
    process = cluster.up("b1", "broker", settings)
    cluster.until(lambda: process.node.membership.role == "master")
    create_topic(cluster)
    slave = cluster.up("b2", "broker", settings)
    replication = process.node.membership.replication
    cluster.until(lambda: replication.master.in_sync_count == 2)
    cluster.until(lambda: "T" in slave.node._tables.topics)
    return process, slave


def there(cluster: Cluster, at: str = BROKER) -> list[bytes]:
    return bodies(cluster.pull(at, queue_id=1))


def producing(
    cluster: Cluster, seconds: float, decision: int, *, at: str = BROKER
) -> list[CheckTransactionRequest]:
    """Be a producer for a while that answers questions so; returns them."""
    asked: list[CheckTransactionRequest] = []

    def handle(request: Frame, connection: Connection) -> None:
        h = from_ext(CheckTransactionRequest, request.ext)
        asked.append(h)
        assert (request.code, decode(request.body or b"")[0].topic) == (39, "T")
        told = EndTransactionRequest(
            producer_group="p",
            tran_state_table_offset=h.tran_state_table_offset,
            commit_log_offset=h.commit_log_offset,
            commit_or_rollback=decision,
            msg_id=h.msg_id or "",
            from_transaction_check=True,
        )
        connection.oneway(Frame(code=RequestCode.END_TRANSACTION, ext=to_ext(told)))

    async def main(pool: Pool) -> None:
        import asyncio

        body = HeartbeatBody(client_id="me", producer_data_set=(ProducerData(group_name="p"),))
        beat = Frame(code=RequestCode.HEART_BEAT, body=body.to_json())
        assert (await pool.call(at, beat, timeout_s=3)).code == 0
        await asyncio.sleep(seconds)

    cluster.client(main, handler=handle)
    return asked


def test_a_commit_shows_the_message_and_a_rollback_does_not(cluster: Cluster) -> None:
    """Where it was meant to go, with what it was sent with; nobody asks afterwards.

    docs/spec/remoting.md 2.5
    """
    broker_up(cluster, **TIMES)
    create_topic(cluster)
    first, second = half(cluster, b"1"), half(cluster, b"2")
    assert there(cluster) == []
    assert end(cluster, second, ROLLBACK) == (0, "")
    assert end(cluster, first, COMMIT) == (0, "")
    [message] = messages(cluster.pull(BROKER, queue_id=1))
    assert (message.body, message.transaction, message.tags) == (b"1", COMMIT, "a")
    assert message.prepared_transaction_offset == first.commit_log_offset
    assert "REAL_TOPIC" not in message.property_map()
    assert producing(cluster, 5, COMMIT) == []
    for known in (first, second):
        assert end(cluster, known, COMMIT) == (1, NOT_FOUND), "it has ended"
    assert there(cluster) == [b"1"]


def test_who_does_not_know_is_asked_until_it_does(cluster: Cluster) -> None:
    """An unknown state has no answer; a commit of the first copy ends the last one."""
    broker_up(cluster, **{**TIMES, "transactionCheckMax": "9"})
    create_topic(cluster)
    h = half(cluster, b"1")
    with pytest.raises(ExceptionGroup, match="TaskGroup"):  # a time-out
        cluster.ask(
            BROKER, RequestCode.END_TRANSACTION, {**to_ext(h), "commitOrRollback": "0"}, timeout_s=1
        )
    asked = producing(cluster, 7, UNKNOWN)
    assert len(asked) >= 2
    assert {a.transaction_id for a in asked} == {"KEY-1"}
    assert [a.tran_state_table_offset for a in asked] == list(range(1, len(asked) + 1))
    assert there(cluster) == []
    assert end(cluster, h, COMMIT) == (0, "")
    assert producing(cluster, 5, UNKNOWN) == []
    assert there(cluster) == [b"1"]


def test_who_was_killed_in_between_is_asked(cluster: Cluster) -> None:
    broker_up(cluster, **TIMES)
    create_topic(cluster)
    half(cluster, b"1")
    assert len(producing(cluster, 4, COMMIT)) == 1
    assert there(cluster) == [b"1"]


def test_what_nobody_ends_is_given_up(cluster: Cluster) -> None:
    """transactionCheckMax; whether or not there is a producer to ask."""
    broker_up(cluster, **TIMES)
    create_topic(cluster)
    h = half(cluster, b"1")
    cluster.sleep(12)
    assert cluster.logged("b1", "broker.transaction.nobody") == 2
    assert cluster.logged("b1", "broker.transaction.given-up") == 1
    assert bodies(cluster.pull(BROKER, topic="TRANS_CHECK_MAX_TIME_TOPIC")) == [b"1"]
    assert end(cluster, h, COMMIT) == (1, NOT_FOUND)
    assert there(cluster) == []


def test_a_half_message_without_room_for_the_count_harms_nobody(cluster: Cluster) -> None:
    """Its properties fit a record, and their copy with TRANSACTION_CHECK_TIMES would not."""
    process = broker_up(cluster, **TIMES)
    create_topic(cluster)
    text = "TRAN_MSG\x01true\x02PGROUP\x01p\x02UNIQ_KEY\x01k\x02"
    room = 32_767 - len(text) - 150  # of which the broker's own properties take the most
    for pad in range(room, room + 150):
        answer = cluster.send(BROKER, b"x", sys_flag=4, properties=f"{text}pad\x01{'x' * pad}\x02")
        if answer.code:
            break
    assert answer.code == 13
    cluster.sleep(5)
    assert process.healthy
    assert cluster.logged("b1", "broker.transaction.lost") > 0


def test_open_transactions_survive_a_kill(cluster: Cluster) -> None:
    """The two topics say which are open; how far they are done with is in the offset table."""
    process = broker_up(cluster, **TIMES)
    create_topic(cluster)
    for body in (b"1", b"2", b"3"):
        h = half(cluster, body)
        if body != b"2":
            end(cluster, h, COMMIT)
    cluster.sleep(1)
    process.loop.kill()
    broker_up(cluster, **TIMES)
    assert [a.transaction_id for a in producing(cluster, 5, COMMIT)] == ["KEY-2"]
    assert there(cluster) == [b"1", b"3", b"2"]
    cluster.sleep(6)
    group = "RMQ_SYS_TRANS_HALF_TOPIC@CID_RMQ_SYS_TRANS"
    table = cluster.ask(BROKER, RequestCode.GET_ALL_CONSUMER_OFFSET).body or b""
    assert f'"{group}":{{"0":4}}'.encode() in table.replace(b" ", b"")


def test_open_transactions_survive_a_fail_over(cluster: Cluster) -> None:
    """The slave that is elected knows from its log what is open, and asks."""
    process, slave = pair(cluster)
    done, open_ = half(cluster, b"1"), half(cluster, b"2")
    end(cluster, done, COMMIT)
    assert end(cluster, open_, COMMIT, at=SLAVE) == (11, "")
    cluster.sleep(1)
    process.loop.kill()
    cluster.until(lambda: slave.node.membership.role == "master")
    assert [a.transaction_id for a in producing(cluster, 6, COMMIT, at=SLAVE)] == ["KEY-2"]
    assert there(cluster, SLAVE) == [b"1", b"2"]
    assert end(cluster, open_, COMMIT, at=SLAVE) == (1, NOT_FOUND)


def test_a_commit_waits_for_replicas_and_is_answered_all_the_same(cluster: Cluster) -> None:
    """As 5.5.0 does: 0 after slaveTimeout as well, unless the half message says WAIT=false; and a
    master with too few replicas in sync leaves the transaction open."""
    process, slave = pair(cluster, minInSyncReplicas="2")
    first, second, third = (half(cluster, body) for body in (b"1", b"2", b"3"))
    began = cluster.now_ns
    assert end(cluster, first, COMMIT) == (0, "")
    assert cluster.now_ns - began < 1_000_000_000
    slave.loop.kill()
    began = cluster.now_ns
    assert end(cluster, second, COMMIT) == (0, "")
    assert cluster.now_ns - began > 2_000_000_000
    replication = process.node.membership.replication
    cluster.until(lambda: replication.master.in_sync_count == 1)
    assert end(cluster, third, COMMIT) == (1, "in-sync replicas not enough")
    cluster.up("b2", "broker", {**JOINED, **TIMES, "allAckInSyncStateSet": "true"})
    cluster.until(lambda: replication.master.in_sync_count == 2)
    producing(cluster, 4, COMMIT)
    assert there(cluster) == [b"1", b"2", b"3"]


# --- ends of what is no half message -------------------------------------------------------------


def forged(topic: str, at: int) -> bytes:
    """Bytes of a half message as it would be stored at a place of the log."""
    properties = props.encode(
        {"REAL_TOPIC": topic, "REAL_QID": "0", "PGROUP": "p", "WAIT": "false"}
    )
    message = Message(topic=HALF_TOPIC, body=b"x", properties=properties)
    return encode_at(
        message, queue_offset=QueueOffset(0), physical_offset=PhyOffset(at), store_timestamp=1
    )


@pytest.mark.parametrize("topic", ["T", "../../../../ESCAPED", "a\0b", OP_TOPIC])
def test_a_half_message_in_a_body_is_none(cluster: Cluster, topic: str) -> None:
    """A client writes whatever looks like a record into a message of its own, and ends it; nor can
    such bytes be looked at, or sent back."""
    process = broker_up(cluster, **TIMES)
    create_topic(cluster)
    head = 88  # of a record with addresses of IPv4; its body begins behind it
    body = forged(topic, process.node._store.end + head)
    assert cluster.send(BROKER, body).code == 0
    at = process.node._store.end - len(cluster_record(cluster)) + head
    h = EndTransactionRequest(
        producer_group="p", tran_state_table_offset=0, commit_log_offset=at,
        commit_or_rollback=COMMIT, msg_id="x",
    )  # fmt: skip
    before = process.node._store.end
    assert end(cluster, h, COMMIT) == (1, NOT_FOUND)
    assert process.node._store.end == before
    view = cluster.ask(BROKER, RequestCode.VIEW_MESSAGE_BY_ID, {"offset": str(at)})
    assert view.code == 1


def cluster_record(cluster: Cluster) -> bytes:
    """The record of the only message of queue 0."""
    answer = cluster.pull(BROKER)
    assert len(messages(answer)) == 1
    return answer.body or b""


@pytest.mark.parametrize("topic", ["../../X", "a\0b", OP_TOPIC, "", "x" * 128])
def test_a_half_message_for_no_topic_of_clients_cannot_be_committed(
    cluster: Cluster, topic: str
) -> None:
    """As another writer of the log may have stored it."""
    process = broker_up(cluster, **TIMES)
    text = f"REAL_TOPIC\x01{topic}\x02REAL_QID\x010\x02PGROUP\x01p\x02".encode()
    waiting = Message(topic=HALF_TOPIC, body=b"x", properties=text, store_host=bytes(8))
    [stored] = process.node._store.put([waiting])
    h = EndTransactionRequest(
        producer_group="p", tran_state_table_offset=0, commit_log_offset=stored.physical_offset,
        commit_or_rollback=COMMIT, msg_id="x",
    )  # fmt: skip
    assert end(cluster, h, COMMIT) == (1, NOT_FOUND)
    cluster.sleep(3)
    assert process.healthy
