"""What consumers get from a broker, over the simulated wire: pulls, offsets, groups."""

import asyncio
from typing import Any

import msgspec
import pytest
from reference_world import (
    BROKER,
    Cluster,
    bodies,
    create_topic,
    ext,
    messages,
    pull_header,
)
from reference_world import (
    broker_up as up,
)

from maxq.reference.rpc import Connection, Pool
from maxq.reference.wire import headers
from maxq.reference.wire import property as props
from maxq.reference.wire.bodies import (
    ConsumerData,
    ConsumerList,
    HeartbeatBody,
    SubscriptionData,
    SubscriptionGroupConfig,
)
from maxq.reference.wire.codes import RequestCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.headers import to_ext

# A task that a kill meets before its first step holds a coroutine that nobody will ever await.
pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
FAST = "198.18.0.48:10909"


# --- pulls -------------------------------------------------------------------------------------


def test_pull_answers_carry_the_bounds(cluster: Cluster) -> None:
    """nextBeginOffset, minOffset, maxOffset, suggestWhichBrokerId on every result.

    docs/spec/remoting.md 2.7
    """
    up(cluster)
    cluster.send(BROKER, b"x")
    for offset, code, following in ((0, 0, "1"), (1, 19, "1"), (5, 21, "1"), (-3, 21, "0")):
        answer = cluster.pull(BROKER, queue_offset=offset)
        got = ext(answer)
        assert (answer.code, got["nextBeginOffset"]) == (code, following)
        assert (got["minOffset"], got["maxOffset"], got["suggestWhichBrokerId"]) == ("0", "1", "0")
    assert cluster.pull(BROKER, queue_id=1).code == 19
    assert cluster.pull(BROKER, queue_id=1, queue_offset=4).code == 21


@pytest.mark.parametrize(
    ("header", "code"),
    [
        ({"topic": "None"}, 17),
        ({"queue_id": 4}, 29),
        ({"queue_id": -1}, 29),
        ({"expression_type": "SQL92", "subscription": "a > 1"}, 1),
        ({"sys_flag": 0}, 24),
        ({"subscription": "||"}, 23),
        ({"consumer_group": "a b"}, 26),
    ],
)
def test_refused_pulls(cluster: Cluster, header: dict[str, Any], code: int) -> None:
    """The other codes (docs/spec/remoting.md 2.7)."""
    up(cluster)
    cluster.send(BROKER, b"x")
    assert cluster.pull(BROKER, **header).code == code


def test_groups_must_exist_where_they_are_not_made(cluster: Cluster) -> None:
    """26 until 200 has made the group (docs/spec/remoting.md 2.7)."""
    up(cluster, autoCreateSubscriptionGroup="false")
    create_topic(cluster)
    assert cluster.pull(BROKER).code == 26
    group = SubscriptionGroupConfig(group_name="g").to_json()
    assert cluster.ask(BROKER, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, group).code == 0
    assert cluster.pull(BROKER).code == 19


def test_permissions(cluster: Cluster) -> None:
    """16 for a topic or broker that may not be read; on sends only for ordered topics.

    docs/spec/remoting.md 2.7
    """
    process = up(cluster)
    create_topic(cluster, perm=2)
    assert cluster.pull(BROKER).code == 16
    assert cluster.send(BROKER, b"x").code == 0
    create_topic(cluster, "Ordered", order=True)
    process.loop.kill()
    up(cluster, brokerPermission="2")
    assert cluster.pull(BROKER, topic="Ordered").code == 16
    assert cluster.send(BROKER, b"x", topic="Ordered").code == 0
    cluster.machines["b1"].disk._locks["/data/lock"].kill()
    up(cluster, brokerPermission="4")
    assert cluster.send(BROKER, b"x", topic="Ordered").code == 16
    assert cluster.send(BROKER, b"x").code == 0


def waiting_pull(cluster: Cluster, **more: Any) -> "asyncio.Task[tuple[Frame, int]]":
    """A long poll of another client; its answer, and when it came."""
    loop, _ = cluster.world.process(cluster.machines["client"])
    header = pull_header(sys_flag=6, **more)

    async def main() -> tuple[Frame, int]:
        async with asyncio.TaskGroup() as group:
            pool = Pool(group)
            frame = Frame(code=RequestCode.PULL_MESSAGE, ext=to_ext(header))
            answer = await pool.call(BROKER, frame, timeout_s=200)
            pool.close()
        return answer, cluster.now_ns

    return loop.create_task(main())


def test_a_held_pull_wakes_on_arrival(cluster: Cluster) -> None:
    """Answered when a message comes to its queue, not before, and not for another queue.

    docs/spec/remoting.md 2.7
    """
    up(cluster)
    create_topic(cluster)
    task = waiting_pull(cluster, suspend_timeout_millis=15_000)
    cluster.sleep(3)
    cluster.send(BROKER, b"elsewhere", queue_id=1)
    cluster.sleep(3)
    assert not task.done()
    before = cluster.now_ns
    cluster.send(BROKER, b"here")
    cluster.until(task.done, seconds=1)
    answer, at = task.result()
    assert (answer.code, bodies(answer)) == (0, [b"here"])
    assert at - before < 100_000_000


