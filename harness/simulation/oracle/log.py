"""The running digest of a commit log: whether two logs are equal up to any offset, at once.

One digest is kept for every `CHUNK` bytes, each of everything before its end, so growing costs what
was appended and a cut costs nothing. Two prefixes are equal if the digests at the last whole chunk
are, and the few bytes behind it. The bytes are read as the simulated disk holds them, not through
the node's file: no fault of the disk and no draw lies between.

Offsets are bytes of the commit log, ends exclusive.
"""

from collections.abc import Callable
from hashlib import blake2b

import msgspec

CHUNK = 4096
DIGEST_BYTES = 16

Read = Callable[[int, int], bytes]  # (start, end) -> the bytes between them


class Prefix(msgspec.Struct, frozen=True):
    """What a log holds before `end`: a digest up to a chunk's end, and the bytes behind that."""

    start: int
    end: int
    digest: bytes
    tail: bytes


class LogDigest:
    """The digest of one log from `start` to `end`.

    Logs that begin at two places are compared byte by byte, and each byte of two logs once.
    """

    def __init__(self, read: Read) -> None:
        self._read = read
        self._marks: list[bytes] = []  # at each multiple of CHUNK behind `start`
        self._equal: dict[
            LogDigest, int
        ] = {}  # with which other log, and up to where, byte by byte
        self.start = 0
        self.end = 0

    def grow(self, end: int) -> None:
        """The log has got bytes, up to `end`."""
        at = self._boundary(len(self._marks))
        while (following := self._boundary(len(self._marks) + 1)) <= end:
            before = self._marks[-1] if self._marks else b""
            chunk = self._read(at, following)
            self._marks.append(blake2b(before + chunk, digest_size=DIGEST_BYTES).digest())
            at = following
        self.end = end

    def cut(self, end: int) -> None:
        """The log was cut to `end`, or is to be read anew from there."""
        while self._marks and self._boundary(len(self._marks)) > end:
            self._marks.pop()
        self.end = min(self.end, end)
        for other, upto in self._equal.items():
            self._equal[other] = other._equal[self] = min(upto, end)

    def restart(self, start: int) -> None:
        """The log is another one, empty, that begins at `start`."""
        self._marks.clear()
        self.start = self.end = start
        for other in self._equal:
            del other._equal[self]
        self._equal.clear()

    def prefix(self, end: int) -> Prefix:
        """What lies before `end`, which is within the log."""
        count = max(end // CHUNK - self.start // CHUNK, 0)
        digest = self._marks[count - 1] if count else b""
        tail = self._read(self._boundary(count), end)
        return Prefix(start=self.start, end=end, digest=digest, tail=tail)

    def _boundary(self, count: int) -> int:
        """Where the chunk of the `count`-th mark ends; the start of the log for 0."""
        return (self.start // CHUNK + count) * CHUNK if count else self.start

    def differs_at(self, other: "LogDigest", end: int) -> int | None:
        """The first offset before `end` at which two logs differ; None if they do not."""
        if self.start == other.start and self.prefix(end) == other.prefix(end):
            return None
        first = max(self.start, other.start)
        for at in range(max(first, self._equal.get(other, first)), end, CHUNK):
            mine, theirs = (d._read(at, min(at + CHUNK, end)) for d in (self, other))
            if mine != theirs:
                return at + next(i for i, (a, b) in enumerate(zip(mine, theirs, strict=True))
                                 if a != b)  # fmt: skip
            self._equal[other] = other._equal[self] = min(at + CHUNK, end)
        return None
