"""Remoting frames: the envelope of every request and response between clients and nodes.

A frame is ``length i32 | type i8, header length i24 | header | body``; `length` counts what
follows it. The header is JSON (type 0) or binary (type 1); both sides must look at the type of
each frame. Everything is big-endian. The decoder is incremental and bounded: it accepts bytes in
any split and raises `RemoteProtocolError` at a length out of bounds or a header it cannot read.

Source: docs/spec/remoting.md 1, RocketMQ ``RemotingCommand`` and ``RocketMQSerializable``; seen in
captures of 5.1.1, 5.3.3 and 5.5.0.
"""

from enum import IntEnum
from typing import Annotated

import msgspec

from maxq.reference.records import LocalProtocolError, Record, RemoteProtocolError

FRAME_BYTES_MAX = 16_777_216  # counts the length field itself
VERSION = 479  # RocketMQ 5.3.3, the release whose behaviour we follow
RESPONSE_FLAG = 1
ONEWAY_FLAG = 2
INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1

LANGUAGES = (
    "JAVA", "CPP", "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY",
    "OTHER", "HTTP", "GO", "PHP", "OMS", "RUST", "NODE_JS",
)  # fmt: skip


class Serialize(IntEnum):
    """How a frame's header is written."""

    JSON = 0
    ROCKETMQ = 1


class Frame(Record):
    """One remoting command.

    `code` is a request code, or a response code where the response flag is set. `ext` is the
    typed header as text; None where the sender made no header at all. An empty body is None, and so
    is an unknown language; it is left out in JSON, where Java then reads ``JAVA``.
    """

    code: int
    opaque: int = 0
    flag: int = 0
    ext: dict[str, str] | None = None
    body: bytes | None = None
    remark: str | None = None
    language: str | None = "PYTHON"
    version: int = VERSION
    serialize: Serialize = Serialize.JSON

    @property
    def is_response(self) -> bool:
        return bool(self.flag & RESPONSE_FLAG)

    @property
    def is_oneway(self) -> bool:
        return bool(self.flag & ONEWAY_FLAG)

    def answer(
        self,
        code: int,
        remark: str | None = None,
        *,
        ext: dict[str, str] | None = None,
        body: bytes | None = None,
    ) -> "Frame":
        """Make the response to this request: same opaque, same header serialization."""
        return Frame(
            code=code,
            opaque=self.opaque,
            flag=RESPONSE_FLAG,
            ext={} if ext is None else ext,
            body=body,
            remark=remark,
            serialize=self.serialize,
        )


def encode(frame: Frame) -> bytes:
    """Write a frame.

    Raises:
        LocalProtocolError: a number does not fit, or the frame is longer than the bound.
    """
    for number in (frame.code, frame.flag, frame.opaque, frame.version):
        if not INT32_MIN <= number <= INT32_MAX:
            raise LocalProtocolError(f"does not fit 32 bits: {number}")
    try:
        header = _json_header(frame) if frame.serialize is Serialize.JSON else _binary_header(frame)
    except UnicodeEncodeError as error:
        raise LocalProtocolError(f"header is not text: {error}") from None
    body = frame.body or b""
    total = 4 + len(header) + len(body)
    if total + 4 > FRAME_BYTES_MAX:
        raise LocalProtocolError(f"frame too long: {total + 4} > {FRAME_BYTES_MAX} bytes")
    word = (frame.serialize << 24) | len(header)
    return total.to_bytes(4, "big") + word.to_bytes(4, "big") + header + body


_header_encoder = msgspec.json.Encoder()


def _json_header(frame: Frame) -> bytes:
    # Java writes the top-level keys sorted and leaves out nulls; extFields keep their order.
    header: dict[str, object] = {"code": frame.code}
    if frame.ext is not None:
        header["extFields"] = frame.ext
    header["flag"] = frame.flag
    if frame.language is not None:
        header["language"] = frame.language
    header["opaque"] = frame.opaque
    if frame.remark is not None:
        header["remark"] = frame.remark
    header["serializeTypeCurrentRPC"] = "JSON"
    header["version"] = frame.version
    return _header_encoder.encode(header)


def _binary_header(frame: Frame) -> bytes:
    for number in (frame.code, frame.version):
        if not -(2**15) <= number < 2**15:
            # Java wraps such codes (the POP family) into garbage; we refuse.
            raise LocalProtocolError(f"does not fit the binary header: {number}")
    remark = (frame.remark or "").encode()
    ext = b"".join(_binary_entry(k, v) for k, v in (frame.ext or {}).items())
    language = frame.language if frame.language in LANGUAGES else "OTHER"
    return b"".join((
        frame.code.to_bytes(2, "big", signed=True),
        LANGUAGES.index(language).to_bytes(1, "big"),
        frame.version.to_bytes(2, "big", signed=True),
        frame.opaque.to_bytes(4, "big", signed=True),
        frame.flag.to_bytes(4, "big", signed=True),
        len(remark).to_bytes(4, "big"), remark,
        len(ext).to_bytes(4, "big"), ext,
    ))  # fmt: skip


def _binary_entry(key: str, value: str) -> bytes:
    k, v = key.encode(), value.encode()
    if not 0 < len(k) < 2**15:
        raise LocalProtocolError(f"ext key of {len(k)} bytes: {key!r:.40}")
    return len(k).to_bytes(2, "big") + k + len(v).to_bytes(4, "big") + v


