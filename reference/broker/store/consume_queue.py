"""Consume queues: for each queue, where in the commit log its messages are.

A queue is an array of 20-byte units on disk (RocketMQ's layout) and in memory. The commit log is
the truth: at start every queue is rebuilt from it, and what the files hold beyond is cut. Offsets
here are message indices.

A log that has lost its first files to retention leaves a queue that begins above 0, at
`min_offset`. Its files wholly below that go, the last one never: it says how far a queue was of
which the log holds nothing any more. The first file that is kept still begins where it began.
Units in it below `min_offset` stay as they were; where they are not known, as in a replica that
began behind them, they are RocketMQ's filling: offset 0, the largest size, tag 0. A zero there
would end the queue for RocketMQ's recovery. Source: RocketMQ ``ConsumeQueue``.
"""

from collections.abc import Iterator

from maxq.reference.host import Disk, File, opened
from maxq.reference.records import PhyOffset, QueueOffset, invariant
from maxq.reference.wire.message import QUEUE_UNIT_BYTES, QueueUnit, decode_units, encode_unit

FILLING = QueueUnit(physical_offset=PhyOffset(0), size=2**31 - 1, tags_code=0)


class ConsumeQueue:
    """One queue of one topic."""

    def __init__(self, disk: Disk, folder: str, file_size: int) -> None:
        self._disk = disk
        self._folder = folder
        self._file_size = -(-file_size // QUEUE_UNIT_BYTES) * QUEUE_UNIT_BYTES
        self._first = 0  # byte of the queue with which `_units` begins, which begins a file
        self._units = bytearray()
        self._min = QueueOffset(0)
        self._written = 0  # byte of the queue up to which the files hold it
        self._stale = False  # the files hold other units
        self._files: dict[int, File] = {}
        self._short: set[int] = set()  # files that were cut, and have not their size again

    @property
    def max_offset(self) -> QueueOffset:
        """The offset that the next message gets."""
        return QueueOffset((self._first + len(self._units)) // QUEUE_UNIT_BYTES)

    @property
    def min_offset(self) -> QueueOffset:
        """The offset of the first message that the log still has, or of the next one."""
        return self._min

    @property
    def size(self) -> int:
        """Bytes of its files, at their full size."""
        return -(-len(self._units) // self._file_size) * self._file_size

    def begin(self, offset: QueueOffset) -> None:
        """Let the messages before `offset`, of which the log holds none, be gone.

        Units that are known and lie before it stay; an unknown one is filled.
        """
        invariant(self._min == self.max_offset, "a queue begins where it has no message",
                  first=self._min, next=self.max_offset)  # fmt: skip
        at = offset * QUEUE_UNIT_BYTES
        if offset < self.max_offset:
            del self._units[max(at - self._first, 0) :]
        if offset != self.max_offset:
            self._first, self._units = at - at % self._file_size, bytearray()
        self._stale = True
        self._units += encode_unit(FILLING) * (offset - self.max_offset)
        self._min = offset

    def load_trimmed(self, log_start: PhyOffset) -> None:
        """Take from the files what they say of messages before the log's first byte, which the
        log cannot say: how many there were. A queue that the log knows is not asked."""
        invariant(not self.max_offset, "only an empty queue is loaded", next=self.max_offset)
        names = [n for n in self._disk.list(self._folder) if n.isdecimal()]
        bases = [b for b in map(int, names) if b % self._file_size == 0]
        for base in reversed(bases):
            units = self._trimmed_units(base, log_start)
            if units:
                self._first, self._units = base, bytearray(b"".join(map(encode_unit, units)))
                self._min = self.max_offset
                return

    def _trimmed_units(self, base: int, log_start: PhyOffset) -> list[QueueUnit]:
        """The units with which a file begins that point before the log's first byte."""
        with opened(self._disk, f"{self._folder}/{base:020d}") as file:
            data = b"" if file is None else file.pread(self._file_size, 0)
        units: list[QueueUnit] = []
        at = PhyOffset(0)
        for unit in decode_units(data[: len(data) - len(data) % QUEUE_UNIT_BYTES]):
            if unit != FILLING:
                if not at <= unit.physical_offset < log_start or unit.size <= 0:
                    break
                at = unit.physical_offset
            units.append(unit)
        return units

    def append(self, offset: QueueOffset, unit: QueueUnit) -> None:
        """Add the unit of the message at `offset`, which must be the next."""
        invariant(offset == self.max_offset, "S11: queue offsets are dense",
                  offset=offset, next=self.max_offset)  # fmt: skip
        self._units += encode_unit(unit)

    def unit(self, offset: QueueOffset) -> QueueUnit:
        at = offset * QUEUE_UNIT_BYTES - self._first
        return decode_units(bytes(self._units[at : at + QUEUE_UNIT_BYTES]))[0]

    def units(self, offset: QueueOffset) -> Iterator[tuple[QueueOffset, QueueUnit]]:
        """All units of messages from `offset` on."""
        for at in range(max(offset, self._min), self.max_offset):
            yield QueueOffset(at), self.unit(QueueOffset(at))

    def positions(self) -> Iterator[PhyOffset]:
        """Where in the log the messages are, in order."""
        for _, unit in self.units(self.min_offset):
            yield unit.physical_offset

    def truncate(self, end: QueueOffset) -> None:
        """Keep the units before `end`; the files forget the rest at the next flush."""
        invariant(self._min <= end, "what is trimmed away is not cut", end=end, first=self._min)
        size = end * QUEUE_UNIT_BYTES
        del self._units[size - self._first :]
        if self._written > size:
            for base in [b for b in self._files if b + self._file_size > size]:
                self._cut(base, max(size - base, 0))
            self._written = size

    def trim(self, log_start: PhyOffset) -> None:
        """Let the messages before the log's first byte be gone, and the files that hold no other.

        Raises:
            OSError: a file cannot be removed; a later start does it.
        """
        while self._min < self.max_offset and self.unit(self._min).physical_offset < log_start:
            self._min = QueueOffset(self._min + 1)
        last = min(self._min, self.max_offset - 1) * QUEUE_UNIT_BYTES
        first = min(last, self._written) // self._file_size * self._file_size
        if first > self._first:
            del self._units[: first - self._first]
            self._first = first
            self._remove_below(first)

    def _remove_below(self, first: int) -> None:
        for name in filter(str.isdecimal, self._disk.list(self._folder)):
            if int(name) < first:
                self._remove(name)

    def _remove(self, name: str) -> None:
        file = self._files.pop(int(name), None)
        self._short.discard(int(name))
        if file is not None:
            file.close()
        self._disk.unlink(f"{self._folder}/{name}")

    def flush(self) -> None:
        """Write to the files what they lack. Raises OSError; nothing is lost by that, since the
        queue can be rebuilt."""
        if self._stale:
            self.rewrite()
            return
        for base in sorted(self._short):
            self._file(base)
        end = self._first + len(self._units)
        while self._written < end:
            base = self._written - self._written % self._file_size
            chunk = bytes(
                self._units[self._written - self._first : base + self._file_size - self._first]
            )
            self._file(base).pwrite(chunk, self._written - base)
            self._written += len(chunk)

    def rewrite(self) -> None:
        """After a rebuild: make the files hold exactly the units, whatever they held before.

        Raises:
            OSError: as `flush`.
        """
        self._stale, self._written = True, self._first
        end = self._first + len(self._units)
        for name in filter(str.isdecimal, self._disk.list(self._folder)):
            base = int(name)
            if not self._first <= base < end or base % self._file_size:  # of none of its messages
                self._remove(name)
            else:
                self._cut(base, 0)
        self._stale = False
        self.flush()

    def _file(self, base: int) -> File:
        """A file at its full size: RocketMQ loads no store with one of another."""
        file = self._opened(base)
        if base in self._short or not file.size():
            file.truncate(self._file_size)
            self._short.discard(base)
        return file

    def _cut(self, base: int, size: int) -> None:
        """Keep so many bytes of a file; what follows is zeros once the disk takes that."""
        self._opened(base).truncate(size)
        self._short.add(base)

    def _opened(self, base: int) -> File:
        if base not in self._files:
            path = f"{self._folder}/{base:020d}"
            self._files[base] = self._disk.open(path, create=True)
        return self._files[base]

    def close(self) -> None:
        for file in self._files.values():
            file.close()
