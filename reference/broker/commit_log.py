"""The commit log: every record of a broker, in files of one size, addressed by position.

Layout is RocketMQ's: a folder of files named by the 20-digit offset of their first byte, each of
`file_size` bytes from the start (sparse); a record never spans two files; where the next record
does not fit, a BLANK record closes the file. Offsets are bytes from the start of the log, ends
exclusive. The log knows nothing of queues; `reference.broker.store` does.

Recovery reads every record. What follows the last whole record of the log must be nothing, or a
torn tail: it is erased, so that bytes of a dead tail can never be taken for records later. A bad
record *before* a sound one is damage, not a torn tail, and cutting there would lose acknowledged
messages: the log refuses to open and says where. Claims: S6, S11.
"""

from collections.abc import Callable

from reference.host import Disk, File
from reference.records import PhyOffset, RemoteProtocolError, invariant
from reference.wire.message import (
    BLANK_BYTES,
    BLANK_MAGIC,
    MAGIC_V1,
    MAGIC_V2,
    RECORD_BYTES_MAX,
    Message,
    decode,
    encode_blank,
    peek,
)

READ_BYTES = 8 << 20  # of log, read at a time by recovery
_MAGICS = tuple(m.to_bytes(4, "big", signed=True) for m in (MAGIC_V1, MAGIC_V2))


class CorruptLog(Exception):
    """A log that cannot be opened without losing records; says file, offset and why."""


def file_name(offset: int) -> str:
    """Name the file that begins at `offset`."""
    return f"{offset:020d}"


class CommitLog:
    """An open commit log. `end` is where the next record goes."""

    def __init__(self, disk: Disk, folder: str, file_size: int) -> None:
        self._disk = disk
        self._folder = folder
        self._size = file_size
        self._files: dict[int, File] = {}  # first offset -> file, ascending
        self.end = PhyOffset(0)

    @property
    def start(self) -> PhyOffset:
        """Offset of the first byte that is kept."""
        return PhyOffset(next(iter(self._files), 0))

    def place(self, size: int) -> PhyOffset:
        """Where a record of `size` bytes will go, if it is the next one written.

        Raises:
            ValueError: it fits no file.
        """
        if size + BLANK_BYTES > self._size:
            raise ValueError(f"record of {size} bytes fits no file of {self._size}")
        room = self._size - self.end % self._size
        return PhyOffset(self.end if size + BLANK_BYTES <= room else self.end + room)

    def write(self, offset: PhyOffset, data: bytes) -> None:
        """Write records at the offset that `place` gave, closing the file before if needed.

        Raises:
            OSError: the disk is full or failed; `end` has not moved, so a torn record is
                overwritten by the next, or cut by recovery.
        """
        invariant(self.place(len(data)) == offset, "records are written in place", at=offset)
        if offset != self.end:
            blank = encode_blank(self._size - self.end % self._size)
            self._file(self.end).pwrite(blank, self.end % self._size)
        self._file(offset).pwrite(data, offset % self._size)
        self.end = PhyOffset(offset + len(data))

    def read(self, offset: PhyOffset, size: int) -> bytes:
        """Read the record at `offset`, whose size the caller knows."""
        base = offset - offset % self._size
        return self._files[base].pread(size, offset - base)

    async def sync(self) -> None:
        """Make everything written so far durable."""
        for file in list(self._files.values())[-2:]:  # a batch may have crossed one border
            await file.sync()

    def _file(self, offset: int) -> File:
        base = offset - offset % self._size
        if base not in self._files:
            file = self._disk.open(f"{self._folder}/{file_name(base)}", create=True)
            file.truncate(self._size)  # Java refuses files of any other size
            self._files[base] = file
        return self._files[base]

    def close(self) -> None:
        """Release the files."""
        for file in self._files.values():
            file.close()

    # Recovery.

    def recover(self, on_record: Callable[[Message, int], None]) -> None:
        """Open the log: give each record and its size to `on_record`, then erase a torn tail.

        Raises:
            CorruptLog: damage that is no torn tail.
        """
        names = [n for n in self._disk.list(self._folder) if n.isdigit()]
        for at, name in enumerate(names):
            base = int(name)
            if base % self._size or (at and base != int(names[at - 1]) + self._size):
                raise CorruptLog(
                    f"{self._folder}/{name}: files of {self._size} bytes do not meet here; "
                    "is mappedFileSizeCommitLog what it was?"
                )
            self._files[base] = self._disk.open(f"{self._folder}/{name}")
        self.end = self.start
        for base, file in self._files.items():
            stop, closed = self._scan(base, file, on_record)
            self.end = PhyOffset(base + stop)
            if not closed:
                self._cut_tail(base, stop)
                return

    def _scan(
        self, base: int, file: File, on_record: Callable[[Message, int], None]
    ) -> tuple[int, bool]:
        """Walk one file; returns where its records end, and whether it goes on in the next."""
        size = min(file.size(), self._size)
        window_at, window = 0, b""
        at = 0
        while at + BLANK_BYTES <= size:
            left = window_at + len(window) - at
            if left < min(RECORD_BYTES_MAX, size - at):
                window_at, window = at, file.pread(max(READ_BYTES, RECORD_BYTES_MAX), at)
            record = at - window_at
            length, magic = peek(window, record)
            if magic == BLANK_MAGIC and length == self._size - at:
                return self._size, True
            try:
                message, _ = decode(window, record)
            except RemoteProtocolError:
                return at, False
            if message.physical_offset != base + at:
                return at, False  # whole, but of another place: left over from a dead tail
            on_record(message, length)
            at += length
        return at, False

    def _cut_tail(self, base: int, stop: int) -> None:
        later = [b for b in self._files if b > base]
        for tail in (base, *later):
            found = self._sound_record(tail, stop if tail == base else 0)
            if found is not None:
                raise CorruptLog(
                    f"{self._folder}/{file_name(base)}: no sound record at byte {stop} (offset "
                    f"{base + stop}), but one at offset {found}; a torn tail ends a log, this "
                    "would lose records. Restore the file, or move it away with all later ones"
                )
        for tail in later:
            self._files.pop(tail).close()
            self._disk.unlink(f"{self._folder}/{file_name(tail)}")
        self._files[base].truncate(stop)
        self._files[base].truncate(self._size)

    def _sound_record(self, base: int, start: int) -> PhyOffset | None:
        """Find a record that says of itself, rightly, that it lies behind `start`."""
        data = self._files[base].pread(self._size - start, start)
        for magic in _MAGICS:
            hit = data.find(magic)
            while hit >= 0:
                try:
                    message, _ = decode(data, hit - 4) if hit >= 4 else (None, 0)
                except RemoteProtocolError:
                    message = None
                if message is not None and message.physical_offset == base + start + hit - 4:
                    return message.physical_offset
                hit = data.find(magic, hit + 1)
        return None
