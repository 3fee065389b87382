"""Pieces of a stored history, as somebody else reads them: another process, or a task of Spark.

A part can be pickled. It is a list of files and of numbers of pieces, and reads them where it is.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from maxq.checkers.judgement.piecewise.asks import Deal, Each
from maxq.checkers.judgement.piecewise.pieces import Surveyor
from maxq.histories.columns.rows import Open, Rows
from maxq.histories.columns.scan import Ints
from maxq.histories.parquet import JUDGED, Files, read_coded

_NONE = np.zeros(0, np.int64)


class Part(NamedTuple):
    """Pieces of a table. `before` and `never` are as `Rows` has them, once the history's outline is
    known."""

    files: Files
    pieces: Sequence[int]
    before: Sequence[Open] = ()
    never: Ints = _NONE

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The pieces.

        Raises:
            HistoryError: one cannot be read.
        """
        return read_coded(self.files, JUDGED, self.pieces)

    def rows(self) -> Iterator[tuple[int, Rows]]:
        """The pieces with their numbers."""
        for number, before, batch in zip(self.pieces, self.before, self.batches(), strict=True):
            yield number, Rows(batch, before, self.never)


def surveyed(part: Part) -> list[Any]:
    """What each piece says of itself."""
    return list(map(Surveyor(), part.batches()))


def looked_at(look: Callable[[Rows], Any], part: Part) -> list[Any]:
    """What a function says of each piece."""
    return [look(rows) for _, rows in part.rows()]


def parts_of(ask: Each | Deal, files: Files, groups: Sequence[Sequence[int]]) -> list[Part]:
    """What is to be read to answer a question, for each group of pieces of which something is."""
    wanted: Collection[int] | None = None if ask.pieces is None else frozenset(ask.pieces)
    found = []
    for group in groups:
        own = [n for n in group if wanted is None or n in wanted]
        before = [ask.outline.before[n] for n in own]
        if own:
            found.append(Part(files, own, before, ask.outline.never_in(own)))
    return found


def grouped(pieces: Sequence[int], groups: int) -> list[list[int]]:
    """The numbers of pieces in so many groups, at most; those of a row group go together.

    Args:
        pieces: how many each row group has.
        groups: how many there may be.
    """
    share = -(-sum(pieces) // groups)
    found: list[list[int]] = []
    first = 0
    for count in pieces:
        if not found or len(found[-1]) + count > max(share, count):
            found.append([])
        found[-1] += range(first, first + count)
        first += count
    return [group for group in found if group]
