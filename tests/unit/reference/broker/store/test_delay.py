"""Delayed messages and second tries: what is stored in place of what was sent."""

import msgspec
import pytest

from maxq.reference.broker.locks.locks import LockTable
from maxq.reference.broker.messages import send
from maxq.reference.broker.store import delay
from maxq.reference.broker.store.metrics import Metrics
from maxq.reference.config import BrokerConfig, ConfigError, parse_config
from maxq.reference.wire import property as props
from maxq.reference.wire.bodies import MessageQueue, SubscriptionGroupConfig
from maxq.reference.wire.headers import SendRequest
from maxq.reference.wire.message import Message, tags_code

LEVELS = (1000, 5000, 10_000)
HERE, THERE = bytes([10, 0, 0, 1, 0, 0, 0, 9]), bytes([10, 0, 0, 2, 0, 0, 0, 9])
MESSAGE = Message(
    topic="T",
    body=b"x",
    properties=props.encode({"TAGS": "a", "UNIQ_KEY": "U", "TIMER_DELAY_SEC": "9"}),
    queue_id=3,
    flag=7,
    born_timestamp=5,
    born_host=THERE,
    store_host=THERE,
)


def properties(message: Message | None) -> dict[str, str]:
    assert message is not None
    return message.property_map()


@pytest.mark.parametrize(
    ("text", "levels"),
    [("1s", (1000,)), ("1s 5m  2h 1d", (1000, 300_000, 7_200_000, 86_400_000)), ("0s", (0,))],
)
def test_delays_are_read(text: str, levels: tuple[int, ...]) -> None:
    assert BrokerConfig(message_delay_level=text).delay_levels() == levels


@pytest.mark.parametrize("text", ["", "1", "s", "1x", "1s 5", "-1s", "1s," * 3, "1s " * 101])
def test_other_delays_are_refused_by_file_and_line(text: str) -> None:
    with pytest.raises(ConfigError, match=r"f:1: messageDelayLevel"):
        parse_config(BrokerConfig, f"messageDelayLevel={text}".encode(), "f")


def test_the_default_delays_are_those_of_rocketmq() -> None:
    """1s 5s 10s 30s, minutes 1 to 10, 20, 30, and hours 1 and 2 (docs/spec/remoting.md 2.6)."""
    minutes = (*range(1, 11), 20, 30, 60, 120)
    expected = (1000, 5000, 10_000, 30_000, *(60_000 * m for m in minutes))
    assert BrokerConfig().delay_levels() == expected


def test_a_delayed_message_waits_and_comes_back_as_it_was() -> None:
    """The queue is level - 1, and topic and queue are properties, also of the copy.

    docs/spec/remoting.md 2.6
    """
    waiting = delay.scheduled(MESSAGE, 2, LEVELS)
    assert (waiting.topic, waiting.queue_id) == ("SCHEDULE_TOPIC_XXXX", 1)
    assert properties(waiting) == {
        "TAGS": "a", "UNIQ_KEY": "U", "DELAY": "2", "REAL_TOPIC": "T", "REAL_QID": "3",
    }  # fmt: skip
    copy = delay.delivered(waiting, HERE)
    assert copy == msgspec.structs.replace(MESSAGE, properties=waiting.properties, store_host=HERE)


def test_a_level_beyond_the_last_is_the_last() -> None:
    """Larger values are clamped (docs/spec/remoting.md 2.6)."""
    waiting = delay.scheduled(MESSAGE, 99, LEVELS)
    assert (waiting.queue_id, properties(waiting)["DELAY"]) == (2, "3")
    assert delay.unit_code(waiting, 100, LEVELS) == 10_100


@pytest.mark.parametrize(
    "real",
    [{}, {"REAL_TOPIC": "T"}, {"REAL_QID": "1"}, {"REAL_TOPIC": "T", "REAL_QID": "x"},
     {"REAL_TOPIC": "SCHEDULE_TOPIC_XXXX", "REAL_QID": "0"}],
)  # fmt: skip
def test_a_record_that_does_not_say_where_it_goes_is_not_delivered(real: dict[str, str]) -> None:
    waiting = msgspec.structs.replace(MESSAGE, properties=props.encode(real))
    assert delay.delivered(waiting, HERE) is None


def test_units_hold_a_tag_or_a_time() -> None:
    """In the schedule topic the time of delivery; 1 s for a level that there is not.

    docs/spec/remoting.md 5.7
    """
    assert delay.unit_code(MESSAGE, 100, LEVELS) == tags_code("a")
    waiting = delay.scheduled(MESSAGE, 1, LEVELS)
    assert delay.unit_code(waiting, 100, LEVELS) == 1100
    assert delay.unit_code(waiting, 100, ()) == 1100
    strange = msgspec.structs.replace(waiting, properties=props.encode({"DELAY": "0"}))
    assert delay.unit_code(strange, 100, LEVELS) == 0


# --- second tries --------------------------------------------------------------------------------


def back(message: Message, level: int = 0, *, dead: bool = False) -> Message:
    return delay.sent_back(message, "g", level, dead=dead, queue_id=0, store_host=HERE)


