"""Message records, batches, ids and queue units: the spec's vectors, and refusals."""

import msgspec
import pytest

from maxq.reference.records import LocalProtocolError, PhyOffset, QueueOffset, RemoteProtocolError
from maxq.reference.wire import message as m
from maxq.reference.wire import property as property_text

VECTOR = bytes.fromhex(
    "00000097 daa320a7 3610a686 00000001 00000000 0000000000000007 0000000000001000 00000000"
    "0000018bcfe56800 0a000001 0000c350 0000018bcfe5687b 0a000002 00002a9f 00000000"
    "0000000000000000 00000005 68656c6c6f 06 546f70696341 0031"
    "554e49515f4b455901374630303030303130303030313842344141433230303030303030303030303002"
    "5441475301 78 02"
)
MESSAGE = m.Message(
    topic="TopicA",
    body=b"hello",
    properties=b"UNIQ_KEY\x017F000001000018B4AAC2000000000000\x02TAGS\x01x\x02",
    queue_id=1,
    queue_offset=QueueOffset(7),
    physical_offset=PhyOffset(4096),
    born_timestamp=1700000000000,
    born_host=m.host("10.0.0.1", 50000),
    store_timestamp=1700000000123,
    store_host=m.host("10.0.0.2", 10911),
)


def test_record_vector() -> None:
    """docs/spec/remoting.md 5.1."""
    assert m.encode(MESSAGE) == VECTOR
    assert m.decode(VECTOR) == (MESSAGE, 151)
    assert m.encoded_size(MESSAGE) == 151
    assert m.peek(VECTOR) == (151, m.MAGIC_V1)
    assert MESSAGE.msg_id == "0A00000200002A9F0000000000001000"
    assert MESSAGE.tags == "x"
    assert list(MESSAGE.property_map()) == ["UNIQ_KEY", "TAGS"]


def test_an_appender_chooses_the_position() -> None:
    raw = m.encode_at(
        MESSAGE,
        queue_offset=QueueOffset(8),
        physical_offset=PhyOffset(5000),
        store_timestamp=1700000000999,
    )
    got, _ = m.decode(raw)

    assert (got.queue_offset, got.physical_offset, got.store_timestamp) == (8, 5000, 1700000000999)
    assert len(raw) == len(VECTOR)
    assert [i for i in range(151) if raw[i] != VECTOR[i]] == [27, 34, 35, 62, 63]


def test_hosts_of_both_families() -> None:
    v6 = m.host("fe80::1", 10911)
    both = msgspec.structs.replace(MESSAGE, born_host=v6, store_host=v6)
    born = msgspec.structs.replace(MESSAGE, born_host=v6)

    for message, bits, size in ((both, 0x30, 175), (born, 0x10, 163)):
        raw = m.encode(message)
        assert len(raw) == size == m.encoded_size(message)
        got, _ = m.decode(raw)
        assert got.sys_flag == bits
        assert (got.born_host, got.store_host) == (message.born_host, message.store_host)
        assert m.encode(got) == raw
    assert len(both.msg_id) == 56
    assert m.parse_offset_msg_id(both.msg_id) == (v6, 4096)


def test_long_topics_need_v2() -> None:
    message = msgspec.structs.replace(MESSAGE, topic="t" * 128)
    raw = m.encode(message)

    assert m.peek(raw) == (m.encoded_size(message), m.MAGIC_V2)
    got, _ = m.decode(raw)
    assert (got.topic, got.magic) == (message.topic, m.MAGIC_V2)
    assert m.encode(got) == raw


def test_a_log_is_a_concatenation() -> None:
    log = VECTOR * 3
    assert m.decode_all(log) == [MESSAGE] * 3
    assert m.decode_all(b"") == []
    assert m.decode(bytearray(log), 151) == (MESSAGE, 302)
    with pytest.raises(RemoteProtocolError):
        m.decode_all(log + b"\x00")


def test_blank_records() -> None:
    raw = m.encode_blank(1024)
    assert raw == bytes.fromhex("00000400 cbd43194")
    assert m.peek(raw) == (1024, m.BLANK_MAGIC)
    with pytest.raises(RemoteProtocolError, match="magic 0xcbd43194"):
        m.decode(raw)
    with pytest.raises(LocalProtocolError):
        m.encode_blank(7)


