"""Names that a request brings, and what they would become: refused before anything is written."""

import msgspec
import pytest
from reference_world import (
    BROKER,
    NAMESRV,
    NAMESRV_CONF,
    Cluster,
    bodies,
    broker_up,
    create_topic,
    ext,
)

from maxq.reference.broker.client_calls.made_topics import QUEUES_MAX
from maxq.reference.names import GROUP_CHARS_MAX
from maxq.reference.wire import node_headers as headers
from maxq.reference.wire.bodies import ConsumerData, HeartbeatBody, SubscriptionGroupConfig
from maxq.reference.wire.codes import RequestCode, ResponseCode
from maxq.reference.wire.headers import SendBackRequest
from maxq.reference.wire.route import RegisterBrokerBody, TopicConfig, TopicConfigSerializeWrapper

TOO_LONG = "g" * (GROUP_CHARS_MAX + 1)


def put_group(cluster: Cluster, name: str, **more: int) -> int:
    body = SubscriptionGroupConfig(group_name=name, **more).to_json()  # type: ignore[arg-type]
    return cluster.ask(BROKER, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, body).code


def send_back(cluster: Cluster, group: str, offset: int) -> int:
    header = SendBackRequest(group=group, offset=offset, delay_level=-1)
    return cluster.ask(BROKER, RequestCode.CONSUMER_SEND_MSG_BACK, header).code


def test_a_group_whose_own_topics_would_be_too_long_comes_in_by_no_request() -> None:
    """By command, by heartbeat, by a first pull: each would make its topics at some time."""
    with Cluster() as cluster:
        process = broker_up(cluster)
        create_topic(cluster)
        assert put_group(cluster, TOO_LONG) == ResponseCode.INVALID_PARAMETER
        beat = HeartbeatBody(client_id="c", consumer_data_set=(ConsumerData(group_name=TOO_LONG),))
        answer = cluster.ask(BROKER, RequestCode.HEART_BEAT, {}, beat.to_json())
        assert answer.code == ResponseCode.INVALID_PARAMETER
        answer = cluster.pull(BROKER, consumer_group=TOO_LONG)
        assert answer.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
        assert TOO_LONG not in process.node._tables.groups


def test_a_retry_topic_has_no_more_queues_than_any_topic() -> None:
    """Neither by a command, nor by a group of a store from before."""
    with Cluster() as cluster:
        process = broker_up(cluster)
        create_topic(cluster)
        assert put_group(cluster, "g", retry_queue_nums=2**31 - 1) == ResponseCode.INVALID_PARAMETER
        assert put_group(cluster, "g", retry_queue_nums=QUEUES_MAX + 1) != ResponseCode.SUCCESS
        tables = process.node._tables
        assert "g" not in tables.groups
        old = SubscriptionGroupConfig(group_name="old", retry_queue_nums=2**31 - 1)
        tables.groups["old"] = old
        beat = HeartbeatBody(client_id="c", consumer_data_set=(ConsumerData(group_name="old"),))
        assert cluster.ask(BROKER, RequestCode.HEART_BEAT, {}, beat.to_json()).code == 0
        assert tables.topics["%RETRY%old"].write_queue_nums == QUEUES_MAX
        assert put_group(cluster, "g", retry_queue_nums=QUEUES_MAX) == ResponseCode.SUCCESS


def test_dead_letters_of_the_longest_group_are_kept_across_a_restart() -> None:
    """Its topic is as long as a folder may not be everywhere."""
    group = "g" * GROUP_CHARS_MAX
    with Cluster() as cluster:
        process = broker_up(cluster)
        create_topic(cluster)
        assert put_group(cluster, group) == ResponseCode.SUCCESS
        offset = int(ext(cluster.send(BROKER, b"1"))["msgId"][-16:], 16)
        assert send_back(cluster, group, offset) == ResponseCode.SUCCESS
        cluster.sleep(3)  # queues are flushed
        process.loop.kill()
        broker_up(cluster)
        dead = cluster.pull(BROKER, topic=f"%DLQ%{group}")
        assert bodies(dead) == [b"1"]


def test_a_group_of_a_store_from_before_is_refused_when_it_is_used() -> None:
    with Cluster() as cluster:
        process = broker_up(cluster)
        create_topic(cluster)
        process.node._tables.groups[TOO_LONG] = SubscriptionGroupConfig(group_name=TOO_LONG)
        offset = int(ext(cluster.send(BROKER, b"1"))["msgId"][-16:], 16)
        assert send_back(cluster, TOO_LONG, offset) == ResponseCode.INVALID_PARAMETER


@pytest.mark.parametrize(
    ("change", "topic", "legal"),
    [({}, "T", True), ({}, "node1.example.com", True),
     ({"broker_name": "../b"}, "T", False), ({"cluster_name": "c#1"}, "T", False),
     ({"broker_name": "b" * 128}, "T", False), ({}, "a/b", False), ({}, "x" * 128, False)],
)  # fmt: skip
def test_a_registration_with_an_illegal_name_changes_nothing(
    change: dict[str, str], topic: str, legal: bool
) -> None:
    table = {topic: TopicConfig(topic_name=topic), "U": TopicConfig(topic_name="U")}
    wrapper = TopicConfigSerializeWrapper(topic_config_table=table)
    header = headers.RegisterBrokerRequest(
        broker_name="b", broker_addr="198.18.0.48:10911", cluster_name="c",
        ha_server_addr="198.18.0.48:10912", broker_id=0,
    )  # fmt: skip
    with Cluster() as cluster:
        cluster.up("namesrv", "namesrv", NAMESRV_CONF)
        answer = cluster.ask(
            NAMESRV,
            RequestCode.REGISTER_BROKER,
            msgspec.structs.replace(header, **change),
            RegisterBrokerBody(topic_config_serialize_wrapper=wrapper).to_json(),
        )
        assert answer.code == (ResponseCode.SUCCESS if legal else ResponseCode.SYSTEM_ERROR)
        assert cluster.logged("namesrv", "namesrv.broker.registered") == legal