def test_what_is_sent_back_remembers_where_it_came_from() -> None:
    """The copy is of the retry topic, knows the first topic and id, and counts.

    docs/spec/remoting.md 2.11
    """
    original = msgspec.structs.replace(MESSAGE, physical_offset=77)
    first = back(original)
    assert (first.topic, first.reconsume_times, first.store_host) == ("%RETRY%g", 1, HERE)
    assert (first.body, first.flag, first.born_timestamp, first.born_host) == (b"x", 7, 5, THERE)
    told = properties(first)
    assert (told["RETRY_TOPIC"], told["ORIGIN_MESSAGE_ID"]) == ("T", original.msg_id)
    assert (told["DELAY"], told["UNIQ_KEY"]) == ("3", "U")
    assert told.get("WAIT") != "false"
    second = back(first)
    assert (second.reconsume_times, properties(second)["DELAY"]) == (2, "4")
    assert properties(second)["ORIGIN_MESSAGE_ID"] == original.msg_id
    assert properties(second)["RETRY_TOPIC"] == "T"


def test_a_consumer_may_name_the_level() -> None:
    assert properties(back(MESSAGE, 7))["DELAY"] == "7"


def test_a_dead_letter_does_not_wait() -> None:
    dead = back(MESSAGE, 7, dead=True)
    assert (dead.topic, properties(dead)["DELAY"]) == ("%DLQ%g", "0")
    assert delay.level_of(properties(dead)) == 0


@pytest.mark.parametrize(
    ("times", "level", "dead"),
    [(0, 0, False), (15, 0, False), (16, 0, True), (17, 3, True), (0, -1, True)],
)
def test_when_a_message_is_given_up(times: int, level: int, dead: bool) -> None:
    """After as many tries as the group allows, or at once by a negative level.

    docs/spec/remoting.md 2.11
    """
    assert delay.is_dead(times, level, 16) is dead


@pytest.mark.parametrize(
    ("times", "bound", "version", "ordered", "dead"),
    [
        (16, None, 479, False, False), (17, None, 479, False, True), (3, 2, 479, False, True),
        (3, 2, 120, False, False), (0, None, 479, True, True), (None, None, 479, False, False),
    ],
)  # fmt: skip
def test_when_a_send_to_a_retry_topic_is_given_up(
    times: int | None, bound: int | None, version: int, ordered: bool, dead: bool
) -> None:
    """A client's own bound counts from 3.4.9 on; who holds locks sends only what it gives up."""
    h = SendRequest(
        topic="%RETRY%g", producer_group="p", default_topic="TBW102", default_topic_queue_nums=4,
        queue_id=0, sys_flag=0, born_timestamp=1, flag=0, reconsume_times=times,
        max_reconsume_times=bound,
    )  # fmt: skip
    group = SubscriptionGroupConfig(group_name="g")
    assert send.is_dead(h, group, version=version, is_ordered=ordered) is dead


def test_a_group_holds_locks_until_the_last_runs_out() -> None:
    table, queue = LockTable(lease_ns=10), MessageQueue(broker_name="b", queue_id=0, topic="T")
    assert not table.is_held(0, "g")
    table.lock(0, "g", "c", [queue])
    assert table.is_held(10, "g")
    assert not table.is_held(10, "h")
    assert not table.is_held(11, "g")


# --- metrics -------------------------------------------------------------------------------------


def test_figures_are_counts_and_rates() -> None:
    """Rates over the last 10 and 60 s, the second over what is known."""
    metrics = Metrics()
    assert metrics.table()["putTps"] == "0.0"
    for second in range(21):
        metrics.sample(second * 1_000_000_000)
        if second >= 10:
            metrics.on_put(2, 100)
            metrics.on_pull(3)
            metrics.on_pull(0)
    table = metrics.table()
    assert (table["putTps"], table["getTransferredTps"]) == ("2.0 1.0", "3.0 1.5")
    assert (table["getFoundTps"], table["getMissTps"]) == ("1.0 0.5", "1.0 0.5")
    assert table["getTotalTps"] == "2.0 1.0"
    assert (table["msgPutTotalTodayNow"], table["msgGetTotalTodayNow"]) == ("22", "33")
    assert table["putMessageAverageSize"] == "50.0"


def test_a_time_too_far_ahead_waits_for_the_delay_from_when_it_was_seen() -> None:
    """E2: by a clock that was set back nothing is delivered early, and nothing waits for ever."""
    dues, second = delay.Dues(5000), 1_000_000_000

    def due(offset: int, at_ms: int, now_ms: int, now_ns: int, end: int = 2) -> bool:
        return dues.is_due(offset, at_ms, now_ms=now_ms, now_ns=now_ns, end=end)

    assert due(0, 100_000, 100_000, 0)
    assert not due(0, 105_000, 100_000, 0)  # the common case
    assert not due(0, 105_001, 100_000, 10 * second)  # first seen
    assert not due(0, 105_001, 100_000, 15 * second - 1)
    assert due(0, 105_001, 100_000, 15 * second)
    assert due(1, 999_000, 100_000, 15 * second)  # it was there when the first was seen
    assert not due(2, 999_000, 100_000, 15 * second, end=3)
    assert due(2, 999_000, 100_000, 20 * second, end=3)
