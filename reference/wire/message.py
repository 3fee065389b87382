"""Message records: what a commit log holds, and what pulls and queries answer with.

A record is ``size i32 | magic i32 | ...`` and carries its own position, so a log is a plain
concatenation; a file of a log ends with a BLANK record where the next one did not fit. All
numbers are big-endian and signed, offsets are bytes (`physical_offset`) or message indices
(`queue_offset`), times are milliseconds of the clock of the host that they name.

The CRC is computed when encoding and checked when decoding, so `Message` has no field for it.
Hosts are kept as their bytes (address, then port in 4 bytes): records are copied far more often
than their hosts are looked at. `host` converts.

Also here, since they speak of the same things: the body of a batch, message ids, the units of a
consume queue. Source: RocketMQ ``MessageDecoder``, ``MessageExtEncoder``, ``CommitLog``,
``ConsumeQueue``; captures of 5.1.1, 5.3.3 and 5.5.0.
"""

import struct
import zlib
from collections.abc import Iterable
from ipaddress import ip_address

from maxq.reference.records import LocalProtocolError, PhyOffset, QueueOffset, Record
from maxq.reference.records import RemoteProtocolError as Bad
from maxq.reference.wire import property as property_text

MAGIC_V1 = -626843481  # 0xDAA320A7
MAGIC_V2 = -626843477  # 0xDAA320AB: the topic's length has 2 bytes
BLANK_MAGIC = -875286124  # 0xCBD43194
BLANK_BYTES = 8  # what must stay free behind the last record of a file
BODY_BYTES_MAX = 4 * 1024 * 1024
RECORD_BYTES_MAX = BODY_BYTES_MAX + 64 * 1024
FIXED_BYTES = 91  # of a v1 record with IPv4 hosts: all but body, topic and properties
TOPIC_BYTES_V1_MAX = 127
QUEUE_UNIT_BYTES = 20

# Bits of sysFlag.
COMPRESSED = 0x1
MULTI_TAGS = 0x2
TRANSACTION_MASK = 0xC
TRANSACTION_NONE, TRANSACTION_PREPARED, TRANSACTION_COMMIT, TRANSACTION_ROLLBACK = 0, 4, 8, 12
BORN_HOST_V6 = 0x10
STORE_HOST_V6 = 0x20
NEED_UNWRAP = 0x40
INNER_BATCH = 0x80
COMPRESSION_MASK = 0x700  # 0 and 3: zlib, 1: LZ4, 2: zstd

_SIZE_MAGIC = struct.Struct(">ii")
# All up to the topic's length, for each pair of host sizes; the body lies between the two halves.
_HEADS = {
    (born, store): struct.Struct(f">iiiiiqqiq{born}sq{store}siqi")
    for born in (8, 20)
    for store in (8, 20)
}
_HEAD_V4 = _HEADS[8, 8]
_SYS_FLAG_AT = 36
_UNIT = struct.Struct(">qiq")
_ELEMENT = struct.Struct(">iiiii")


class Message(Record):
    """One record. The appender decides the two offsets and `store_timestamp`."""

    topic: str
    body: bytes
    properties: bytes = b""  # as written; read with `property_map`
    queue_id: int = 0
    flag: int = 0  # the application's
    queue_offset: QueueOffset = QueueOffset(0)
    physical_offset: PhyOffset = PhyOffset(0)
    sys_flag: int = 0
    born_timestamp: int = 0
    born_host: bytes = bytes(8)
    store_timestamp: int = 0
    store_host: bytes = bytes(8)
    reconsume_times: int = 0
    prepared_transaction_offset: PhyOffset = PhyOffset(0)
    magic: int = MAGIC_V1  # raised to v2 where the topic needs it

    def property_map(self) -> dict[str, str]:
        """Read the properties; of equal keys the last wins."""
        return property_text.decode(self.properties)

    @property
    def tags(self) -> str | None:
        return property_text.value_of(self.properties, property_text.TAGS)

    @property
    def transaction(self) -> int:
        return self.sys_flag & TRANSACTION_MASK

    @property
    def msg_id(self) -> str:
        """The offsetMsgId: where the record was first stored."""
        return offset_msg_id(self.store_host, self.physical_offset)


