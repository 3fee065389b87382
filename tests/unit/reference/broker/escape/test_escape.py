"""Where an acting slave sends what it has to store, and what it makes of the answers."""

import msgspec
import pytest

from maxq.reference.broker.escape import escape
from maxq.reference.broker.escape.escape import Attempts, Target
from maxq.reference.records import QueueOffset
from maxq.reference.wire import property as props
from maxq.reference.wire.message import Message
from maxq.reference.wire.route import BrokerData, QueueData, TopicRouteData

A = Target(broker_name="a", address="a:1", queues=2)
B = Target(broker_name="b", address="b:1", queues=1)
ZERO, ONE = QueueOffset(0), QueueOffset(1)
SECOND_NS = 1_000_000_000


def route(*queues: QueueData, **addresses: dict[int, str]) -> TopicRouteData:
    brokers = (BrokerData(broker_name=n, broker_addrs=a) for n, a in addresses.items())
    return TopicRouteData(broker_datas=tuple(brokers), queue_datas=queues)


def queues(name: str, perm: int = 6, count: int = 4) -> QueueData:
    return QueueData(broker_name=name, perm=perm, read_queue_nums=4, write_queue_nums=count)


def test_targets_are_other_names_that_take_messages() -> None:
    """E1: never the own name, never without WRITE or id 0, never one without queues."""
    said = route(
        queues("own"), queues("reads", perm=4), queues("slave"), queues("none", count=0),
        queues("z"), queues("b"), queues("ghost"),
        own={0: "o:1"}, reads={0: "r:1"}, slave={1: "s:1"}, none={0: "n:1"},
        z={0: "z:1", 1: "z:2"}, b={0: "b:1"},
    )  # fmt: skip
    found = escape.targets(said, "own")
    assert [(t.broker_name, t.address, t.queues) for t in found] == [
        ("b", "b:1", 4), ("z", "z:1", 4)
    ]  # fmt: skip
    assert escape.targets(TopicRouteData(), "own") == ()


@pytest.mark.parametrize(
    ("code", "what"),
    [(0, "stored"), (10, "unsure"), (12, "unsure"), (11, "unsure"), (1, "unsure"), (-1, "unsure"),
     (2, "refused"), (14, "refused"), (16, "refused"), (17, "refused")],
)  # fmt: skip
def test_only_a_success_counts_as_stored(code: int, what: str) -> None:
    assert escape.meaning(code) == what


def begun(*offsets: QueueOffset) -> Attempts:
    attempts = Attempts()
    for offset in offsets:
        attempts.begin(offset)
    return attempts


def test_a_refused_message_goes_elsewhere_after_a_pause() -> None:
    attempts = begun(ZERO)
    assert attempts.take_due(0) == [ZERO]
    assert attempts.take_due(0) == []  # it is on its way
    first = attempts.place(ZERO, (A, B))
    attempts.on_result(ZERO, "refused", 0)
    assert attempts.take_due(99_999_999) == []
    assert attempts.take_due(100_000_000) == [ZERO]
    second = attempts.place(ZERO, (A, B))
    assert first is not None
    assert second is not None
    assert first.broker_name != second.broker_name


def test_an_unsure_one_is_tried_where_it_was_and_elsewhere_in_the_end() -> None:
    """E4: that broker knows it by its key, at whatever address its master is now."""
    attempts, now = begun(ZERO), 0
    seen = []
    for _ in range(escape.TIED_MAX + 2):
        now += 10 * SECOND_NS
        assert attempts.take_due(now) == [ZERO]
        place = attempts.place(ZERO, (A, B))
        assert place is not None
        seen.append((place.broker_name, place.queue_id))
        attempts.on_result(ZERO, "unsure", now)
    assert len(set(seen[:-1])) == 1
    assert seen[-1][0] != seen[0][0]
    attempts.on_result(ZERO, "stored", now)
    assert attempts.first is None


def test_a_broker_that_takes_nothing_any_more_holds_no_unsure_message() -> None:
    attempts = begun(ZERO)
    attempts.take_due(0)
    assert attempts.place(ZERO, (B,)) is not None
    attempts.on_result(ZERO, "unsure", 0)
    attempts.take_due(SECOND_NS)
    place = attempts.place(ZERO, (A,))
    assert place is not None
    assert place.broker_name == "a"


