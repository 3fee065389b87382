"""What clients get from a broker, over the simulated wire: sends, pulls, offsets, groups."""

import asyncio
from contextlib import nullcontext
from typing import Any

import pytest
from reference_world import (
    BROKER,
    BROKER_CONF,
    CONTROLLER_CONF,
    JOINED,
    NAMESRV,
    NAMESRV_CONF,
    Cluster,
    bodies,
    create_topic,
    ext,
    messages,
    pull_header,
    send_header,
)
from reference_world import (
    broker_up as up,
)

from maxq.reference import mutants
from maxq.reference.broker.store.store import Store
from maxq.reference.rpc import Pool
from maxq.reference.wire import headers
from maxq.reference.wire import property as props
from maxq.reference.wire.codes import RequestCode, ResponseCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.headers import to_ext, to_short_ext
from maxq.reference.wire.message import BatchElement, encode_batch
from maxq.reference.wire.route import TopicRouteData

# A task that a kill meets before its first step holds a coroutine that nobody will ever await.
pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
FAST = "198.18.0.48:10909"
TOPICS = "/data/config/topics.json"


# --- sends -------------------------------------------------------------------------------------


def test_a_send_is_answered_with_its_place(cluster: Cluster) -> None:
    """msgId, queueId, queueOffset, transactionId, MSG_REGION, TRACE_ON; offsets count up.

    docs/spec/remoting.md 2.4
    """
    up(cluster)
    for at in range(3):
        answer = cluster.send(BROKER, b"m%d" % at)
        got = ext(answer)
        assert (answer.code, got["queueId"], got["queueOffset"]) == (0, "0", str(at))
        assert got["msgId"].startswith("C612003000002A9F")
        assert (got["MSG_REGION"], got["TRACE_ON"]) == ("DefaultRegion", "true")
        assert len(got["transactionId"]) == 32
    found = messages(cluster.pull(BROKER))
    assert [m.body for m in found] == [b"m0", b"m1", b"m2"]
    assert found[0].property_map()["CLUSTER"] == "c"
    picked = cluster.send(BROKER, b"any", queue_id=-1)
    assert 0 <= int(ext(picked)["queueId"]) < 4


def test_short_headers_and_both_ports(cluster: Cluster) -> None:
    """310 and 320 by letters; the fast port takes sends and refuses pulls.

    docs/spec/remoting.md 2.4
    """
    up(cluster)
    short = to_short_ext(send_header())
    assert cluster.ask(FAST, RequestCode.SEND_MESSAGE_V2, short, b"1").code == 0
    assert cluster.ask(BROKER, RequestCode.SEND_BATCH_MESSAGE, short, b"2").code == 0
    assert bodies(cluster.pull(BROKER)) == [b"1", b"2"]
    refused = cluster.pull(FAST)
    assert (refused.code, refused.remark) == (3, " request type 11 not supported")


def test_a_batch_is_stored_atomically_with_consecutive_offsets(cluster: Cluster) -> None:
    """One answer, comma-joined ids, the first offset; field m decides, not the code.

    docs/spec/remoting.md 6.4
    """
    up(cluster)
    body = encode_batch([BatchElement(body=b"%d" % i) for i in range(4)])
    answer = cluster.send(BROKER, body, batch=True)
    assert (answer.code, ext(answer)["queueOffset"]) == (0, "0")
    assert ext(answer)["msgId"].count(",") == 3
    found = messages(cluster.pull(BROKER))
    assert [(m.queue_offset, m.body) for m in found] == [(i, b"%d" % i) for i in range(4)]
    torn = cluster.send(BROKER, body[:-1], batch=True)
    assert torn.code == 13
    assert len(messages(cluster.pull(BROKER))) == 4


@pytest.mark.parametrize(
    ("header", "body", "code"),
    [
        ({"topic": "a b"}, b"x", 29),
        ({"topic": "SCHEDULE_TOPIC_XXXX"}, b"x", 16),
        ({"topic": "N", "default_topic": "?"}, b"x", 17),
        ({"queue_id": 99}, b"x", 29),
        ({"queue_id": 99}, b"", 29),  # the queue is looked at before the content
        ({}, b"", 13),
        ({"properties": "DELAY\x01soon\x02"}, b"x", 13),
        ({"properties": "TIMER_DELAY_SEC\x013\x02"}, b"x", 13),
        ({"properties": "TRAN_MSG\x01true\x02DELAY\x011\x02"}, b"x", 13),
        ({"sys_flag": 4}, b"x", 13),
        ({"batch": True}, b"x", 13),
    ],
)
def test_a_refused_send_stores_nothing(
    cluster: Cluster, header: dict[str, Any], body: bytes, code: int
) -> None:
    """Each refusal with its code, its MSG_REGION and TRACE_ON, and no byte in the log.

    docs/spec/remoting.md 6.2
    """
    up(cluster)
    cluster.send(BROKER, b"first")
    end = cluster.info(BROKER)["commitLogMaxOffset"]
    answer = cluster.send(BROKER, body, **header)
    assert answer.code == code
    assert answer.remark
    assert ext(answer) == {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}
    assert cluster.info(BROKER)["commitLogMaxOffset"] == end


