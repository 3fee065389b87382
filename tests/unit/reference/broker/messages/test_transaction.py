"""Transactions: records as captured from real brokers, and the core that knows which are open."""

from pathlib import Path

import msgspec
import pytest

from maxq.reference.broker.messages import transaction
from maxq.reference.broker.messages.half_queue import HalfQueue
from maxq.reference.broker.messages.transaction import Half
from maxq.reference.names import HALF_TOPIC, OP_TOPIC
from maxq.reference.records import PhyOffset, QueueOffset
from maxq.reference.wire import frame
from maxq.reference.wire import property as props
from maxq.reference.wire.headers import EndTransactionRequest, to_ext
from maxq.reference.wire.message import Message, decode, decode_all

GOLDEN = Path(__file__).resolve().parents[4] / "wire" / "golden"
BROKER1 = bytes.fromhex("c612071e00002a9f")
Q = QueueOffset


def stored(release: str) -> list[Message]:
    """The records of a captured replica."""
    log = GOLDEN / release / "stores/broker1/commitlog/00000000000000000000"
    return decode_all(log.read_bytes())


def halves(release: str) -> list[Message]:
    return [m for m in stored(release) if m.topic == HALF_TOPIC]


def same(a: Message, b: Message) -> None:
    """Equal but for the order of properties, which is a hash's in Java."""
    assert a.property_map() == b.property_map()
    assert msgspec.structs.replace(a, properties=b"") == msgspec.structs.replace(b, properties=b"")


# --- records -------------------------------------------------------------------------------------


@pytest.mark.parametrize("release", ["5.1.1", "5.3.3", "5.5.0"])
def test_half_messages_are_stored_as_by_java(release: str) -> None:
    captured = halves(release)[0]
    properties = captured.property_map()
    topic, queue = properties.pop(props.REAL_TOPIC), int(properties.pop(props.REAL_QID))
    del properties[props.TRANSACTION_ID]
    sent = msgspec.structs.replace(
        captured, topic=topic, queue_id=queue, sys_flag=4, properties=props.encode(properties)
    )
    same(transaction.half(sent), captured)


@pytest.mark.parametrize("release", ["5.1.1", "5.3.3", "5.5.0"])
def test_commits_are_stored_as_by_java(release: str) -> None:
    """The properties are those of 5.5.0, which says no more where the message was meant to
    go.

    docs/spec/remoting.md 2.5
    """
    found = stored(release)
    for captured in (m for m in found if m.transaction == 8):
        [waiting] = [m for m in found if m.physical_offset == captured.prepared_transaction_offset]
        made = transaction.committed(waiting, captured.store_host)
        assert made is not None
        left = captured.property_map()
        if release != "5.5.0":
            del left[props.REAL_TOPIC], left[props.REAL_QID]
        assert made.property_map() == left
        same(
            msgspec.structs.replace(
                made,
                queue_offset=captured.queue_offset,
                physical_offset=captured.physical_offset,
                store_timestamp=captured.store_timestamp,
            ),
            msgspec.structs.replace(captured, properties=made.properties),
        )


@pytest.mark.parametrize("release", ["5.1.1", "5.3.3", "5.5.0"])
def test_op_records_are_read_and_written_as_by_java(release: str) -> None:
    captured = next(m for m in stored(release) if m.topic == OP_TOPIC)
    assert transaction.ended_offsets(captured) == (0, 1)
    made = transaction.ended(Q(7), captured.born_timestamp, captured.store_host)
    assert made.body == b"7,"
    assert made.property_map() == captured.property_map()
    assert (made.topic, made.queue_id, made.born_host) == (
        captured.topic, captured.queue_id, captured.born_host,
    )  # fmt: skip


def test_what_is_no_offset_ends_nothing() -> None:
    op = Message(topic=OP_TOPIC, body=b"3,,x,-1,12," + b"9" * 30)
    assert transaction.ended_offsets(op) == (3, 12)


def test_a_question_is_asked_as_by_java() -> None:
    """The captured 39 of 5.1.1, and the half record that it is about."""
    waiting = halves("5.1.1")[3]
    stream = (GOLDEN / "5.1.1/027-client-to-broker0-10911.s2c.bin").read_bytes()
    [captured] = [f for f in frame.Decoder().feed(stream) if f.code == 39]
    asked = transaction.question(waiting, "b1")
    assert asked is not None
    header, body = asked
    ext = to_ext(header)
    assert ext.pop("topic") == "T1"  # which 5.1.1 does not send, and later releases do
    assert ext == captured.ext
    theirs = decode(captured.body or b"")[0]
    # Java sends the object that it has just written, which still has its first time of storage and
    # waits for nobody; the record that it wrote, and we send, does.
    waits = theirs.property_map() | {props.WAIT: "true"}
    assert theirs.store_timestamp == halves("5.1.1")[2].store_timestamp
    same(
        decode(body)[0],
        msgspec.structs.replace(
            theirs, store_timestamp=waiting.store_timestamp, properties=props.encode(waits)
        ),
    )


def test_a_copy_counts_how_often_was_asked() -> None:
    first, copy = halves("5.1.1")[2:4]
    assert transaction.facts(first).times == 0
    made = transaction.renewed(first, BROKER1)
    assert made.property_map() == copy.property_map()
    assert transaction.facts(made).key == transaction.facts(first).key
    assert transaction.given_up(made, BROKER1).topic == "TRANS_CHECK_MAX_TIME_TOPIC"


