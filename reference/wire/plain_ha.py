"""Packets of the HA connection of a pair without controllers (RocketMQ's ``DefaultHAService``).

The slave sends where its log ends, 8 bytes, once it is connected, after every append and now and
then: the first says from where it wants to be sent, each what it has. The master sends pieces: 8
bytes of offset, 4 of size, and so many bytes of its log, cut at any byte; a piece without bytes is
a heartbeat, and its offset is where the master would go on. Nobody says who it is, and nothing
says no. Numbers are big-endian and signed.

The decoders are incremental and bounded, and after `RemoteProtocolError` the stream has no
meaning. Source: RocketMQ ``DefaultHAClient`` and ``DefaultHAConnection``; captures of 5.5.0.
"""

import struct

from maxq.reference.records import LocalProtocolError, PhyOffset, Record, RemoteProtocolError
from maxq.reference.wire.ha import Decoder

BODY_BYTES_MAX = 4 * 1024 * 1024 - 12  # with its header it just fits Java's read buffer

_REPORT = struct.Struct(">q")
_PIECE = struct.Struct(">qi")


class Report(Record):
    """Slave to master: its log ends at `offset`."""

    offset: PhyOffset


class LogPiece(Record):
    """Master to slave: bytes of its log; without any a heartbeat."""

    start: PhyOffset
    data: bytes = b""


def encode(packet: Report | LogPiece) -> bytes:
    """Write a packet.

    Raises:
        LocalProtocolError: a number does not fit, or the piece is longer than Java reads.
    """
    try:
        if isinstance(packet, Report):
            return _REPORT.pack(packet.offset)
        if len(packet.data) > BODY_BYTES_MAX:
            raise LocalProtocolError(f"piece too long: {len(packet.data)} bytes")
        return _PIECE.pack(packet.start, len(packet.data)) + packet.data
    except struct.error as error:
        raise LocalProtocolError(f"{type(packet).__name__} does not fit: {error}") from None


def slave_decoder() -> Decoder[Report]:
    """Make a decoder of what a slave sends."""
    return Decoder(_cut_report)


def master_decoder() -> Decoder[LogPiece]:
    """Make a decoder of what a master sends."""
    return Decoder(_cut_piece)


def _cut_report(buffer: bytearray, at: int) -> tuple[Report, int] | None:
    if len(buffer) - at < _REPORT.size:
        return None
    return Report(offset=_REPORT.unpack_from(buffer, at)[0]), at + _REPORT.size


def _cut_piece(buffer: bytearray, at: int) -> tuple[LogPiece, int] | None:
    if len(buffer) - at < _PIECE.size:
        return None
    start, size = _PIECE.unpack_from(buffer, at)
    if start < 0 or not 0 <= size <= BODY_BYTES_MAX:
        raise RemoteProtocolError(f"piece of the log out of bounds: at {start}, {size} bytes")
    first = at + _PIECE.size
    if len(buffer) < first + size:
        return None
    return LogPiece(start=start, data=bytes(buffer[first : first + size])), first + size
