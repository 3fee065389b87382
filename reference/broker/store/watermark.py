"""What of the commit log is surely on the disk, and what it was: the file that distinguishes a torn
tail from damage.

A loss of power may keep any part of what was not synced: a hole, with sound records behind it, is
then no damage, and nothing of it was ever promised by a broker that syncs before it answers. The
same picture before the last sync is damage, and cutting there would lose acknowledged messages.
The file holds the end of the last whole record that was synced when it was written, and the
checksums of all before it (`maxq.reference.broker.store.seals`). So recovery cuts at the first bad
record at or behind the watermark, and refuses to start at one before it, or at another byte.

The watermark follows the log at a distance (one flush interval), which is safe: it may only ever
be too low: what lies between it and the last sync is known by another file, which is not synced
(`maxq.reference.broker.store.tail`). It is raised after a sync, and
lowered before the log is cut, each time in a file that is replaced whole: no crash leaves sums of
other bytes. A store without the file (Java's, or an older one) is all before the watermark, and
has no sums.

RocketMQ knows nothing of it. Where it has run on the store since, it may have cut the log and
written on, and the sums would accuse it. It makes `abort` when it starts and writes `checkpoint`
while it runs and when it stops: if these two are not as they were, the file counts for nothing.
Where RocketMQ cut the log and left both as they were, the refusal says which file to remove.

Big-endian: ``MAXS``, crc32 u32 of what follows, crc32 of RocketMQ's two files u32, where the first
range begins u64, and for each range its end u64 and its crc32 u32. Of an older release: ``MAXQ``,
offset u64, crc32 of both u32.
"""

import struct
import zlib

from maxq.reference.broker.store.seals import Seal, Sealed
from maxq.reference.host import Disk, read_file, replace_file
from maxq.reference.records import PhyOffset

NAME = "logWatermark"
THEIRS = ("abort", "checkpoint")  # RocketMQ's files that change when it runs
MARK, MARK_WITHOUT_SUMS = b"MAXS", b"MAXQ"
_CRC, _HEAD, _SEAL = struct.Struct(">I"), struct.Struct(">IQ"), struct.Struct(">QI")
_SUMMED_AT = len(MARK) + _CRC.size
_WITHOUT_SUMS = struct.Struct(">4sQI")


class CorruptWatermark(Exception):
    """The file cannot be read; says which."""


class Watermark:
    """The file, below the store's `root`. One writer at a time."""

    def __init__(self, disk: Disk, root: str) -> None:
        self._disk = disk
        self._root = root
        self._path = f"{root}/{NAME}"
        self._theirs = 0  # of RocketMQ's files
        self.sealed: Sealed | None = None  # as saved; None: no file yet, or one of no worth
        self.overtaken = False  # there was a file, but RocketMQ has run since

    def load(self) -> Sealed | None:
        """Read it; None if there is none that counts.

        Raises:
            CorruptWatermark: it is damaged. It is replaced whole, so no crash does that.
        """
        found = [read_file(self._disk, f"{self._root}/{name}") for name in THEIRS]
        self._theirs = zlib.crc32(repr(found).encode())
        data = read_file(self._disk, self._path)
        if data is None:
            return None
        theirs, sealed = self._decoded(data)
        self.overtaken = theirs not in (None, self._theirs)
        if not self.overtaken:
            self.sealed = sealed
        return self.sealed

    def _decoded(self, data: bytes) -> tuple[int | None, Sealed]:
        """What RocketMQ's files were, as far as it says, and the sums."""
        if data.startswith(MARK_WITHOUT_SUMS) and len(data) == _WITHOUT_SUMS.size:
            _, offset, crc = _WITHOUT_SUMS.unpack(data)
            if crc == zlib.crc32(data[: -_CRC.size]):
                return None, Sealed(start=PhyOffset(offset))
        seals_at = _SUMMED_AT + _HEAD.size
        whole = len(data) >= seals_at and (len(data) - seals_at) % _SEAL.size == 0
        if whole and data[:_SUMMED_AT] == _head_of(data[_SUMMED_AT:]):
            theirs, start = _HEAD.unpack_from(data, _SUMMED_AT)
            seals = (Seal(end=PhyOffset(end), crc=crc)
                     for end, crc in _SEAL.iter_unpack(data[seals_at:]))  # fmt: skip
            return theirs, Sealed(start=PhyOffset(start), seals=tuple(seals))
        raise CorruptWatermark(
            f"{self._path}: does not fit its crc; remove it, then every record must be sound"
        )

    async def save(self, sealed: Sealed) -> None:
        """Make this what is known of the log, durably."""
        if sealed != self.sealed:
            parts = [_HEAD.pack(self._theirs, sealed.start)]
            parts += (_SEAL.pack(seal.end, seal.crc) for seal in sealed.seals)
            body = b"".join(parts)
            await replace_file(self._disk, self._path, _head_of(body) + body)
            self.sealed = sealed


def _head_of(body: bytes) -> bytes:
    return MARK + _CRC.pack(zlib.crc32(body))
