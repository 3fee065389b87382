"""Packets of an HA connection, over which a slave copies its master's commit log.

The two directions differ: a slave sends a handshake of 16 bytes, then acknowledgements of 12; a
master answers the handshake with its epochs, then sends transfers, empty ones as heartbeats. The
first int of each packet says which it is. Transfers are cut at any byte, not between messages.
Offsets are bytes of the commit log; numbers are big-endian and signed.

The decoders are incremental and bounded, and after `RemoteProtocolError` the stream has no
meaning. Java's master acts on the first 12 bytes of a handshake, so a slave must send all 16 in
one write. Source: docs/spec/controller-ha.md 4.1, RocketMQ ``AutoSwitchHAClient`` and
``AutoSwitchHAConnection`` from 5.1.1 on; captures of 5.1.1, 5.3.3 and 5.5.0.
"""

import struct
from collections.abc import Callable
from typing import Generic, TypeVar

from maxq.reference.records import (
    BrokerId,
    LocalProtocolError,
    MasterEpoch,
    PhyOffset,
    Record,
    RemoteProtocolError,
)

HANDSHAKE = 1
TRANSFER = 2
EPOCHS_MAX = 1000  # Java's buffer for the reply holds no more
BODY_BYTES_MAX = 4 * 1024 * 1024 - 36  # with its header it just fits Java's read buffer
NO_OFFSET = PhyOffset(-1)  # a master that has not chosen a start
NO_EPOCH = MasterEpoch(-1)

_SLAVE_HANDSHAKE = struct.Struct(">ihhq")
_SLAVE_ACK = struct.Struct(">iq")
_MASTER_HANDSHAKE = struct.Struct(">iiqi")
_TRANSFER = struct.Struct(">iiqiqq")
_EPOCH = struct.Struct(">iq")


class SlaveHandshake(Record):
    """Slave to master, first. Learners never enter the SyncStateSet."""

    broker_id: BrokerId
    sync_from_last_file: bool = False
    async_learner: bool = False


class SlaveAck(Record):
    """Slave to master: everything before `offset` is in the slave's log."""

    offset: PhyOffset


class EpochStart(Record):
    """An epoch of the master's log, and where it starts."""

    epoch: MasterEpoch
    start: PhyOffset


class MasterHandshake(Record):
    """Master to slave, in answer to a handshake: its log's end and epochs, oldest first."""

    max_offset: PhyOffset
    last_epoch: MasterEpoch  # NO_EPOCH if there is none
    epochs: tuple[EpochStart, ...]


class Transfer(Record):
    """Master to slave: a piece of the log; without data a heartbeat.

    The last piece of an old epoch may carry the next one, whose start then lies beyond `start`.
    """

    start: PhyOffset
    epoch: MasterEpoch
    epoch_start: PhyOffset
    confirm_offset: PhyOffset
    data: bytes = b""


SlavePacket = SlaveHandshake | SlaveAck
MasterPacket = MasterHandshake | Transfer
P = TypeVar("P")


def encode(packet: SlavePacket | MasterPacket) -> bytes:
    """Write a packet.

    Raises:
        LocalProtocolError: a number does not fit, or the packet is longer than Java reads.
    """
    try:
        return _encode(packet)
    except struct.error as error:
        raise LocalProtocolError(f"{type(packet).__name__} does not fit: {error}") from None


def _encode(packet: SlavePacket | MasterPacket) -> bytes:
    match packet:
        case SlaveHandshake():
            flags = (packet.sync_from_last_file, packet.async_learner)
            return _SLAVE_HANDSHAKE.pack(HANDSHAKE, *flags, packet.broker_id)
        case SlaveAck():
            return _SLAVE_ACK.pack(TRANSFER, packet.offset)
        case MasterHandshake():
            if len(packet.epochs) > EPOCHS_MAX:
                raise LocalProtocolError(f"too many epochs: {len(packet.epochs)} > {EPOCHS_MAX}")
            entries = b"".join(_EPOCH.pack(e.epoch, e.start) for e in packet.epochs)
            numbers = (len(entries), packet.max_offset, packet.last_epoch)
            return _MASTER_HANDSHAKE.pack(HANDSHAKE, *numbers) + entries
        case Transfer():
            if len(packet.data) > BODY_BYTES_MAX:
                raise LocalProtocolError(f"transfer too long: {len(packet.data)} bytes")
            numbers = (len(packet.data), packet.start, packet.epoch)
            head = _TRANSFER.pack(TRANSFER, *numbers, packet.epoch_start, packet.confirm_offset)
            return head + packet.data