def encoded_size(message: Message) -> int:
    """Count the bytes that `encode` will make, without making them."""
    topic = len(message.topic.encode())
    return (
        FIXED_BYTES
        + (topic > TOPIC_BYTES_V1_MAX or message.magic == MAGIC_V2)
        + (len(message.born_host) - 8)
        + (len(message.store_host) - 8)
        + len(message.body)
        + topic
        + len(message.properties)
    )


def encode(message: Message) -> bytes:
    """Write a record at the position that it says.

    Raises:
        LocalProtocolError: a field does not fit, or the record is longer than the bound.
    """
    return encode_at(
        message,
        queue_offset=message.queue_offset,
        physical_offset=message.physical_offset,
        store_timestamp=message.store_timestamp,
    )


def encode_at(
    message: Message,
    *,
    queue_offset: QueueOffset,
    physical_offset: PhyOffset,
    store_timestamp: int,
) -> bytes:
    """Write a record at the position that an appender has chosen for it.

    Raises:
        LocalProtocolError: as `encode`.
    """
    body, properties = message.body, message.properties
    born_host, store_host = message.born_host, message.store_host
    head = _HEADS.get((len(born_host), len(store_host)))
    if head is None:
        raise LocalProtocolError(f"host of {len(born_host)} or {len(store_host)} bytes")
    sys_flag = message.sys_flag & ~(BORN_HOST_V6 | STORE_HOST_V6)
    if head is not _HEAD_V4:
        sys_flag |= BORN_HOST_V6 if len(born_host) == 20 else 0
        sys_flag |= STORE_HOST_V6 if len(store_host) == 20 else 0
    try:
        topic = message.topic.encode()
        v2 = message.magic == MAGIC_V2 or len(topic) > TOPIC_BYTES_V1_MAX
        size = head.size + len(body) + 1 + v2 + len(topic) + 2 + len(properties)
        if size > RECORD_BYTES_MAX:
            raise LocalProtocolError(f"record too long: {size} > {RECORD_BYTES_MAX} bytes")
        return b"".join((
            head.pack(
                size, MAGIC_V2 if v2 else MAGIC_V1, zlib.crc32(body) & 0x7FFFFFFF,
                message.queue_id, message.flag, queue_offset, physical_offset,
                sys_flag, message.born_timestamp, born_host, store_timestamp, store_host,
                message.reconsume_times, message.prepared_transaction_offset, len(body),
            ),
            body,
            len(topic).to_bytes(1 + v2, "big"),
            topic,
            len(properties).to_bytes(2, "big"),
            properties if len(properties) <= property_text.PROPERTIES_BYTES_MAX else _too_long(),
        ))  # fmt: skip
    except (struct.error, OverflowError, UnicodeEncodeError) as error:
        raise LocalProtocolError(f"message does not fit a record: {error}") from None


def _too_long() -> bytes:
    raise LocalProtocolError(f"properties longer than {property_text.PROPERTIES_BYTES_MAX} bytes")


def peek(data: bytes | bytearray | memoryview, at: int = 0) -> tuple[int, int]:
    """Read size and magic of the record at `at`, and nothing more.

    Raises:
        RemoteProtocolError: fewer than 8 bytes are left.
    """
    try:
        size, magic = _SIZE_MAGIC.unpack_from(data, at)
    except struct.error:
        raise Bad(f"no record in the last {len(data) - at} bytes") from None
    return size, magic


