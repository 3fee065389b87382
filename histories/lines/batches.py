"""Record batches out of lines: by their forms, and by the decoder where there is none."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from maxq.histories.columns.scan import FRONT, Ints, values_of
from maxq.histories.lines.forms import (
    CONSTANT,
    JOINED,
    NONE,
    SLICE,
    Form,
    Reader,
    Row,
    Text,
    learned,
)
from maxq.histories.lines.shapes import Lines
from maxq.histories.tables import EVENTS

FORMS_MAX = 4096  # shapes of which it is kept whether they have a form
ROWS = pa.schema([EVENTS.field(name) for name in ("index", "time", "type", "process",
                  "process_name", "f", "value", "error", "ext")])  # fmt: skip
_TEXTS = ("value", "error", "ext")


class Forms:
    """The forms of a file's lines, learned as they come.

    Args:
        read: the decoder of a line.
        allowed: whether lines of a shape may be read alike, as far as the shape shows.
    """

    def __init__(self, read: Reader, allowed: Callable[[bytes], bool]) -> None:
        self._read = read
        self._allowed = allowed
        self._number: dict[bytes, int] = {}  # of each shape that was looked at; -1: no form
        self._forms: list[Form] = []

    def of(self, lines: Lines) -> Ints:
        """The number of each line's form; -1 where the decoder must read it."""
        ours = np.array([self._of(shape) for shape in lines.shapes] or [-1], np.int64)
        return np.where(lines.odd, -1, ours[lines.code])

    def _of(self, shape: bytes) -> int:
        if shape not in self._number:
            if len(self._number) >= FORMS_MAX:
                return -1
            form = learned(shape, self._read) if self._allowed(shape) else None
            self._number[shape] = -1 if form is None else len(self._forms)
            self._forms += [] if form is None else [form]
        return self._number[shape]

    def numbers(self, lines: Lines, form: Ints, name: str) -> Ints:
        """A number of each line, as `Form` has it; -1 where it is unknown or there is no form."""
        run = self._look(form, lambda f: getattr(f, name), -1)
        at = np.flatnonzero(run >= 0)
        found = np.full(len(lines), -1, np.int64)
        run = lines.first[at] + run[at]
        padded = np.concatenate([np.zeros(FRONT, np.uint8), lines.data, np.zeros(8, np.uint8)])
        found[at] = values_of(padded, lines.begin[run], lines.end[run])
        return found

    def _look(self, form: Ints, of: Callable[[Form], int], without: int) -> Ints:
        """A property of each line's form."""
        return np.array([*map(of, self._forms), without], np.int64)[form]

    def batch(self, lines: Lines, form: Ints, index: Ints, read: Mapping[int, Row]) -> Any:
        """The rows of some lines.

        Args:
            lines: all lines of a text.
            form: the number of the form of each.
            index: of the operation of each that has a form.
            read: the rows of lines that have none, by their numbers; other lines are left out.
        """
        odd, rows = np.array(list(read), np.int64), list(read.values())
        there = form >= 0
        there[odd] = True
        columns: dict[str, Any] = {}
        for name in ("index", "time", "process"):
            numbers = index.copy() if name == "index" else self.numbers(lines, form, name)
            numbers[odd] = [-1 if getattr(r, name) is None else getattr(r, name) for r in rows]
            columns[name] = numbers
        named = self._look(form, lambda f: f.name is not None, 0).astype(np.bool_)
        named[odd] = [row.process is None for row in rows]
        columns["process"] = pa.array(columns["process"], mask=named)
        for name in ("type", "f", "process_name"):
            kept = "name" if name == "process_name" else name
            words = [*(getattr(f, kept) for f in self._forms), None]
            columns[name] = self._words(words, form, odd, [getattr(r, kept) for r in rows])
        for name in _TEXTS:
            column = _Column([getattr(f, name) for f in self._forms], lines, form)
            columns[name] = column.texts(odd, [getattr(r, name) for r in rows])
        arrays = [pa.array(columns[name], ROWS.field(name).type) for name in ROWS.names]
        batch = pa.RecordBatch.from_arrays(arrays, schema=ROWS)
        return batch if there.all() else batch.take(_positions(np.flatnonzero(there)))

    def _words(self, words: list[Any], form: Ints, odd: Ints, own: Sequence[Any]) -> Any:
        """A column of which each form has one word."""
        at = np.where(form < 0, len(words) - 1, form)
        at[odd] = len(words) + np.arange(len(odd))
        return pa.array([*words, *own], pa.string()).take(_positions(at))