class Decoder(Generic[P]):
    """Turns a byte stream into packets, whatever its split: see the two makers below."""

    def __init__(self, cut: Callable[[bytearray, int], tuple[P, int] | None]) -> None:
        self._buffer = bytearray()
        self._cut = cut  # reads the packet at a position and says where the next one begins

    @property
    def pending(self) -> int:
        """Bytes held back because their packet is not complete."""
        return len(self._buffer)

    def feed(self, data: bytes) -> list[P]:
        """Take more bytes; return the packets they complete, in order.

        Raises:
            RemoteProtocolError: the bytes are no packet of this direction.
        """
        self._buffer += data
        packets: list[P] = []
        at = 0
        while (found := self._cut(self._buffer, at)) is not None:
            packet, at = found
            packets.append(packet)
        del self._buffer[:at]
        return packets


def slave_decoder() -> Decoder[SlavePacket]:
    """Make a decoder of what a slave sends."""
    return Decoder(_cut_slave)


def master_decoder() -> Decoder[MasterPacket]:
    """Make a decoder of what a master sends."""
    return Decoder(_cut_master)


def _cut_slave(buffer: bytearray, at: int) -> tuple[SlavePacket, int] | None:
    state = _state(buffer, at)
    if state == HANDSHAKE and len(buffer) - at >= _SLAVE_HANDSHAKE.size:
        _, last_file, learner, broker_id = _SLAVE_HANDSHAKE.unpack_from(buffer, at)
        handshake = SlaveHandshake(
            broker_id=broker_id,
            # Java compares with 1; any other value means no.
            sync_from_last_file=last_file == 1,
            async_learner=learner == 1,
        )
        return handshake, at + _SLAVE_HANDSHAKE.size
    if state == TRANSFER and len(buffer) - at >= _SLAVE_ACK.size:
        return SlaveAck(offset=_SLAVE_ACK.unpack_from(buffer, at)[1]), at + _SLAVE_ACK.size
    return None


def _cut_master(buffer: bytearray, at: int) -> tuple[MasterPacket, int] | None:
    state = _state(buffer, at)
    if state is None or len(buffer) - at < 8:
        return None
    size = int.from_bytes(buffer[at + 4 : at + 8], "big", signed=True)
    return (_cut_epochs if state == HANDSHAKE else _cut_transfer)(buffer, at, size)


def _cut_epochs(buffer: bytearray, at: int, size: int) -> tuple[MasterPacket, int] | None:
    if not 0 <= size <= EPOCHS_MAX * _EPOCH.size or size % _EPOCH.size:
        raise RemoteProtocolError(f"ha epochs of {size} bytes")
    first = at + _MASTER_HANDSHAKE.size
    if len(buffer) < first + size:
        return None
    _, _, max_offset, last_epoch = _MASTER_HANDSHAKE.unpack_from(buffer, at)
    entries = _EPOCH.iter_unpack(bytes(buffer[first : first + size]))
    handshake = MasterHandshake(
        max_offset=max_offset,
        last_epoch=last_epoch,
        epochs=tuple(EpochStart(epoch=epoch, start=start) for epoch, start in entries),
    )
    return handshake, first + size


def _cut_transfer(buffer: bytearray, at: int, size: int) -> tuple[MasterPacket, int] | None:
    if not 0 <= size <= BODY_BYTES_MAX:
        raise RemoteProtocolError(f"ha transfer out of bounds: {size} > {BODY_BYTES_MAX} bytes")
    first = at + _TRANSFER.size
    if len(buffer) < first + size:
        return None
    _, _, start, epoch, epoch_start, confirm = _TRANSFER.unpack_from(buffer, at)
    transfer = Transfer(
        start=start,
        epoch=epoch,
        epoch_start=epoch_start,
        confirm_offset=confirm,
        data=bytes(buffer[first : first + size]),
    )
    return transfer, first + size


def _state(buffer: bytearray, at: int) -> int | None:
    """Read which packet begins at `at`; None while its first int has not arrived."""
    if len(buffer) - at < 4:
        return None
    state = int.from_bytes(buffer[at : at + 4], "big", signed=True)
    if state not in (HANDSHAKE, TRANSFER):
        raise RemoteProtocolError(f"unknown ha state: {state}")
    return state
