"""When a slave pulls its master's tables, and who is connected to a broker."""

import pytest

from maxq.reference.broker.client_calls.clients import SILENCE_NS, Clients
from maxq.reference.broker.membership.metadata_sync import THROTTLE_NS, Throttle, fast_address
from maxq.reference.names import is_system_topic
from maxq.reference.wire.bodies import ConsumerData, HeartbeatBody, ProducerData


def test_a_slave_pulls_again_after_ten_seconds_or_from_another_master() -> None:
    """A tick of 3 s, a throttle of 10 s; a new master at once (docs/spec/controller-ha.md 3.5)."""
    throttle = Throttle()
    assert not throttle.is_due(0, "")
    assert throttle.is_due(0, "a:1")
    assert not throttle.is_due(THROTTLE_NS, "a:1")
    assert throttle.is_due(THROTTLE_NS, "b:1")
    assert not throttle.is_due(THROTTLE_NS, "")
    assert throttle.is_due(2 * THROTTLE_NS + 1, "b:1")


def test_topics_are_asked_for_at_the_fast_port() -> None:
    """P-2 (docs/spec/remoting.md 1.7)."""
    assert fast_address("h:10911") == "h:10909"
    with pytest.raises(ValueError, match="not an address"):
        fast_address("h")


@pytest.mark.parametrize(
    ("topic", "system"),
    [("TBW102", True), ("rmq_sys_x", True), ("SCHEDULE_TOPIC_XXXX", True), ("T", False)],
)
def test_system_topics(topic: str, system: bool) -> None:
    assert is_system_topic(topic) is system


def heartbeat(client: str, *, consumer: str = "", producer: str = "") -> HeartbeatBody:
    return HeartbeatBody(
        client_id=client,
        consumer_data_set=(ConsumerData(group_name=consumer),) if consumer else (),
        producer_data_set=(ProducerData(group_name=producer),) if producer else (),
    )


def test_producers_leave_by_word_by_connection_or_by_silence() -> None:
    """As consumers do; and only consumer groups are told to rebalance.

    docs/spec/remoting.md 2.9
    """
    clients = Clients()
    assert clients.on_heartbeat(0, "c1", heartbeat("A", producer="p"), language="GO") == []
    assert clients.on_heartbeat(0, "c2", heartbeat("B", producer="p", consumer="g")) == ["g"]
    assert clients.producers["p"]["A"].language == "GO"
    clients.on_producer_leave("A", "p")
    clients.on_producer_leave("A", "p")
    clients.on_producer_leave("A", "nobody")
    assert list(clients.producers["p"]) == ["B"]
    assert clients.on_close("c2") == ["g"]
    assert (clients.producers, clients.groups) == ({}, {})
    clients.on_heartbeat(0, "c1", heartbeat("A", producer="p"))
    assert clients.expire(SILENCE_NS + 1) == []
    assert clients.producers == {}


def test_the_newest_heartbeat_speaks_for_its_group() -> None:
    clients = Clients()
    assert clients.newest("g") is None
    clients.on_heartbeat(1, "c1", heartbeat("A", consumer="g"))
    late = HeartbeatBody(
        client_id="B",
        consumer_data_set=(ConsumerData(group_name="g", message_model="CLUSTERING"),),
    )
    clients.on_heartbeat(2, "c2", late)
    newest = clients.newest("g")
    assert newest is not None
    assert newest.message_model == "CLUSTERING"
