"""What is known of a shape of lines: which number is what, and how its texts are put together.

It is learned from today's decoder of one line: the shape is given numbers that occur nowhere else,
and where those are found in what the decoder makes of it, each line of that shape has its own. A
shape of which that is not sure has no form, and the decoder reads each of its lines.
"""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from maxq.histories.op import HistoryError, Op
from maxq.histories.text import encode_value

SHAPE_MAX = 4096  # bytes of a shape that is worth being known
_MARK = 10**17  # the least of the numbers that are looked for: all have 18 digits
_CONTROL = re.compile(rb"[\x00-\x09\x0b-\x1f\x7f]")
NONE, CONSTANT, SLICE, JOINED = range(4)  # what a text is


class Text(NamedTuple):
    """How a text of a row comes from its line.

    `CONSTANT` is the first of `parts`. `JOINED` are `parts`, with the runs of digits `runs` between
    them. `SLICE` is the same, and stands in the line so: from `before` bytes before the first run
    to `behind` bytes behind the last; its first byte becomes `patch`, where that is not 0.
    """

    kind: int
    parts: tuple[str, ...] = ()
    runs: tuple[int, ...] = ()
    before: int = 0
    behind: int = 0
    patch: int = 0


class Form(msgspec.Struct, frozen=True):
    """What lines of one shape are. Numbers are runs of digits; -1 where a line has none."""

    type: str
    f: str
    name: str | None
    index: int
    time: int
    process: int
    value: Text
    error: Text
    ext: Text


Reader = Callable[[bytes], Op]


def learned(shape: bytes, read: Reader) -> Form | None:
    """The form of a shape; None where it is not sure.

    Args:
        shape: a line in which each run of digits is a zero.
        read: the decoder of a line.
    """
    if len(shape) > SHAPE_MAX or b"\\" in shape or _CONTROL.search(shape):
        return None
    count = shape.count(b"0")
    marked = _with(shape, [_MARK + n for n in range(count)])
    try:
        form = _form(marked, read(marked), count)
        # Other numbers, of other lengths, must come out in the same places.
        again = _with(shape, [10 ** (n % 9) + n * (10**9) for n in range(count)])
        return form if form is not None and _row(form, again) == row_of(read(again)) else None
    except (HistoryError, ValueError, RecursionError):
        return None


class Row(msgspec.Struct, frozen=True):
    """An operation as a row of a table, the texts as JSON."""

    index: int
    time: int
    type: str
    process: int | None
    name: str | None
    f: str
    value: str | None
    error: str | None
    ext: str | None


def row_of(op: Op) -> Row:
    """An operation as a row.

    Raises:
        ValueError: it holds what no history may.
    """
    number, name = (op.process, None) if isinstance(op.process, int) else (None, op.process)
    texts = (_text(op.value), _text(op.error), _text(op.ext or None))
    return Row(op.index, op.time, op.type, number, name, op.f, *texts)


def _text(value: Any) -> str | None:
    return None if value is None else encode_value(value).decode()


def _with(shape: bytes, numbers: list[int]) -> bytes:
    pieces = shape.split(b"0")
    digits = [*(str(n).encode() for n in numbers), b""]
    return b"".join(piece + n for piece, n in zip(pieces, digits, strict=True))


def _form(line: bytes, op: Op, count: int) -> Form | None:
    if _unsure((op.value, op.error, op.ext)):
        return None
    row = row_of(op)
    index, time = _run(row.index, count), _run(row.time, count)
    process = -1 if row.process is None else _run(row.process, count)
    missing = (index is None, time is None, process is None)
    if any(missing) or _marks(row.f, count) or _marks(row.name or "", count):
        return None
    texts = [_how(text, line, count) for text in (row.value, row.error, row.ext)]
    return Form(row.type, row.f, row.name, index, time, process, *texts)  # type: ignore[arg-type]


def _unsure(value: Any) -> bool:
    """Whether it holds what changes with its numbers: a float, a set that is sorted."""
    if isinstance(value, dict):
        return any(_unsure(k) or _unsure(v) for k, v in value.items())
    if isinstance(value, list | tuple):
        return any(map(_unsure, value))
    return isinstance(value, float | frozenset)


def _run(number: int, count: int) -> int | None:
    """Which run of digits a number is; -1: none, as it is unknown."""
    run = number - _MARK
    return run if 0 <= run < count else -1 if number == -1 else None


def _marks(text: str, count: int) -> list[re.Match[str]]:
    """Where the numbers that are looked for stand in a text."""
    found = re.finditer(r"(?=(10{10}\d{7}))", text)
    return [m for m in found if int(m.group(1)) - _MARK < count]


def _how(text: str | None, line: bytes, count: int) -> Text:
    if text is None:
        return Text(NONE)
    found = _marks(text, count)
    if not found:
        return Text(CONSTANT, (text,))
    runs = tuple(int(m.group(1)) - _MARK for m in found)
    ends = [0, *(m.start() + 18 for m in found)]
    parts = (*(text[a : m.start()] for a, m in zip(ends, found, strict=False)), text[ends[-1] :])
    before, behind = len(parts[0].encode()), len(parts[-1].encode())
    data = text.encode()
    if data in line:
        return Text(SLICE, parts, runs, before, behind)
    if before and data[1:] in line:
        return Text(SLICE, parts, runs, before, behind, data[0])
    return Text(JOINED, parts, runs)


def _row(form: Form, line: bytes) -> Row:
    """What a form makes of a line."""
    runs = [m.group().decode() for m in re.finditer(rb"\d+", line)]

    def number(run: int) -> int:
        return -1 if run < 0 else int(runs[run])

    def text(how: Text) -> str | None:
        if how.kind == NONE:
            return None
        between = [*(runs[run] for run in how.runs), ""]
        return "".join(part + n for part, n in zip(how.parts, between, strict=True))

    process = number(form.process) if form.name is None else None
    texts = (text(form.value), text(form.error), text(form.ext))
    return Row(number(form.index), number(form.time), form.type, process, form.name, form.f, *texts)
