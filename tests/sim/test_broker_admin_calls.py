"""What operators get from a broker: topics, groups, figures, settings, connections, records."""

import asyncio
from typing import Any

import msgspec
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
)
from reference_world import (
    broker_up as up,
)

from maxq.reference.rpc import Pool
from maxq.reference.wire import headers
from maxq.reference.wire.bodies import (
    ConsumerConnections,
    ConsumerData,
    ConsumeStats,
    HeartbeatBody,
    MessageQueue,
    OffsetWrapper,
    ProducerConnections,
    ProducerData,
    SubscriptionData,
    SubscriptionGroupConfig,
    SubscriptionGroupList,
    SubscriptionGroups,
    TopicConfigList,
    TopicStats,
)
from maxq.reference.wire.codes import RequestCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.message import decode
from maxq.reference.wire.route import TopicConfig, TopicConfigSerializeWrapper, TopicRouteData

# A task that a kill meets before its first step holds a coroutine that nobody will ever await.
pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")


def commit(cluster: Cluster, topic: str = "T", group: str = "g", offset: int = 1) -> None:
    header = headers.UpdateConsumerOffsetRequest(
        consumer_group=group, topic=topic, queue_id=0, commit_offset=offset
    )
    assert cluster.ask(BROKER, RequestCode.UPDATE_CONSUMER_OFFSET, header).code == 0


def offset(cluster: Cluster, topic: str = "T", group: str = "g") -> int:
    """How far a group is in queue 0; -1 if unknown."""
    header = headers.QueryConsumerOffsetRequest(
        consumer_group=group, topic=topic, queue_id=0, set_zero_if_not_found=False
    )
    got = cluster.ask(BROKER, RequestCode.QUERY_CONSUMER_OFFSET, header)
    return int(ext(got).get("offset", "-1"))


def topics(cluster: Cluster) -> TopicConfigSerializeWrapper:
    return TopicConfigSerializeWrapper.from_json(cluster.ask(BROKER, 21).body)


def groups(cluster: Cluster) -> SubscriptionGroups:
    return SubscriptionGroups.from_json(cluster.ask(BROKER, 201).body)


# --- topics ------------------------------------------------------------------------------------


def test_a_deleted_topic_is_gone_with_its_offsets(cluster: Cluster) -> None:
    """215: also after a restart; one made anew goes on where the old one was (S11).

    docs/spec/remoting.md 2.14
    """
    process = up(cluster)
    create_topic(cluster)
    cluster.send(BROKER, b"x")
    cluster.pull(BROKER)
    for topic in ("%RETRY%g_T", "%RETRY%g+T", "%RETRY%other_T"):
        create_topic(cluster, topic)
    commit(cluster)
    commit(cluster, "%RETRY%g_T")
    assert cluster.ask(BROKER, RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "T"}).code == 0
    assert cluster.ask(BROKER, RequestCode.GET_TOPIC_CONFIG, {"topic": "T"}).code == 17
    assert cluster.pull(BROKER).code == 17
    cluster.sleep(6)
    process.loop.kill()
    up(cluster)
    left = {t for t in topics(cluster).topic_config_table if "T" in t}
    assert left == {"TBW102", "%RETRY%other_T"}
    assert (offset(cluster), offset(cluster, "%RETRY%g_T")) == (-1, -1)
    create_topic(cluster)
    assert ext(cluster.send(BROKER, b"y"))["queueOffset"] == "1"
    assert bodies(cluster.pull(BROKER)) == [b"x", b"y"]
    assert cluster.ask(BROKER, RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "none"}).code == 0


