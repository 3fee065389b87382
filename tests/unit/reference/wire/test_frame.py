"""Frames: the vectors of the spec, what Java accepts, what is refused."""

import pytest

from maxq.reference.records import LocalProtocolError, RemoteProtocolError
from maxq.reference.wire.frame import (
    FRAME_BYTES_MAX,
    LANGUAGES,
    ONEWAY_FLAG,
    RESPONSE_FLAG,
    Decoder,
    Frame,
    Serialize,
    decode,
    encode,
)

JSON_HEADER = (
    b'{"code":105,"extFields":{"topic":"T"},"flag":0,"language":"PYTHON","opaque":7,'
    b'"serializeTypeCurrentRPC":"JSON","version":479}'
)
BINARY = bytes.fromhex(
    "00000025 01000021 0069 00 01df 00000007 00000000 00000000 0000000c0005 746f706963 00000001 54"
)


def framed(header: bytes, body: bytes = b"", kind: int = 0) -> bytes:
    word = (kind << 24 | len(header)).to_bytes(4, "big")
    return (4 + len(header) + len(body)).to_bytes(4, "big") + word + header + body


def test_json_vector() -> None:
    """docs/spec/remoting.md 1.2."""
    raw = bytes.fromhex("000000810000007d") + JSON_HEADER
    want = Frame(code=105, opaque=7, ext={"topic": "T"})

    assert encode(want) == raw
    assert Decoder().feed(raw) == [want]


def test_binary_vector() -> None:
    """docs/spec/remoting.md 1.4."""
    want = Frame(
        code=105, opaque=7, ext={"topic": "T"}, language="JAVA", serialize=Serialize.ROCKETMQ
    )

    assert encode(want) == BINARY
    assert Decoder().feed(BINARY) == [want]


def test_answers_copy_opaque_and_serialization() -> None:
    request = Decoder().feed(BINARY)[0]

    answer = request.answer(17, "no route", body=b"x")

    assert (answer.opaque, answer.flag, answer.serialize) == (7, RESPONSE_FLAG, request.serialize)
    assert (answer.is_response, request.is_response) == (True, False)
    assert Frame(code=40, flag=ONEWAY_FLAG).is_oneway
    assert decode(encode(answer)[4:]).remark == "no route"


@pytest.mark.parametrize(
    ("header", "want"),
    [
        (b"{}", Frame(code=0, language="JAVA", version=0)),
        (b' {"opaque" : 1,\n"code":2}', Frame(code=2, opaque=1, language="JAVA", version=0)),
        (b'{"language":3,"zz":[1]}', Frame(code=0, version=0)),
        (b'{"language":"KLINGON","remark":null}', Frame(code=0, language="KLINGON", version=0)),
        (b'{"language":99}', Frame(code=0, language=None, version=0)),
        (
            b'{"extFields":{"a":5,"b":true,"c":null,"d":"x"}}',
            Frame(code=0, language="JAVA", version=0, ext={"a": "5", "b": "true", "d": "x"}),
        ),
        (b'{"extFields":{}}', Frame(code=0, language="JAVA", version=0, ext={})),
    ],
)
def test_what_java_accepts(header: bytes, want: Frame) -> None:
    assert Decoder().feed(framed(header)) == [want]


@pytest.mark.parametrize(
    "raw",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x00",  # TLS
        b"\xff\xff\xff\xff",
        b"\x00\x00\x00\x00",
        (FRAME_BYTES_MAX - 3).to_bytes(4, "big"),
        framed(b"{}", kind=2),
        framed(b"[]"),
        framed(b"{"),
        framed(b""),
        framed(b"\xff\xfe"),
        framed(b'{"opaque":2147483648}'),
        framed(b'{"code":-2147483649}'),
        framed(b'{"code":"x"}'),
        framed(b'{"extFields":' * 2000 + b"1" + b"}" * 2000),
        framed(b'{"extFields":{"a":' + b"[" * 5000 + b"]" * 5000 + b"}}"),
        framed(bytes(20), kind=1),
        framed(bytes(13) + b"\x00\x00\x00\x09" + bytes(4), kind=1),
        framed(bytes(17) + b"\x00\x00\x00\x02\x00\x00", kind=1),
        framed(bytes(17) + b"\x00\x00\x00\x07\x00\x01k\x00\x00\x00\x05", kind=1),
        framed(bytes(13) + b"\x00\x00\x00\x01\xff" + bytes(4), kind=1),
        (4).to_bytes(4, "big") + b"\x00\x00\x00\x05",
    ],
)
def test_refused(raw: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        Decoder().feed(raw)


def test_empty_binary_entries_are_null() -> None:
    ext = b"\x00\x00\x00\x00\x00\x01v" + b"\x00\x01k\x00\x00\x00\x00"
    header = bytes(17) + len(ext).to_bytes(4, "big") + ext

    assert Decoder().feed(framed(header, kind=1))[0].ext is None


@pytest.mark.parametrize(
    "frame",
    [
        Frame(code=2**31),
        Frame(code=1, opaque=-(2**31) - 1),
        Frame(code=200050, serialize=Serialize.ROCKETMQ),
        Frame(code=1, version=40000, serialize=Serialize.ROCKETMQ),
        Frame(code=1, ext={"": "x"}, serialize=Serialize.ROCKETMQ),
        Frame(code=1, ext={"x": "\ud800"}),
        Frame(code=1, remark="\ud800", serialize=Serialize.ROCKETMQ),
        Frame(code=1, body=bytes(FRAME_BYTES_MAX)),
    ],
)
def test_cannot_be_written(frame: Frame) -> None:
    with pytest.raises(LocalProtocolError):
        encode(frame)


def test_the_longest_frame() -> None:
    frame = Frame(code=1)
    frame = Frame(code=1, body=bytes(FRAME_BYTES_MAX - len(encode(frame))))

    raw = encode(frame)

    assert len(raw) == FRAME_BYTES_MAX
    assert Decoder().feed(raw) == [frame]


def test_languages_keep_their_ordinals() -> None:
    assert [LANGUAGES.index(name) for name in ("JAVA", "PYTHON", "RUST", "NODE_JS")] == [
        0,
        3,
        12,
        13,
    ]
