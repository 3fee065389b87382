"""Pulls: what a read of a queue finds. Pure over a queue's units; the shell reads the records.

Codes and corrected offsets follow RocketMQ's table: nothing new yet (19) may be waited for, an
offset out of the queue is corrected (21), units that the filter drops are skipped (20).
Source: ``DefaultMessageStore.getMessage``, ``PullMessageProcessor``.
"""

from collections.abc import Iterable

from reference.records import QueueOffset, Record
from reference.wire.codes import ResponseCode
from reference.wire.message import QueueUnit, tags_code

MESSAGES_MAX = 32
BYTES_MAX = 262_144
SCAN_MAX = 16_000  # units that one pull may skip by its filter

COMMIT_OFFSET, SUSPEND, SUBSCRIPTION, CLASS_FILTER, LITE_PULL = 1, 2, 4, 8, 16  # sysFlag


class Found(Record):
    """What a pull answers: records to read, and where to go on."""

    code: ResponseCode
    remark: str
    units: tuple[QueueUnit, ...]
    next_offset: QueueOffset


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


def _nothing(code: ResponseCode, remark: str, next_offset: int) -> Found:
    return Found(code=code, remark=remark, units=(), next_offset=QueueOffset(next_offset))


def wanted_codes(subscription: str | None) -> frozenset[int] | None:
    """Hash codes of a tag expression (``A || B``); None where every message is wanted."""
    if subscription is None or subscription.strip() in ("", "*"):
        return None
    return frozenset(tags_code(t.strip()) for t in subscription.split("||") if t.strip())