@pytest.mark.parametrize(
    ("topic", "code"), [("TBW102", 29), ("c", 29), ("b", 29), ("rmq_sys_x", 29), (" ", 1)]
)
def test_system_topics_are_not_deleted(cluster: Cluster, topic: str, code: int) -> None:
    up(cluster)
    before = topics(cluster)
    answer = cluster.ask(BROKER, RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": topic})
    assert (answer.code, topics(cluster)) == (code, before)


def test_a_list_of_topics_is_made_whole_or_not_at_all(cluster: Cluster) -> None:
    """18: one new version for all of them, on disk, and in the routes when answered.

    docs/spec/remoting.md 2.14
    """
    cluster.up("namesrv", "namesrv", NAMESRV_CONF)
    process = cluster.up("b1", "broker", BROKER_CONF)
    code = RequestCode.UPDATE_AND_CREATE_TOPIC_LIST
    before = topics(cluster)
    for bad in ("a b", "SCHEDULE_TOPIC_XXXX"):
        pair = tuple(TopicConfig(topic_name=n) for n in ("T1", bad))
        refused = cluster.ask(BROKER, code, {}, TopicConfigList(topic_config_list=pair).to_json())
        assert (refused.code, topics(cluster)) == (29, before)
    pair = tuple(TopicConfig(topic_name=n, read_queue_nums=2) for n in ("T1", "T2"))
    body = TopicConfigList(topic_config_list=pair).to_json()
    for _ in range(2):
        assert cluster.ask(BROKER, code, {}, body).code == 0
    route = cluster.ask(NAMESRV, RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T2"})
    assert TopicRouteData.from_json(route.body).queue_datas[0].read_queue_nums == 2
    process.loop.kill()
    cluster.up("b1", "broker", BROKER_CONF)
    after = topics(cluster)
    assert after.data_version.counter == before.data_version.counter + 1
    assert set(after.topic_config_table) - set(before.topic_config_table) == {"T1", "T2"}


def key(queue_id: int = 0, topic: str = "T") -> str:
    return MessageQueue(broker_name="b", queue_id=queue_id, topic=topic).key()


def test_how_full_a_topic_is(cluster: Cluster) -> None:
    """202: each queue's bounds and its last message's time (docs/spec/remoting.md 2.14)."""
    up(cluster)
    create_topic(cluster)
    cluster.send(BROKER, b"x")
    cluster.sleep(1)
    cluster.send(BROKER, b"y")
    last = messages(cluster.pull(BROKER))[1].store_timestamp
    answer = cluster.ask(BROKER, RequestCode.GET_TOPIC_STATS_INFO, {"topic": "T"})
    stats = TopicStats.from_json(answer.body)
    assert list(stats.offset_table) == [key(0), key(1)]
    full, empty = stats.offset_table[key(0)], stats.offset_table[key(1)]
    assert (full.min_offset, full.max_offset, full.last_update_timestamp) == (0, 2, last)
    assert (empty.min_offset, empty.max_offset, empty.last_update_timestamp) == (0, 0, 0)
    assert cluster.ask(BROKER, RequestCode.GET_TOPIC_STATS_INFO, {"topic": "N"}).code == 17


# --- groups ------------------------------------------------------------------------------------


def test_groups_by_list_by_name_and_gone(cluster: Cluster) -> None:
    """225, 352, 207; offsets stay unless they are to be cleaned (docs/spec/remoting.md 2.14)."""
    process = up(cluster)
    create_topic(cluster)
    code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST

    def put(*names: str) -> int:
        made = tuple(SubscriptionGroupConfig(group_name=n, retry_max_times=3) for n in names)
        return cluster.ask(
            BROKER, code, {}, SubscriptionGroupList(group_config_list=made).to_json()
        ).code

    assert (put("g", "a b"), groups(cluster).subscription_group_table) == (29, {})
    assert put("g", "h") == 0
    assert groups(cluster).data_version.counter == 1
    one = cluster.ask(BROKER, RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": "h"})
    assert SubscriptionGroupConfig.from_json(one.body).retry_max_times == 3
    commit(cluster, group="g", offset=1)
    commit(cluster, group="h", offset=2)
    for name, clean in (("g", "true"), ("h", "false"), ("none", "false")):
        gone = {"groupName": name, "cleanOffset": clean}
        assert cluster.ask(BROKER, RequestCode.DELETE_SUBSCRIPTIONGROUP, gone).code == 0
    assert cluster.ask(BROKER, RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": "h"}).code == 26
    cluster.sleep(6)
    process.loop.kill()
    up(cluster)
    assert groups(cluster).subscription_group_table == {}
    assert (offset(cluster, group="g"), offset(cluster, group="h")) == (-1, 2)


def test_how_far_a_group_is(cluster: Cluster) -> None:
    """208: of all its topics or one; of a group that nobody knows, nothing.

    docs/spec/remoting.md 2.14
    """
    up(cluster)
    create_topic(cluster)
    create_topic(cluster, "U")
    for topic in ("T", "U"):
        cluster.send(BROKER, b"x", topic=topic)
        cluster.pull(BROKER, topic=topic)
        commit(cluster, topic, offset=1)
    cluster.send(BROKER, b"y")
    stored = messages(cluster.pull(BROKER))[0].store_timestamp

    def stats(**header: str) -> dict[str, OffsetWrapper]:
        answer = cluster.ask(BROKER, RequestCode.GET_CONSUME_STATS, header)
        return ConsumeStats.from_json(answer.body).offset_table

    assert list(stats(consumerGroup="g")) == [key(i, t) for t in ("T", "U") for i in (0, 1)]
    one = stats(consumerGroup="g", topic="T")
    assert one == {
        key(0): OffsetWrapper(
            broker_offset=2, consumer_offset=1, last_timestamp=stored, pull_offset=1
        ),
        key(1): OffsetWrapper(),
    }
    assert stats(consumerGroup="nobody") == stats(consumerGroup="g", topic="none") == {}


def test_who_is_connected(cluster: Cluster) -> None:
    """203 and 204 with address, id, language and version; 206 and 1 for nobody.

    docs/spec/remoting.md 2.9
    """
    up(cluster)
    create_topic(cluster)
    wanted = SubscriptionData(topic="T", sub_string="*", sub_version=7)
    beat = HeartbeatBody(
        client_id="me@1",
        producer_data_set=(ProducerData(group_name="p"),),
        consumer_data_set=(
            ConsumerData(
                group_name="g", consume_type="CONSUME_PASSIVELY", message_model="CLUSTERING",
                consume_from_where="CONSUME_FROM_FIRST_OFFSET", subscription_data_set=(wanted,),
            ),
        ),
    )  # fmt: skip

    async def main(pool: Pool) -> None:
        async def ask(code: int, body: bytes | None = None, **header: str) -> Frame:
            frame = Frame(code=code, ext=header, body=body, language="GO", version=401)
            return await pool.call(BROKER, frame, timeout_s=5)

        assert (await ask(203, consumerGroup="g")).code == 206
        assert (await ask(204, producerGroup="p")).code == 1
        assert (await ask(34, beat.to_json())).code == 0
        consumers = ConsumerConnections.from_json((await ask(203, consumerGroup="g")).body)
        producers = ProducerConnections.from_json((await ask(204, producerGroup="p")).body)
        (found,) = consumers.connection_set
        assert (found.client_id, found.language, found.version) == ("me@1", "GO", 401)
        assert (found.client_addr or "").startswith("198.18.0.2:")
        assert producers.connection_set == consumers.connection_set
        assert consumers.subscription_table == {"T": wanted}
        assert (consumers.consume_type, consumers.message_model, consumers.consume_from_where) == (
            "CONSUME_PASSIVELY", "CLUSTERING", "CONSUME_FROM_FIRST_OFFSET",
        )  # fmt: skip
        await ask(35, clientID="me@1", producerGroup="p")
        assert (await ask(204, producerGroup="p")).code == 1
        assert (await ask(203, consumerGroup="g")).code == 0
        await ask(34, beat.to_json())

    cluster.client(main)
    cluster.sleep(1)
    assert cluster.ask(BROKER, 203, {"consumerGroup": "g"}).code == 206
    assert cluster.ask(BROKER, 204, {"producerGroup": "p"}).code == 1


# --- the broker --------------------------------------------------------------------------------


def test_a_record_by_its_place(cluster: Cluster) -> None:
    """33: whatever begins there, and nothing that only looks like it.

    docs/spec/remoting.md 2.13
    """
    up(cluster)
    cluster.send(BROKER, b"x" * 300)
    cluster.send(BROKER, b"y")
    found = messages(cluster.pull(BROKER))

    def view(at: int) -> Frame:
        return cluster.ask(BROKER, RequestCode.VIEW_MESSAGE_BY_ID, {"offset": str(at)})

    for message in found:
        answer = view(message.physical_offset)
        assert decode(answer.body or b"")[0] == message
    end = int(cluster.info(BROKER)["commitLogMaxOffset"])
    for at in (-1, 1, 4, 100, end - 8, end - 4, end, 65536, 1 << 40, 2**63 - 1):
        answer = view(at)
        assert (answer.code, answer.body) == (1, None)
        assert answer.remark == f"can not find message by the offset, {at}"


def test_settings_by_command(cluster: Cluster) -> None:
    """25 takes effect at once and shows in 26; what cannot change is refused.

    docs/spec/remoting.md 2.15
    """
    up(cluster)
    create_topic(cluster)
    update = RequestCode.UPDATE_BROKER_CONFIG
    assert cluster.ask(BROKER, update, {}, b"maxMessageSize=10\nregionId=R\n").code == 0
    assert cluster.send(BROKER, b"x" * 11).code == 13
    assert ext(cluster.send(BROKER, b"x"))["MSG_REGION"] == "R"
    shown = (cluster.ask(BROKER, RequestCode.GET_BROKER_CONFIG).body or b"").decode()
    assert "maxMessageSize=10\n" in shown
    for text, code in (
        (b"brokerConfigPath=/x", 16), (b"listenPort=9999", 16), (b"maxMessageSize=0", 29),
        (b"maxMesageSize=9", 29), (b"maxMessageSize=20\nbrokerName=x", 16),
    ):  # fmt: skip
        assert cluster.ask(BROKER, update, {}, text).code == code
    assert cluster.send(BROKER, b"x" * 11).code == 13


def test_a_broker_that_is_made_read_only_says_so_in_the_routes(cluster: Cluster) -> None:
    """brokerPermission is registered at once; slaves still copy the topics as they are.

    docs/spec/remoting.md 2.15
    """
    cluster.up("namesrv", "namesrv", NAMESRV_CONF)
    cluster.up("b1", "broker", BROKER_CONF)
    create_topic(cluster)

    def perms() -> list[int]:
        answer = cluster.ask(NAMESRV, RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"})
        return [q.perm for q in TopicRouteData.from_json(answer.body).queue_datas]

    for permission, shown in ((4, [4]), (2, [2]), (6, [6])):
        text = f"brokerPermission={permission}".encode()
        assert cluster.ask(BROKER, RequestCode.UPDATE_BROKER_CONFIG, {}, text).code == 0
        assert perms() == shown
        assert topics(cluster).topic_config_table["T"].perm == 6
        assert cluster.pull(BROKER).code == (16 if permission == 2 else 19)


def test_the_shown_settings_follow_the_role(cluster: Cluster) -> None:
    """brokerRole and brokerId are what they are now, not what was configured.

    docs/spec/remoting.md 2.15
    """

    def shown() -> dict[str, str]:
        text = (cluster.ask(BROKER, RequestCode.GET_BROKER_CONFIG).body or b"").decode()
        return dict(line.split("=", 1) for line in text.splitlines())

    cluster.up("b1", "broker", JOINED)
    assert (shown()["brokerRole"], shown()["brokerId"]) == ("SLAVE", "-1")
    cluster.up("controller", "controller", CONTROLLER_CONF)
    cluster.until(lambda: cluster.info(BROKER)["maxq.role"] == "master")
    assert (shown()["brokerRole"], shown()["brokerId"]) == ("SYNC_MASTER", "0")


def test_concurrent_changes_of_tables_lose_nothing(cluster: Cluster) -> None:
    """One write of a file at a time, each on top of the one before."""
    up(cluster)

    async def main(pool: Pool) -> None:
        async with asyncio.TaskGroup() as tasks:
            for at in range(20):
                topic = TopicConfig(topic_name=f"N{at}")
                body = TopicConfigList(topic_config_list=(topic,)).to_json()
                tasks.create_task(call(pool, 18, {}, body))
                if at % 2:
                    tasks.create_task(call(pool, 215, {"topic": f"N{at - 1}"}))

    async def call(pool: Pool, code: int, ext: dict[str, str], body: Any = None) -> None:
        answer = await pool.call(BROKER, Frame(code=code, ext=ext, body=body), timeout_s=50)
        assert answer.code == 0

    cluster.client(main)
    table = topics(cluster)
    left = {t for t in table.topic_config_table if t.startswith("N")}
    assert left == {f"N{at}" for at in range(1, 20, 2)}
    stored = msgspec.json.decode(cluster.disk("b1", "/data/config/topics.json") or b"")
    assert set(stored["topicConfigTable"]) == set(table.topic_config_table)
