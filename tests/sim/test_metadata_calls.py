"""What a slave copies of its master: the answers, byte by byte where Java has one, and the pull.

The captured answers of Java masters are those of ``tests/wire/golden``.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from reference_world import (
    BROKER,
    CONTROLLER_CONF,
    JOINED,
    NAMESRV_CONF,
    Cluster,
    broker_up,
    create_topic,
    ext,
)
from test_address_change import in_sync

from maxq.reference import rpc
from maxq.reference.broker.membership import metadata_sync
from maxq.reference.broker.membership.metadata import TABLE_CODES
from maxq.reference.broker.membership.metadata_sync import MetadataSync, sync_once
from maxq.reference.broker.store.store import Store
from maxq.reference.broker.store.topics import Tables
from maxq.reference.host import Host
from maxq.reference.rpc import Connection, Pool
from maxq.reference.wire import headers, lenient_json
from maxq.reference.wire.bodies import (
    ConsumerOffsets,
    DelayOffsets,
    MessageRequestModes,
    SubscriptionGroupConfig,
    SubscriptionGroups,
    TimerMetrics,
)
from maxq.reference.wire.codes import RequestCode, ResponseCode
from maxq.reference.wire.files import TimerCheckpoint, decode_timer_checkpoint
from maxq.reference.wire.frame import Decoder, Frame
from maxq.reference.wire.route import DataVersion, TopicConfig, TopicConfigSerializeWrapper
from maxq.reference.wire.seal import unseal

GOLDEN = Path(__file__).parents[1] / "wire" / "golden"
FAST = "198.18.0.48:10909"
CODES = {21: FAST, 60: FAST, 61: FAST, 43: BROKER, 45: BROKER, 201: BROKER, 402: BROKER}
SLAVES = {
    "5.1.1": ("085-broker0-to-broker1-10909", "086-broker0-to-broker1-10911"),
    "5.5.0": ("085-broker0-to-broker2-10909", "086-broker0-to-broker2-10911"),
}


def captured(release: str) -> dict[int, tuple[Frame, Frame]]:
    """The last request and answer of each code that a Java slave sent to its Java master."""
    found: dict[int, tuple[Frame, Frame]] = {}
    for name in SLAVES[release]:
        sides = [(GOLDEN / release / f"{name}.{s}.bin").read_bytes() for s in ("c2s", "s2c")]
        asked = {f.opaque: f for f in Decoder().feed(sides[0])}
        for answer in Decoder().feed(sides[1]):
            found[asked[answer.opaque].code] = (asked[answer.opaque], answer)
    return found


def busy(cluster: Cluster) -> None:
    """Fill the tables of broker b1."""
    create_topic(cluster)
    group = SubscriptionGroupConfig(group_name="g").to_json()
    cluster.ask(BROKER, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, group)
    commit = headers.UpdateConsumerOffsetRequest(
        consumer_group="g", topic="T", queue_id=1, commit_offset=9
    )
    assert cluster.ask(BROKER, RequestCode.UPDATE_CONSUMER_OFFSET, commit).code == 0


# --- a master's answers ------------------------------------------------------------------------


@pytest.mark.parametrize("release", sorted(SLAVES))
@pytest.mark.parametrize("code", sorted(CODES))
def test_the_answers_have_the_shape_of_javas(cluster: Cluster, release: str, code: int) -> None:
    """To a Java slave's own request, at its port: fields and their order, ext keys, and no
    bare key.

    docs/spec/remoting.md 2.17
    """
    broker_up(cluster)
    busy(cluster)
    request, java = captured(release)[code]
    frame = msgspec.structs.replace(request, opaque=0)
    ours = cluster.client(lambda pool: pool.call(CODES[code], frame, timeout_s=5))
    assert ours.code == java.code == 0
    assert sorted(ext(ours)) == sorted(java.ext or {})
    if code == 60:
        assert len(ours.body or b"") == len(java.body or b"") == 56
        assert decode_timer_checkpoint(ours.body or b"") == TimerCheckpoint()
        return
    want, got = lenient_json.loads(java.body or b""), msgspec.json.decode(ours.body or b"")
    assert isinstance(want, dict)
    assert list(got) == [key for key in want if key != "pullOffsetTable"]
    if code == 21:
        topics = want["topicConfigTable"]
        assert isinstance(topics, dict)
        assert isinstance(topics["T1"], dict)
        assert list(got["topicConfigTable"]["T"]) == list(topics["T1"])
        assert ext(ours).get("totalTopicNum", "4") == str(len(got["topicConfigTable"]))
    if code == 201:
        assert ext(ours).get("totalGroupNum", "1") == str(len(got["subscriptionGroupTable"]))


def test_the_offsets_of_groups(cluster: Cluster) -> None:
    """Quoted queue ids, groupTopicMap, no pullOffsetTable (docs/spec/remoting.md 2.8 and 2.17)."""
    broker_up(cluster)
    busy(cluster)
    body = cluster.ask(BROKER, RequestCode.GET_ALL_CONSUMER_OFFSET).body
    assert body == (
        b'{"dataVersion":{"counter":0,"stateVersion":0,"timestamp":0},'
        b'"groupTopicMap":{"g":["T"]},"offsetTable":{"T@g":{"1":9}}}'
    )
    metrics = cluster.ask(FAST, RequestCode.GET_TIMER_METRICS).body
    assert TimerMetrics.from_json(metrics) == TimerMetrics()


# --- a slave's pull ----------------------------------------------------------------------------


def tables(host: Host, *, offset_step: int = 500, delay_step: int = 200) -> Tables:
    made = Tables(
        host, "/slave/config", cluster="c", broker_name="b", auto_create=True, default_queues=8,
        offset_step=offset_step, delay_step=delay_step,
    )  # fmt: skip
    made.load({})
    return made


def empty_store(host: Host) -> Store:
    made = Store(
        host, root="/slave", log_path="/slave/commitlog", log_file_size=4096, queue_file_size=400,
        replicated=True,
    )  # fmt: skip
    made.recover()
    return made


def pulling(cluster: Cluster, *masters: str, follows: Callable[[], bool] = lambda: True) -> Tables:
    """Pull once from each master with fresh tables; returns them."""
    loop, host = cluster.world.process(cluster.machines["b2"])
    made = tables(host)

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            pool = Pool(group)
            for master in masters:
                await sync_once(pool, master, made, host, following=follows)
            await made.save_offsets()
            pool.close()

    task = loop.create_task(main())
    cluster.until(task.done)
    task.result()
    return made


def test_versions_go_on_with_every_so_many_updates(cluster: Cluster) -> None:
    """`consumerOffsetUpdateVersionStep`, `delayOffsetUpdateVersionStep`."""
    _, host = cluster.world.process(cluster.machines["b2"])
    made = tables(host, offset_step=3, delay_step=2)
    counters = []
    for n in range(1, 8):
        made.commit_offset("t", "g", 0, n)
        made.deliver_from(1, n)
        counters.append((made.offset_version.counter, made.delay.data_version.counter))
    assert counters == [(0, 0), (0, 1), (1, 1), (1, 2), (1, 2), (2, 3), (2, 3)]
    assert made.offset_table().data_version == made.offset_version


def test_a_slave_of_ours_copies_a_master_of_ours(cluster: Cluster) -> None:
    """Topics, groups and offsets, with their versions, in memory and on disk.

    docs/spec/remoting.md 2.17
    """
    broker_up(cluster)
    busy(cluster)
    got = pulling(cluster, BROKER)
    master = cluster.ask(BROKER, RequestCode.GET_ALL_TOPIC_CONFIG).body
    kept = cluster.disk("b2", "/slave/config/topics.json")
    assert got.table().to_json() == master == unseal(kept or b"")
    assert got.group_table().to_json() == cluster.ask(BROKER, 201).body
    assert got.offset("T", "g", 1) == 9
    before = dict(cluster.machines["b2"].disk.files)
    again = pulling(cluster, BROKER)  # loads what the first has written
    assert again.table() == got.table()
    assert {k: bytes(v) for k, v in cluster.machines["b2"].disk.files.items()} == {
        k: bytes(v) for k, v in before.items()
    }


def java_master(cluster: Cluster, release: str, **bodies: bytes | None) -> list[int]:
    """Serve captured answers on machine b1 at both ports; returns the codes as they come."""
    recorded = captured(release)
    asked: list[int] = []

    def handle(request: Frame, connection: Connection) -> Frame | None:
        asked.append(request.code)
        assert request.ext is None  # no release's paging
        body = bodies.get(f"c{request.code}", recorded[request.code][1].body)
        return request.answer(0 if body is not None else 1, "no", body=body)

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            for port in (10909, 10911):
                await rpc.serve("0.0.0.0", port, handle, group=group)
            await asyncio.Event().wait()  # until it is killed

    loop, _ = cluster.world.process(cluster.machines["b1"])
    loop.create_task(main())
    cluster.sleep(0.1)
    return asked


@pytest.mark.parametrize("release", sorted(SLAVES))
def test_a_slave_of_ours_copies_a_master_of_java(cluster: Cluster, release: str) -> None:
    """The captured answers, bare keys and pullOffsetTable included, are taken whole.

    docs/spec/remoting.md 2.17
    """
    asked = java_master(cluster, release)
    got = pulling(cluster, BROKER, BROKER)
    assert asked == [21, 43, 45, 201, 402] * 2
    java = {code: answer.body for code, (_, answer) in captured(release).items()}
    topics = TopicConfigSerializeWrapper.from_json(java[21])
    assert topics.topic_config_table.items() <= got.topics.items()
    assert (got.version, got.topics["c"].perm) == (topics.data_version, 7)
    groups = SubscriptionGroups.from_json(java[201])
    assert (got.groups, got.group_version) == (groups.subscription_group_table, groups.data_version)
    assert got.offsets == ConsumerOffsets.from_json(java[43]).offset_table
    assert got.offsets
    assert got.delay == DelayOffsets.from_json(java[45])
    assert got.delay.offset_table
    assert got.modes == MessageRequestModes.from_json(java[402])
    _, host = cluster.world.process(cluster.machines["b2"])
    loaded = tables(host)
    for name in ("topics", "groups", "offsets", "delay", "modes", "version", "group_version"):
        assert getattr(loaded, name) == getattr(got, name)


def test_what_fails_leaves_the_rest_alone(cluster: Cluster) -> None:
    """Each table is asked for apart: no answer, no JSON, a refusal, nobody there."""
    java_master(cluster, "5.1.1", c43=b"{", c201=None)
    got = pulling(cluster, BROKER, "198.18.0.80:1", "nonsense")
    assert (got.offsets, got.groups) == ({}, {})
    assert len(got.topics) > 5
    assert got.delay.offset_table
    assert cluster.logged("b2", "broker.metadata.failed") == 2 + 5 + 5


def test_a_table_of_an_equal_version_is_not_taken(cluster: Cluster) -> None:
    """The version decides for topics and groups; the content for offsets."""
    java_master(cluster, "5.1.1")
    version = TopicConfigSerializeWrapper.from_json(captured("5.1.1")[21][1].body).data_version
    own = TopicConfigSerializeWrapper(
        data_version=version, topic_config_table={"mine": TopicConfig(topic_name="mine")}
    )
    cluster.machines["b2"].disk.files["/slave/config/topics.json"] = bytearray(own.to_json())
    got = pulling(cluster, BROKER)
    assert sorted(got.topics) == ["TBW102", "b", "c", "mine"]
    assert got.groups


def test_nothing_is_taken_of_a_master_who_is_none_any_more(cluster: Cluster) -> None:
    """S4: also when that turns out while a table is being written."""
    java_master(cluster, "5.1.1")
    got = pulling(cluster, BROKER, follows=lambda: False)
    assert (sorted(got.topics), got.groups, got.offsets) == (["TBW102", "b", "c"], {}, {})
    answers = iter([True, False] * 5)
    got = pulling(cluster, BROKER, follows=lambda: next(answers))
    assert (sorted(got.topics), got.groups) == (["TBW102", "b", "c"], {})
    assert got.version == DataVersion()
    assert got.delay == DelayOffsets()


def test_the_pull_has_its_rhythm(cluster: Cluster) -> None:
    """By a tick of 3 s every 12 s; at once from another master; never from none.

    docs/spec/controller-ha.md 3.5
    """
    asked = java_master(cluster, "5.1.1")
    loop, host = cluster.world.process(cluster.machines["b2"])
    made = tables(host)
    master = [""]
    counts: list[int] = []
    came: list[int] = []

    async def known() -> None:
        came.append(len(counts))

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            pool, store = Pool(group), empty_store(host)
            sync = MetadataSync(pool, made, store, host, lambda: master[0], known)
            for at in range(10):
                if at == 1:
                    master[0] = BROKER
                await sync.tick()
                counts.append(asked.count(21))
                await asyncio.sleep(3)
            pool.close()

    task: Any = loop.create_task(main())
    cluster.until(task.done)
    task.result()
    assert counts == [0, 1, 1, 1, 1, 2, 2, 2, 2, 3]
    assert came == [1], "the first tables of an empty store"


@pytest.mark.parametrize("code", sorted(TABLE_CODES))
def test_an_empty_store_serves_no_tables(cluster: Cluster, code: int) -> None:
    """A slave still takes this address for its master's, and would take over what it says."""
    cluster.start("b1", "broker", JOINED)  # without controllers it has no id, and no role
    cluster.until(lambda: cluster.logged("b1", "broker.started") == 1)
    answer = cluster.ask(BROKER, code)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark == "this broker has no tables yet"


