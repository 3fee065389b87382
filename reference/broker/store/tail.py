"""How far the commit log was written, and how far it was synced: a file that is never ahead of it.

The watermark (`maxq.reference.broker.store.watermark`) is replaced whole, so it follows the log at
a distance. Between the two lies what a broker has acknowledged last. Here each append and each sync
writes down, unsynced, where the log was durable then, and the checksums of the ranges since the
watermark. After a crash of the process the page cache has them all: a bit that flips behind the
watermark is noticed like one before it. After a loss of power the file may be old, or gone; the log
may be shorter than it was written, never than it was synced.

Two slots of one sector each, written in turn, so that a torn one leaves the other. A log is cut, or
begins to be written after a start, only once both are emptied, durably: what they say of bytes that
are gone would accuse those that come in their place.

    mark 4 bytes | crc32 u32 of what follows, to the last range | serial u64 | synced u64 |
    start u64 | ranges u16 | for each range its end u64 and its crc32 u32

Big-endian. RocketMQ knows nothing of the file; where the watermark counts for nothing, neither does
this.
"""

import contextlib
import struct
import zlib

from maxq.reference.broker.store.seals import Seal, Sealed
from maxq.reference.host import Disk, File
from maxq.reference.records import PhyOffset, Record, some

NAME = "logTail"
MARK = b"MAXT"
SLOT_BYTES = 512
_CRC, _HEAD, _SEAL = struct.Struct(">I"), struct.Struct(">QQQH"), struct.Struct(">QI")
_SUMMED_AT = len(MARK) + _CRC.size
RANGES_MAX = (SLOT_BYTES - _SUMMED_AT - _HEAD.size) // _SEAL.size


class Written(Record):
    """What was known of a log: it is durable up to `synced`, and has been written as `sums` say."""

    synced: PhyOffset
    sums: Sealed


class Tail:
    """The file, below the store's `root`. One writer."""

    def __init__(self, disk: Disk, root: str) -> None:
        self._disk = disk
        self._path = f"{root}/{NAME}"
        self._file: File | None = None
        self._serial = 0
        self._last: Written | None = None
        self._held = False  # nothing is written down until `resume`

    def load(self) -> Written | None:
        """Open the file; the newest sound slot, None where there is none."""
        self._file = self._disk.open(self._path, create=True)
        slots = [slot for n in range(2) if (slot := _read(self._file, n)) is not None]
        self._serial, found = max(slots, key=lambda slot: slot[0], default=(0, None))
        return found

    def note(self, written: Written) -> None:
        """Write down what is known of the log now."""
        if self._file is None or self._held or written == self._last:
            return
        self._last = written
        self._serial += 1
        with contextlib.suppress(OSError):  # what is older stays true
            self._file.pwrite(_slot(self._serial, written), self._serial % 2 * SLOT_BYTES)

    async def clear(self) -> None:
        """Forget it, durably, and take nothing down until `resume`: what is known of the log is
        that of one which is to be cut.

        Raises:
            OSError: the disk failed.
        """
        self._held = True
        file = some(self._file, "the file is open once the store is recovered")
        file.pwrite(bytes(2 * SLOT_BYTES), 0)
        await file.sync()
        self._last = None

    def resume(self) -> None:
        """The log is as its checksums say again."""
        self._held = False

    def close(self) -> None:
        """Release the file."""
        if self._file is not None:
            self._file.close()


def _slot(serial: int, written: Written) -> bytes:
    start, seals = written.sums.start, written.sums.seals
    left = len(seals) - RANGES_MAX
    if left > 0:  # those before are left out
        start, seals = seals[left - 1].end, seals[left:]
    parts = [_HEAD.pack(serial, written.synced, start, len(seals))]
    parts += (_SEAL.pack(seal.end, seal.crc) for seal in seals)
    body = b"".join(parts)
    return MARK + _CRC.pack(zlib.crc32(body)) + body


def _read(file: File, number: int) -> tuple[int, Written] | None:
    data = file.pread(SLOT_BYTES, number * SLOT_BYTES)
    if len(data) < _SUMMED_AT + _HEAD.size or not data.startswith(MARK):
        return None
    serial, synced, start, count = _HEAD.unpack_from(data, _SUMMED_AT)
    seals_at = _SUMMED_AT + _HEAD.size
    body = data[_SUMMED_AT : seals_at + count * _SEAL.size]
    if count > RANGES_MAX or _CRC.pack(zlib.crc32(body)) != data[len(MARK) : _SUMMED_AT]:
        return None
    pairs = _SEAL.iter_unpack(body[_HEAD.size :])
    seals = tuple(Seal(end=PhyOffset(end), crc=crc) for end, crc in pairs)
    return serial, Written(synced=synced, sums=Sealed(start=start, seals=seals))
