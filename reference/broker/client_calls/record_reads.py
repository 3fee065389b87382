"""What a look at single records shows: when one was stored, what is at a place of the log."""

from maxq.reference.broker.store.store import Store
from maxq.reference.records import PhyOffset, QueueOffset, RemoteProtocolError
from maxq.reference.wire.message import RECORD_BYTES_MAX, QueueUnit, decode, peek

_HEAD_BYTES = 8  # size and magic


def stored_before(store: Store, topic: str, queue_id: int, offset: int) -> int | None:
    """When the message before `offset` of a queue was stored, in ms; None if there is none."""
    first, end = store.bounds(topic, queue_id)
    if not first < offset <= end:
        return None
    _, unit = next(store.units(topic, queue_id, QueueOffset(offset - 1)))
    return decode(store.record(unit))[0].store_timestamp


def record_at(store: Store, offset: int) -> bytes | None:
    """The record that begins at a place of the log; None if none does.

    The queue that the record names must say so, too: the bytes of a body are a client's, and can
    hold whatever looks like a record.
    """
    start = PhyOffset(offset)
    if not 0 <= start <= store.end - _HEAD_BYTES:
        return None
    try:
        head = store.record(QueueUnit(physical_offset=start, size=_HEAD_BYTES, tags_code=0))
        size, _ = peek(head)
        if not _HEAD_BYTES < size <= min(RECORD_BYTES_MAX, store.end - start):
            return None
        record = store.record(QueueUnit(physical_offset=start, size=size, tags_code=0))
        message, end = decode(record)
    except (KeyError, RemoteProtocolError):  # of no file, or no record
        return None
    unit = store.unit_of(message.topic, message.queue_id, message.queue_offset)
    there = unit is not None and (unit.physical_offset, unit.size) == (start, end)
    return record if there else None
