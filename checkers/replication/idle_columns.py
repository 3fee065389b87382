"""Between which operations something may have been written, by columns."""

from collections.abc import Collection

import numpy as np

from maxq.histories.columns.rows import FAIL, INVOKE, OK, Rows
from maxq.histories.columns.scan import Ints


def outermost(rows: Rows, chosen: Ints, piece: int, later: Collection[str]) -> Ints:
    """Of the writes of a batch that end or never did, those that say all: of each piece of the
    history the one that began first, the one that ended last, and one of which the end is unknown.

    Args:
        rows: a batch.
        chosen: writes, by row.
        piece: how many indices a piece has.
        later: kinds of which more is written at any time, so that none has an end.
    """
    chosen = chosen[(rows.type[chosen] != INVOKE) | rows.open[chosen]]
    first = np.where(rows.begun[chosen] >= 0, rows.begun[chosen], rows.index[chosen])
    sure = np.isin(rows.type[chosen], (OK, FAIL)) & ~rows.is_of(chosen, *later)
    kept = []
    for key in np.unique(first // piece):
        mine = np.flatnonzero(first // piece == key)
        kept += [mine[np.argmin(first[mine])], mine[np.argmax(rows.index[chosen[mine]])]]
        kept += mine[~sure[mine]][:1].tolist()
        for kind in sorted(later):  # each may say something of its own
            kept += mine[rows.is_of(chosen[mine], kind)][:1].tolist()
    return chosen[np.unique(np.array(kept, np.int64))]
