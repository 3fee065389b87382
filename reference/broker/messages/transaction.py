"""Transactions: what is stored for a half message, and for its end. Pure.

A producer sends a *half message*, does its own work, and then ends the transaction (37): commit or
rollback. Until then the message waits as a record of the half topic, where no consumer sees it;
topic and queue that it is meant for are properties. A commit stores it where it was meant to go. To
end a transaction either way is to write a record of the op topic, whose body names the half message
by its index in the half topic: open is what is in the half topic and in no op record.

A half message that stays open too long is asked about (39). Each time it is written again, at the
end of the half topic and with one more `TRANSACTION_CHECK_TIMES`, so that the beginning of the half
topic can be left behind permanently. After ``transactionCheckMax`` times it is given up, into a
topic of its own.

Offsets are message indices of the half topic; times are ms of a broker's wall clock. Source:
RocketMQ ``TransactionalMessageBridge``, ``EndTransactionProcessor``,
``DefaultAbstractTransactionalMessageCheckListener``; captures of 5.1.1, 5.3.3 and 5.5.0.
"""

from collections.abc import Mapping, Sequence

import msgspec

from maxq.reference.broker.messages.refusal import Refusal
from maxq.reference.names import GIVEN_UP_TOPIC, HALF_TOPIC, OP_TOPIC, takes_messages
from maxq.reference.records import LocalProtocolError, QueueOffset, Record
from maxq.reference.wire import property as props
from maxq.reference.wire.codes import ResponseCode
from maxq.reference.wire.headers import CheckTransactionRequest, EndTransactionRequest
from maxq.reference.wire.message import (
    TRANSACTION_COMMIT,
    TRANSACTION_MASK,
    Message,
    encode_at,
    offset_msg_id,
)

GROUP = "CID_RMQ_SYS_TRANS"  # under which brokers remember how far they are with both topics
QUEUE = 0  # both topics have one
ENDED_TAG = "d"
NOT_FOUND = "Find prepared transaction message failed"
OFFSETS_MAX = 10_000  # named by one op record; RocketMQ's are of 4 KiB


class Half(Record):
    """A half message, as far as it matters when it is asked about."""

    offset: QueueOffset
    key: str  # the same for all copies
    stored_ms: int
    born_ms: int
    times: int  # asked about
    immune_ms: int | None  # that its producer wants for itself, from birth


def is_half(properties: Mapping[str, str]) -> bool:
    """Whether a message is sent as a half message."""
    return properties.get(props.TRAN_MSG) == "true"


def half(message: Message) -> Message:
    """The record that waits for the end of its transaction.

    Raises:
        LocalProtocolError: the properties get too long.
    """
    properties = message.property_map()
    key = properties.get(props.UNIQ_KEY)
    if key:
        properties[props.TRANSACTION_ID] = key
    properties |= {props.REAL_TOPIC: message.topic, props.REAL_QID: str(message.queue_id)}
    return msgspec.structs.replace(
        message,
        topic=HALF_TOPIC,
        queue_id=QUEUE,
        sys_flag=message.sys_flag & ~TRANSACTION_MASK,
        properties=props.encode(properties),
    )


def committed(waiting: Message, store_host: bytes) -> Message | None:
    """The message that a commit stores; None if the record does not say where it goes, or names a
    topic that no client may send to.

    Java keeps the first store host; here it is the broker's that stores it, so that its id leads to
    it after a fail-over.
    """
    properties = waiting.property_map()
    topic, queue = properties.pop(props.REAL_TOPIC, ""), properties.pop(props.REAL_QID, "")
    if not takes_messages(topic) or not queue.isdecimal() or len(queue) > 9:
        return None
    return msgspec.structs.replace(
        waiting,
        topic=topic,
        queue_id=int(queue),
        sys_flag=waiting.sys_flag | TRANSACTION_COMMIT,
        prepared_transaction_offset=waiting.physical_offset,
        store_host=store_host,
        properties=props.encode(properties),
    )


def ended(offset: QueueOffset, now_ms: int, store_host: bytes) -> Message:
    """The op record that ends a transaction."""
    return Message(
        topic=OP_TOPIC,
        queue_id=QUEUE,
        body=f"{offset},".encode(),
        properties=props.encode({props.WAIT: "true", props.TAGS: ENDED_TAG}),
        born_timestamp=now_ms,
        born_host=store_host,
        store_host=store_host,
    )


