"""Leases by arrays: whether nothing is wrong with the lock of one key.

Grants are put in order of their answers. Where any two of different clients overlap, some grant
overlaps with the one that lasts longest of all before it, and that one is another client's. (Take
the pair whose later grant comes first. Is the longest-lasting one before that grant of the same
client, then it overlaps with the other one of the pair, and does so earlier.) So one running
maximum decides for all pairs. By the same argument the smallest gap is behind such a longest one.

L2 looks at holds, L1 at what brokers keep: from an answer until a lease after its request, or until
the holder asks to give the lock back. A grant that took longer than a broker's lease may so look
too soon, and its key is left to its rows.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from maxq.checkers.core.columnar import UNSURE, Arrays, Dealing, Unsure
from maxq.checkers.core.keyed import Event
from maxq.checkers.evidence.observations import NEVER
from maxq.histories.columns.rows import FAIL, INVOKE, OK, Rows
from maxq.histories.columns.scan import BEGIN, END, Grammar, Ints, Mask, distinct, order_of, scan
from maxq.histories.observed import RELEASE
from maxq.histories.text import TYPES

GRANTED, REFUSED, GIVEN_BACK = range(3)
_NOTHING = -1
_KEY = 1
_GRAMMAR = Grammar({"": {BEGIN: _KEY, _KEY: END}})  # a value is a number and nothing else
_SAYS = np.full((2, len(TYPES)), _NOTHING, np.int8)  # by whether it gives back, and its type
_SAYS[0, [OK, FAIL]] = GRANTED, REFUSED
_SAYS[1, INVOKE] = GIVEN_BACK
_FAR_NS = 1 << 60  # beyond it sums of times might not fit


def elements(rows: Rows, chosen: Ints, key_of: Callable[[Event], int]) -> Dealing:
    """What is granted, refused and given back in a batch, an element a row.

    Args:
        rows: a batch.
        chosen: operations of locks, by row.
        key_of: the key of an event that only the decoder can read.

    Raises:
        HistoryError: a value is no key.
    """
    key, plain = keys_in(rows, chosen)
    foreign = chosen[~plain]
    unsure = [
        key_of(Event(op, begun, bool(rows.open[at]))) for at, op, begun in rows.events(foreign)
    ]
    row = chosen[plain]
    says = _SAYS[rows.is_of(row, RELEASE).view(np.int8), rows.type[row]]
    told = np.flatnonzero(says != _NOTHING)
    row, says = row[told], says[told]
    arrays = {
        "at": rows.index[row],
        "process": rows.process[row],
        "time": rows.time[row],
        "begun_ns": np.where(rows.begun < rows.index, rows.begun_ns, -1)[row],
        "says": says,
    }
    return Dealing(key[plain][told], row, arrays, foreign, frozenset(unsure))


def keys_in(rows: Rows, chosen: Ints) -> tuple[Ints, Mask]:
    """The keys of some rows, and which are plain numbers; only of these the key is known."""
    texts: Any = rows.values(chosen).dictionary_encode()  # of all values few are different
    code = texts.indices.fill_null(len(texts.dictionary)).to_numpy()
    found = scan(texts.dictionary, _GRAMMAR)
    key = np.zeros(len(found.plain) + 1, np.int64)
    key[found.row] = found.value
    return key[code], np.append(found.plain, False)[code]


class Clean(NamedTuple):
    """What is counted of a lock of which nothing is wrong, as `LockJudgement` has it."""

    processes: frozenset[int]
    grants: int
    untimed: int
    gap_ns: int | None


def clean(a: Arrays, apart_ns: int, client_ns: int) -> Clean | Unsure:
    """The counts of a lock of which nothing is wrong; or `UNSURE`.

    Args:
        a: its elements, in order.
        apart_ns: how far grants to different clients must be apart.
        client_ns: how long a client relies on a grant.
    """
    if max(abs(apart_ns), abs(client_ns), int(a["time"].max(initial=0))) > _FAR_NS:
        return UNSURE
    order = order_of(a["process"])
    process, time, begun, says, at = (
        a[name][order] for name in ("process", "time", "begun_ns", "says", "at")
    )
    released = _next(process, time, says == GIVEN_BACK)
    lost = _next(process, time, says == REFUSED)
    granted = says == GRANTED
    timed = granted & (begun >= 0) & (time >= begun)
    untimed = int(granted.sum() - timed.sum())
    order = np.flatnonzero(timed)
    order = order[np.lexsort((at[order], time[order]))]
    process, time, begun, released, lost = (
        column[order] for column in (process, time, begun, released, lost)
    )
    if (_gaps(process, time, np.minimum(begun + apart_ns, released)) < 0).any():
        return UNSURE
    end = np.minimum(np.minimum(begun + client_ns, released), lost)
    holds = end > time
    gaps = _gaps(process[holds], time[holds], end[holds])
    if (gaps < 0).any():
        return UNSURE
    return Clean(
        processes=frozenset(distinct(process).tolist()),
        grants=len(time),
        untimed=untimed,
        gap_ns=int(gaps.min()) if len(gaps) else None,
    )


def _next(process: Ints, time: Ints, such: Mask) -> Ints:
    """When each element's process next did such a thing; NEVER if not. By process, in order."""
    count = len(such)
    position = np.where(such, np.arange(count), count)
    after = np.minimum.accumulate(position[::-1])[::-1]
    there = np.minimum(after, count - 1)
    its_own = (after < count) & (process[there] == process)
    return np.where(its_own, time[there], NEVER)


def _gaps(process: Ints, time: Ints, end: Ints) -> Ints:
    """From the end of the longest-lasting grant before it to each grant, where the two are of
    different clients; negative where they overlap. In order of time."""
    if not len(end):
        return end
    latest = np.maximum.accumulate(end)
    longer = np.concatenate([np.ones(1, np.bool_), end[1:] > latest[:-1]])
    longest = np.maximum.accumulate(np.where(longer, np.arange(len(end)), 0))
    other: Mask = process[1:] != process[longest[:-1]]
    return (time[1:] - latest[:-1])[other]
