"""Messages by key (12), who consumes a topic (300), and how a client is (307)."""

import asyncio
import tracemalloc
from collections.abc import Awaitable

import pytest
from reference_world import BROKER, Cluster, bodies, broker_up, create_topic

from maxq.reference.rpc import Connection, Pool
from maxq.reference.wire.bodies import ConsumerData, GroupList, HeartbeatBody, SubscriptionData
from maxq.reference.wire.codes import RequestCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.headers import QueryMessageRequest, UpdateConsumerOffsetRequest, to_ext
from maxq.reference.wire.node_headers import ConsumerClientRequest

LATER = 4_000_000_000_000


def asked(
    cluster: Cluster,
    key: str,
    count: int = 9,
    begin: int = 0,
    end: int = LATER,
    *,
    uniq: bool = False,
) -> tuple[int, list[bytes]]:
    header = QueryMessageRequest(
        topic="T", key=key, max_num=count, begin_timestamp=begin, end_timestamp=end,
        unique_key_query=uniq or None,
    )  # fmt: skip
    answer = cluster.ask(BROKER, RequestCode.QUERY_MESSAGE, header)
    return answer.code, bodies(answer)


def test_messages_are_found_by_key(cluster: Cluster) -> None:
    """By one of its keys or its UNIQ_KEY, the newest first; 22 if there is none.

    docs/spec/remoting.md 2.13
    """
    broker_up(cluster)
    create_topic(cluster)
    for at in range(4):
        text = f"KEYS\x01all k{at}\x02UNIQ_KEY\x01U{at}\x02"
        assert cluster.send(BROKER, b"%d" % at, queue_id=at % 2, properties=text).code == 0
        cluster.sleep(0.1)
    assert asked(cluster, "k2") == (0, [b"2"])
    assert asked(cluster, "U2") == asked(cluster, "U2", uniq=True) == (0, [b"2"])
    assert asked(cluster, "k2", uniq=True) == asked(cluster, "k") == (22, [])
    assert asked(cluster, "all") == (0, [b"3", b"2", b"1", b"0"])
    assert asked(cluster, "all", 2) == (0, [b"3", b"2"])
    assert asked(cluster, "all", 0) == (22, [])


def test_only_the_asked_time_is_searched(cluster: Cluster) -> None:
    broker_up(cluster)
    create_topic(cluster)
    times = []
    for at in range(3):
        times.append(1_700_000_000_000 + cluster.now_ns // 1_000_000)
        cluster.send(BROKER, b"%d" % at, properties="KEYS\x01k\x02")
        cluster.sleep(1)
    assert asked(cluster, "k", begin=times[1]) == (0, [b"2", b"1"])
    assert asked(cluster, "k", end=times[2] - 1) == (0, [b"1", b"0"])
    assert asked(cluster, "k", begin=times[2] + 1000) == (22, [])


BEAT = HeartbeatBody(
    client_id="c@1",
    consumer_data_set=(
        ConsumerData(
            group_name="online",
            subscription_data_set=(SubscriptionData(topic="T", sub_string="*"),),
        ),
    ),
)


def test_who_consumes_a_topic(cluster: Cluster) -> None:
    """300: groups whose members want it now, and groups that were there once."""
    broker_up(cluster)
    create_topic(cluster)
    cluster.pull(BROKER, consumer_group="once")
    commit = UpdateConsumerOffsetRequest(
        consumer_group="once", topic="T", queue_id=0, commit_offset=0
    )
    assert cluster.ask(BROKER, RequestCode.UPDATE_CONSUMER_OFFSET, commit).code == 0

    async def main(pool: Pool) -> Frame:
        await pool.call(BROKER, Frame(code=34, ext={}, body=BEAT.to_json()), timeout_s=9)
        return await pool.call(BROKER, Frame(code=300, ext={"topic": "T"}), timeout_s=9)

    groups = GroupList.from_json(cluster.client(main).body)
    assert groups.group_list == ("once", "online")


@pytest.mark.parametrize(("client", "code"), [("c@1", 0), ("c@2", 1)])
def test_a_client_is_asked_how_it_is(cluster: Cluster, client: str, code: int) -> None:
    """307: the broker passes question and answer on; 1 for who is not there."""
    broker_up(cluster)
    seen: list[dict[str, str] | None] = []

    def handler(request: Frame, connection: Connection) -> Frame | Awaitable[Frame] | None:
        if request.code != 307:
            return None  # it is told of its own arrival as well
        seen.append(request.ext)
        return request.answer(0, body=b"fine")

    async def main(pool: Pool) -> Frame:
        await pool.call(BROKER, Frame(code=34, ext={}, body=BEAT.to_json()), timeout_s=9)
        header = ConsumerClientRequest(consumer_group="online", client_id=client)
        return await pool.call(BROKER, Frame(code=307, ext=to_ext(header)), timeout_s=9)

    answer = cluster.client(main, handler=handler)
    assert answer.code == code
    assert (answer.body, seen) == (
        (b"fine", [{"consumerGroup": "online", "clientId": "c@1"}]) if code == 0 else (None, [])
    )


def test_a_client_that_says_nothing_is_given_up(cluster: Cluster) -> None:
    """307: 207 after a while, to another who asks."""
    broker_up(cluster)

    async def silent(request: Frame) -> Frame | None:
        await asyncio.sleep(60)
        return None

    async def main(pool: Pool) -> Frame:
        async with asyncio.TaskGroup() as group:
            asking = Pool(group)
            await pool.call(BROKER, Frame(code=34, ext={}, body=BEAT.to_json()), timeout_s=9)
            header = ConsumerClientRequest(consumer_group="online", client_id="c@1")
            answer = await asking.call(BROKER, Frame(code=307, ext=to_ext(header)), timeout_s=30)
            asking.close()
        return answer

    assert cluster.client(main, handler=lambda request, _: silent(request)).code == 207


def test_no_message_has_the_key_of_no_name(cluster: Cluster) -> None:
    broker_up(cluster)
    create_topic(cluster)
    assert cluster.send(BROKER, b"1").code == 0
    assert asked(cluster, "") == (22, [])


def test_what_was_found_is_not_held_but_for_the_answer(cluster: Cluster) -> None:
    """However many messages have the key."""
    broker_up(cluster)
    create_topic(cluster)
    for at in range(60):
        cluster.send(BROKER, b"%050000d" % at, properties="KEYS\x01all\x02")
    tracemalloc.start()
    code, found = asked(cluster, "all", 2)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (code, [int(body[-2:]) for body in found]) == (0, [59, 58])
    assert peak < 20 * 50_000
