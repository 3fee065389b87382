"""How far a Raft node's log surely was, and whose it is: beside the log, so that its loss shows.

A node that forgets a vote or an acknowledged entry breaks its group, and an emptied, deleted or
older log looks like a young one. After each synced write of the log its term and last index are
written here, unsynced: the file may be behind the log, or absent after a loss of power, and is
never ahead of it. A log that is behind the file has lost something.

Two slots of one sector each, written in turn, so that a torn one leaves the other:

    mark 4 bytes | length u32 | crc32 of the payload u32 | payload

A payload holds a serial number, the group, the node, term and index.
"""

import struct
import zlib

import msgspec

from maxq.reference.host import Disk, File
from maxq.reference.records import Record

MARK = b"RFTW"
SLOT_BYTES = 512
NAME_MAX = 100  # of a name so much is kept
_HEAD = struct.Struct(">4sII")


class Reached(Record):
    """A term, and the last index of a log in it."""

    term: int
    index: int


class ForeignRaftLog(Exception):
    """The folder of another group's, or another node's, log; says whose."""


class _Slot(msgspec.Struct, array_like=True):
    serial: int
    group: str
    node: str
    term: int
    index: int


class Watermark:
    """The file of one node.

    Args:
        disk: of the node.
        path: of the file; its folder is there.
        group: the group's name.
        node: this node's id.
    """

    def __init__(self, disk: Disk, path: str, *, group: str, node: str) -> None:
        self._disk = disk
        self._path = path
        self._group, self._node = group[:NAME_MAX], node[:NAME_MAX]
        self._file: File | None = None
        self._serial = 0

    def load(self) -> Reached | None:
        """Open the file, and read the newest slot; None where there is no sound one.

        Raises:
            ForeignRaftLog: it is another group's, or another node's.
        """
        self._file = self._disk.open(self._path, create=True)
        slots = [s for n in range(2) if (s := _read(self._file, n)) is not None]
        if not slots:
            return None
        newest = max(slots, key=lambda slot: slot.serial)
        if (newest.group, newest.node) != (self._group, self._node):
            raise ForeignRaftLog(
                f"{self._path}: this is the log of node {newest.node} of group {newest.group}, "
                f"not of {self._node} of {self._group}; give this node a folder of its own"
            )
        self._serial = newest.serial
        return Reached(term=newest.term, index=newest.index)

    def note(self, term: int, index: int) -> None:
        """Write what the log has reached; it is synced already. Raises OSError."""
        if self._file is None:
            return
        self._serial += 1
        slot = _Slot(self._serial, self._group, self._node, term, index)
        payload = msgspec.msgpack.encode(slot)
        head = _HEAD.pack(MARK, len(payload), zlib.crc32(payload))
        self._file.pwrite(head + payload, self._serial % 2 * SLOT_BYTES)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def _read(file: File, number: int) -> _Slot | None:
    data = file.pread(SLOT_BYTES, number * SLOT_BYTES)
    if len(data) < _HEAD.size:
        return None
    mark, length, crc = _HEAD.unpack_from(data)
    payload = data[_HEAD.size : _HEAD.size + length]
    if mark != MARK or len(payload) != length or zlib.crc32(payload) != crc:
        return None
    try:
        return msgspec.msgpack.decode(payload, type=_Slot)
    except msgspec.MsgspecError:
        return None
