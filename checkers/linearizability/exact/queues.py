"""Queues, first in first out or in any order, whose values are put in once: decided by sorting.

Put (`enqueue` v), taken (`dequeue` with a result), and found empty (`dequeue` without one, of kind
`empty`). A call without an answer that put a value in counts if the value was taken; one that may
have taken any value is counted against what is missing, the earliest against what had to go first.

Source: docs/spec/checkers.md 8. Henzinger, Sezgin and Vafeiadis, *Aspect-oriented
linearizability proofs*, 2013.
"""

from typing import NamedTuple

import numpy as np

from maxq.checkers.linearizability.calls import FAILED, NEVER, OK, OPEN, Calls, Ints
from maxq.checkers.linearizability.decided import LEGAL, Decided

PUT, TAKE, EMPTY = "enqueue", "dequeue", "empty"


class _Stays(NamedTuple):
    """Of each value that was put in: the call that did, and the one that took it (-1: none)."""

    put: Ints
    taken: Ints


def decide(calls: Calls, *, ordered: bool = True) -> Decided | None:
    """Decide the calls on one queue, which is empty at the beginning.

    Args:
        calls: of kinds enqueue, dequeue and empty.
        ordered: whether what was put in first is taken first.
    """
    puts = np.flatnonzero(calls.of(PUT))
    takes = np.flatnonzero(calls.of(TAKE) & (calls.outcome == OK))
    sure = puts[calls.outcome[puts] != FAILED]
    if np.any(np.bincount(calls.argument[sure] + 1) > 1):
        return None
    put, failed = (np.full(len(calls.values), -1) for _ in range(2))
    put[calls.argument[sure]] = sure
    refused = puts[calls.outcome[puts] == FAILED]
    failed[calls.argument[refused]] = refused
    values = calls.result[takes]
    if (found := _without_source(calls, takes, put[values], failed[values])) is not None:
        return found
    if (found := _twice(calls, takes)) is not None:
        return found
    taken = np.full(len(calls.values), -1)
    taken[values] = takes
    own = taken[calls.argument[sure]]
    happened = (calls.outcome[sure] == OK) | (own >= 0)
    stays = _Stays(sure[happened], own[happened])
    overtaken = _out_of_order(calls, stays) or _missing(calls, stays) if ordered else None
    return overtaken or _not_empty(calls, stays) or LEGAL


def _without_source(calls: Calls, takes: Ints, put: Ints, failed: Ints) -> Decided | None:
    bad = np.flatnonzero(put < 0)
    if len(bad):
        one, other = int(takes[bad[0]]), int(failed[bad[0]])
        if other >= 0:
            why = f"{calls.call(one).said()} took what only {calls.call(other).said()} put in"
            return _found(calls, "aborted-read", why, one, other)
        return _found(calls, "phantom", f"{calls.call(one).said()} took what nobody put in", one)
    bad = np.flatnonzero(calls.ended[takes] < calls.begun[put])
    if len(bad):
        one, other = int(takes[bad[0]]), int(put[bad[0]])
        why = f"{calls.call(one).said()} was over before {calls.call(other).said()} began"
        return _found(calls, "future-read", why, one, other)
    return None


def _twice(calls: Calls, takes: Ints) -> Decided | None:
    order = takes[np.argsort(calls.result[takes], kind="stable")]
    bad = np.flatnonzero(calls.result[order][1:] == calls.result[order][:-1])
    if not len(bad):
        return None
    one, two = int(order[bad[0]]), int(order[bad[0] + 1])
    why = f"{calls.call(one).said()} and {calls.call(two).said()} took the same value"
    return _found(calls, "duplicate", why, one, two)


def _out_of_order(calls: Calls, stays: _Stays) -> Decided | None:
    """Of two values that were put in one after the other the second was taken wholly first."""
    there = stays.taken >= 0
    put, taken = stays.put[there], stays.taken[there]
    if not len(put):
        return None
    by_end = np.argsort(calls.ended[put], kind="stable")
    starts = calls.begun[taken][by_end]
    latest = np.maximum.accumulate(starts)
    before = np.searchsorted(calls.ended[put][by_end], calls.begun[put]) - 1
    bad = np.flatnonzero((before >= 0) & (latest[before] > calls.ended[taken]))
    if not len(bad):
        return None
    two = int(bad[0])
    one = int(by_end[np.flatnonzero(starts[: before[two] + 1] == latest[before[two]])[0]])
    return _overtaken(calls, put, taken, one, two)


