"""Checksums of a commit log, range by range, summed while it is written. Pure.

A record's own crc covers its body alone: a flip in its topic, its queue or its times reads as
another record. So the whole log is summed as it grows, in ranges that follow on one another, and
what the disk holds of it is known by these sums (`maxq.reference.broker.store.watermark` keeps
them). A range ends where a record does, and with its file at the latest: a log that loses its first
files loses whole ranges. A file has some `RANGES_PER_FILE` of them, so that 100 GB of log in files
of RocketMQ's size need 1,600. Offsets are bytes of the log, ends exclusive.
"""

from collections import deque
from collections.abc import Callable
from typing import Self
from zlib import crc32

from maxq.reference.records import PhyOffset, Record, invariant

RANGES_PER_FILE = 16
READ_BYTES = 8 << 20  # of log, read at a time


class Seal(Record):
    """A range of the log, which begins where the one before ends."""

    end: PhyOffset
    crc: int  # CRC-32 of its bytes


class Sealed(Record):
    """What is known of a log: the sums of its ranges, of which the first begins at `start`."""

    start: PhyOffset
    seals: tuple[Seal, ...] = ()

    @property
    def end(self) -> PhyOffset:
        """The end of the last range."""
        return self.seals[-1].end if self.seals else self.start

    def since(self, start: PhyOffset) -> Self:
        """Without the ranges that begin before `start`."""
        begun, seals = self.start, deque(self.seals)
        while seals and begun < start:
            begun = seals.popleft().end
        return type(self)(start=begun, seals=tuple(seals))


class DamagedRange(Exception):
    """The bytes of a range do not fit its sum; says which range."""

    def __init__(self, start: PhyOffset, end: PhyOffset) -> None:
        super().__init__(f"offsets {start} to {end}")
        self.start, self.end = start, end


class Sums:
    """The sums of a log, from its first byte to its end.

    Args:
        file_size: of the log's files, bytes.
        start: where the log begins.
        known: what is known of its bytes, which are read again now; None: nothing.
    """

    def __init__(self, file_size: int, start: PhyOffset, known: Sealed | None = None) -> None:
        self._file_size = file_size
        self._start = start
        left = Sealed(start=start) if known is None else known.since(start)
        # The known ranges begin behind `start` where files are left that were to go.
        self._known_at = left.start
        self._known = deque(left.seals if left.start in (start, _file_at(left, file_size)) else ())
        self._seals: list[Seal] = []  # of closed ranges
        self._begun = self._end = start  # of the open range
        self.whole = start  # the end of the last whole record
        self._whole_crc = 0  # of the open range, up to `whole`
        self._crc = 0  # the same, up to `_end`

    def add(self, data: bytes | memoryview, whole: PhyOffset) -> None:
        """Sum what follows on, of one file.

        Args:
            data: the bytes.
            whole: where the last whole record of the log ends now, or its file.

        Raises:
            DamagedRange: other bytes are known to lie there.
        """
        view, head = memoryview(data), whole - self._end
        self._end = PhyOffset(self._end + len(data))
        if head < 0 or whole == self.whole:
            self._crc = crc32(view, self._crc)
            return
        self.whole, self._whole_crc = whole, crc32(view[:head], self._crc)
        self._settle()
        self._crc = crc32(view[head:], self._whole_crc)

    def _settle(self) -> None:
        """Close the open range if it is long enough, or was closed here before."""
        if self._known and self._begun >= self._known_at:
            closes = self._met_known()
        else:
            closes = (self.whole - self._begun) * RANGES_PER_FILE >= self._file_size
        if closes or self.whole % self._file_size == 0:
            self._seals.append(self._open())
            self._begun, self._whole_crc = self.whole, 0

    def _met_known(self) -> bool:
        """Compare the open range with the known one, if it is as long; whether others follow."""
        known = self._known[0]
        if self.whole < known.end:
            return False
        if (self.whole, self._whole_crc) != (known.end, known.crc):
            raise DamagedRange(self._begun, known.end)
        self._known.popleft()
        return bool(self._known)

    def _open(self) -> Seal:
        return Seal(end=self.whole, crc=self._whole_crc)

    def sealed(self) -> Sealed:
        """The sums of all whole records."""
        last = (self._open(),) if self.whole > self._begun else ()
        return Sealed(start=self._start, seals=(*self._seals, *last))

    def since(self, offset: PhyOffset) -> Sealed:
        """The sums of the ranges that end behind `offset`."""
        seals: deque[Seal] = deque()
        if self.whole > self._begun:
            seals.append(self._open())
        start = self._begun
        for at in range(len(self._seals) - 1, -1, -1):
            if self._seals[at].end <= offset:
                break
            seals.appendleft(self._seals[at])
            start = self._seals[at - 1].end if at else self._start
        return Sealed(start=start, seals=tuple(seals))

    def drop(self, offset: PhyOffset) -> None:
        """Forget the ranges before `offset`, with which a file of the log begins."""
        self._seals = [seal for seal in self._seals if seal.end > offset]
        self._start = max(self._start, offset)

    def cut(self, offset: PhyOffset, read: Callable[[PhyOffset, int], bytes]) -> "Sums":
        """The sums of the log as it is once it is cut to `offset`, the end of a record or 0.

        Args:
            offset: where it will end.
            read: reads the log as it is: up to so many bytes from an offset on.

        Raises:
            DamagedRange: a part of this range would be summed anew, and it is not as it was.
        """
        invariant(offset <= self.whole, "a log is cut where a record ends", offset=offset)
        if offset <= self._start:
            return Sums(self._file_size, PhyOffset(0))
        left = Sums(self._file_size, self._start)
        left._seals = [seal for seal in self._seals if seal.end <= offset]
        left._begun = left._seals[-1].end if left._seals else self._start
        left.whole = left._end = offset
        if offset == self.whole:
            left._whole_crc = self._whole_crc
        elif offset > left._begun:
            old = next(seal for seal in self.sealed().seals if seal.end > offset)
            left._whole_crc = summed(left._begun, offset, read)
            if summed(offset, old.end, read, left._whole_crc) != old.crc:
                raise DamagedRange(left._begun, old.end)
        left._crc = left._whole_crc
        return left


def _file_at(known: Sealed, file_size: int) -> PhyOffset:
    """Where the file begins in which known ranges do."""
    return PhyOffset(known.start - known.start % file_size)


def summed(
    start: PhyOffset, end: PhyOffset, read: Callable[[PhyOffset, int], bytes], crc: int = 0
) -> int:
    """The sum of the bytes that `read` gives, following on bytes of which it is `crc`."""
    for at in range(start, end, READ_BYTES):
        crc = crc32(read(PhyOffset(at), min(READ_BYTES, end - at)), crc)
    return crc