@pytest.mark.parametrize("code", [46, 324, 370, 400, 200050, 200051, 999])
def test_requests_that_are_not_here_are_refused_by_code_3(cluster: Cluster, code: int) -> None:
    """Unknown and unimplemented codes get the protocol's own answer."""
    up(cluster)
    answer = cluster.ask(BROKER, code, {}, b"{}")
    assert (answer.code, answer.remark) == (3, f" request type {code} not supported")


def test_an_unreadable_header_is_a_system_error(cluster: Cluster) -> None:
    """The node lives and says what is missing."""
    up(cluster)
    answer = cluster.ask(BROKER, RequestCode.SEND_MESSAGE, {"topic": "T"}, b"x")
    assert answer.code == 1
    assert "BadHeader" in (answer.remark or "")
    assert cluster.send(BROKER, b"x").code == 0


def test_an_answer_longer_than_a_frame_does_not_kill_the_node(cluster: Cluster) -> None:
    """A remark that echoes a request of 16 MiB cannot be written; say so instead."""
    up(cluster)
    topic = "x" * ((16 << 20) - 140)
    answer = cluster.ask(BROKER, RequestCode.GET_TOPIC_CONFIG, {"topic": topic})
    assert answer.code == 1
    assert "frame too long" in (answer.remark or "")
    assert cluster.send(BROKER, b"x").code == 0


def test_big_requests_and_big_answers_at_once_do_not_block_each_other(cluster: Cluster) -> None:
    """Both directions are fuller than the buffers: the dialling side must go on reading."""
    up(cluster)
    big = bytes(30_000)
    for _ in range(8):
        cluster.send(BROKER, big)
    assert cluster.pull(BROKER).code == 0  # the group is made: later pulls are answered at once

    async def main(pool: Pool) -> list[int]:
        async with asyncio.TaskGroup() as group:
            calls = []
            for _ in range(4):
                pull = Frame(code=RequestCode.PULL_MESSAGE, ext=to_ext(pull_header()))
                send = Frame(code=RequestCode.SEND_MESSAGE, ext=to_ext(send_header()), body=big)
                calls += [group.create_task(pool.call(BROKER, f, timeout_s=30))
                          for f in (pull, send, send)]  # fmt: skip
        return [c.result().code for c in calls]

    assert cluster.client(main) == [0] * 12


def test_first_sends_make_durable_topics_that_survive_a_kill(cluster: Cluster) -> None:
    """S6: a topic is in its file before anybody's message to it is acknowledged, also when many
    topics are made at once."""
    process = up(cluster)
    names = [f"T{i}" for i in range(6)]

    async def main(pool: Pool) -> list[int]:
        async with asyncio.TaskGroup() as group:
            calls = [
                group.create_task(pool.call(BROKER, Frame(
                    code=RequestCode.SEND_MESSAGE, ext=to_ext(send_header(topic=name)), body=b"x"
                ), timeout_s=30))
                for name in names
                for _ in range(2)
            ]  # fmt: skip
        return [c.result().code for c in calls]

    assert cluster.client(main) == [0] * 12
    process.loop.kill()
    up(cluster)
    for name in names:
        assert bodies(cluster.pull(BROKER, topic=name)) == [b"x", b"x"]


@pytest.mark.parametrize("at", range(1, 40))
def test_a_topic_is_never_forgotten_that_has_a_message(at: int) -> None:
    """S6: killed at any event of a first send, an acknowledged message stays readable."""
    with Cluster() as cluster:
        process = up(cluster)
        loop, _ = cluster.world.process(cluster.machines["client"])
        acknowledged: list[int] = []

        async def sender() -> None:
            async with asyncio.TaskGroup() as group:
                pool = Pool(group)
                frame = Frame(code=RequestCode.SEND_MESSAGE, ext=to_ext(send_header()), body=b"x")
                for _ in range(2):
                    group.create_task(one(pool, frame))

        async def one(pool: Pool, frame: Frame) -> None:
            answer = await pool.call(BROKER, frame, timeout_s=5)
            acknowledged.append(answer.code)

        loop.create_task(sender())
        cluster.steps(at)
        process.loop.kill()
        loop.kill()
        up(cluster)
        if acknowledged:
            assert len(bodies(cluster.pull(BROKER))) >= len(acknowledged)