def test_messages_without_a_target_are_bounded_and_leave_room_for_others() -> None:
    """E1: one waits, the other goes; what is settled ends before the first that waits."""
    attempts = begun(ZERO, ONE)
    assert attempts.take_due(0) == [ZERO, ONE]
    assert attempts.place(ZERO, ()) is None
    attempts.on_result(ZERO, "refused", 0)
    assert attempts.place(ONE, (A,)) is not None
    attempts.on_result(ONE, "stored", 0)
    assert escape.reached(QueueOffset(2), attempts.first) == ZERO
    for offset in range(2, escape.HELD_MAX + 1):
        assert attempts.room
        attempts.begin(QueueOffset(offset))
    assert not attempts.room
    taken = attempts.take_due(SECOND_NS)
    assert taken == list(range(2, 2 + escape.FLYING_MAX))  # those that were tried least


def test_pauses_grow_to_a_bound() -> None:
    pauses = [escape.pause_ns(n) for n in range(1, 9)]
    assert pauses[:3] == [100_000_000, 200_000_000, 400_000_000]
    assert pauses[-1] == escape.pause_ns(10**6) == escape.PAUSE_MAX_NS


def record(**properties: str) -> Message:
    return Message(topic="x", body=b"m", properties=props.encode(properties), sys_flag=8)


def test_a_delayed_copy_is_what_rocketmq_sends() -> None:
    """A capture of 5.5.0: REAL_* stay, WAIT=false, the level goes; the inner producer group."""
    waiting = record(DELAY="2", REAL_TOPIC="T", REAL_QID="3", WAIT="true", UNIQ_KEY="K")
    made = escape.delayed_copy(waiting)
    assert made is not None
    topic, copy = made
    assert (topic, copy.topic) == ("T", "T")
    assert copy.property_map() == {
        "REAL_TOPIC": "T", "REAL_QID": "3", "WAIT": "false", "UNIQ_KEY": "K"
    }  # fmt: skip
    attempts = begun(ZERO)
    place = attempts.place(ZERO, (A,))
    assert place is not None
    header = escape.send_header(copy, place, escape.inner_group("b1", 1))
    assert header.producer_group == "InnerProducerGroup_b1_1"
    assert (header.default_topic, header.default_topic_queue_nums) == ("TBW102", 8)
    assert header.queue_id == place.queue_id


def test_a_half_copy_is_a_prepared_message_of_its_group() -> None:
    """A capture of 5.5.0: sysFlag 4, under the producer's group."""
    made = escape.half_copy(record(REAL_TOPIC="T", REAL_QID="3", PGROUP="p", UNIQ_KEY="K"))
    assert made is not None
    _, copy = made
    assert copy.sys_flag == 4
    assert copy.property_map()["TRAN_MSG"] == "true"
    assert "REAL_QID" not in copy.property_map()
    place = begun(ZERO).place(ZERO, (A,))
    assert place is not None
    assert escape.send_header(copy, place, "inner").producer_group == "p"


@pytest.mark.parametrize("topic", ["", "SCHEDULE_TOPIC_XXXX", "a b"])
def test_a_record_that_names_no_topic_goes_nowhere(topic: str) -> None:
    waiting = record(REAL_TOPIC=topic) if topic else record(UNIQ_KEY="K")
    assert escape.delayed_copy(waiting) is None
    assert escape.half_copy(waiting) is None


def test_a_place_beside_this_broker_is_the_queue_itself() -> None:
    """Whichever turn it is; and who was refused there is known."""
    beside = msgspec.structs.replace(B, queue_id=1)
    attempts = begun(ZERO)
    for _ in range(3):
        place = attempts.place(ZERO, (beside,))
        assert place is not None
        assert (place.broker_name, place.queue_id) == (B.broker_name, 1)
        assert not attempts.was_refused(ZERO)
    attempts.on_result(ZERO, "unsure", 0)
    assert not attempts.was_refused(ZERO)
    attempts.on_result(ZERO, "refused", 0)
    assert attempts.was_refused(ZERO)


@pytest.mark.parametrize(("text", "queue"), [("3", 3), ("", 0), ("x", 0), ("-1", 0), ("9" * 99, 0)])
def test_a_copy_has_the_queue_that_it_is_meant_for(text: str, queue: int) -> None:
    properties = {"REAL_TOPIC": "T", **({"REAL_QID": text} if text else {})}
    for made in (escape.delayed_copy, escape.half_copy):
        found = made(record(**properties))
        assert found is not None
        assert found[1].queue_id == queue