def decode(
    data: bytes | bytearray | memoryview,
    at: int = 0,
    *,
    check_crc: bool = True,
    bytes_max: int = RECORD_BYTES_MAX,
) -> tuple[Message, int]:
    """Read the record that begins at `at`.

    Returns:
        The message, and the position behind the record.

    Raises:
        RemoteProtocolError: no whole, sound message record is there. A BLANK record is none.
    """
    size, magic = peek(data, at)
    if magic not in (MAGIC_V1, MAGIC_V2):
        raise Bad(f"not a message record: magic {magic & 0xFFFFFFFF:#010x}")
    end = at + size
    if not FIXED_BYTES <= size <= bytes_max or end > len(data):
        raise Bad(f"record of {size} bytes with {len(data) - at} left, bound {bytes_max}")
    sys_flag = int.from_bytes(data[at + _SYS_FLAG_AT : at + _SYS_FLAG_AT + 4], "big")
    v6 = sys_flag & (BORN_HOST_V6 | STORE_HOST_V6)
    head = _head_of(v6) if v6 else _HEAD_V4
    if size < head.size + 3:
        raise Bad(f"record of {size} bytes, its fixed part needs {head.size + 3}")
    (
        _, _, crc, queue_id, flag, queue_offset, physical_offset, sys_flag, born_timestamp,
        born_host, store_timestamp, store_host, reconsume_times, prepared, body_size,
    ) = head.unpack_from(data, at)  # fmt: skip
    body_end = at + head.size + body_size
    if body_size < 0 or body_end > end:
        raise Bad(f"body of {body_size} bytes in a record of {size}")
    body = bytes(data[body_end - body_size : body_end])
    if check_crc and body_size and zlib.crc32(body) & 0x7FFFFFFF != crc:
        raise Bad(f"body does not fit its crc {crc}")
    topic, properties = _topic_and_properties(data[body_end:end], 2 if magic == MAGIC_V2 else 1)
    message = Message(
        topic=topic,
        body=body,
        properties=properties,
        queue_id=queue_id,
        flag=flag,
        queue_offset=queue_offset,
        physical_offset=physical_offset,
        sys_flag=sys_flag,
        born_timestamp=born_timestamp,
        born_host=born_host,
        store_timestamp=store_timestamp,
        store_host=store_host,
        reconsume_times=reconsume_times,
        prepared_transaction_offset=prepared,
        magic=magic,
    )
    return message, end


def _topic_and_properties(rest: bytes | bytearray | memoryview, width: int) -> tuple[str, bytes]:
    """Read what follows the body; the topic's length has `width` bytes."""
    topic_size = int.from_bytes(rest[:width], "big", signed=True)
    properties_at = width + topic_size + 2
    if topic_size < 0 or properties_at > len(rest):
        raise Bad(f"topic of {topic_size} bytes in the last {len(rest)} of a record")
    properties_size = int.from_bytes(rest[properties_at - 2 : properties_at], "big", signed=True)
    if properties_size < 0 or properties_at + properties_size != len(rest):
        raise Bad(f"properties of {properties_size} bytes do not end their record")
    try:
        topic = str(rest[width : width + topic_size], "utf-8")
    except UnicodeDecodeError as error:
        raise Bad(f"topic is not UTF-8: {error}") from None
    return topic, bytes(rest[properties_at:])


def _head_of(v6: int) -> struct.Struct:
    return _HEADS[20 if v6 & BORN_HOST_V6 else 8, 20 if v6 & STORE_HOST_V6 else 8]


def decode_all(data: bytes) -> list[Message]:
    """Read the body of a pull, pop or query answer: records without a gap.

    Raises:
        RemoteProtocolError: some byte belongs to no record.
    """
    view = memoryview(data)
    messages: list[Message] = []
    at = 0
    while at < len(data):
        message, at = decode(view, at)
        messages.append(message)
    return messages


def encode_blank(size: int) -> bytes:
    """Write the 8 bytes that say: nothing more in this file's last `size` bytes."""
    if size < BLANK_BYTES:
        raise LocalProtocolError(f"no room for a blank record: {size} bytes")
    return _SIZE_MAGIC.pack(size, BLANK_MAGIC)


# --- the body of a batch -------------------------------------------------------------------------


class BatchElement(Record):
    """One message of a batch; topic, queue and times are those of the request."""

    body: bytes
    properties: bytes = b""
    flag: int = 0


def encode_batch(elements: Iterable[BatchElement]) -> bytes:
    """Write a batch body. Its magic and CRC fields are 0: the broker ignores them."""
    parts: list[bytes] = []
    for element in elements:
        if len(element.properties) > property_text.PROPERTIES_BYTES_MAX:
            _too_long()
        size = _ELEMENT.size + len(element.body) + 2 + len(element.properties)
        parts += (
            _ELEMENT.pack(size, 0, 0, element.flag, len(element.body)),
            element.body,
            len(element.properties).to_bytes(2, "big"),
            element.properties,
        )
    body = b"".join(parts)
    if len(body) > BODY_BYTES_MAX:
        raise LocalProtocolError(f"batch too long: {len(body)} > {BODY_BYTES_MAX} bytes")
    return body


