"""A journal as record batches: by the rules of `maxq.histories.jsonl.read_jsonl`, in its words, and
without its operations."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec
import numpy as np

from maxq.histories.columns.scan import DIGITS_MAX, Ints
from maxq.histories.digests import BlockCheck, digests_of
from maxq.histories.jsonl import AFTER_END, ReadReport, end_marker, next_op
from maxq.histories.lines.batches import Forms
from maxq.histories.lines.forms import Row, row_of
from maxq.histories.lines.shapes import Lines, cut
from maxq.histories.lines.spool import Spool
from maxq.histories.op import HistoryError, Op
from maxq.histories.text import NOT_JSON, RESERVED, decode_fields, op_of_fields

CHUNK_BYTES = 4 << 20
LONG_BYTES = 64 << 10
DEPTH_MAX = 50
_NEWLINE = 10
_UNSURE = (
    b"\\",
    b"$",
    *(a + b"0" + b for a in (b"[", b",", b":", b"-", b" ") for b in (b".", b"e", b"E")),
)
_CONTROL = re.compile(rb"[\x00-\x09\x0b-\x1f\x7f]")
_NO_BRACKETS = bytes(c for c in range(256) if c not in b"[]{}")
_PARTS = msgspec.json.Decoder(dict[str, msgspec.Raw])


def spool_journal(path: Path, spool: Spool, *, allow_truncated: bool = False) -> ReadReport:
    """Read a journal into a spool; arguments and errors as `read_jsonl` has them."""
    reading = _Reading(path, spool)
    try:
        with path.open("rb") as file:
            for lines in chunks(file):
                if not lines.endswith(b"\n"):
                    reading.dropped_bytes = len(lines)
                elif not reading.take(lines):
                    break
    finally:
        spool.end()
    damage = reading.damage or reading.at_end()
    if damage and not allow_truncated:
        raise HistoryError(f"{path.name}: {damage}")
    spool.cut(reading.kept)
    return reading.report()


def recorded(path: Path) -> int | None:
    """How many operations a journal has that ended, and each block of which is as it was recorded;
    None where only its lines can say how it is."""
    check, count, last = BlockCheck(digests_of(path)), 0, b""
    with path.open("rb") as file:
        for text in chunks(file):
            ends = (np.flatnonzero(np.frombuffer(text, np.uint8) == _NEWLINE) + 1).tolist()
            if not text.endswith(b"\n") or check.take(count + 1, text, ends):
                return None
            count += len(ends)
            last = text[ends[-2] if len(ends) > 1 else 0 :]
    count -= 1  # the end marker
    whole = last == end_marker(count) and not check.end(count, ended=True)
    return count if whole and check.checked == count else None


def chunks(file: BinaryIO, size: int = CHUNK_BYTES) -> Iterator[bytes]:
    """Whole lines, about so many bytes at a time; at last what is left behind the last line."""
    held: list[bytes] = []
    while data := file.read(size):
        end = data.rfind(b"\n") + 1
        if end:
            yield b"".join([*held, data[:end]])
            held.clear()
        held.append(data[end:])
    if rest := b"".join(held):
        yield rest


def plain(shape: bytes) -> bool:
    """Whether lines of a shape of JSON are alike. An object with one key that begins with $ is an
    escape, so whether a key comes twice counts where there are other such than ``$map``."""
    return shape.count(b"$") == shape.count(b'{"$map":')


class _Reading:
    """A journal on its way into a spool."""

    def __init__(self, path: Path, spool: Spool) -> None:
        self.damage = ""
        self.kept = 0
        self.dropped_bytes = 0
        self._spool = spool
        self._blocks = BlockCheck(digests_of(path))
        self._forms = Forms(_decoded, plain)
        self._ended = False
        self._count = 0  # of operations that were read

    def take(self, text: bytes) -> bool:
        """Take the next lines; whether it goes on."""
        if self._ended:
            self.damage = f"line {self._count + 2}: {AFTER_END}"
            return False
        lines = cut(text)
        form = self._forms.of(lines)
        expected = self._count + np.arange(len(lines))
        form[self._forms.numbers(lines, form, "index") != expected] = -1
        read, good = self._decode(lines, form)
        fault = self._blocks.take(self._count + 1, text, lines.bounds[1 : good + 1].tolist())
        if fault:
            self.damage, good = fault, max(0, self._blocks.checked - self._count)
            read = {line: row for line, row in read.items() if line < good}
        form[good:] = -1
        self._spool.add(self._forms.batch(lines, form, expected, read))
        self._count += good
        self.kept = self._blocks.checked if fault else self._count
        return not self.damage

    def _decode(self, lines: Lines, form: Ints) -> tuple[dict[int, Row], int]:
        """The rows of lines that only the decoder can read; how many operations there are, from the
        first one on, before the end marker or what is damaged."""
        read: dict[int, Row] = {}
        for line in np.flatnonzero(form < 0).tolist():
            try:
                row = _row(lines, line, self._count + line)
            except HistoryError as error:
                self.damage = f"line {self._count + line + 1}: {error}"
                return read, line
            if row is None:
                self._ended = True
                if line + 1 < len(lines):
                    self.damage = f"line {self._count + line + 2}: {AFTER_END}"
                return read, line
            read[line] = row
        return read, len(lines)

    def at_end(self) -> str:
        """What is wrong at the end of the file, or an empty text."""
        fault = self._blocks.end(self._count, ended=self._ended)
        if fault:
            self.damage, self.kept = fault, self._blocks.checked
        return fault

    def report(self) -> ReadReport:
        """How the journal was found."""
        return ReadReport(
            count=self._spool.count,
            complete=self._ended and not self.damage,
            dropped_bytes=self.dropped_bytes,
            damage=self.damage,
            unchecked=self._spool.count - min(self._blocks.checked, self._spool.count),
        )


def _decoded(line: bytes) -> Op:
    return op_of_fields(decode_fields(line))


def _row(lines: Lines, line: int, index: int) -> Row | None:
    """The row of a line that has no form; None: it is the end marker.

    Raises:
        HistoryError: it is neither.
    """
    text = lines.text(line)
    runs = slice(lines.first[line], lines.first[line + 1])
    short = (lines.end[runs] - lines.begin[runs]).max(initial=0) <= DIGITS_MAX
    fields = _long(lines.shapes[lines.code[line]], text) if short else None
    if fields is None:
        op = next_op(text, index, ended=False)
        return None if op is None else row_of(op)
    value = bytes(fields["value"])
    plain = {key: msgspec.json.decode(raw) for key, raw in fields.items() if key != "value"}
    op = op_of_fields({**plain, "value": None})
    if op.index != index:
        next_op(text, index, ended=False)  # says so
    return msgspec.structs.replace(row_of(op), value=value.decode())


def _long(shape: bytes, text: bytes) -> dict[str, msgspec.Raw] | None:
    """The parts of a long line whose value need not be built to be known as one: it has no escape
    and no float, and its brackets are those of JSON."""
    if len(shape) < LONG_BYTES or not shape.isascii() or _CONTROL.search(shape):
        return None
    if any(sign in shape for sign in _UNSURE) or _depth(shape) > DEPTH_MAX:
        return None
    try:
        fields = _PARTS.decode(text)
    except NOT_JSON:
        return None
    return fields if RESERVED - {"error"} <= fields.keys() else None


def _depth(shape: bytes) -> int:
    """How deep brackets are at most, those within strings counted like others."""
    data = np.frombuffer(shape.translate(None, _NO_BRACKETS), np.uint8)
    return int(np.cumsum(np.where((data == ord("[")) | (data == ord("{")), 1, -1)).max(initial=0))
