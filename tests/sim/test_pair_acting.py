"""A slave without controllers that answers for its master, and one that is master again."""

from collections.abc import Iterator

import pytest
from pair_world import SLAVE, THIRD, Group
from reference_world import BROKER, bodies, ext

from maxq.reference.names import HALF_TOPIC
from maxq.reference.wire.codes import RequestCode
from maxq.reference.wire.route import TopicConfigSerializeWrapper

# A task that a kill meets before its first step holds a coroutine that nobody will ever await.
pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")


@pytest.fixture(params=[(False, False), (True, False), (False, True)],
                ids=["901", "route-of-the-group", "905"])  # fmt: skip
def group(request: pytest.FixtureRequest) -> Iterator[Group]:
    old, push = request.param
    made = Group(old=old, push=push)
    with made:
        yield made


def test_the_smallest_slave_acts_until_its_master_is_back(group: Group) -> None:
    """A1 to A3, A5, A11: one acts, within a poll; reads go on; it steps aside and copies again."""
    assert group.send(BROKER, b"x").code == 0
    assert group.acting() == []
    group.brokers["b1"].loop.kill()
    group.until(lambda: group.acting() == ["b2"], seconds=2)
    assert group.shown()["0"] == SLAVE
    assert bodies(group.pull(SLAVE)) == [b"x"]
    told = group.info(SLAVE)
    assert (told["maxq.acting"], told["maxq.minBrokerId"]) == ("true", "1")
    assert group.info(THIRD)["maxq.acting"] == "false"
    group.sleep(5)
    assert group.acting() == ["b2"]
    group.start_broker("b1", 0)
    group.until(lambda: group.acting() == [], seconds=3)
    assert group.shown()["0"] == BROKER
    group.until(lambda: group.brokers["b1"].node.membership.in_sync_count == 3, seconds=10)
    assert group.send(BROKER, b"y").code == 0
    group.sleep(0.5)
    assert bodies(group.pull(SLAVE)) == [b"x", b"y"]


def test_a_slave_has_the_topic_of_half_messages(group: Group) -> None:
    """One of RocketMQ's that acts without it does not end its services for 90 s: it registers the
    topic then, and two of its threads wait for each other."""
    topic = {"topic": HALF_TOPIC}
    assert group.ask(SLAVE, RequestCode.GET_TOPIC_CONFIG, topic).code == 0
    told = group.ask(BROKER, RequestCode.GET_ALL_TOPIC_CONFIG)
    assert HALF_TOPIC in TopicConfigSerializeWrapper.from_json(told.body).topic_config_table


def test_a_silent_master_is_acted_for_once_it_is_evicted(group: Group) -> None:
    """It goes on as master when it wakes: nothing fences it, and nothing was written beside it."""
    assert group.send(BROKER, b"x").code == 0
    master = group.brokers["b1"]
    master.loop.pause()
    group.until(lambda: group.acting() == ["b2"], seconds=3 + 1 + 1 + 1)
    master.loop.resume()
    group.until(lambda: group.acting() == [], seconds=12)
    group.until(lambda: master.node.membership.in_sync_count == 3, seconds=25)
    assert group.send(BROKER, b"y").code == 0


def test_an_acting_slave_refuses_what_it_would_have_to_store() -> None:
    """A4: nothing is written into its log, nor into a table that its master owns."""
    made = Group(old=False, push=False)
    with made:
        assert made.send(BROKER, b"x").code == 0
        end = made.info(SLAVE)["commitLogMaxOffset"]
        made.brokers["b1"].loop.kill()
        made.until(lambda: made.acting() == ["b2"])
        refused = made.send(SLAVE, b"y")
        assert refused.code == 14
        codes = {
            RequestCode.SEND_MESSAGE_V2: 14, RequestCode.SEND_BATCH_MESSAGE: 14,
            RequestCode.END_TRANSACTION: 11, RequestCode.RECALL_MESSAGE: 16,
            RequestCode.CONSUMER_SEND_MSG_BACK: 1, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: 1,
            RequestCode.UPDATE_AND_CREATE_TOPIC: 1, RequestCode.DELETE_TOPIC_IN_BROKER: 1,
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: 1,
            RequestCode.DELETE_SUBSCRIPTIONGROUP: 1, RequestCode.ADD_BROKER: 3,
        }  # fmt: skip
        assert {c: made.ask(SLAVE, c).code for c in codes} == codes
        assert made.info(SLAVE)["commitLogMaxOffset"] == end
        unknown = made.pull(SLAVE, topic="U")
        assert unknown.code == 17
        beyond = made.pull(SLAVE, queue_offset=9)
        assert (beyond.code, ext(beyond)["suggestWhichBrokerId"]) == (20, "0")
        assert made.pull(SLAVE, queue_offset=1).code == 19


def test_an_announcement_or_an_address_of_a_stranger_changes_nothing() -> None:
    """905 without fields, of another group, and of a broker with this one's id; 906 that names
    another master; a slave with an id that another one has is no smallest of its own."""
    made = Group(old=False, push=False)
    with made:
        strange = [
            {}, {"minBrokerId": "1"}, {"minBrokerId": "-1", "minBrokerAddr": SLAVE},
            {"minBrokerId": "1", "minBrokerAddr": SLAVE, "brokerName": "other"},
            {"minBrokerId": "1", "minBrokerAddr": "198.18.0.9:1"},
        ]  # fmt: skip
        for header in strange:
            change = RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE
            assert made.ask(SLAVE, change, header).code == 0
            assert made.acting() == []
        announce = {"masterHaAddress": "198.18.0.9:1", "masterAddress": "198.18.0.9:2"}
        assert made.ask(SLAVE, RequestCode.EXCHANGE_BROKER_HA_INFO, announce).code == 0
        assert made.send(BROKER, b"x").code == 0
        made.sleep(1)
        assert made.brokers["b2"].node.membership.master_address == BROKER
        assert made.brokers["b2"].node.membership.plain.slave.connected