@pytest.mark.parametrize(
    ("asked_ms", "settings", "held_s"),
    [
        (2000, {}, 2),
        (-5, {}, 0),
        (10**15, {}, 60),
        (15_000, {"longPollingEnable": "false", "shortPollingTimeMills": "700"}, 0.7),
    ],
)
def test_a_held_pull_times_out_at_its_time(
    cluster: Cluster, asked_ms: int, settings: dict[str, str], held_s: float
) -> None:
    """19 with the same offset when the time is up; the time is bounded.

    docs/spec/remoting.md 2.7
    """
    up(cluster, **settings)
    create_topic(cluster)
    begun = cluster.now_ns
    task = waiting_pull(cluster, suspend_timeout_millis=asked_ms)
    cluster.until(task.done, seconds=100)
    answer, at = task.result()
    assert (answer.code, ext(answer)["nextBeginOffset"]) == (19, "0")
    assert held_s <= (at - begun) / 1e9 < held_s + 0.1


def test_a_held_pull_waits_for_a_wanted_message(cluster: Cluster) -> None:
    """The filter is checked at each arrival; in the end it moves past what it dropped.

    docs/spec/remoting.md 2.7
    """
    up(cluster)
    create_topic(cluster)
    patient = waiting_pull(cluster, suspend_timeout_millis=9000, subscription="A")
    hopeless = waiting_pull(cluster, suspend_timeout_millis=9000, subscription="B")
    cluster.sleep(1)
    cluster.send(BROKER, b"untagged")
    cluster.sleep(1)
    assert not patient.done()
    cluster.send(BROKER, b"wanted", properties=props.encode({"TAGS": "A"}).decode())
    cluster.until(patient.done, seconds=1)
    assert bodies(patient.result()[0]) == [b"wanted"]
    cluster.until(hopeless.done, seconds=9)
    answer = hopeless.result()[0]
    assert (answer.code, ext(answer)["nextBeginOffset"]) == (20, "2")


# --- offsets -----------------------------------------------------------------------------------


def offset_of(answer: Frame) -> int:
    assert answer.code == 0, answer.remark
    return int(ext(answer)["offset"])


def test_offsets_of_groups(cluster: Cluster) -> None:
    """22 until something is committed, unless message 0 is there; no monotony; a pull with
    the commit flag commits; kept over a clean stop, as old as 5 s after a kill.

    docs/spec/remoting.md 2.8
    """
    process = up(cluster)
    create_topic(cluster)
    query = headers.QueryConsumerOffsetRequest(consumer_group="g", topic="T", queue_id=0)
    commit = headers.UpdateConsumerOffsetRequest(
        consumer_group="g", topic="T", queue_id=0, commit_offset=7
    )

    def ask(header: headers.Header, **more: Any) -> Frame:
        code = (RequestCode.QUERY_CONSUMER_OFFSET if header is query
                else RequestCode.UPDATE_CONSUMER_OFFSET)  # fmt: skip
        return cluster.ask(BROKER, code, msgspec.structs.replace(header, **more))

    assert ask(query).code == 22
    assert ask(commit).code == 26
    assert cluster.pull(BROKER).code == 19  # makes the group
    assert ask(commit, topic="None").code == 17
    assert ask(commit, queue_id=2).code == 29
    cluster.send(BROKER, b"x")
    assert offset_of(ask(query)) == 0
    assert ask(query, set_zero_if_not_found=False).code == 22
    assert ask(commit).code == 0
    assert offset_of(ask(query)) == 7
    assert ask(commit, commit_offset=3).code == 0
    assert offset_of(ask(query)) == 3
    cluster.pull(BROKER, sys_flag=5, commit_offset=4)
    assert offset_of(ask(query)) == 4
    cluster.sleep(6)
    ask(commit, commit_offset=5)
    process.loop.kill()
    process = up(cluster)
    assert offset_of(ask(query)) == 4
    ask(commit, commit_offset=6)
    process.loop.call_soon(process.task.cancel)
    cluster.until(process.task.done)
    process.loop.kill()
    up(cluster)
    assert offset_of(ask(query)) == 6


