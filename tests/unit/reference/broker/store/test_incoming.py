"""What a slave takes from a master, byte by byte, and what it does not."""

import struct
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from maxq.reference.broker.store.incoming import Incoming
from maxq.reference.records import PhyOffset, QueueOffset, RemoteProtocolError
from maxq.reference.wire.message import BLANK_BYTES, Message, decode_all, encode_at, encode_blank

FILE = 1000
GOLDEN = Path(__file__).parents[4] / "wire" / "golden"


def record(at: int, queue_offset: int = 0, **more: object) -> bytes:
    fields = {"topic": "T", "body": b"x" * 50, **more}
    return encode_at(
        Message(**fields),  # type: ignore[arg-type] # a test's fields
        queue_offset=QueueOffset(queue_offset),
        physical_offset=PhyOffset(at),
        store_timestamp=1,
    )


SIZE = len(record(0))


class Log:
    """A log in memory that takes what is judged to be sound."""

    def __init__(self, file_size: int = FILE) -> None:
        self.data = b""
        self.whole = PhyOffset(0)
        self.torn_looking_end = 0
        self._file_size = file_size
        self._queues: Counter[tuple[str, int]] = Counter()

    @property
    def count(self) -> int:
        return self._queues.total()

    def take(self, data: bytes) -> None:
        end = PhyOffset(len(self.data))
        piece = Incoming(end, data, self.read, self._file_size, self._next).checked(self.whole)
        self.data += piece.data
        self.whole = piece.whole
        self.torn_looking_end = max(self.torn_looking_end, piece.torn_looking_end)
        self._queues.update((m.topic, m.queue_id) for m, _ in piece.records)

    def _next(self, topic: str, queue_id: int) -> QueueOffset:
        return QueueOffset(self._queues[topic, queue_id])

    def take_in_steps(self, data: bytes, step: int) -> None:
        for at in range(0, len(data), step):
            self.take(data[at : at + step])

    def read(self, offset: PhyOffset, size: int) -> bytes:
        return self.data[offset : offset + size]


def master_log() -> bytes:
    """Three files of records, each closed by a BLANK."""
    data, number = b"", 0
    while len(data) < 3 * FILE:
        room = FILE - len(data) % FILE
        if room < SIZE + BLANK_BYTES:
            data += encode_blank(room).ljust(room, b"\0")
        else:
            data, number = data + record(len(data), number), number + 1
    return data


@pytest.mark.parametrize("step", [1, 7, 8, 100, SIZE, 333, 5000])
def test_a_sound_log_is_taken_however_it_is_cut(step: int) -> None:
    log, sent = Log(), master_log()
    log.take_in_steps(sent, step)
    assert (log.data, log.whole) == (sent, len(sent))
    assert log.count == sent.count(b"x" * 50)


@pytest.mark.parametrize("step", [100, 32_768])
@pytest.mark.parametrize("release", ["5.1.1", "5.3.3", "5.5.0"])
def test_logs_of_java_masters_are_taken(release: str, step: int) -> None:
    base = GOLDEN / release / "stores" / "broker1" / "commitlog"
    sent = (base / f"{0:020d}").read_bytes()
    log = Log(file_size=64 << 20)
    log.take_in_steps(sent, step)
    assert log.whole == len(sent)
    assert log.count == len(decode_all(sent))


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


BAD: dict[str, Callable[[int], bytes]] = {
    "noise": lambda at: b"\xff" * 200,
    "zeros": lambda at: bytes(200),
    "of another place": lambda at: record(at + 1, 1),
    "a later message of its queue": lambda at: record(at, 9),
    "a message again": lambda at: record(at, 0),
    "a body with a flipped bit": lambda at: flipped(record(at, 1), 100),
    "a longer size": lambda at: struct.pack(">i", SIZE + 1) + record(at, 1)[4:] + b"\0",
    "a negative size": lambda at: struct.pack(">i", -SIZE) + record(at, 1)[4:],
    "a size beyond any record": lambda at: struct.pack(">i", 2**30) + record(at, 1)[4:],
    "a file's end that is none": lambda at: encode_blank(200).ljust(200, b"\0"),
    "over the end of a file": lambda at: record(at, 1, body=b"y" * (FILE - at - 95)),
    "torn": lambda at: record(at, 1, topic="a\0b"),
}


@pytest.mark.parametrize("step", [1, 8, 60, 5000])
@pytest.mark.parametrize("kind", sorted(BAD))
def test_what_a_recovery_would_not_take_back_is_refused(kind: str, step: int) -> None:
    """At its first impossible byte or, what only its whole shows, at its last; never behind it."""
    log = Log()
    log.take(record(0))
    bad = BAD[kind](SIZE)
    with pytest.raises(RemoteProtocolError, match=f"at offset {SIZE}: "):
        log.take_in_steps(bad, step)
    assert (log.whole, log.count) == (SIZE, 1)
    assert len(log.data) < SIZE + len(bad)


@pytest.mark.parametrize("step", [1, 60, 5000])
def test_a_record_of_a_java_batch_that_ends_in_a_zero_is_taken_and_marked(step: int) -> None:
    log = Log()
    odd = record(SIZE, 1, properties=b"A\x01B\x02\0")
    log.take(record(0))
    assert log.torn_looking_end == 0
    log.take_in_steps(odd + record(SIZE + len(odd), 2), step)
    assert log.count == 3
    assert log.torn_looking_end == SIZE + len(odd)


def test_two_messages_of_a_queue_in_one_piece_are_counted() -> None:
    log = Log()
    with pytest.raises(RemoteProtocolError, match="expected 1"):
        log.take(record(0, 0) + record(SIZE, 0))
    log.take(record(0, 0) + record(SIZE, 1))
    assert log.count == 2


def test_the_rest_of_a_closed_file_may_be_long() -> None:
    log = Log()
    log.take(encode_blank(FILE))
    assert log.whole == 0
    log.take(bytes(FILE - BLANK_BYTES) + record(FILE)[:20])
    assert log.whole == FILE
