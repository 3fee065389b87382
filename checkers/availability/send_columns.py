"""Sends by columns: which of them can say something of recoveries, or of what failed in a row.

Of a batch those are kept that may be the ones looked for in the whole history. Whatever is not
plain is kept as well.
"""

from collections.abc import Callable, Mapping, Sequence

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


def failing(
    rows: Rows,
    chosen: Ints,
    served: Callable[[object], bool],
    sets: Mapping[int, str],
    least_ns: int,
) -> Ints:
    """Of completed operations those that failed and may be of a time without success, and the
    successes of their kind and broker set before and after each of them: of a batch the first and
    the last one as well.

    Args:
        rows: a batch.
        chosen: operations, by row.
        served: whether an operation with that error is a success all the same.
        sets: the broker set of each queue; none where sets do not matter.
        least_ns: how long a time is that counts. What fails between two successes that are closer
            to each other is of none.
    """
    done = chosen[(rows.type[chosen] != INVOKE) & (rows.begun[chosen] >= 0)]
    errors, code = rows.errors(done)
    right = np.array([served(error) for error in errors] + [False], np.bool_)
    ok = (rows.type[done] == OK) | right[code]
    group, odd = _asked(rows, done, sets) if sets else (np.zeros(len(done), np.int64), ~ok & ok)
    group = rows.f[done].astype(np.int64) * (int(group.max(initial=0)) + 1) + group
    kept = [done[odd]]
    for number in distinct(group[~odd]):
        mine = ~odd & (group == number)
        failed, good = done[mine & ~ok], done[mine & ok]
        far = failed[_far_apart(rows.time, failed, good, least_ns)]
        behind = np.searchsorted(good, np.concatenate([far, done[odd]]))
        near = np.concatenate([behind - 1, behind, [0, len(good) - 1]])
        kept += [far, good[near[(near >= 0) & (near < len(good))]]]
    return np.unique(np.concatenate(kept))


def _far_apart(time: Ints, failed: Ints, good: Ints, least_ns: int) -> Mask:
    """Which failures are not between two successes that are close to each other."""
    if not len(good):
        return np.ones(len(failed), np.bool_)
    behind = np.searchsorted(good, failed)
    before, after = (good[np.clip(behind - n, 0, len(good) - 1)] for n in (1, 0))
    between = (behind > 0) & (behind < len(good)) & (time[before] >= 0)
    far: Mask = ~between | (time[after] - time[before] >= least_ns)
    return far


def _asked(rows: Rows, done: Ints, sets: Mapping[int, str]) -> tuple[Ints, Mask]:
    """Which broker set each was asked, as a number of this batch: who answered says it, else the
    queue of a send without success. And where that is not plain to see."""
    said, code = beside(rows, done)
    nodes = [ext.get("node") for ext in said]
    names = sorted({"", *sets.values(), *(node for node in nodes if isinstance(node, str))})
    number = np.array([names.index(n) if isinstance(n, str) else 0 for n in nodes], np.int64)[code]
    silent = np.array([node is None for node in nodes], np.bool_)[code]
    sends = np.flatnonzero(silent & (rows.type[done] != OK) & rows.is_of(done, "send"))
    key, plain = keys_begun(rows, done[sends])
    queues, places = np.unique(key, return_inverse=True)
    of_queues = np.array([names.index(sets.get(q, "")) for q in queues.tolist()], np.int64)
    number[sends] = of_queues[places]
    odd = np.zeros(len(done), np.bool_)
    odd[sends[~plain]] = True
    return number, odd


def keys_begun(rows: Rows, done: Ints) -> tuple[Ints, Mask]:
    """The queue that each send was begun for; and where that is plain to see."""
    found = scan(rows.begun_values(done), _SENDS_ONE)
    key = np.zeros(len(done), np.int64)
    keys = found.role == _KEY
    key[found.row[keys]] = found.value[keys]
    return key, found.plain


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