@pytest.mark.parametrize(
    ("change", "code", "why"),
    [
        ({}, 0, ""),
        ({"producer_group": "other"}, 1, "The producer group wrong"),
        ({"tran_state_table_offset": 1}, 1, "The transaction state table offset wrong"),
        ({"transaction_id": "another"}, 1, "Find prepared transaction message failed"),
    ],
)
def test_ends_that_are_refused(change: dict[str, object], code: int, why: str) -> None:
    waiting = halves("5.5.0")[0]
    h = EndTransactionRequest(
        producer_group="tpg", tran_state_table_offset=0, commit_log_offset=9217,
        commit_or_rollback=8, msg_id="x",
    )  # fmt: skip
    refusal = transaction.fault_of_end(
        msgspec.structs.replace(h, **change), waiting, now_ms=waiting.born_timestamp
    )
    assert (refusal.code if refusal else 0, refusal.remark if refusal else "") == (code, why)


def test_an_end_of_what_is_not_there_or_is_too_late() -> None:
    waiting = halves("5.5.0")[0]
    h = EndTransactionRequest(
        producer_group="tpg", tran_state_table_offset=0, commit_log_offset=9217,
        commit_or_rollback=8, msg_id="x",
    )  # fmt: skip
    for other in (None, msgspec.structs.replace(waiting, topic="T")):
        refusal = transaction.fault_of_end(h, other, now_ms=0)
        assert refusal is not None
        assert refusal.remark == transaction.NOT_FOUND
    immune = waiting.property_map() | {props.CHECK_IMMUNITY_TIME_IN_SECONDS: "5"}
    waiting = msgspec.structs.replace(waiting, properties=props.encode(immune))
    for after_ms, checked, code in ((5000, False, 0), (5001, False, 604), (9000, True, 0)):
        h = msgspec.structs.replace(h, from_transaction_check=checked)
        refusal = transaction.fault_of_end(h, waiting, now_ms=waiting.born_timestamp + after_ms)
        assert (refusal.code if refusal else 0) == code


def test_records_that_say_not_where_they_go() -> None:
    lost = Message(topic=HALF_TOPIC, body=b"x", physical_offset=PhyOffset(5))
    assert transaction.committed(lost, BROKER1) is None
    assert transaction.question(lost, "b") is None


# --- which are open ------------------------------------------------------------------------------


def half(offset: int, key: str = "", *, stored_ms: int = 0, **more: int) -> Half:
    return Half(
        offset=Q(offset), key=key or f"k{offset}", stored_ms=stored_ms,
        born_ms=more.get("born_ms", 0), times=0, immune_ms=more.get("immune_ms"),
    )  # fmt: skip


def queue(*offsets: int) -> HalfQueue:
    made = HalfQueue(Q(0), Q(0))
    for offset in offsets:
        made.on_half(half(offset))
    return made


def due(core: HalfQueue, now_ms: int) -> list[int]:
    return [h.offset for h in core.due(now_ms, 6000)]


def test_open_is_what_no_op_ends_in_whatever_order_both_are_read() -> None:
    core = queue(0, 1)
    core.on_op(Q(0), (Q(1), Q(2)))
    core.on_half(half(2))
    core.on_half(half(3))
    assert list(core.open) == [0, 3]
    assert core.left_behind() == (0, 0)
    core.on_op(Q(1), (Q(0),))
    assert core.left_behind() == (3, 2), "no op matters that ends nothing from here on"
    core.on_op(Q(2), ())
    core.on_op(Q(3), (Q(3),))
    assert core.left_behind() == (4, 4)


def test_of_copies_the_newest_is_open_and_ended() -> None:
    core = queue(0)
    core.on_half(half(1, "k0"))
    assert list(core.open) == [1]
    assert core.to_end(Q(0), "k0") == 1
    core.on_op(Q(0), (Q(1),))
    assert core.to_end(Q(0), "k0") is None
    assert core.to_end(Q(1), "k0") is None


def test_an_end_is_not_done_twice() -> None:
    core = queue(0)
    assert core.to_end(Q(0), "k0") == 0
    core.on_ended(Q(0))
    assert core.to_end(Q(0), "k0") is None
    assert due(core, 10_000) == []
    assert core.to_end(Q(5), "k5") == 5, "not read yet"
    core.on_ended(Q(5))
    assert core.to_end(Q(5), "k5") is None
    core.on_op(Q(0), (Q(5),))
    assert core.to_end(Q(5), "k5") is None, "the op was read before it"


def test_a_producer_that_was_late_ends_the_copy() -> None:
    """It was asked meanwhile, and the copy is not read yet."""
    core = queue(0)
    core.on_ended(Q(0), Q(1))
    assert core.to_end(Q(0), "k0") == 1
    core.on_ended(Q(1))
    assert core.to_end(Q(0), "k0") is None


def test_what_is_gone_from_the_log_is_open_no_more() -> None:
    core = HalfQueue(Q(0), Q(0))
    for offset in range(3):
        core.on_half(half(offset))
    core.forget(Q(2))
    assert list(core.open) == [2]
    assert core.left_behind() == (2, 0)


def test_who_is_asked_about() -> None:
    core = HalfQueue(Q(0), Q(0))
    core.on_half(half(0, stored_ms=0))
    core.on_half(half(1, stored_ms=4001))
    core.on_half(half(2, stored_ms=0, born_ms=0, immune_ms=20_000))
    core.on_half(half(3, stored_ms=99_000))  # of a clock that was ahead
    assert due(core, 10_000) == [0, 3]
    assert due(core, 10_001) == [0, 1, 3]
    assert due(core, 20_000) == [0, 1, 2, 3]