def batch_of(rows: Sequence[Row]) -> pa.RecordBatch:
    """Rows that were read one by one."""
    names = ["name" if name == "process_name" else name for name in ROWS.names]
    columns = [[getattr(row, name) for row in rows] for name in names]
    arrays = [pa.array(c, field.type) for c, field in zip(columns, ROWS, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=ROWS)


def _positions(at: Ints) -> Any:
    return pa.array(at, pa.int64())


def _plan(how: Text) -> tuple[int, ...]:
    return how.runs[0], how.runs[-1], how.before, how.behind, how.patch


class _Column:
    """A column of texts of some lines."""

    def __init__(self, texts: list[Text], lines: Lines, form: Ints) -> None:
        self._how = [*texts, Text(NONE)]
        self._lines = lines
        self._form = form
        self._kind = np.array([how.kind for how in self._how], np.int64)[form]
        self._sources: list[Any] = []
        self._at = np.full(len(lines), -1, np.int64)  # in all sources, one behind the other
        self._count = 0

    def texts(self, odd: Ints, own: Sequence[str | None]) -> Any:
        """The column; `own` are the texts of the lines `odd`."""
        self._constants()
        self._joined()
        self._add(odd, pa.array(own, pa.string()), np.arange(len(odd)))
        self._slices()  # the last, as a line's bytes may change
        at = pa.array(self._at, mask=self._at < 0)
        return pa.concat_arrays(self._sources).take(at)

    def _add(self, rows: Ints, source: Any, at: Ints) -> None:
        self._at[rows] = self._count + at
        self._count += len(source)
        self._sources.append(source)

    def _constants(self) -> None:
        rows = np.flatnonzero(self._kind == CONSTANT)
        words = pa.array([how.parts[0] if how.kind == CONSTANT else "" for how in self._how])
        self._add(rows, words, self._form[rows])

    def _joined(self) -> None:
        rows = np.flatnonzero(self._kind == JOINED)
        order = rows[np.argsort(self._form[rows], kind="stable")]
        forms, first = np.unique(self._form[order], return_index=True)
        for form, chosen in zip(forms.tolist(), np.split(order, first[1:]), strict=False):
            how = self._how[form]
            runs = [self._cut(*self._run(chosen, run, run)) for run in how.runs]
            pieces: list[Any] = [how.parts[0]]
            for run, part in zip(runs, how.parts[1:], strict=True):
                pieces += [run, part]
            joined = pc.binary_join_element_wise(*pieces, "")
            self._add(chosen, joined, np.arange(len(chosen)))

    def _run(self, rows: Ints, first: Any, last: Any) -> tuple[Ints, Ints]:
        base = self._lines.first[rows]
        return self._lines.begin[base + first], self._lines.end[base + last]

    def _slices(self) -> None:
        rows = np.flatnonzero(self._kind == SLICE)
        none = (0, 0, 0, 0, 0)
        plan = np.array([_plan(how) if how.kind == SLICE else none for how in self._how], np.int64)
        first, last, before, behind, patch = plan[self._form[rows]].T
        begin, end = self._run(rows, first, last)
        begin, end = begin - before, end + behind
        data = self._lines.data
        if patch.any():
            data = data.copy()
            changed = patch > 0
            data[begin[changed]] = patch[changed]
        self._add(rows, self._cut(begin, end, data), np.arange(len(rows)))

    def _cut(self, begin: Ints, end: Ints, data: Any = None) -> Any:
        """Parts of the text, each behind the one before."""
        bounds = np.empty(2 * len(begin) + 1, np.int32)
        bounds[0:-1:2], bounds[1::2] = begin, end
        bounds[-1] = end[-1] if len(end) else 0
        data = self._lines.data if data is None else data
        every: Any = pa.Array.from_buffers(
            pa.string(),
            2 * len(begin),
            [None, pa.py_buffer(bounds.tobytes()), pa.py_buffer(memoryview(data))],
        )
        return every.take(_positions(np.arange(0, 2 * len(begin), 2)))
