"""Sends by columns: which of them can say something of recoveries, or of what failed in a row.

Of a batch those are kept that may be the ones looked for in the whole history. Whatever is not
plain is kept as well.
"""

from collections.abc import Callable, Sequence

import numpy as np

from maxq.histories.columns.beside import beside
from maxq.histories.columns.rows import INVOKE, OK, Rows
from maxq.histories.columns.scan import Ints, Mask, distinct


def around(rows: Rows, chosen: Ints, strikes: Sequence[int]) -> Ints:
    """Of the sends of each broker set the last ok one before each strike and the first one after
    that was begun after it; and the one that was begun last.

    Args:
        rows: a batch.
        chosen: sends, by row.
        strikes: indices, in order.
    """
    chosen = chosen[(rows.type[chosen] != INVOKE) | rows.open[chosen]]
    if not len(chosen) or (np.diff(rows.index[chosen]) <= 0).any():
        return chosen
    paired = rows.begun[chosen] >= 0
    begun = np.where(paired, rows.begun[chosen], rows.index[chosen])
    begun_ns = np.where(paired, rows.begun_ns[chosen], rows.time[chosen])
    kept = [int(np.argmax(begun_ns))]
    ok = np.flatnonzero(rows.type[chosen] == OK)
    node, odd = _nodes(rows, chosen[ok])
    kept += ok[odd].tolist()
    for name in distinct(node[~odd]):
        mine = ok[~odd & (node == name)]
        after = np.searchsorted(rows.index[chosen[mine]], np.array(strikes), "right")
        for strike, at in zip(strikes, after.tolist(), strict=True):
            kept += mine[max(at - 1, 0) : at].tolist()
            # As many were under way as there are clients, at the most.
            while at < len(mine) and begun[mine[at]] <= strike:
                at += 1
            kept += mine[at : at + 1].tolist()
    return chosen[np.unique(np.array(kept, np.int64))]


def failing(rows: Rows, chosen: Ints, served: Callable[[object], bool], *, by_set: bool) -> Ints:
    """Of completed operations those that failed, and of each kind the successes before and after
    each of them: of a batch the first and the last one as well.

    Args:
        rows: a batch.
        chosen: operations, by row.
        served: whether an operation with that error is a success all the same.
        by_set: whether the successes of each broker set are looked at alone.
    """
    done = chosen[(rows.type[chosen] != INVOKE) & (rows.begun[chosen] >= 0)]
    errors, code = rows.errors(done)
    right = np.array([served(error) for error in errors] + [False], np.bool_)
    ok = (rows.type[done] == OK) | right[code]
    failed, good = done[~ok], done[ok]
    group, odd = rows.f[good].astype(np.int64), np.zeros(len(good), np.bool_)
    if by_set:
        node, odd = _nodes(rows, good)
        group = group * (int(node.max(initial=0)) + 1) + node
    kept = [failed, good[odd]]
    for number in distinct(group[~odd]):
        mine = good[~odd & (group == number)]
        behind = np.searchsorted(mine, failed)
        near = np.concatenate([behind - 1, behind, [0, len(mine) - 1]])
        kept.append(mine[np.unique(near[(near >= 0) & (near < len(mine))])])
    return np.unique(np.concatenate(kept))


def _nodes(rows: Rows, chosen: Ints) -> tuple[Ints, Mask]:
    """Which broker set answered each, as a number of this batch; and where that is no text."""
    said, code = beside(rows, chosen)
    names = [ext.get("node") for ext in said]
    numbers: dict[object, int] = {}
    odd = [name is not None and not isinstance(name, str) for name in names]
    number = [
        0 if o else numbers.setdefault(n, len(numbers)) for n, o in zip(names, odd, strict=True)
    ]
    return np.array(number, np.int64)[code], np.array(odd, np.bool_)[code]