def newcomer(cluster: Cluster) -> None:
    """A master with a topic, and a slave that has just begun to follow it with an empty store."""
    cluster.up("namesrv", "namesrv", NAMESRV_CONF)
    cluster.up("controller", "controller", CONTROLLER_CONF)
    cluster.up("b1", "broker", JOINED)
    cluster.until(lambda: cluster.logged("b1", "broker.role") == 1)
    create_topic(cluster)
    cluster.start("b2", "broker", JOINED)
    cluster.until(lambda: cluster.logged("b2", "broker.role") == 1)


def test_a_slave_with_an_empty_store_has_the_tables_at_once(cluster: Cluster) -> None:
    newcomer(cluster)
    cluster.sleep(0.05)
    assert b'"T"' in (cluster.disk("b2", "/data/config/topics.json") or b"")


def test_a_slave_without_tables_copies_no_log_and_is_in_no_set(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be elected, and serve no topic."""
    answered: list[bool] = [False]
    honest = metadata_sync.sync_once

    async def sometimes(*args: Any, **more: Any) -> bool:
        return await honest(*args, **more) if answered[0] else False

    monkeypatch.setattr(metadata_sync, "sync_once", sometimes)
    newcomer(cluster)
    cluster.sleep(20)
    assert in_sync(cluster)[2] == {1}
    answered[0] = True
    cluster.until(lambda: in_sync(cluster)[2] == {1, 2}, seconds=20)
