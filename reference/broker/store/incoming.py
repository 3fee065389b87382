"""What a slave may append to its log: bytes that a recovery of it would take back. Pure.

A master's log comes in pieces that are cut at any byte. What is whole of it must be sound records
in their places: each where it says that it lies, within one file, its body fits its crc, and the
next of its queue. Of a record that is not whole yet, size and magic must be possible; the rest is
judged when it has come. Offsets are bytes of the log, ends exclusive.

A record whose properties end in a zero looks torn to a recovery. A Java master takes one from a
batch, and its slaves must have it. So it is taken, and marked (`Piece.torn_looking_end`): it must
be on the disk, and known to be, before it is acknowledged.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from maxq.reference.broker.store.commit_log import looks_torn, sound_record
from maxq.reference.records import PhyOffset, QueueOffset, Record, RemoteProtocolError
from maxq.reference.wire.message import (
    BLANK_BYTES,
    BLANK_MAGIC,
    FIXED_BYTES,
    MAGIC_V1,
    MAGIC_V2,
    RECORD_BYTES_MAX,
    Message,
    peek,
)


class Piece(Record):
    """Bytes that may be appended at `start`, and what they complete."""

    start: PhyOffset
    data: bytes
    records: tuple[tuple[Message, PhyOffset], ...]  # each with its end
    whole: PhyOffset  # the end of the last whole record, or of a file, once this is appended

    @property
    def torn_looking_end(self) -> PhyOffset:
        """The end of the last record that a recovery might take for torn; 0 if there is none."""
        ends = [end for message, end in self.records if looks_torn(message)]
        return max(ends, default=PhyOffset(0))


@dataclass(slots=True)
class Incoming:
    """Bytes that are to be appended to a log.

    Args:
        offset: the end of the log.
        data: the bytes.
        read: reads the log from an offset on: so many bytes, or up to its end.
        file_size: of the log's files, bytes.
        next_offset: what the next message of a topic's queue gets, by what the log holds; None
            where that is not known, since the log does not begin at 0.
    """

    offset: PhyOffset
    data: bytes
    read: Callable[[PhyOffset, int], bytes]
    file_size: int
    next_offset: Callable[[str, int], QueueOffset | None]
    _seen: dict[tuple[str, int], int] = field(default_factory=dict)  # next offsets, with `data`

    def checked(self, whole: PhyOffset) -> Piece:
        """Judge the bytes.

        Args:
            whole: the end of the log's last whole record; what lies between it and `offset` is the
                beginning of one.

        Raises:
            RemoteProtocolError: a recovery would not take them back; says where and why.
        """
        records: list[tuple[Message, PhyOffset]] = []
        for message, end in self.sound(whole):
            records += [] if message is None else [(message, end)]
            whole = end
        return Piece(start=self.offset, data=self.data, records=tuple(records), whole=whole)

    def sound(self, whole: PhyOffset) -> Iterator[tuple[Message | None, PhyOffset]]:
        """Each record with its end, None for a BLANK one; arguments and errors as `checked`."""
        end = self.offset + len(self.data)
        while whole + BLANK_BYTES <= end:
            size, magic = peek(self._window(whole, BLANK_BYTES))
            room = self.file_size - whole % self.file_size
            blank = magic == BLANK_MAGIC
            fault = _blank_fault(size, room) if blank else _head_fault(size, magic, room)
            if fault:
                raise RemoteProtocolError(f"at offset {whole}: {fault}")
            if whole + size > end:
                return
            message = None if blank else self._message(whole, size)
            whole = PhyOffset(whole + size)
            yield message, whole

    def _window(self, at: PhyOffset, size: int) -> bytes | memoryview:
        """Bytes of the log as it would be."""
        if at >= self.offset:
            return memoryview(self.data)[at - self.offset : at - self.offset + size]
        old = self.read(at, min(size, self.offset - at))
        return old + self.data[: size - len(old)]

    def _message(self, at: PhyOffset, size: int) -> Message:
        message = sound_record(self._window(at, size), 0, at, whole=True)
        if message is None or "\0" in message.topic:  # which no broker takes from a client
            raise RemoteProtocolError(f"at offset {at}: no sound record of {size} bytes")
        key = message.topic, message.queue_id
        following = self._seen.get(key) or self.next_offset(*key)
        if following is None:
            following = message.queue_offset
        if message.queue_offset != following:
            raise RemoteProtocolError(
                f"at offset {at}: message {message.queue_offset} of {key}, expected {following}"
            )
        self._seen[key] = following + 1
        return message


def _blank_fault(size: int, room: int) -> str:
    return "" if size == room else f"{size} bytes end a file that has {room} left"


def _head_fault(size: int, magic: int, room: int) -> str:
    """Why no record begins so; empty if one may."""
    if magic not in (MAGIC_V1, MAGIC_V2):
        return f"no record: magic {magic & 0xFFFFFFFF:#010x}"
    if not FIXED_BYTES <= size <= RECORD_BYTES_MAX:
        return f"record of {size} bytes, at most {RECORD_BYTES_MAX}"
    if size + BLANK_BYTES > room:
        return f"record of {size} bytes in a file that has {room} left"
    return ""
