"""A table as a whole: whether its rows lie in order, whether parts of it are missing, and its
operations, in memory or in a spool.

Only the index says in which order operations are. Who writes a table again may sort it by anything,
cut it anywhere, and forget a part. To be spooled in order, rows are dealt to files by ranges of
their indices, and each file is sorted by itself: a table of any length needs the memory of one
range. Equal indices stay as they lie.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from maxq.histories.columns.scan import Ints
from maxq.histories.jsonl import ReadReport
from maxq.histories.lines.batches import ROWS
from maxq.histories.lines.spool import Spool
from maxq.histories.op import HistoryError, Op
from maxq.histories.parquet import (
    ROW_GROUP_ROWS,
    Damage,
    Files,
    files_of,
    left_out,
    nullable,
    read_batches,
    read_of,
)
from maxq.histories.tables import EVENTS, Values

RANGES_MAX = 256  # files that are open at a time
SAMPLED = 1024  # of so many indices one is kept
GAPLESS_MIN = 8  # rows of a part, on average; fewer may be without a gap by chance


def read_parquet(path: Path) -> tuple[Op, ...]:
    """The operations of one run, in order.

    Raises:
        HistoryError: the table is damaged, of another version, or none.
    """
    return read_table(path)[0]


def read_table(path: Path, *, allow_truncated: bool = False) -> tuple[tuple[Op, ...], ReadReport]:
    """The operations of one run, in order, and how they were found.

    Args:
        path: a file, or a folder of parts.
        allow_truncated: of a damaged table, take what precedes the first operation that is missing.

    Raises:
        HistoryError: the table is damaged, of another version, or none.
    """
    damage: Damage = [] if allow_truncated else None
    files = files_of(path, damage)
    order = order_of(files, damage)
    batches: Iterable[pa.RecordBatch] = read_batches(files, damage=damage)
    if not order.ascending or allow_truncated:  # else texts of few rows are held at a time
        table = pa.Table.from_batches(batches, nullable(EVENTS.names))
        if not order.ascending:
            table = table.take(pc.sort_indices(table["index"]))
        if damage:
            table = table.slice(0, before_gap(table["index"].to_numpy()))
        batches = table.to_batches()
    ops = tuple(_ops_of(path, batches))
    return ops, report_of(len(ops), damage)


def _ops_of(path: Path, batches: Iterable[pa.RecordBatch]) -> Iterator[Op]:
    values = Values()
    for batch in batches:
        with read_of(path):
            ops = values.ops_of(batch)
        yield from ops


def report_of(count: int, damage: Damage) -> ReadReport:
    """How a table was found."""
    return ReadReport(count=count, complete=not damage, damage="; ".join(damage or ()))


def before_gap(index: Ints, first: int = 0) -> int:
    """How many indices, sorted, there are from `first` on before one is missing."""
    return int(np.argmax(np.append(index != np.arange(first, first + len(index)), True)))


class Order(NamedTuple):
    """How the rows of a table lie: `ascending`, if each index is there once, in order. `sample` are
    some of the indices, sorted."""

    ascending: bool
    sample: Ints


def order_of(files: Files, damage: Damage = None) -> Order:
    """Look at the indices of a table.

    Args:
        files: of it.
        damage: takes why the rest of a file is left out, and which operations are in no part.

    Raises:
        HistoryError: a file is damaged, or operations are in no part.
    """
    names = ["index", "pair"] if len(files) > 1 else ["index"]
    parts = [_Indices.of(read_batches((file,), names, damage)) for file in files]
    full = [part for part in parts if part.rows]
    if len(files) > 1:
        with left_out(damage):
            _check_none_missing(full)
    ascending = all(one.high < other.first for one, other in pairwise(full))
    sample = np.sort(np.concatenate([np.zeros(0, np.int64), *(part.sample for part in full)]))
    return Order(ascending and all(part.ascending for part in full), sample)


class _Indices(NamedTuple):
    """Those of a file: how many, the first and the highest, and whether they rise. `pair` is the
    highest of another half; -1: none is known."""

    rows: int
    first: int
    high: int
    ascending: bool
    pair: int
    sample: Ints

    @classmethod
    def of(cls, batches: Iterator[pa.RecordBatch]) -> "_Indices":
        rows, first, last, high, ascending, pair = 0, -1, -1, -1, True, -1
        sample = [np.zeros(0, np.int64)]
        for batch in batches:
            if batch["index"].null_count:
                raise HistoryError("index and time must be integers: None")
            index = batch["index"].to_numpy()
            first = first if rows else int(index[0])
            ascending &= bool((not rows or index[0] > last) and (index[1:] > index[:-1]).all())
            rows, last, high = rows + len(index), int(index[-1]), max(high, int(index.max()))
            if "pair" in batch.schema.names:
                pair = max(pair, pc.max(batch["pair"]).as_py() or -1)
            sample.append(index[::SAMPLED].copy())  # or the whole of it stays
        return cls(rows, first, high, ascending, pair, np.concatenate(sample))


def _check_none_missing(parts: Sequence[_Indices]) -> None:
    """Refuse parts between which operations are missing, though within there is each, and those
    that lack the other halves of their last operations."""
    dense = sum(part.rows for part in parts) >= GAPLESS_MIN * len(parts) and all(
        part.ascending and part.high - part.first + 1 == part.rows for part in parts
    )
    due = 0
    for part in parts:
        if dense and part.first > due:
            raise HistoryError(f"operations {due} to {part.first - 1} are in no part")
        due = max(due, part.high + 1)
    last = max((part.pair for part in parts), default=-1)
    if last >= due:
        raise HistoryError(f"operation {last}, which column pair names, is in no part")


def spool_table(path: Path, spool: Spool, *, allow_truncated: bool = False) -> ReadReport:
    """Read a table into a spool, sorted; arguments and errors as `read_table` has them."""
    damage: Damage = [] if allow_truncated else None
    kept = 0
    try:
        files = files_of(path, damage)
        order = order_of(files, damage)
        for batch in _sorted(read_batches(files, damage=damage), order):
            if kept == spool.count:
                kept += before_gap(batch["index"].to_numpy(), kept)
            spool.add(batch)
    finally:
        spool.end()
    if damage:
        spool.cut(kept)
    return report_of(spool.count, damage)


def _sorted(batches: Iterator[pa.RecordBatch], order: Order) -> Iterator[pa.RecordBatch]:
    """The same rows by index."""
    bounds = _bounds(order.sample)
    with TemporaryDirectory(prefix="maxq-") as folder:
        ranges = [Spool(Path(folder, f"{n}.arrow")) for n in range(len(bounds) + 1)]
        for batch in batches:
            of = np.searchsorted(bounds, batch["index"].to_numpy(), side="right")
            by_range = np.argsort(of, kind="stable")
            columns = batch.select(ROWS.names).take(pa.array(by_range, pa.int64())).columns
            rows = pa.RecordBatch.from_arrays(columns, schema=ROWS)
            cuts = np.searchsorted(of[by_range], np.arange(len(ranges) + 1)).tolist()
            for each, (begin, end) in zip(ranges, pairwise(cuts), strict=True):
                if end > begin:
                    each.add(rows.slice(begin, end - begin))
        for each in ranges:
            each.end()
            table = pa.Table.from_batches(each.batches(), ROWS)
            table = table.take(pc.sort_indices(table["index"])).combine_chunks()
            yield from table.to_batches(max_chunksize=ROW_GROUP_ROWS)


def _bounds(sample: Ints) -> Ints:
    """Where ranges of about `ROW_GROUP_ROWS` indices end, or of more if they were too many."""
    step = max(ROW_GROUP_ROWS // SAMPLED, -(-len(sample) // RANGES_MAX))
    return sample[step::step]