def test_topics_are_not_made_where_that_is_forbidden(cluster: Cluster) -> None:
    """Also after a time when it was allowed and TBW102 got into the file.

    docs/spec/remoting.md 2.4
    """
    process = up(cluster)
    assert cluster.send(BROKER, b"x").code == 0
    process.loop.kill()
    up(cluster, autoCreateTopicEnable="false")
    assert cluster.send(BROKER, b"x", topic="New").code == 17
    assert cluster.send(BROKER, b"x").code == 0


def test_sync_flush_waits_for_the_disk(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """SUCCESS only after the sync; 10 after syncFlushTimeout; WAIT=false does not wait.

    docs/spec/remoting.md 6.1
    """
    up(cluster, flushDiskType="SYNC_FLUSH", syncFlushTimeout="1000")
    cluster.send(BROKER, b"make the topic")
    honest = Store.sync
    synced: list[int] = []

    async def slow(self: Store) -> Any:
        end = self.end
        await asyncio.sleep(delay[0])
        synced.append(end)
        return await honest(self)

    delay = [0.5]
    monkeypatch.setattr(Store, "sync", slow)
    assert cluster.send(BROKER, b"x").code == 0
    assert synced[-1] == int(cluster.info(BROKER)["commitLogMaxOffset"])
    delay[0] = 5.0
    before = cluster.now_ns
    late = cluster.send(BROKER, b"y")
    assert (late.code, ext(late)["queueOffset"]) == (10, "2")
    assert 1.0 <= (cluster.now_ns - before) / 1e9 < 1.1
    unwaited = cluster.send(BROKER, b"z", properties=props.encode({"WAIT": "false"}).decode())
    assert unwaited.code == 0
    assert (cluster.now_ns - before) / 1e9 < 1.2
    assert bodies(cluster.pull(BROKER))[1:] == [b"x", b"y", b"z"]


def test_a_full_disk_refuses_sends_and_the_broker_lives(cluster: Cluster) -> None:
    """S6: no ENOSPC ends the broker; what was acknowledged stays; room heals it."""
    never = {"diskSpaceCleanForciblyRatio": "100", "diskSpaceWarningLevelRatio": "100"}
    process = up(cluster, **never)  # no file goes, and nothing is refused before it has to be
    cluster.send(BROKER, b"kept")
    disk = cluster.machines["b1"].disk
    room = disk._room
    disk.charge(room)
    codes = [cluster.send(BROKER, bytes(9000)).code for _ in range(8)]
    assert codes[0] == 0
    assert codes[-1] == 1
    stored = 1 + codes.count(0)
    assert cluster.pull(BROKER, consumer_group="new").code == 1  # a group cannot be written
    cluster.sleep(12)  # periodic flushes meet the full disk
    assert process.healthy
    answer = cluster.send(BROKER, b"small")  # there may be room for it in the log
    assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert "consume queues cannot be written" in (answer.remark or "")
    assert process.node._store.flush_fault
    disk.charge(-room)
    assert cluster.send(BROKER, bytes(9000)).code == 0
    assert not process.node._store.flush_fault
    process.loop.kill()
    up(cluster)
    assert ext(cluster.pull(BROKER))["maxOffset"] == str(stored + 1)


# --- roles, stop, mutants ----------------------------------------------------------------------


def test_a_fenced_broker_refuses_and_a_clean_stop_unregisters(cluster: Cluster) -> None:
    """Without a role 2; the name server forgets who says goodbye, at once.

    docs/spec/remoting.md 6.2 and 2.16
    """
    waiting = cluster.up("b1", "broker", JOINED)
    assert cluster.send(BROKER, b"x").code == 2
    waiting.loop.kill()
    namesrv = cluster.up("namesrv", "namesrv", NAMESRV_CONF)
    cluster.up("controller", "controller", CONTROLLER_CONF)
    process = cluster.up("b1", "broker", JOINED)
    cluster.until(lambda: cluster.logged("b1", "broker.role") == 1)
    assert cluster.send(BROKER, b"x").code == 0
    route = cluster.ask(NAMESRV, RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"})
    assert TopicRouteData.from_json(route.body).broker_datas[0].broker_addrs == {0: BROKER}
    process.loop.call_soon(process.task.cancel)
    cluster.until(process.task.done)
    assert cluster.ask(NAMESRV, RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"}).code == 17
    assert namesrv.healthy


@pytest.mark.parametrize("unreachable", [True, False])
def test_a_stop_writes_offsets_also_without_name_servers(
    cluster: Cluster, unreachable: bool
) -> None:
    """A goodbye that nobody hears must not cost what is to be saved."""
    if not unreachable:
        cluster.up("namesrv", "namesrv", NAMESRV_CONF)
    process = cluster.up("b1", "broker", BROKER_CONF)
    create_topic(cluster)
    cluster.pull(BROKER)
    commit = headers.UpdateConsumerOffsetRequest(
        consumer_group="g", topic="T", queue_id=1, commit_offset=9
    )
    cluster.ask(BROKER, RequestCode.UPDATE_CONSUMER_OFFSET, commit)
    process.loop.call_soon(process.task.cancel)
    cluster.until(process.task.done)
    assert process.task.cancelled()
    assert b'"T@g":{"1":9}' in (cluster.disk("b1", "/data/config/consumerOffset.json") or b"")


@pytest.mark.parametrize("table", ["topics", "subscriptionGroup", "consumerOffset"])
@pytest.mark.parametrize("content", [b"", b"{", b"[]"])
def test_a_damaged_table_refuses_to_start_by_its_name(
    cluster: Cluster, table: str, content: bytes
) -> None:
    """Tables are replaced whole, so a torn one was damaged; says which."""
    path = f"/data/config/{table}.json"
    cluster.machines["b1"].disk.files[path] = bytearray(content)
    with pytest.raises(Exception, match=path):
        up(cluster)


def test_a_deleted_table_of_topics_is_noticed_and_made_from_the_queues(cluster: Cluster) -> None:
    """Without its topics a broker answers for none of the messages that it holds."""
    process = up(cluster)
    for topic, queue in (("T", 2), ("U", 0)):
        create_topic(cluster, topic, read_queue_nums=4, write_queue_nums=4)
        assert cluster.send(BROKER, topic.encode(), topic=topic, queue_id=queue).code == 0
    create_topic(cluster, "empty")
    process.loop.kill()
    del cluster.machines["b1"].disk.files[TOPICS]

    process = up(cluster)
    [told] = [fields for _, trace, fields in cluster.machines["b1"].log
              if trace == "broker.topics.rebuilt"]  # fmt: skip
    assert told == {"absent": TOPICS, "topics": ["T", "U"]}
    assert bodies(cluster.pull(BROKER, topic="T", queue_id=2)) == [b"T"]
    assert cluster.send(BROKER, b"more", topic="U", queue_id=0).code == 0
    assert cluster.send(BROKER, b"x", topic="T", queue_id=3).code != 0, "no message was there"

    create_topic(cluster, "V")  # the table is written whole, and so are those that were made
    process.loop.kill()
    up(cluster)
    assert cluster.logged("b1", "broker.topics.rebuilt") == 1
    assert bodies(cluster.pull(BROKER, topic="U")) == [b"U", b"more"]


def test_a_topic_that_was_deleted_by_its_users_is_not_made_again(cluster: Cluster) -> None:
    """Its messages stay in the log for a while."""
    process = up(cluster)
    create_topic(cluster, "U")
    assert cluster.send(BROKER, b"x", topic="U").code == 0
    assert cluster.ask(BROKER, RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "U"}).code == 0
    process.loop.kill()
    up(cluster)
    assert cluster.logged("b1", "broker.topics.rebuilt") == 0
    assert cluster.pull(BROKER, topic="U").code != 0


def test_the_mutant_loses_after_a_kill_and_the_honest_broker_does_not() -> None:
    """S6: `ack_before_write` acknowledges and loses; runtime info names it."""
    create = "make the topic"
    for mutant, left in (("", [create.encode(), b"x"]), ("ack_before_write", [create.encode()])):
        with Cluster() as cluster, mutants.load(mutant) if mutant else nullcontext():
            process = up(cluster, mutant)
            assert cluster.info(BROKER)["maxq.mutant"] == mutant
            cluster.send(BROKER, create.encode())
            cluster.sleep(2)
            answer = cluster.send(BROKER, b"x")
            assert (answer.code, ext(answer)["queueOffset"]) == (0, "1")
            process.loop.kill()
            up(cluster, mutant)
            assert bodies(cluster.pull(BROKER)) == left


def test_a_mutant_needs_what_it_replaces() -> None:
    """Where the code moved, a mutant must fail instead of changing nothing."""
    with pytest.raises(AttributeError, match="gone"), mutants.replaced(Store, "gone", None):
        pass
    honest = Store.put
    with mutants.replaced(Store, "put", None):
        assert Store.put is None
    assert Store.put is honest
    with pytest.raises(ValueError, match="unknown mutant 'x'; there are: absent_removed"):
        mutants.load("x")