def decode_batch(data: bytes) -> list[BatchElement]:
    """Read a batch body.

    Raises:
        RemoteProtocolError: some byte belongs to no element.
    """
    elements: list[BatchElement] = []
    at = 0
    while at < len(data):
        if len(data) - at < _ELEMENT.size + 2:
            raise Bad(f"no batch element in the last {len(data) - at} bytes")
        size, _, _, flag, body_size = _ELEMENT.unpack_from(data, at)
        body_at, end = at + _ELEMENT.size, at + size
        properties_at = body_at + body_size + 2
        if body_size < 0 or not properties_at <= end <= len(data):
            raise Bad(f"batch element of {size} bytes, body of {body_size}, {len(data) - at} left")
        properties_size = int.from_bytes(data[properties_at - 2 : properties_at], "big")
        if properties_at + properties_size != end:
            raise Bad(f"properties of {properties_size} bytes do not end a batch element of {size}")
        elements.append(
            BatchElement(
                body=data[body_at : body_at + body_size],
                properties=data[properties_at:end],
                flag=flag,
            )
        )
        at = end
    return elements


# --- hosts and ids -------------------------------------------------------------------------------


def host(address: str, port: int) -> bytes:
    """Write a host as records carry it: 8 bytes for IPv4, 20 for IPv6."""
    parts = address.split(".")
    if len(parts) == 4 and all(p.isdecimal() and p.isascii() and len(p) < 4 for p in parts):
        numbers = [int(p) for p in parts]
        if max(numbers) < 256 and [str(n) for n in numbers] == parts:  # most are: ten times faster
            return bytes(numbers) + port.to_bytes(4, "big", signed=True)
    return ip_address(address).packed + port.to_bytes(4, "big", signed=True)


def offset_msg_id(store_host: bytes, physical_offset: int) -> str:
    """Build the id that a broker gives a record: its host and physical offset in hex."""
    return (store_host + physical_offset.to_bytes(8, "big", signed=True)).hex().upper()


def parse_offset_msg_id(text: str) -> tuple[bytes, PhyOffset]:
    """Read an offsetMsgId into host bytes and physical offset.

    Raises:
        RemoteProtocolError: it is no such id.
    """
    try:
        raw = bytes.fromhex(text)
    except ValueError:
        raw = b""
    if len(raw) not in (16, 28) or len(text) != 2 * len(raw):
        raise Bad(f"not an offsetMsgId: {text!r:.80}")
    return raw[:-8], PhyOffset(int.from_bytes(raw[-8:], "big", signed=True))


# --- consume queue units -------------------------------------------------------------------------


class QueueUnit(Record):
    """One entry of a consume queue. In the schedule topic `tags_code` is a delivery time."""

    physical_offset: PhyOffset
    size: int
    tags_code: int = 0


def encode_unit(unit: QueueUnit) -> bytes:
    """Write a unit."""
    return _UNIT.pack(unit.physical_offset, unit.size, unit.tags_code)


def decode_units(data: bytes) -> list[QueueUnit]:
    """Read units without a gap.

    Raises:
        RemoteProtocolError: the last one is not whole.
    """
    if len(data) % QUEUE_UNIT_BYTES:
        raise Bad(f"{len(data)} bytes are not a multiple of {QUEUE_UNIT_BYTES}")
    return [
        QueueUnit(physical_offset=offset, size=size, tags_code=code)
        for offset, size, code in _UNIT.iter_unpack(data)
    ]


def tags_code(tag: str | None) -> int:
    """Hash a tag as Java's ``String.hashCode`` does: 32 bits, signed; 0 without a tag."""
    if not tag:
        return 0
    code = 0
    raw = tag.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(raw), 2):
        code = (31 * code + (raw[at] << 8 | raw[at + 1])) & 0xFFFFFFFF
    return code - 2**32 if code >= 2**31 else code
