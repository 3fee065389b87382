"""Which sends can say something of recoveries and of attempts, by columns.

Of a batch those are kept that may be the ones looked for in the whole history. Whatever is not
plain is kept as well.
"""

from collections.abc import Sequence

import numpy as np

from maxq.histories.columns.beside import beside
from maxq.histories.columns.rows import INVOKE, OK, Rows
from maxq.histories.columns.scan import BEGIN, END, Grammar, Ints, Mask, distinct, scan

_KEY, _VALUE = 1, 2
_SENDS_ONE = Grammar({'[["send",': {BEGIN: _KEY}, ",": {_KEY: _VALUE}, "]]": {_VALUE: END}})


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


def attempted(
    rows: Rows,
    chosen: Ints,
    windows: Sequence[tuple[int, int]],
    led: Sequence[tuple[int, int]],
) -> Ints:
    """The sends in some windows, ok sends shortly before some faults, and of each key and broker
    set an ok one.

    Args:
        rows: a batch.
        chosen: sends, by row.
        windows: since when (ns) a send must have been begun, and before which index be over.
        led: before which index an ok send must be over, and since when (ns) begun.
    """
    chosen = chosen[rows.type[chosen] != INVOKE]
    ok = rows.type[chosen] == OK
    index, begun_ns = rows.index[chosen], rows.begun_ns[chosen]
    kept = np.zeros(len(chosen), np.bool_)
    for due_ns, until in windows:
        kept |= (begun_ns >= due_ns) & (index < until)
    for before, since_ns in led:
        kept |= ok & (index < before) & (begun_ns >= since_ns)
    rest = np.flatnonzero(ok & ~kept)
    node, odd = _nodes(rows, chosen[rest])
    key, plain = _keys(rows, chosen[rest])
    odd |= ~plain
    kept[rest[odd]] = True
    both = np.stack([key[~odd], node[~odd]])
    _, first = np.unique(both, axis=1, return_index=True)
    kept[rest[~odd][first]] = True
    return chosen[kept]


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


def _keys(rows: Rows, chosen: Ints) -> tuple[Ints, Mask]:
    """The key that each was begun with; and where that is plain to see."""
    begun = rows.invocations(chosen)
    here = np.flatnonzero(begun >= 0)
    found = scan(rows.values(begun[here]), _SENDS_ONE)
    key = np.zeros(len(chosen), np.int64)
    plain = np.zeros(len(chosen), np.bool_)
    keys = found.role == _KEY
    key[here[found.row[keys]]] = found.value[keys]
    plain[here[found.plain]] = True
    return key, plain
