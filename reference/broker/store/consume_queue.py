"""Consume queues: for each queue, where in the commit log its messages are.

A queue is an array of 20-byte units on disk (RocketMQ's layout) and in memory. The commit log is
the truth: at start every queue is rebuilt from it, and what the files hold beyond is cut. Offsets
here are message indices.
"""

from collections.abc import Iterator

from reference.host import Disk, File
from reference.records import PhyOffset, QueueOffset, invariant
from reference.wire.message import QUEUE_UNIT_BYTES, QueueUnit, decode_units, encode_unit


class ConsumeQueue:
    """One queue of one topic."""

    def __init__(self, disk: Disk, folder: str, file_size: int) -> None:
        self._disk = disk
        self._folder = folder
        self._file_size = file_size - file_size % QUEUE_UNIT_BYTES
        self._units = bytearray()
        self._written = 0  # bytes of `_units` that the files hold
        self._files: dict[int, File] = {}

    @property
    def max_offset(self) -> QueueOffset:
        """The offset that the next message gets."""
        return QueueOffset(len(self._units) // QUEUE_UNIT_BYTES)

    @property
    def min_offset(self) -> QueueOffset:
        return QueueOffset(0)

    def append(self, offset: QueueOffset, unit: QueueUnit) -> None:
        """Add the unit of the message at `offset`, which must be the next."""
        invariant(offset == self.max_offset, "S11: queue offsets are dense",
                  offset=offset, next=self.max_offset)  # fmt: skip
        self._units += encode_unit(unit)

    def unit(self, offset: QueueOffset) -> QueueUnit:
        at = offset * QUEUE_UNIT_BYTES
        return decode_units(bytes(self._units[at : at + QUEUE_UNIT_BYTES]))[0]

    def units(self, offset: QueueOffset) -> Iterator[tuple[QueueOffset, QueueUnit]]:
        """All units from `offset` on."""
        for at in range(offset, self.max_offset):
            yield QueueOffset(at), self.unit(QueueOffset(at))

    def positions(self) -> Iterator[PhyOffset]:
        """Where in the log the messages are, in order."""
        for _, unit in self.units(self.min_offset):
            yield unit.physical_offset

    def truncate(self, count: int) -> None:
        """Keep the first `count` units; the files forget the rest at the next flush."""
        size = count * QUEUE_UNIT_BYTES
        del self._units[size:]
        if self._written > size:
            for base in [b for b in self._files if b + self._file_size > size]:
                self._files[base].truncate(max(size - base, 0))
            self._written = size

    def flush(self) -> None:
        """Write to the files what they lack. Raises OSError; nothing is lost by that, since the
        queue can be rebuilt."""
        while self._written < len(self._units):
            base = self._written - self._written % self._file_size
            chunk = bytes(self._units[self._written : base + self._file_size])
            self._file(base).pwrite(chunk, self._written - base)
            self._written += len(chunk)

    def rewrite(self) -> None:
        """After a rebuild: make the files hold exactly the units, whatever they held before."""
        self._written = 0
        keep = len(self._units)
        for name in filter(str.isdecimal, self._disk.list(self._folder)):
            base = int(name)
            if base >= keep or base % self._file_size:  # of no message, or of another file size
                self._disk.unlink(f"{self._folder}/{name}")
            else:
                self._file(base).truncate(0)
        self.flush()

    def _file(self, base: int) -> File:
        if base not in self._files:
            path = f"{self._folder}/{base:020d}"
            self._files[base] = self._disk.open(path, create=True)
        return self._files[base]

    def close(self) -> None:
        for file in self._files.values():
            file.close()