def patched(at: int, raw: bytes) -> bytes:
    return VECTOR[:at] + raw + VECTOR[at + len(raw) :]


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        VECTOR[:7],
        VECTOR[:-1],
        patched(0, b"\x00\x00\x00\x00"),
        patched(0, b"\xff\xff\xff\xff"),
        patched(0, b"\x00\x00\x00\x5b"),
        patched(0, b"\x7f\xff\xff\xff"),
        patched(4, b"\x00"),
        patched(8, b"\x37"),  # crc
        patched(36, b"\x00\x00\x00\x30"),  # claims IPv6 hosts
        patched(84, b"\xff\xff\xff\xff"),  # length of the body
        patched(84, b"\x00\x00\x00\x06"),
        patched(84, b"\x00\x00\x00\x04"),
        patched(88, b"j"),
        patched(93, b"\xff"),  # length of the topic
        patched(94, b"\xff"),
        patched(100, b"\xff\xff"),  # length of the properties
        patched(100, b"\x00\x32"),
    ],
)
def test_refused_records(raw: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        m.decode(raw)


def test_the_crc_can_be_left_alone() -> None:
    got, _ = m.decode(patched(88, b"j"), check_crc=False)
    assert got.body == b"jello"
    with pytest.raises(RemoteProtocolError, match="bound"):
        m.decode(VECTOR, bytes_max=150)


@pytest.mark.parametrize(
    "change",
    [
        {"queue_id": 2**31},
        {"physical_offset": 2**63},
        {"born_host": b"abc"},
        {"topic": "\ud800"},
        {"topic": "t" * 70000, "magic": m.MAGIC_V2},
        {"properties": bytes(32768)},
        {"body": bytes(m.RECORD_BYTES_MAX)},
    ],
)
def test_messages_that_fit_no_record(change: dict[str, object]) -> None:
    with pytest.raises(LocalProtocolError):
        m.encode(msgspec.structs.replace(MESSAGE, **change))


def test_batch_vector() -> None:
    """docs/spec/remoting.md 5.6."""
    raw = bytes.fromhex(
        "00000026 00000000 00000000 00000000 00000002 6869 000e 6b01760257414954017472756502"
    )
    element = m.BatchElement(body=b"hi", properties=b"k\x01v\x02WAIT\x01true\x02")

    assert m.encode_batch([element]) == raw
    assert m.decode_batch(raw * 2) == [element, element]
    assert m.decode_batch(b"") == []


@pytest.mark.parametrize(
    "raw",
    [
        b"\x00",
        bytes(22),
        bytes.fromhex("00000026" + "00" * 12 + "00000002" + "6869" + "000e" + "00" * 13),
        bytes.fromhex("00000017" + "00" * 12 + "00000002" + "6869" + "0000"),
        bytes.fromhex("00000018" + "00" * 12 + "ffffffff" + "6869" + "0000"),
        bytes.fromhex("7fffffff" + "00" * 12 + "00000002" + "6869" + "0000"),
    ],
)
def test_refused_batches(raw: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        m.decode_batch(raw)


def test_batches_that_are_too_long() -> None:
    with pytest.raises(LocalProtocolError):
        m.encode_batch([m.BatchElement(body=b"", properties=bytes(32768))])
    with pytest.raises(LocalProtocolError):
        m.encode_batch([m.BatchElement(body=bytes(m.BODY_BYTES_MAX))])


@pytest.mark.parametrize("text", ["", "0A", "x" * 32, "0A" * 17, "0A " * 16])
def test_refused_ids(text: str) -> None:
    with pytest.raises(RemoteProtocolError):
        m.parse_offset_msg_id(text)


def test_queue_units() -> None:
    unit = m.QueueUnit(physical_offset=PhyOffset(4096), size=151, tags_code=-5)
    raw = m.encode_unit(unit)

    assert raw == bytes.fromhex("0000000000001000 00000097 fffffffffffffffb")
    assert m.decode_units(raw * 2) == [unit, unit]
    with pytest.raises(RemoteProtocolError):
        m.decode_units(raw[:-1])


@pytest.mark.parametrize(
    ("tag", "code"),
    [(None, 0), ("", 0), ("x", 120), ("TagA", 2598919), ("TagB", 2598920),
     ("polygenelubricants", -(2**31)), ("\U0001f600", 1772899)],
)  # fmt: skip
def test_java_hash_codes(tag: str | None, code: int) -> None:
    assert m.tags_code(tag) == code


def test_properties() -> None:
    """docs/spec/remoting.md 5.4."""
    raw = property_text.encode({"k": "v", "WAIT": "true"})
    assert raw == b"k\x01v\x02WAIT\x01true\x02"
    assert property_text.decode(raw) == {"k": "v", "WAIT": "true"}
    assert property_text.decode(raw[:-1]) == {"k": "v", "WAIT": "true"}
    assert property_text.decode(b"k\x01a\x02k\x01b\x01c\x02") == {"k": "b\x01c"}
    assert property_text.decode(b"\x01v\x02k\x01\x02lonely\x02\x02\xff\x01v") == {"\ufffd": "v"}
    assert property_text.decode(b"") == {}
    assert property_text.value_of(raw, "WAIT") == "true"
    assert property_text.value_of(raw, "AIT") is None
    assert property_text.joined(b"a\x01b", b"", b"c\x01d\x02") == b"a\x01b\x02c\x01d\x02"


@pytest.mark.parametrize(
    "pair",
    [("", "v"), ("k", ""), ("k\x01", "v"), ("k\x02", "v"), ("k", "v\x02"), ("k", "\ud800"),
     ("k", "v" * 32768)],
)  # fmt: skip
def test_properties_that_cannot_be_read_back(pair: tuple[str, str]) -> None:
    with pytest.raises(LocalProtocolError):
        property_text.encode(dict([pair]))