def _overtaken(calls: Calls, put: Ints, taken: Ints, one: int, two: int) -> Decided:
    first, second = (calls.call(int(put[n])).said() for n in (one, two))
    early = calls.call(int(taken[two])).said()
    why = f"{first} was over before {second} began, "
    if taken[one] < 0:
        why += f"{early} took the second, and nothing can have taken the first"
    else:
        why += f"and {calls.call(int(taken[one])).said()} began only after {early} was over"
    shown = [int(n) for n in (put[one], put[two], taken[one], taken[two]) if n >= 0]
    return _found(calls, "overtaken" if taken[one] >= 0 else "lost", why, *shown)


def _missing(calls: Calls, stays: _Stays) -> Decided | None:
    """A value that had to be taken before another one was, and that nothing can have taken."""
    there = stays.taken >= 0
    put, taken = stays.put[there], stays.taken[there]
    if not len(put) or np.all(there):
        return None
    by_begin = np.argsort(calls.begun[put], kind="stable")
    ends = calls.ended[taken][by_begin]
    soonest = np.minimum.accumulate(ends[::-1])[::-1]
    left = stays.put[~there]
    after = np.searchsorted(calls.begun[put][by_begin], calls.ended[left], side="right")
    deadline = np.where(after < len(put), soonest[np.minimum(after, len(put) - 1)], NEVER)
    due = np.flatnonzero(deadline < NEVER)
    due = due[np.argsort(deadline[due], kind="stable")]
    open_takes = np.sort(calls.begun[calls.of(TAKE) & (calls.outcome == OPEN)])
    enough = np.full(len(due), NEVER)
    enough[: len(open_takes)] = open_takes[: len(due)]
    bad = np.flatnonzero(enough >= deadline[due])
    if not len(bad):
        return None
    one = int(due[bad[0]])
    two = int(by_begin[after[one] + np.flatnonzero(ends[after[one] :] == deadline[one])[0]])
    both_put = np.append(put, left[one])
    return _overtaken(calls, both_put, np.append(taken, -1), len(put), two)


def _not_empty(calls: Calls, stays: _Stays) -> Decided | None:
    """The queue was found empty while something was certainly in it, all the time."""
    empty = np.flatnonzero(calls.of(EMPTY) & (calls.outcome == OK))
    if not len(empty):
        return None
    there = stays.taken >= 0
    start = calls.ended[stays.put[there]]
    end = calls.begun[stays.taken[there]]
    inside = start < end
    starts, ends = _certain(calls, stays.put[~there])
    starts, ends = np.append(start[inside], starts), np.append(end[inside], ends)
    if not len(starts):
        return None
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], np.maximum.accumulate(ends[order])
    heads = np.flatnonzero(np.append(True, starts[1:] > ends[:-1]))
    first, last = starts[heads], ends[np.append(heads[1:], len(starts)) - 1]
    at = np.searchsorted(first, calls.begun[empty]) - 1
    bad = np.flatnonzero((at >= 0) & (last[at] > calls.ended[empty]))
    if not len(bad):
        return None
    one = int(empty[bad[0]])
    why = f"{calls.call(one).said()} found nothing, although something was there all the time"
    return _found(calls, "false-empty", why, one)


def _certain(calls: Calls, left: Ints) -> tuple[Ints, Ints]:
    """When some of the values that nobody is known to have taken were certainly there: as many as
    were put in, without one for each open call that may have taken one."""
    takes = calls.begun[calls.of(TAKE) & (calls.outcome == OPEN)]
    at = np.append(calls.ended[left], takes)
    step = np.append(np.ones(len(left), np.int64), -np.ones(len(takes), np.int64))
    order = np.argsort(at, kind="stable")
    at, some = at[order], np.cumsum(step[order]) > 0
    until = np.append(at[1:], NEVER)
    return at[some], until[some]


def _found(calls: Calls, name: str, why: str, *shown: int) -> Decided:
    begins = tuple(dict.fromkeys(int(calls.begun[n]) for n in shown))
    return Decided(False, "fast test", name, why, begins)
