"""How far the commit log is surely on the disk: the file that distinguishes a torn tail from
damage.

A loss of power may keep any part of what was not synced: a hole, with sound records behind it, is
then no damage, and nothing of it was ever promised by a broker that syncs before it answers. The
same picture before the last sync is damage, and cutting there would lose acknowledged messages.
The file holds the end of the last whole record that was synced when it was written. So recovery
cuts at the first bad record at or behind the watermark, and refuses to start at one before it.

The watermark follows the log at a distance (one flush interval), which is safe: it may only ever be
too low. Then damage between it and the last sync, by something else than a loss of power, is cut as
a torn tail would be. It is raised after a sync, and lowered before the log is cut. A store without
the file (Java's, or an older one) is all before the watermark.

Sixteen bytes, big-endian: ``MAXQ``, offset u64, crc32 of both u32.
"""

import struct
import zlib

from reference.host import Disk, read_file, replace_file
from reference.records import PhyOffset

NAME = "logWatermark"
_BODY, _CRC = struct.Struct(">4sQ"), struct.Struct(">I")
MARK = b"MAXQ"


class CorruptWatermark(Exception):
    """The file cannot be read; says which."""


class Watermark:
    """The file. One writer at a time."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = path
        self.offset: PhyOffset | None = None  # as saved; None: no file yet

    def load(self) -> PhyOffset | None:
        """Read it; None if there is none.

        Raises:
            CorruptWatermark: it is damaged. It is replaced whole, so no crash does that.
        """
        data = read_file(self._disk, self._path)
        if data is None:
            return None
        if len(data) == _BODY.size + _CRC.size:
            mark, offset = _BODY.unpack_from(data)
            if mark == MARK and _CRC.unpack_from(data, _BODY.size)[0] == _sum(data):
                self.offset = PhyOffset(offset)
                return self.offset
        raise CorruptWatermark(
            f"{self._path}: does not fit its crc; remove it, then every record must be sound"
        )

    async def save(self, offset: PhyOffset) -> None:
        """Make `offset` the watermark, durably."""
        if offset != self.offset:
            body = _BODY.pack(MARK, offset)
            await replace_file(self._disk, self._path, body + _CRC.pack(_sum(body)))
            self.offset = offset


def _sum(data: bytes) -> int:
    return zlib.crc32(data[: _BODY.size])
