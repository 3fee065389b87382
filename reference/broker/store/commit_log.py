"""The commit log: every record of a broker, in files of one size, addressed by position.

Layout is RocketMQ's: a folder of files named by the 20-digit offset of their first byte, each of
`file_size` bytes from the start (sparse); a record never spans two files; where the next record
does not fit, a BLANK record closes the file. Offsets are bytes from the start of the log, ends
exclusive. The log knows nothing of queues; `maxq.reference.broker.store.store` does.

A log begins with its first file, which is not that of offset 0 once others have gone (`trim`).

With a transient store pool, records wait in the process between `written` and `end` until `commit`
writes them to their file. All else knows the log up to `end` only; a process that is killed takes
the rest with it. Source: RocketMQ ``DefaultMappedFile``, ``CommitLog.CommitRealTimeService``.

Recovery reads every record. What follows the last whole record of the log must be nothing, or a
torn tail: it is erased, so that bytes of a dead tail can never be taken for records later. A bad
record *before* a sound one is damage, not a torn tail, and cutting there would lose acknowledged
messages: the log refuses to open and says where. What was synced (`maxq.reference.broker.store.
watermark` knows, and has its checksums) must be as it was, to the bit. What was not may have holes
after a loss of power: the tail begins at the first. A record there that ends in zeros was torn,
whatever follows; before that it is whole, whatever it ends in. Claims: S6, S11.
"""

import re
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from itertools import pairwise