def ended_offsets(op: Message) -> tuple[QueueOffset, ...]:
    """The half messages that an op record ends; what is no number is left out, as in Java."""
    words = op.body.split(b",", OFFSETS_MAX)
    return tuple(QueueOffset(int(w)) for w in words if w.isdigit() and len(w) <= 18)


def facts(waiting: Message) -> Half:
    """What of a record of the half topic matters later."""
    properties = waiting.property_map()
    immune = properties.get(props.CHECK_IMMUNITY_TIME_IN_SECONDS, "")
    return Half(
        offset=waiting.queue_offset,
        key=properties.get(props.UNIQ_KEY) or f"@{waiting.queue_offset}",
        stored_ms=waiting.store_timestamp,
        born_ms=waiting.born_timestamp,
        times=_number(properties.get(props.TRANSACTION_CHECK_TIMES, "")) or 0,
        immune_ms=None if _number(immune) is None else 1000 * int(immune),
    )


def renewed(waiting: Message, store_host: bytes) -> Message:
    """The copy of a half message that is asked about once more.

    Raises:
        LocalProtocolError: the properties get too long.
    """
    times = str(facts(waiting).times + 1)
    properties = waiting.property_map() | {props.TRANSACTION_CHECK_TIMES: times}
    encoded = props.encode(properties)
    return msgspec.structs.replace(waiting, properties=encoded, store_host=store_host)


def given_up(waiting: Message, store_host: bytes) -> Message:
    """The record of a half message that was not ended."""
    return msgspec.structs.replace(
        waiting, topic=GIVEN_UP_TOPIC, queue_id=QUEUE, store_host=store_host
    )


def question(waiting: Message, broker_name: str) -> tuple[CheckTransactionRequest, bytes] | None:
    """What a producer is asked about a stored half message (39): header and body, which is the
    message as it will be once it is committed. None if the record does not say where that is."""
    properties = waiting.property_map()
    topic, queue = properties.get(props.REAL_TOPIC, ""), properties.get(props.REAL_QID, "")
    if not takes_messages(topic) or not queue.isdecimal() or len(queue) > 9:
        return None
    key = properties.get(props.UNIQ_KEY)
    header = CheckTransactionRequest(
        topic=topic,
        tran_state_table_offset=waiting.queue_offset,
        commit_log_offset=waiting.physical_offset,
        msg_id=key,
        transaction_id=key,
        offset_msg_id=offset_msg_id(waiting.store_host, waiting.physical_offset),
        bname=broker_name,
    )
    try:
        body = encode_at(
            msgspec.structs.replace(waiting, topic=topic, queue_id=int(queue)),
            queue_offset=waiting.queue_offset,
            physical_offset=waiting.physical_offset,
            store_timestamp=waiting.store_timestamp,
        )
    except LocalProtocolError:  # another broker's record, with a topic that is none
        return None
    return header, body


def fault_of_end(
    h: EndTransactionRequest, waiting: Message | None, *, now_ms: int
) -> Refusal | None:
    """Why an end is refused that names this record, if there is one at its place.

    Java compares no more than group and offsets, and what is at that place after a fail-over may be
    another one's: the key must be the same, too.

    Args:
        h: the request.
        waiting: what is stored at its place of the commit log.
        now_ms: the time.
    """
    if waiting is None or waiting.topic != HALF_TOPIC:
        return _wrong(NOT_FOUND)
    known = facts(waiting)
    late = known.immune_ms is not None and now_ms - waiting.born_timestamp > known.immune_ms
    if late and not h.from_transaction_check:
        return Refusal(code=ResponseCode.ILLEGAL_OPERATION, remark="")
    if waiting.property_map().get(props.PGROUP) != h.producer_group:
        return _wrong("The producer group wrong")
    if waiting.queue_offset != h.tran_state_table_offset:
        return _wrong("The transaction state table offset wrong")
    if (h.transaction_id or known.key) != known.key:
        return _wrong(NOT_FOUND)
    return None


def producer_of(waiting: Message, members: Sequence[str]) -> str | None:
    """Which member of the producer group is asked: another one each time."""
    return members[facts(waiting).times % len(members)] if members else None


def _wrong(remark: str) -> Refusal:
    return Refusal(code=ResponseCode.SYSTEM_ERROR, remark=remark)


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) <= 9 else None
