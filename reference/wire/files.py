"""Text and number codecs of the small files that a broker keeps beside its log.

Epoch file, identity files, Java properties, checkpoint: bytes in, records out, and back. Whether
a file is there, which copy is older, and when to sync, is the caller's business. A file that does
not parse raises `RemoteProtocolError` with its line where it has lines. Offsets are bytes of the
commit log, times are milliseconds of the broker's clock.

Source: docs/spec/controller-ha.md 3.1, 4.7 and 5.3; RocketMQ ``CheckpointFile``,
``BrokerMetadata``, ``StoreCheckpoint``; ``java.util.Properties``; stores of 5.1.1, 5.3.3, 5.5.0.
"""

import re
import struct
import zlib
from collections.abc import Mapping, Sequence
from itertools import pairwise

import msgspec

from maxq.reference.records import (
    BrokerId,
    LocalProtocolError,
    MasterEpoch,
    PhyOffset,
    QueueOffset,
    Record,
    RemoteProtocolError,
)
from maxq.reference.wire.ha import EpochStart

EPOCHS_MAX = 100_000
FILE_BYTES_MAX = 16 * 1024 * 1024

_NUMBER = re.compile(r"-?[0-9]{1,19}")
_INT64 = range(-(2**63), 2**63)


def _number(text: str, where: str) -> int:
    if not _NUMBER.fullmatch(text) or int(text) not in _INT64:
        raise RemoteProtocolError(f"{where}: not a number: {text!r:.40}")
    return int(text)


