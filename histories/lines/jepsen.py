"""A history of Jepsen as record batches: by the rules of `maxq.histories.jepsen.ops_of`,
and without its operations.

A line is read by its form where it holds one operation and nothing else, as Jepsen writes them. Any
other file, and one that is damaged, is given to the reader, whose operations are not kept.
"""

import re
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from maxq.histories.columns.scan import Ints
from maxq.histories.edn_read import read_edn
from maxq.histories.jepsen import op_of_form, ops_of
from maxq.histories.jsonl import ReadReport
from maxq.histories.lines.batches import Forms, batch_of
from maxq.histories.lines.forms import Row, row_of
from maxq.histories.lines.journal import chunks
from maxq.histories.lines.shapes import Lines, cut
from maxq.histories.lines.spool import Spool
from maxq.histories.lines.truncated import READABLE
from maxq.histories.op import HistoryError, Op

BATCH_ROWS = 16_384
OPEN_MAX = 100  # collections that a line may open: the reader takes twice as many, one in another
_STRING = re.compile(rb'"[^"]*"')
_WORD = re.compile(rb"""[^\s,()\[\]{}"]+""")
_NUMBERED = re.compile(rb"0|:[A-Za-z][^#]*|[^0]+")  # what is alike, whatever its numbers are


class _Otherwise(Exception):
    """The lines of the file are not an operation each."""


def spool_edn(path: Path, spool: Spool, *, allow_truncated: bool = False) -> ReadReport:
    """Read a history into a spool, or what precedes its damage where `allow_truncated`.

    Raises:
        HistoryError: it is none, in the words of `ops_of`.
    """
    damage = ""
    try:
        _Reading(path, spool).all()
    except (_Otherwise, HistoryError, UnicodeDecodeError):
        spool.clear()
        ops = ops_of(path)
        if allow_truncated:
            readable, damage = READABLE["edn"](path)
            ops = iter(readable)
        while rows := [row_of(op) for op in islice(ops, BATCH_ROWS)]:
            spool.add(batch_of(rows))
    finally:
        spool.end()
    return ReadReport(count=spool.count, complete=not damage, damage=damage)


def plain(shape: bytes) -> bool:
    """Whether lines of a shape of EDN are alike. Sets are sorted, a ratio and a float are no two
    numbers, and whether a key comes twice counts where it begins with $."""
    if any(sign in shape for sign in (b"$", b"\\")):
        return False
    if sum(map(shape.count, (b"[", b"(", b"{"))) > OPEN_MAX:
        return False
    bare = _STRING.sub(b" ", shape)  # a comment or a set within a string is none
    if b"#{" in bare or b";" in bare:
        return False
    words = _WORD.findall(bare)
    return all(_NUMBERED.fullmatch(word) for word in words)


class _Reading:
    def __init__(self, path: Path, spool: Spool) -> None:
        self._path = path
        self._spool = spool
        self._indexed: bool | None = None  # as the first operation shows
        self._forms = Forms(self._decoded, plain)

    def all(self) -> None:
        """Take every line.

        Raises:
            _Otherwise: a line is no operation, or not one.
        """
        with self._path.open("rb") as file:
            for text in chunks(file):
                self._take(text if text.endswith(b"\n") else text + b"\n")

    def _take(self, text: bytes) -> None:
        lines = cut(text)
        if self._indexed is None:
            self._see_first(lines)
        form = self._forms.of(lines)
        read: dict[int, Row] = {}
        empty = []
        for line in np.flatnonzero(form < 0).tolist():
            op = self._op(lines.text(line))
            if op is None:
                empty.append(line)
            else:
                read[line] = row_of(op)
        index = self._forms.numbers(lines, form, "index")
        if not self._indexed:
            index = self._positions(len(lines), empty)
            read = {
                line: msgspec.structs.replace(row, index=int(index[line]))
                for line, row in read.items()
            }
        self._spool.add(self._forms.batch(lines, form, index, read))

    def _positions(self, count: int, empty: list[int]) -> Ints:
        there = np.ones(count, np.int64)
        there[np.array(empty, np.int64)] = 0
        return self._spool.count + np.cumsum(there) - 1

    def _see_first(self, lines: Lines) -> None:
        for line in range(len(lines)):
            if forms := list(read_edn(lines.text(line).decode())):
                first = forms[0]
                self._indexed = isinstance(first, dict) and type(first.get("index")) is int
                return

    def _decoded(self, line: bytes) -> Op:
        op = self._op(line)
        if op is None:
            raise HistoryError("no operation")
        return op

    def _op(self, line: bytes) -> Op | None:
        """The operation of a line; None where it has none."""
        forms: list[Any] = list(read_edn(line.decode()))
        if not forms:
            return None
        if len(forms) > 1 or isinstance(forms[0], list):
            raise _Otherwise
        return op_of_form(forms[0], None if self._indexed else 0)
