"""Which operations belong together, of a history that is read batch by batch.

A history is read twice: first for the halves that lie in different batches, of which there are as
many as clients at the end of each, then to say it of every row.
"""

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from maxq.histories.columns.rows import INVOKE, Columns, paired
from maxq.histories.columns.scan import Ints

Halves = dict[int, int]  # by the index of an operation, that of its other half


def with_halves(
    reading: Callable[[], Iterator[pa.RecordBatch]],
) -> Iterator[tuple[pa.RecordBatch, Ints]]:
    """The batches of a history, in order, with the index of each row's other half, -1 where it has
    none, as `maxq.histories.history.History.pair_index` has it.

    Raises:
        HistoryError: a row is no operation.
    """
    apart = _apart(reading())
    for batch in reading():
        c = Columns.of(batch)
        pair, _ = paired(c.type, c.client, c.process)
        other = np.where(pair >= 0, c.index[pair], -1) if len(pair) else pair
        for row in np.flatnonzero(pair < 0).tolist():
            other[row] = apart.get(int(c.index[row]), -1)
        yield batch, other


def _apart(batches: Iterator[pa.RecordBatch]) -> Halves:
    """Those that are not both of one client in one batch."""
    found: Halves = {}
    clients: dict[int, int] = {}  # what each has open: its index
    others: dict[str | None, int] = {}
    for batch in batches:
        c = Columns.of(batch)
        pair, last = paired(c.type, c.client, c.process)
        alone = c.client & (pair < 0)
        first = np.zeros(len(c.index), np.bool_)
        at = np.flatnonzero(c.client)
        first[at[np.unique(c.process[at], return_index=True)[1]]] = True
        for row in np.flatnonzero(first).tolist():
            begun = clients.pop(int(c.process[row]), -1)
            if begun >= 0 and c.type[row] != INVOKE:
                found |= _both(begun, int(c.index[row]))
        for row in np.flatnonzero(alone & last & (c.type == INVOKE)).tolist():
            clients[int(c.process[row])] = int(c.index[row])
        named = np.flatnonzero(~c.client)
        names = batch["process_name"].take(pa.array(named, pa.int64())).to_pylist()
        for row, name in zip(named.tolist(), names, strict=True):
            if (begun := others.pop(name, -1)) >= 0:
                found |= _both(begun, int(c.index[row]))
            else:
                others[name] = int(c.index[row])
    return found


def _both(one: int, other: int) -> Halves:
    return {one: other, other: one}