def _text(data: bytes, what: str) -> str:
    if len(data) > FILE_BYTES_MAX:
        raise RemoteProtocolError(f"{what} too long: {len(data)} > {FILE_BYTES_MAX} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise RemoteProtocolError(f"{what} is not UTF-8: {error}") from None


# --- epoch file ----------------------------------------------------------------------------------


def encode_epochs(epochs: Sequence[EpochStart]) -> bytes:
    """Write an epoch file.

    Raises:
        LocalProtocolError: there are none. Java leaves the old file then, which would be read
            again; the caller must decide what an empty list means.
    """
    if not epochs:
        raise LocalProtocolError("an epoch file without epochs")
    block = "".join(f"{e.epoch}-{e.start}\n" for e in epochs)
    crc = zlib.crc32(block.encode()) & 0x7FFFFFFF
    return f"{len(epochs)}\n{crc}\n{block}".encode()


def decode_epochs(data: bytes) -> tuple[EpochStart, ...]:
    """Read an epoch file, oldest epoch first. A crc of 0 is not checked.

    Raises:
        RemoteProtocolError: torn, corrupt, or not ascending.
    """
    lines = _text(data, "epoch file").replace("\r\n", "\n").split("\n")
    if len(lines) < 2:
        raise RemoteProtocolError("epoch file of less than two lines")
    count = _number(lines[0], "epoch file line 1")
    crc = _number(lines[1], "epoch file line 2")
    if not 0 <= count <= EPOCHS_MAX or any(lines[2 + count :]) or len(lines) < 2 + count:
        raise RemoteProtocolError(f"epoch file has not the {count} entries that it says")
    block = lines[2 : 2 + count]
    epochs = tuple(_epoch(line, index + 3) for index, line in enumerate(block))
    if crc and not _crc_fits(data, block, crc):
        raise RemoteProtocolError(f"epoch file does not fit its crc {crc}")
    for older, newer in pairwise(epochs):
        if newer.epoch <= older.epoch or newer.start < older.start:
            raise RemoteProtocolError(f"epoch file not ascending: {older} then {newer}")
    return epochs


def _crc_fits(data: bytes, block: Sequence[str], crc: int) -> bool:
    # The crc covers the separators of the platform that wrote the file.
    end = "\r\n" if b"\r\n" in data else "\n"
    return crc == zlib.crc32("".join(line + end for line in block).encode()) & 0x7FFFFFFF


def _epoch(line: str, number: int) -> EpochStart:
    epoch, dash, start = line.partition("-")
    if not dash:
        raise RemoteProtocolError(f"epoch file line {number}: no dash: {line!r:.40}")
    where = f"epoch file line {number}"
    return EpochStart(
        epoch=MasterEpoch(_number(epoch, where)), start=PhyOffset(_number(start, where))
    )


# --- identity files ------------------------------------------------------------------------------

_CRC = "crc32="


class Identity(Record):
    """Who a broker is. `check_code` is in the temporary file only: ``address;millis``.

    What is written ends in a part of its own, ``crc32=`` and the CRC-32 of all before it in
    hexadecimal: one flipped bit makes one broker's id another's. Java reads the parts that it knows
    and writes none of these; a file without it is read unchecked.
    """

    cluster: str
    broker_name: str
    broker_id: BrokerId
    check_code: str | None = None


def encode_identity(identity: Identity) -> bytes:
    """Write an identity file, final or temporary.

    Raises:
        LocalProtocolError: a part is empty or holds the separator, so it could not be read back.
    """
    parts = [identity.cluster, identity.broker_name, str(identity.broker_id)]
    if identity.check_code is not None:
        parts.append(identity.check_code)
    if any(not part.strip() or "#" in part or "\n" in part for part in parts):
        raise LocalProtocolError(f"identity that cannot be read back: {parts}")
    text = "#".join(parts)
    return f"{text}#{_CRC}{zlib.crc32(text.encode()):08x}".encode()


def decode_identity(data: bytes, *, temporary: bool = False) -> Identity:
    """Read an identity file.

    Raises:
        RemoteProtocolError: torn, empty, of the other kind, or its checksum is another one.
    """
    text, marked, crc = _text(data, "identity file").strip().rpartition(f"#{_CRC}")
    if marked and crc != f"{zlib.crc32(text.encode()):08x}":
        raise RemoteProtocolError(f"identity file does not fit its crc32: {text}#{_CRC}{crc}")
    if not marked and _CRC in crc:
        raise RemoteProtocolError(f"identity file has a damaged crc32: {crc}")
    parts = (text if marked else crc).split("#")
    if len(parts) != (4 if temporary else 3) or not all(parts):
        raise RemoteProtocolError(f"identity file needs {4 if temporary else 3} parts: {parts}")
    return Identity(
        cluster=parts[0],
        broker_name=parts[1],
        broker_id=BrokerId(_number(parts[2], "identity file")),
        check_code=parts[3] if temporary else None,
    )


# --- Java properties -----------------------------------------------------------------------------


class Entry(Record):
    """One setting and the line on which it begins, the first line being 1."""

    key: str
    value: str
    line: int


_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_BLANKS = " \t\f"
# A key of megabytes costs no more than itself: what is repeated is a class, not a choice.
_SEPARATED = re.compile(r"([^\\=: \t\f]*(?:\\.[^\\=: \t\f]*)*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPED = re.compile(r"\\(u[0-9a-fA-F]{4}|.|$)", re.DOTALL)


def decode_properties(data: bytes) -> list[Entry]:
    """Read a properties file as ``java.util.Properties.load`` does, but from UTF-8.

    Keys may repeat; the last one is Java's answer.

    Raises:
        RemoteProtocolError: not UTF-8, or a malformed ``\\u`` escape; names the line.
    """
    entries: list[Entry] = []
    lines = re.split(r"\r\n|\n|\r", _text(data, "properties"))
    index = 0
    while index < len(lines):
        first, logical = index + 1, lines[index].lstrip(_BLANKS)
        index += 1
        if not logical or logical[0] in "#!":
            continue
        while _continues(logical):
            logical = logical[:-1]
            if index == len(lines):
                break
            logical += lines[index].lstrip(_BLANKS)
            index += 1
        found = _SEPARATED.match(logical)
        key, value = found.groups() if found else (logical, "")
        entries.append(Entry(key=_unescape(key, first), value=_unescape(value, first), line=first))
    return entries


def _continues(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _unescape(text: str, line: int) -> str:
    def replace(found: re.Match[str]) -> str:
        code = found.group(1)
        if code[:1] != "u":
            return _ESCAPES.get(code, code)
        if len(code) != 5:
            raise RemoteProtocolError(f"properties line {line}: malformed \\u escape")
        return chr(int(code[1:], 16))

    if "\\" not in text:
        return text
    # Java text is UTF-16: two escapes may be the halves of one character.
    halves = _ESCAPED.sub(replace, text).encode("utf-16-be", "surrogatepass")
    return halves.decode("utf-16-be", errors="replace")


def encode_properties(properties: Mapping[str, str]) -> bytes:
    """Write properties so that `decode_properties` and Java read them back.

    Raises:
        LocalProtocolError: a key or value is not text.
    """
    lines = [f"{_escape(k, key=True)}={_escape(v)}\n" for k, v in properties.items()]
    try:
        return "".join(lines).encode()
    except UnicodeEncodeError as error:
        raise LocalProtocolError(f"properties: {error}") from None


def _escape(text: str, *, key: bool = False) -> str:
    specials = "\\\t\n\r\f" + ("=: #!" if key else "")
    names = {char: name for name, char in _ESCAPES.items()}
    out = [f"\\{names.get(char, char)}" if char in specials else char for char in text]
    if not key and text[:1] == " ":
        out[0] = "\\ "
    return "".join(out)


# --- checkpoint ----------------------------------------------------------------------------------


class Checkpoint(Record):
    """How far the parts of a store are on disk. The rest of Java's 4096-byte page is zeros."""

    physic_msg_timestamp: int = 0
    logics_msg_timestamp: int = 0
    index_msg_timestamp: int = 0
    master_flushed_offset: PhyOffset = PhyOffset(0)
    confirm_offset: PhyOffset = PhyOffset(0)
    logics_physical_offset: PhyOffset = PhyOffset(0)  # 5.5.0


_CHECKPOINT = struct.Struct(">qqqqqq")
_CHECKPOINT_OLD = struct.Struct(">qqqqq")


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    """Write the 48 bytes in use.

    Raises:
        LocalProtocolError: a number does not fit.
    """
    try:
        return _CHECKPOINT.pack(*msgspec.structs.astuple(checkpoint))
    except struct.error as error:
        raise LocalProtocolError(f"checkpoint: {error}") from None


def decode_checkpoint(data: bytes) -> Checkpoint:
    """Read a checkpoint of 40 bytes (up to 5.3.3) or more.

    Raises:
        RemoteProtocolError: shorter.
    """
    if len(data) < _CHECKPOINT_OLD.size:
        raise RemoteProtocolError(f"checkpoint of {len(data)} bytes")
    numbers = _CHECKPOINT.unpack_from(data.ljust(_CHECKPOINT.size, b"\0"))
    return Checkpoint(**dict(zip(Checkpoint.__struct_fields__, numbers, strict=True)))


class TimerCheckpoint(Record):
    """Answer to 60, and the start of the file timercheck."""

    last_read_time: int = 0
    last_timer_log_flush_position: int = 0
    last_timer_queue_offset: QueueOffset = QueueOffset(0)
    master_timer_queue_offset: QueueOffset = QueueOffset(0)
    state_version: int = 0
    timestamp: int = 0
    counter: int = 0


_TIMER_CHECKPOINT = struct.Struct(">qqqqqqq")


def encode_timer_checkpoint(checkpoint: TimerCheckpoint) -> bytes:
    """Write the 56 bytes.

    Raises:
        LocalProtocolError: a number does not fit.
    """
    try:
        return _TIMER_CHECKPOINT.pack(*msgspec.structs.astuple(checkpoint))
    except struct.error as error:
        raise LocalProtocolError(f"timer checkpoint: {error}") from None


def decode_timer_checkpoint(data: bytes) -> TimerCheckpoint:
    """Read a timer checkpoint; what follows its 56 bytes is ignored.

    Raises:
        RemoteProtocolError: shorter.
    """
    if len(data) < _TIMER_CHECKPOINT.size:
        raise RemoteProtocolError(f"timer checkpoint of {len(data)} bytes")
    names = TimerCheckpoint.__struct_fields__
    return TimerCheckpoint(**dict(zip(names, _TIMER_CHECKPOINT.unpack_from(data), strict=True)))
