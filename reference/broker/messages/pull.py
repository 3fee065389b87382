"""Pulls: what a read of a queue finds. Pure over a queue's units; the shell reads the records.

Codes and corrected offsets follow RocketMQ's table: nothing new yet (19) may be waited for, an
offset out of the queue is corrected (21), units that the filter drops are skipped (20).
Source: ``DefaultMessageStore.getMessage``, ``PullMessageProcessor``.
"""

from collections.abc import Iterable

from maxq.reference.broker.messages.refusal import Refusal
from maxq.reference.records import QueueOffset, Record
from maxq.reference.wire.bodies import SubscriptionData, SubscriptionGroupConfig
from maxq.reference.wire.codes import ResponseCode
from maxq.reference.wire.headers import PullRequest
from maxq.reference.wire.message import QueueUnit, tags_code
from maxq.reference.wire.route import MASTER_ID, PERM_READ, TopicConfig

MESSAGES_MAX = 32
BYTES_MAX = 262_144
SCAN_MAX = 16_000  # units that one pull may skip by its filter
HOLD_MS_MAX = 60_000  # of long polling, whatever the client asks for
HELD_MAX = 10_000  # pulls of all clients that wait; others are answered at once
# Of a machine, whichever it is: what a broker suggests must not differ by it.
MEMORY_BYTES = 8 << 30

COMMIT_OFFSET, SUSPEND, SUBSCRIPTION, CLASS_FILTER, LITE_PULL = 1, 2, 4, 8, 16  # sysFlag


class Found(Record):
    """What a pull answers: records to read, and where to go on."""

    code: ResponseCode
    remark: str
    units: tuple[QueueUnit, ...]
    next_offset: QueueOffset


def fault(
    h: PullRequest,
    *,
    group: SubscriptionGroupConfig | None,
    topic: TopicConfig | None,
    known: SubscriptionData | None,
) -> Refusal | None:
    """Why a pull is refused, checked in RocketMQ's order.

    Args:
        h: the request.
        group: the consumer group's settings; None if there is none.
        topic: the topic's settings, likewise.
        known: what the group wants of the topic by its heartbeats.
    """
    code, why = ResponseCode.SUCCESS, ""
    if group is None:
        code = ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
        why = f"subscription group [{h.consumer_group}] does not exist"
    elif not group.consume_enable:
        code = ResponseCode.NO_PERMISSION
        why = f"subscription group no permission, {h.consumer_group}"
    elif topic is None:
        code = ResponseCode.TOPIC_NOT_EXIST
        why = f"topic[{h.topic}] not exist, apply first please!"
    elif not topic.perm & PERM_READ:
        code = ResponseCode.NO_PERMISSION
        why = f"the topic[{h.topic}] pulling message is forbidden"
    elif not 0 <= h.queue_id < topic.read_queue_nums:
        code = ResponseCode.INVALID_PARAMETER
        why = f"queueId[{h.queue_id}] is illegal, topic {h.topic}"
    elif (h.expression_type or "TAG") != "TAG" or h.sys_flag & CLASS_FILTER:
        code = ResponseCode.SYSTEM_ERROR
        why = f"The broker does not support consumer to filter message by {h.expression_type}"
    elif not h.sys_flag & SUBSCRIPTION and known is None:
        code = ResponseCode.SUBSCRIPTION_NOT_EXIST
        why = "the consumer's subscription not exist"
    elif not h.sys_flag & SUBSCRIPTION and known and known.sub_version < h.sub_version:
        code = ResponseCode.SUBSCRIPTION_NOT_LATEST
        why = "the consumer's subscription not latest"
    return Refusal(code=code, remark=why) if why else None


def find(
    offset: int,
    bounds: tuple[QueueOffset, QueueOffset],
    units: Iterable[tuple[QueueOffset, QueueUnit]],
    *,
    count_max: int,
    codes: frozenset[int] | None,
) -> Found:
    """Look for messages.

    Args:
        offset: the first wanted.
        bounds: first offset of the queue, and the one that the next message gets.
        units: of the queue, from `offset` on.
        count_max: how many the client wants.
        codes: hash codes of wanted tags; None for all.
    """
    first, end = bounds
    if end == 0:
        if offset == 0:
            return _nothing(ResponseCode.PULL_NOT_FOUND, "NO_MESSAGE_IN_QUEUE", 0)
        return _nothing(ResponseCode.PULL_OFFSET_MOVED, "NO_MESSAGE_IN_QUEUE", 0)
    if offset < first:
        return _nothing(ResponseCode.PULL_OFFSET_MOVED, "OFFSET_TOO_SMALL", first)
    if offset == end:
        return _nothing(ResponseCode.PULL_NOT_FOUND, "OFFSET_OVERFLOW_ONE", offset)
    if offset > end:
        return _nothing(ResponseCode.PULL_OFFSET_MOVED, "OFFSET_OVERFLOW_BADLY", end)
    taken: list[QueueUnit] = []
    size = 0
    next_offset = offset
    for scanned, (at, unit) in enumerate(units):
        full = len(taken) >= min(count_max, MESSAGES_MAX) or size + unit.size > BYTES_MAX
        if (taken and full) or scanned >= SCAN_MAX:
            break
        next_offset = at + 1
        if codes is None or unit.tags_code in codes:
            taken.append(unit)
            size += unit.size
    if not taken:
        return _nothing(ResponseCode.PULL_RETRY_IMMEDIATELY, "NO_MATCHED_MESSAGE", next_offset)
    return Found(
        code=ResponseCode.SUCCESS,
        remark="FOUND",
        units=tuple(taken),
        next_offset=QueueOffset(next_offset),
    )


def suggested(
    found: Found, group: SubscriptionGroupConfig, *, log_end: int, ratio: int, beside_master: bool
) -> int:
    """The id of the broker that a consumer is to ask next, of brokers that let slaves be read.

    Args:
        found: what it is given now.
        group: its consumer group's settings.
        log_end: of the commit log, in bytes.
        ratio: ``accessMessageInMemoryMaxRatio``: what lies deeper a slave shall give.
        beside_master: who answers is a slave, and does not act for its master.

    Source: RocketMQ ``PullMessageProcessor.composeResponseHeader``.
    """
    depth = log_end - found.units[-1].physical_offset if found.units else 0
    if depth > MEMORY_BYTES * ratio // 100:
        return group.which_broker_when_consume_slowly
    return MASTER_ID if beside_master else group.broker_id


def _nothing(code: ResponseCode, remark: str, next_offset: int) -> Found:
    return Found(code=code, remark=remark, units=(), next_offset=QueueOffset(next_offset))


def wanted_codes(subscription: str | None) -> frozenset[int] | None:
    """Hash codes of a tag expression (``A || B``); None where every message is wanted.

    An expression of bars alone gives no code: it cannot be parsed.
    """
    if subscription is None or subscription.strip() in ("", "*"):
        return None
    return frozenset(tags_code(t.strip()) for t in subscription.split("||") if t.strip())
