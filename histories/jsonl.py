"""The journal of a run, ``history.jsonl``: one operation a line, safe against any crash.

While a run goes on this file is the only copy of what happened, so a harness killed at any instant
must leave one that can be judged. Rules for those who edit it:

1. The operating system gets whole lines only, each batch by a single ``write``. A process killed
   with SIGKILL loses what it still buffers and nothing else; there is no half line to repair.
2. A batch is handed over once a second, at each operation of the nemesis, when it exceeds
   `FLUSH_BYTES`, and on close. There is no thread: `append` looks at the time of its operation, and
   the interpreter calls `tick` while nothing happens.
3. A write that comes back short (a full disk) ends the journal with one incomplete last line. The
   writer then refuses everything, because a later line would put the damage in the middle.
4. A run that ended properly ends with ``{"end":true,"count":N}``.
5. Each batch is followed by its digest, in another file (`maxq.histories.digests`).

Power loss is not covered until `close`, which syncs: the harness's machine is not under test.

Times are nanoseconds since the start of the run, the clock of `Op.time`.
Source: docs/spec/history-format.md 9.2.
"""

import errno
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from maxq.histories.digests import BlockCheck, digests_of, encode_block
from maxq.histories.op import NEMESIS, HistoryError, Op
from maxq.histories.text import decode_fields, encode_op, op_of_fields

FLUSH_BYTES = 256 * 1024
FLUSH_NS = 1_000_000_000
AFTER_END = "a line after the end marker"
_ENCODER = msgspec.json.Encoder()


def end_marker(count: int) -> bytes:
    """The last line of a journal with so many operations."""
    return _ENCODER.encode({"end": True, "count": count}) + b"\n"


class JournalWriter:
    """Appends operations to a new journal. Use it as a context manager, or close it.

    Left by an exception the journal is flushed but gets no end marker: the run did not end.
    """

    def __init__(
        self, path: Path, *, flush_bytes: int = FLUSH_BYTES, flush_ns: int = FLUSH_NS
    ) -> None:
        """Create the file, and the one of its digests.

        Raises:
            FileExistsError: a journal is never overwritten or continued.
        """
        self.path = path
        self.count = 0  # operations appended
        self._flush_bytes = flush_bytes
        self._flush_ns = flush_ns
        self._flushed_at_ns = 0
        self._lines: list[bytes] = []
        self._size = 0
        self._fd = _created(path)
        self._digests_fd = _created(digests_of(path))

    def append(self, op: Op) -> None:
        """Record the next operation; its `index` must be `count`.

        Raises:
            ValueError: out of order, or the operation holds what no history may. Nothing is
                recorded.
            OSError: the disk is full or broken. The journal ends here.
        """
        if op.index != self.count:
            raise ValueError(f"operation out of order: index {op.index}, expected {self.count}")
        line = encode_op(op)
        self._put(line)
        self.count += 1
        if (
            self._size > self._flush_bytes
            or op.process == NEMESIS
            or op.time - self._flushed_at_ns >= self._flush_ns
        ):
            self.flush()
            self._flushed_at_ns = max(self._flushed_at_ns, op.time)

    def tick(self, now_ns: int) -> None:
        """Flush if a second has passed. The interpreter calls this at least twice a second."""
        if now_ns - self._flushed_at_ns >= self._flush_ns:
            self.flush()
            self._flushed_at_ns = now_ns

    def flush(self) -> None:
        """Hand every buffered line to the operating system.

        Raises:
            OSError: fewer bytes were taken than given, or none. The journal ends here.
        """
        if self._fd < 0:
            raise ValueError(f"journal is closed: {self.path}")
        if not self._lines:
            return
        batch = b"".join(self._lines)
        self._write(self._fd, batch)
        self._write(self._digests_fd, encode_block(self.count, batch))
        self._lines.clear()
        self._size = 0

    def _write(self, fd: int, data: bytes) -> None:
        try:
            taken = os.write(fd, data)
        except OSError:
            self._give_up()
            raise
        if taken != len(data):
            self._give_up()
            raise OSError(errno.ENOSPC, f"short write: {taken} of {len(data)} bytes", self.path)

    def close(self) -> None:
        """Write the end marker, sync, close. Closing twice is harmless."""
        if self._fd < 0:
            return
        self.flush()
        os.fsync(self._digests_fd)
        self._write(self._fd, end_marker(self.count))
        os.fsync(self._fd)
        self._give_up()

    def abandon(self) -> None:
        """Flush and close without an end marker: the run did not end properly."""
        if self._fd < 0:
            return
        self.flush()
        self._give_up()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abandon()

    def _put(self, line: bytes) -> None:
        if self._fd < 0:
            raise ValueError(f"journal is closed: {self.path}")
        self._lines.append(line)
        self._lines.append(b"\n")
        self._size += len(line) + 1

    def _give_up(self) -> None:
        os.close(self._fd)
        os.close(self._digests_fd)
        self._fd = -1
        self._lines.clear()
        self._size = 0


