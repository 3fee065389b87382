"""Stores are kept without the room that files have beforehand, and without indexes."""

from benchmarks.captures.stores import trimmed
from maxq.reference.records import PhyOffset
from maxq.reference.wire import message
from maxq.reference.wire.message import Message, QueueUnit

RECORD = message.encode(Message(topic="T1", body=b"\0\0"))
UNIT = message.encode_unit(QueueUnit(physical_offset=PhyOffset(0), size=len(RECORD), tags_code=0))


def test_files_end_behind_their_last_data() -> None:
    store = {
        "commitlog/00000000000000000000": RECORD + RECORD + bytes(4096),
        "commitlog/00000000000000004096": bytes(4096),
        "consumequeue/T1/0/00000000000000000000": UNIT + bytes(5980),
        "checkpoint": b"\x01" + bytes(4095),
        "config/topics.json": b"{}",
        "abort": b"",
        "lock": b"",
        "config/topics.json.bak": b"{}",
        "index/20260101000000000": b"x",
        "timerwheel": b"x",
    }
    assert trimmed(store) == {
        "commitlog/00000000000000000000": RECORD + RECORD,
        "consumequeue/T1/0/00000000000000000000": UNIT,
        "checkpoint": b"\x01" + bytes(59),
        "config/topics.json": b"{}",
        "abort": b"",
    }


def test_a_record_that_is_not_whole_is_none() -> None:
    store = {"commitlog/00000000000000000000": RECORD + RECORD[:-1]}
    assert trimmed(store) == {"commitlog/00000000000000000000": RECORD}