def test_bounds_and_times_of_queues(cluster: Cluster) -> None:
    """29, 30, 31, 32 (docs/spec/remoting.md 2.8)."""
    up(cluster)
    create_topic(cluster)
    queue = headers.QueueRequest(topic="T", queue_id=0)
    earliest = cluster.ask(BROKER, RequestCode.GET_EARLIEST_MSG_STORETIME, queue)
    assert ext(earliest)["timestamp"] == "-1"
    for _ in range(3):
        cluster.send(BROKER, b"x")
        cluster.sleep(1)
    times = [m.store_timestamp for m in messages(cluster.pull(BROKER))]
    maximum = headers.MaxOffsetRequest(topic="T", queue_id=0)
    assert offset_of(cluster.ask(BROKER, RequestCode.GET_MAX_OFFSET, maximum)) == 3
    assert offset_of(cluster.ask(BROKER, RequestCode.GET_MIN_OFFSET, queue)) == 0
    unknown = headers.MaxOffsetRequest(topic="None", queue_id=5)
    assert offset_of(cluster.ask(BROKER, RequestCode.GET_MAX_OFFSET, unknown)) == 0
    earliest = cluster.ask(BROKER, RequestCode.GET_EARLIEST_MSG_STORETIME, queue)
    assert ext(earliest)["timestamp"] == str(times[0])
    for timestamp, boundary, found in (
        (0, None, 0), (times[1], "LOWER", 1), (times[1] + 1, "lower", 2), (times[2] + 1, "", 3),
        (times[1], "upper", 1), (times[2] - 1, "UPPER", 1), (2**63 - 1, "upper", 2),
    ):  # fmt: skip
        search = headers.SearchOffsetRequest(
            topic="T", queue_id=0, timestamp=timestamp, boundary_type=boundary
        )
        answer = cluster.ask(BROKER, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, search)
        assert offset_of(answer) == found, (timestamp, boundary)


# --- clients and groups ------------------------------------------------------------------------


def heartbeat(client: str, group: str = "g", version: int = 1) -> Frame:
    wanted = SubscriptionData(topic="T", sub_string="*", sub_version=version)
    consumer = ConsumerData(group_name=group, subscription_data_set=(wanted,))
    body = HeartbeatBody(client_id=client, consumer_data_set=(consumer,))
    return Frame(code=RequestCode.HEART_BEAT, ext={}, body=body.to_json())


def members(cluster: Cluster) -> Frame:
    header = headers.ConsumerGroupRequest(consumer_group="g")
    return cluster.ask(BROKER, RequestCode.GET_CONSUMER_LIST_BY_GROUP, header)


def test_members_come_by_heartbeat_and_go_by_word_close_and_silence(cluster: Cluster) -> None:
    """The others are told by 40 each time; the group and its retry topic are made.

    docs/spec/remoting.md 2.9
    """
    up(cluster)
    told: list[str] = []

    def noticed(request: Frame, connection: Connection) -> None:
        told.append((request.ext or {})["consumerGroup"])

    assert members(cluster).code == 1

    async def main(pool: Pool) -> None:
        other: list[Pool] = []

        async def second() -> None:
            async with asyncio.TaskGroup() as group:
                other.append(Pool(group))
                for client in ("c2", "c3"):
                    await other[0].call(BROKER, heartbeat(client), timeout_s=5)

        assert (await pool.call(BROKER, heartbeat("c1"), timeout_s=5)).code == 0
        await second()
        await asyncio.sleep(1)
        assert told == ["g"] * 3
        listed = await pool.call(BROKER, Frame(
            code=RequestCode.GET_CONSUMER_LIST_BY_GROUP, ext={"consumerGroup": "g"}
        ), timeout_s=5)  # fmt: skip
        assert ConsumerList.from_json(listed.body).consumer_id_list == ("c1", "c2", "c3")
        leave = Frame(code=RequestCode.UNREGISTER_CLIENT,
                      ext={"clientID": "c3", "consumerGroup": "g"})  # fmt: skip
        await pool.call(BROKER, leave, timeout_s=5)
        await asyncio.sleep(1)
        assert told == ["g"] * 4
        other[0].close()
        await asyncio.sleep(1)
        assert told == ["g"] * 5
        # With a subscription known, a pull may leave it out, until it asks for a newer one.
        for version, code in ((1, 19), (2, 25)):
            frame = Frame(code=RequestCode.PULL_MESSAGE, ext=to_ext(
                pull_header(sys_flag=0, subscription=None, sub_version=version)))  # fmt: skip
            assert (await pool.call(BROKER, frame, timeout_s=5)).code == code
        await asyncio.sleep(140)  # silent, though connected

    create_topic(cluster)
    cluster.client(main, handler=noticed)
    assert members(cluster).code == 1
    retry = cluster.ask(BROKER, RequestCode.GET_TOPIC_CONFIG, {"topic": "%RETRY%g"})
    assert retry.code == 0
    assert b'"readQueueNums":1' in (retry.body or b"")


def test_an_illegal_group_is_refused_whole(cluster: Cluster) -> None:
    """Names become topics and folders, so a heartbeat cannot make them up."""
    up(cluster)
    for group in ("", "../../x", "a b", "x" * 300):
        frame = heartbeat("c1", group)
        assert cluster.client(lambda p, f=frame: p.call(BROKER, f, timeout_s=5)).code == 29  # type: ignore[misc]
    assert not [p for p in cluster.machines["b1"].disk.files if "config" in p]