class ReadReport(msgspec.Struct, frozen=True, kw_only=True):
    """How a journal was found.

    `complete`: the end marker is there. `dropped_bytes`: length of an incomplete last line, which
    was dropped. `damage`: why reading stopped early, only with `allow_truncated`. `unchecked`: how
    many of the operations have no digest, so that a change of them would not be noticed.
    """

    count: int
    complete: bool
    dropped_bytes: int = 0
    damage: str = ""
    unchecked: int = 0


def read_jsonl(path: Path, *, allow_truncated: bool = False) -> tuple[tuple[Op, ...], ReadReport]:
    """Read a journal, also one whose writer was killed.

    An incomplete last line (no end of line) is dropped and reported; a missing end marker is
    reported and is fine. A line without its end is incomplete even if it happens to parse. Lines
    are compared with their digests, where there are any.

    Args:
        path: the file.
        allow_truncated: on damage elsewhere, keep what precedes it and report it. Of a block that
            is not what its digest says nothing is kept.

    Raises:
        HistoryError: damage anywhere but in an incomplete last line, with line number and reason.
        OSError: the file cannot be read.
    """
    ops: list[Op] = []
    tail = _Tail()
    blocks = BlockCheck(digests_of(path))
    damage = ""
    with path.open("rb") as lines:
        try:
            ops.extend(_ops(lines, tail, blocks))
        except _Damage as e:
            # `extend` keeps what the generator yielded before it raised.
            if not allow_truncated:
                raise HistoryError(f"{path.name}: {e}") from None
            damage = str(e)
            del ops[e.kept :]
    report = ReadReport(
        count=len(ops),
        complete=tail.ended and not damage,
        dropped_bytes=tail.dropped_bytes,
        damage=damage,
        unchecked=len(ops) - min(blocks.checked, len(ops)),
    )
    return tuple(ops), report


class _Damage(HistoryError):
    """A line that is not what it should be; the text starts with its number. `kept` operations
    precede it."""

    def __init__(self, text: str, kept: int) -> None:
        super().__init__(text)
        self.kept = kept


class _Tail:
    """What the end of the file looked like."""

    ended = False
    dropped_bytes = 0


def _ops(lines: Iterable[bytes], tail: _Tail, blocks: BlockCheck) -> Iterator[Op]:
    index = 0
    for number, line in enumerate(lines, 1):
        if not line.endswith(b"\n"):
            tail.dropped_bytes = len(line)
            break
        try:
            op = next_op(line, index, ended=tail.ended)
        except HistoryError as e:
            raise _Damage(f"line {number}: {e}", index) from None
        if op is None:
            tail.ended = True
            continue
        yield op
        index += 1
        if fault := blocks.step(number, line):
            raise _Damage(fault, blocks.checked)
    if fault := blocks.end(index, ended=tail.ended):
        raise _Damage(fault, blocks.checked)


def next_op(line: bytes, index: int, *, ended: bool) -> Op | None:
    """The operation of a line behind `index` others; None: the line is the end marker.

    Args:
        line: whole; with its end or without.
        index: that it must have.
        ended: whether the end marker precedes it.

    Raises:
        HistoryError: it is neither.
    """
    if ended:
        raise HistoryError(AFTER_END)
    fields = decode_fields(line)
    if "end" in fields and "index" not in fields:
        _check_end(fields, index)
        return None
    op = op_of_fields(fields)
    if op.index != index:
        raise HistoryError(f"index {op.index}, expected {index}")
    return op


def _check_end(fields: dict[str, Any], count: int) -> None:
    if fields != {"end": True, "count": count}:
        raise HistoryError(f"wrong end marker: {fields}, after {count} operations")


def _created(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