class Decoder:
    """Turns a byte stream into frames, whatever its split.

    After `RemoteProtocolError` the stream has no meaning: close the connection.
    """

    def __init__(self) -> None:
        self._buffer = bytearray()

    @property
    def pending(self) -> int:
        """Bytes held back because their frame is not complete."""
        return len(self._buffer)

    def feed(self, data: bytes) -> list[Frame]:
        """Take more bytes; return the frames they complete, in order.

        Raises:
            RemoteProtocolError: the bytes are no frame, or one longer than the bound. Frames that
                the same call completed before are lost with the connection.
        """
        whole = len(data) - 4 == int.from_bytes(data[:4], "big") >= 4
        if whole and not self._buffer and len(data) <= FRAME_BYTES_MAX:
            return [decode(data[4:])]  # one whole frame, as most are: no need to keep a copy
        self._buffer += data
        frames: list[Frame] = []
        at = 0
        while len(self._buffer) - at >= 4:
            total = int.from_bytes(self._buffer[at : at + 4], "big", signed=True)
            if not 4 <= total <= FRAME_BYTES_MAX - 4:
                raise RemoteProtocolError(f"frame length out of bounds: {total}")
            if len(self._buffer) - at - 4 < total:
                break
            with memoryview(self._buffer) as view:
                frames.append(decode(bytes(view[at + 4 : at + 4 + total])))
            at += 4 + total
        del self._buffer[:at]
        return frames


def decode(content: bytes) -> Frame:
    """Read one frame without its length field.

    Raises:
        RemoteProtocolError: the header cannot be read.
    """
    if len(content) < 4:
        raise RemoteProtocolError(f"frame too short: {len(content)} bytes")
    kind, size = content[0], int.from_bytes(content[1:4], "big")
    if 4 + size > len(content):
        raise RemoteProtocolError(f"header of {size} bytes in a frame of {len(content)}")
    header, body = content[4 : 4 + size], content[4 + size :] or None
    if kind == Serialize.JSON:
        return _from_json(header, body)
    if kind == Serialize.ROCKETMQ:
        return _from_binary(header, body)
    raise RemoteProtocolError(f"unknown header serialization: {kind}")


_Int32 = Annotated[int, msgspec.Meta(ge=INT32_MIN, le=INT32_MAX)]


class _JsonHeader(msgspec.Struct):
    code: _Int32 = 0
    extFields: dict[str, object] | None = None  # noqa: N815 - the wire's own name
    flag: _Int32 = 0
    language: str | int | None = "JAVA"  # Java's default where the key is missing
    opaque: _Int32 = 0
    remark: str | None = None
    version: _Int32 = 0


_header_decoder = msgspec.json.Decoder(_JsonHeader, strict=False)


def _from_json(header: bytes, body: bytes | None) -> Frame:
    try:
        h = _header_decoder.decode(header)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RemoteProtocolError(f"header is not a command: {error}") from None
    if isinstance(h.language, int):
        known = 0 <= h.language < len(LANGUAGES)
        h.language = LANGUAGES[h.language] if known else None
    ext = h.extFields
    return Frame(
        code=h.code,
        opaque=h.opaque,
        flag=h.flag,
        ext=None if ext is None else _texts(ext),
        body=body,
        remark=h.remark,
        language=h.language,
        version=h.version,
        serialize=Serialize.JSON,
    )


def _texts(ext: dict[str, object]) -> dict[str, str]:
    """Read ext values as Java does: numbers and booleans become their text, nulls are left out."""
    return {
        k: v if isinstance(v, str) else msgspec.json.encode(v).decode()
        for k, v in ext.items()
        if v is not None
    }


def _from_binary(header: bytes, body: bytes | None) -> Frame:
    if len(header) < 21:
        raise RemoteProtocolError(f"binary header of {len(header)} bytes")
    remark_end = 17 + int.from_bytes(header[13:17], "big")
    if remark_end + 4 > len(header):
        raise RemoteProtocolError("remark is longer than the header")
    ext_end = remark_end + 4 + int.from_bytes(header[remark_end : remark_end + 4], "big")
    if ext_end != len(header):
        raise RemoteProtocolError(f"ext fields end at {ext_end}, the header at {len(header)}")
    language = header[2]
    try:
        return Frame(
            code=int.from_bytes(header[0:2], "big", signed=True),
            language=LANGUAGES[language] if language < len(LANGUAGES) else None,
            version=int.from_bytes(header[3:5], "big", signed=True),
            opaque=int.from_bytes(header[5:9], "big", signed=True),
            flag=int.from_bytes(header[9:13], "big", signed=True),
            remark=header[17:remark_end].decode() or None,
            ext=_binary_ext(header[remark_end + 4 :]) or None,
            body=body,
            serialize=Serialize.ROCKETMQ,
        )
    except UnicodeDecodeError as error:
        raise RemoteProtocolError(f"header is not UTF-8: {error}") from None


def _binary_ext(data: bytes) -> dict[str, str]:
    ext: dict[str, str] = {}
    at = 0
    while at < len(data):
        key_end = at + 2 + int.from_bytes(data[at : at + 2], "big")
        if key_end + 4 > len(data):
            raise RemoteProtocolError("ext key is longer than the header")
        end = key_end + 4 + int.from_bytes(data[key_end : key_end + 4], "big")
        if end > len(data):
            raise RemoteProtocolError("ext value is longer than the header")
        key, value = data[at + 2 : key_end].decode(), data[key_end + 4 : end].decode()
        if key and value:  # Java reads an empty key or value as null
            ext[key] = value
        at = end
    return ext
