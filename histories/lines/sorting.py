"""A table whose rows lie in any order, or of which parts are damaged, on its way into a spool.

Rows are dealt to files by ranges of their indices, and each file is sorted by itself, so that a
table of any length needs the memory of one range. Equal indices stay as they lie.
"""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from maxq.histories.columns.scan import Ints
from maxq.histories.jsonl import ReadReport
from maxq.histories.lines.batches import ROWS
from maxq.histories.lines.spool import Spool
from maxq.histories.parquet import (
    PIECE_ROWS,
    SAMPLED,
    Damage,
    Order,
    before_gap,
    files_of,
    order_of,
    read_batches,
    report_of,
)

RANGES_MAX = 256  # files that are open at a time


def spool_table(path: Path, spool: Spool, *, allow_truncated: bool = False) -> ReadReport:
    """Read a table into a spool, sorted; arguments and errors as
    `maxq.histories.parquet.read_table` has them."""
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
            yield from table.to_batches(max_chunksize=PIECE_ROWS)


def _bounds(sample: Ints) -> Ints:
    """Where ranges of about `PIECE_ROWS` indices end, or of more if they were too many."""
    step = max(PIECE_ROWS // SAMPLED, -(-len(sample) // RANGES_MAX))
    return sample[step::step]