from maxq.reference.broker.store.seals import READ_BYTES, DamagedRange, Sealed, Sums, summed
from maxq.reference.broker.store.tail import Tail, Written
from maxq.reference.host import Disk, File
from maxq.reference.records import PhyOffset, RemoteProtocolError, invariant
from maxq.reference.wire.message import (
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

PIECE_RECORDS = 1024  # that a recovery reads in one go, in about 20 ms
REMEDY = (
    "restore the files, or move the store away and let the broker copy its master's; if another "
    "program has written to the log, remove the store's file logWatermark"
)
_MAGIC = re.compile(
    b"|".join(re.escape(m.to_bytes(4, "big", signed=True)) for m in (MAGIC_V1, MAGIC_V2))
)


class CorruptLog(Exception):
    """A log that cannot be opened without losing records; says file, offset and why."""


def file_name(offset: int) -> str:
    """Name the file that begins at `offset`."""
    return f"{offset:020d}"


class CommitLog:
    """An open commit log, which ends at `end`; `tail` notes how far it is. With `pooled` what is
    written waits for `commit`."""

    def __init__(
        self,
        disk: Disk,
        folder: str,
        file_size: int,
        *,
        tail: Tail | None = None,
        pooled: bool = False,
    ) -> None:
        self._disk = disk
        self.folder = folder
        self.file_size = file_size
        self._files: dict[int, File] = {}  # first offset -> file, ascending
        self._short: set[int] = set()  # files that could not be given their size back
        self._cuts = 0  # how often the log was cut: a sync begun before one proves nothing
        self._sums = Sums(file_size, PhyOffset(0))
        self._tail = tail
        self._pooled = pooled
        self._pool: deque[tuple[PhyOffset, bytes]] = deque()  # where what is to be written
        self._marked = PhyOffset(0)  # up to here the watermark knows the log
        self._synced: PhyOffset | None = None  # before the start, as far as is known
        self._named = 0  # files that begin before this have durable names
        self.durable = PhyOffset(0)  # everything before this is on the disk; never beyond `end`
        self.end = PhyOffset(0)

    @property
    def start(self) -> PhyOffset:
        """Offset of the first byte that is kept."""
        return PhyOffset(next(iter(self._files), 0))

    @property
    def written(self) -> PhyOffset:
        """Where the next record goes: the end of the log, and of what waits for `commit`."""
        return PhyOffset(self._pool[-1][0] + len(self._pool[-1][1])) if self._pool else self.end

    @property
    def whole(self) -> PhyOffset:
        """End of the last whole record."""
        return self._sums.whole

    def sealed(self) -> Sealed:
        """The checksums of all whole records, as they were written."""
        return self._sums.sealed()

    def place(self, size: int) -> PhyOffset:
        """Where a record of `size` bytes will go, if it is the next one written.

        Raises:
            ValueError: it fits no file.
        """
        if size + BLANK_BYTES > self.file_size:
            raise ValueError(f"record of {size} bytes fits no file of {self.file_size}")
        at = self.written
        room = self.file_size - at % self.file_size
        return PhyOffset(at if size + BLANK_BYTES <= room else at + room)

    def write(self, offset: PhyOffset, data: bytes) -> None:
        """Write records at the offset that `place` gave, closing the file before if needed; or have
        them wait for `commit`.

        Raises:
            OSError: the disk is full or failed. `end` has not moved, and what was written is
                erased: a prefix of a batch can hold whole records, which a recovery would find.
        """
        invariant(self.place(len(data)) == offset, "records are written in place", at=offset)
        if self._pooled:
            self._pool.append((offset, data))
        else:
            self._write(offset, data)

    def commit(self) -> None:
        """Write what waits to its files.

        Raises:
            OSError: the disk is full or failed; what is not written waits on.
        """
        while self._pool:
            self._write(*self._pool[0])
            self._pool.popleft()

    def _write(self, offset: PhyOffset, data: bytes) -> None:
        room = offset - self.end
        if room:
            self._pwrite(encode_blank(room), self.end)
        self._pwrite(data, offset)
        if room:
            self._sums.add(encode_blank(room).ljust(room, b"\0"), offset)
        self.end = PhyOffset(offset + len(data))
        self._sums.add(data, self.end)
        self._note()

    def marked(self, end: PhyOffset) -> None:
        """The watermark knows the log up to `end` now."""
        self._marked = end

    def _note(self) -> None:
        if self._tail is not None:
            # A slave's log may end within a record, of which a recovery takes nothing back.
            synced = min(self.durable, self.whole)
            self._tail.note(Written(synced=synced, sums=self._sums.since(self._marked)))

    def _pwrite(self, data: bytes, offset: int) -> None:
        file, at = self._file(offset), offset % self.file_size
        try:
            file.pwrite(data, at)
        except OSError:
            self._erase(offset - at, at)
            raise

    def _erase(self, base: int, at: int) -> None:
        """Make everything from `at` on in a file zeros. Takes no space where files may have holes,
        unlike writing zeros; elsewhere a full disk may refuse even that, and then it is done
        before the next write."""
        self._files[base].truncate(at)
        self._short.add(base)
        self._grow(base)

    def _grow(self, base: int) -> None:
        self._files[base].truncate(self.file_size)
        self._short.discard(base)

    def read(self, offset: PhyOffset, size: int) -> bytes:
        """Read the record at `offset`, whose size the caller knows."""
        base = offset - offset % self.file_size
        return self._files[base].pread(size, offset - base)

    # Raw bytes, for replication. They may end within a record.

    def read_range(self, offset: PhyOffset, size_max: int) -> bytes:
        """Read from `offset` up to `size_max` bytes, the end of its file, or of the log."""
        room = min(size_max, self.file_size - offset % self.file_size, self.end - offset)
        return self.read(offset, room) if room > 0 else b""

    def append_raw(self, offset: PhyOffset, data: bytes, whole: PhyOffset) -> None:
        """Append bytes of a master's log.

        Args:
            offset: the end; an empty log may begin at any offset.
            data: the bytes.
            whole: where the last whole record of the log will end.

        Raises:
            OSError: the disk is full or failed; nothing was appended.
        """
        invariant(offset == self.end or not self._files, "raw bytes follow on", at=offset)
        sums = self._sums if self._files else Sums(self.file_size, offset)
        first = self.file_size - offset % self.file_size  # bytes of the first file
        cuts = [0, *range(first, len(data), self.file_size), len(data)]
        pieces = [(PhyOffset(offset + a), data[a:b]) for a, b in pairwise(cuts)]
        for at, piece in pieces:
            self._pwrite(piece, at)
        for at, piece in pieces:
            sums.add(piece, min(whole, PhyOffset(at + len(piece))))
        self._sums, self.end = sums, PhyOffset(offset + len(data))
        self._note()

    def sums_cut(self, offset: PhyOffset) -> Sums:
        """What the checksums are once the log is cut to `offset`, for `use_sums`.

        Raises:
            CorruptLog: what would be summed anew is not as it was written.
        """
        with self._damage_named():
            return self._sums.cut(offset, self.read_range)

    def use_sums(self, sums: Sums) -> None:
        """Take these checksums for the log's; `truncate` must follow in the same step."""
        self._sums = sums
        self._marked = min(self._marked, sums.whole)
        if self._tail is not None:
            self._tail.resume()

    async def truncate(self, offset: PhyOffset) -> None:
        """Cut to `offset`, durably: what lay behind is erased and never comes back."""
        self._cuts += 1
        self._pool.clear()
        # Later files go first, the last one first: a crash on the way leaves a log without a gap.
        for base in sorted((b for b in self._files if b >= offset), reverse=True):
            self._files.pop(base).close()
            self._short.discard(base)
            self._disk.unlink(f"{self.folder}/{file_name(base)}")
        self.end = PhyOffset(offset if self._files else 0)
        self.durable = min(self.durable, self.end)
        base = offset - offset % self.file_size
        self._named = min(self._named, base)
        await self._disk.sync_dir(self.folder)
        if base in self._files:
            self._erase(base, offset - base)
            await self._files[base].sync()

    def files(self) -> list[PhyOffset]:
        """Where each file begins, in order."""
        return [PhyOffset(base) for base in self._files]

    async def trim(self, start: PhyOffset) -> None:
        """Remove the files before the one that begins at `start`, durably, the first one first: a
        crash on the way leaves a log without a gap. Whoever calls has the watermark know it.

        Raises:
            OSError: a file cannot be removed; the log begins with it.
        """
        invariant(start in self._files, "a file that is kept begins there", start=start)
        for base in [b for b in self._files if b < start]:
            self._disk.unlink(f"{self.folder}/{file_name(base)}")
            self._files.pop(base).close()
            self._short.discard(base)
        self._sums.drop(self.start)
        await self._disk.sync_dir(self.folder)

    async def sync(self) -> PhyOffset:
        """Make everything written so far durable, names of new files included; returns up to where.

        Several may wait at the same time: what is durable moves only when a sync is over.
        """
        end, cuts = self.end, self._cuts
        bases = [b for b in self._files if self.durable < b + self.file_size and b < end]
        if self.durable < end and bases[-1] >= self._named:
            await self._disk.sync_dir(self.folder)
            self._named = max(self._named, bases[-1] + self.file_size)
        if self.durable < end:
            for base in bases:
                if base in self._files:
                    await self._files[base].sync()
            if cuts != self._cuts:
                return self.durable
            self.durable = max(self.durable, end)
            self._note()
        return end

    def _file(self, offset: int) -> File:
        base = offset - offset % self.file_size
        if base not in self._files:
            file = self._disk.open(f"{self.folder}/{file_name(base)}", create=True)
            try:
                file.truncate(self.file_size)  # Java refuses files of any other size
            except OSError:
                file.close()
                raise
            self._files[base] = file
        if base in self._short:
            self._grow(base)
        return self._files[base]

    def close(self) -> None:
        """Release the files."""
        for file in self._files.values():
            file.close()

    # Recovery.

    def recover(
        self,
        on_record: Callable[[Message, int], None],
        *,
        sealed: Sealed | None = None,
        written: Written | None = None,
    ) -> None:
        """Do at once what `recovering` does in pieces."""
        for _ in self.recovering(on_record, sealed=sealed, written=written):
            pass

    def recovering(
        self,
        on_record: Callable[[Message, int], None],
        *,
        sealed: Sealed | None = None,
        written: Written | None = None,
    ) -> Iterator[None]:
        """Open the log, in pieces of `PIECE_RECORDS` that who iterates may rest between: give each
        record and its size to `on_record`, then erase a torn tail. `sync_recovered` makes that
        durable, and must before anything is written.

        Args:
            on_record: called with every record.
            sealed: what was synced; None: maybe everything was.
            written: what had been written when the process ended, as far as that is known.

        Raises:
            CorruptLog: damage that is no torn tail.
        """
        self._synced = None if sealed is None else sealed.end
        if self._synced is not None and written is not None:
            self._synced = max(self._synced, written.synced)
        self._open_files()
        self._check_start(sealed, written)
        self.end = self.durable = self.start  # what is there was written, maybe not synced
        self._sums = Sums(self.file_size, self.start, sealed)
        for base, file in self._files.items():
            with self._damage_named():
                stop, closed = yield from self._scan(base, file, on_record)
            self.end = PhyOffset(base + stop)
            if not closed:
                self._check_end(written)
                self._cut_tail(base, stop)
                return
        self._check_end(written)

    def _check_start(self, sealed: Sealed | None, written: Written | None) -> None:
        """Refuse a log that begins with a file of another place, and one whose first files went,
        but not by `trim`: the watermark would say so."""
        if not self._files:
            return
        name = f"{self.folder}/{file_name(self.start)}"
        at = _claimed_offset(self._files[self.start].pread(RECORD_BYTES_MAX, 0))
        if at not in (None, self.start):
            raise CorruptLog(
                f"{name}: begins with the record of offset {at}; was the file renamed? Give it its "
                "name back"
            )
        known = sealed
        if sealed is not None and written is not None and not (sealed.seals or sealed.start):
            known = written.sums  # the watermark is of the time when the log was empty
        if known is not None and known.seals and known.start < self.start:
            missing = file_name(known.start - known.start % self.file_size)
            raise CorruptLog(
                f"{self.folder}/{missing}: missing, the first file is {file_name(self.start)}, and "
                f"the log was not trimmed; {REMEDY}"
            )

    @contextmanager
    def _damage_named(self) -> Iterator[None]:
        try:
            yield
        except DamagedRange as damage:
            file = file_name(damage.start - damage.start % self.file_size)
            raise CorruptLog(
                f"{self.folder}/{file}: the bytes of {damage} are not those that were written; "
                f"{REMEDY}"
            ) from None

    def _check_end(self, written: Written | None) -> None:
        if self._synced is not None and self.end < self._synced:
            raise CorruptLog(
                f"{self.folder}: no sound record at offset {self.end}, but the log was on the disk "
                f"up to {self._synced}; {REMEDY}"
            )

        if written is None:
            return
        begun = written.sums.start
        for seal in written.sums.seals:
            if begun >= self.start and seal.end <= self.end:
                with self._damage_named():
                    if summed(begun, seal.end, self.read_range) != seal.crc:
                        raise DamagedRange(begun, seal.end)
            begun = seal.end

    async def sync_recovered(self) -> None:
        """Make the log durable as `recover` left it: a dead tail that came back after the next
        crash would lie behind new records."""
        if self._files:
            await self._disk.sync_dir(self.folder)
            for file in list(self._files.values())[-2:]:
                await file.sync()

    def _open_files(self) -> None:
        names = [n for n in self._disk.list(self.folder) if n.isdecimal()]
        for at, name in enumerate(names):
            base = int(name)
            if base % self.file_size or (at and base != int(names[at - 1]) + self.file_size):
                raise CorruptLog(
                    f"{self.folder}/{name}: files of {self.file_size} bytes do not meet here; "
                    "is mappedFileSizeCommitLog what it was?"
                )
            self._files[base] = file = self._disk.open(f"{self.folder}/{name}")
            if file.size() > self.file_size:
                raise CorruptLog(
                    f"{self.folder}/{name}: {file.size()} bytes, files have {self.file_size}; "
                    "is mappedFileSizeCommitLog what it was?"
                )

    def _scan(
        self, base: int, file: File, on_record: Callable[[Message, int], None]
    ) -> Generator[None, None, tuple[int, bool]]:
        """Walk one file; returns where its records end, and whether it goes on in the next."""
        size = file.size()  # less than a whole file where a crash or a copy cut it short
        window_at, window, view = 0, b"", memoryview(b"")
        at = count = 0
        while at + BLANK_BYTES <= size:
            left = window_at + len(window) - at
            if left < min(RECORD_BYTES_MAX + BLANK_BYTES, size - at):
                window_at, window = at, file.pread(READ_BYTES, at)
                view = memoryview(window)
            record = at - window_at
            length, magic = peek(window, record)
            if magic == BLANK_MAGIC and length == self.file_size - at:
                self._sum_blank(base, file, at)
                return self.file_size, True
            whole = None if self._synced is None else base + at < self._synced
            message = sound_record(window, record, base + at, whole=whole)
            if message is None:
                return at, False
            on_record(message, length)
            self._sums.add(view[record : record + length], PhyOffset(base + at + length))
            at, count = at + length, count + 1
            if count % PIECE_RECORDS == 0:
                yield
        return at, False

    def _sum_blank(self, base: int, file: File, start: int) -> None:
        """Sum the rest of a file, which its BLANK record fills."""
        for at in range(start, self.file_size, READ_BYTES):
            size = min(READ_BYTES, self.file_size - at)
            whole = base + self.file_size if at + size == self.file_size else self.whole
            self._sums.add(file.pread(size, at).ljust(size, b"\0"), PhyOffset(whole))

    def _cut_tail(self, base: int, stop: int) -> None:
        later = [b for b in self._files if b > base]
        for tail in (base, *later) if self._synced is None else ():
            found = self._sound_record(tail, stop if tail == base else 0)
            if found is not None:
                raise CorruptLog(
                    f"{self.folder}/{file_name(base)}: no sound record at byte {stop} (offset "
                    f"{base + stop}), but one at offset {found}; a torn tail ends a log, this "
                    "would lose records. Restore the file, or move it away with all later ones"
                )
        for tail in reversed(later):  # a crash on the way leaves a log without a gap
            self._files.pop(tail).close()
            self._disk.unlink(f"{self.folder}/{file_name(tail)}")
        self._erase(base, stop)

    def _sound_record(self, base: int, start: int) -> PhyOffset | None:
        """Find a record that says of itself, rightly, that it lies behind `start`."""
        file = self._files[base]
        for at in range(start, file.size(), READ_BYTES):
            data = file.pread(READ_BYTES + BLANK_BYTES - 1, at)  # with size and magic of the last
            for hit in _MAGIC.finditer(data, 4):
                first = at + hit.start() - 4
                size, _ = peek(data, hit.start() - 4)
                length = min(max(size, 0), RECORD_BYTES_MAX)
                if sound_record(file.pread(length + BLANK_BYTES, first), 0, base + first):
                    return PhyOffset(base + first)
        return None


def _claimed_offset(data: bytes) -> int | None:
    """Where the record with which bytes begin says that it lies; None if none is there."""
    try:
        return decode(data, 0)[0].physical_offset
    except RemoteProtocolError:
        return None


def looks_torn(message: Message) -> bool:
    """Whether a whole record looks as if it was torn behind its body."""
    return "\0" in message.topic or message.properties.endswith(b"\0")


def sound_record(
    data: bytes | memoryview, at: int, offset: int, *, whole: bool | None = None
) -> Message | None:
    """Read the record at `at`; None if no sound one of this offset is there.

    A record that ends in zeros where text should be was torn behind its body, which is all that
    its crc covers: so it is none, unless it is known to have been written whole.

    Args:
        data: bytes of the log.
        at: where among them.
        offset: of that place in the log.
        whole: whether all of the record was written; None: it was if something follows it.
    """
    try:
        message, end = decode(data, at)
    except RemoteProtocolError:
        return None
    if message.physical_offset != offset:
        return None  # whole, but of another place: left over from a dead tail
    if looks_torn(message):
        whole = any(data[end : end + BLANK_BYTES]) if whole is None else whole
        return message if whole else None
    return message
