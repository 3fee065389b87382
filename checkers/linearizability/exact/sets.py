"""Sets that only grow, read whole: decided in one sweep.

Reads can only be put in an order in which each shows all that the one before it shows. Between
reads that show more and more stand the adds of what is new, in any order: so the calls fall into
levels. A call that was over before one of an earlier level began is out of order. What was
acknowledged and never read comes last.

Source: docs/spec/checkers.md 8.
"""

from collections.abc import Hashable
from itertools import pairwise

import numpy as np

from maxq.checkers.linearizability.calls import FAILED, OK, OPEN, Calls, Ints
from maxq.checkers.linearizability.decided import LEGAL, Decided

ADD, READ = "add", "read"


def decide(calls: Calls) -> Decided | None:
    """Decide the calls on one set, which is empty at the beginning; a read's result is a frozenset.

    Not ours is one to which an element was added twice: which of the two a read shows is not known.
    """
    adds = np.flatnonzero(calls.of(ADD) & (calls.outcome != FAILED))
    if np.any(np.bincount(calls.argument[adds] + 1) > 1):
        return None
    reads = np.flatnonzero(calls.of(READ) & (calls.outcome == OK))
    shown: dict[int, frozenset[Hashable]] = {
        at: calls.values[calls.result[at]] for at in reads.tolist()
    }
    reads = np.array(sorted(shown, key=lambda at: len(shown[at])), np.int64)
    if (found := _incomparable(calls, reads, shown)) is not None:
        return found
    added = {calls.values[calls.argument[at]]: at for at in adds.tolist()}
    at, level, last = [], [], 0
    before: frozenset[Hashable] = frozenset()
    for read in reads.tolist():
        if shown[read] != before:
            last += 2
            for value in shown[read] - before:
                if (maker := added.pop(value, None)) is None:
                    return _without_source(calls, read, value)
                at.append(maker)
                level.append(last - 1)
            before = shown[read]
        at.append(read)
        level.append(last)
    unread = [n for n in added.values() if calls.outcome[n] != OPEN]
    return _out_of_order(
        calls, np.array(at + unread, np.int64), np.array(level + [last + 1] * len(unread), np.int64)
    ) or LEGAL  # fmt: skip


def _incomparable(
    calls: Calls, reads: Ints, shown: dict[int, frozenset[Hashable]]
) -> Decided | None:
    """Two reads, each of which shows what the other one lacks."""
    for one, two in pairwise(reads.tolist()):
        if not shown[one] <= shown[two]:
            both = f"{calls.call(one).said()} and {calls.call(two).said()}"
            why = f"{both} each lack what the other one shows"
            return _found(calls, "incompatible-order", why, one, two)
    return None


def _without_source(calls: Calls, read: int, value: Hashable) -> Decided:
    for at in np.flatnonzero(calls.of(ADD)).tolist():
        if calls.values[calls.argument[at]] == value:
            why = f"{calls.call(read).said()} shows what only {calls.call(at).said()} added"
            return _found(calls, "aborted-read", why, at, read)
    why = f"{calls.call(read).said()} shows what nobody added"
    return _found(calls, "phantom", why, read)


def _out_of_order(calls: Calls, at: Ints, level: Ints) -> Decided | None:
    """A call that was over before one began that must stand before it."""
    order = np.argsort(level, kind="stable")
    at, level = at[order], level[order]
    if not len(at):
        return None
    latest = np.maximum.accumulate(calls.begun[at])
    heads = np.searchsorted(level, level)  # where each one's level begins
    before = np.where(heads > 0, latest[heads - 1], -1)
    bad = np.flatnonzero(before > calls.ended[at])
    if not len(bad):
        return None
    two = int(bad[0])
    one = int(at[np.flatnonzero(calls.begun[at] == before[two])[0]])
    early, late = calls.call(int(at[two])), calls.call(one)
    why = f"{early.said()} was over before {late.said()} began, and must come after it"
    name = "future-read" if early.kind == READ and late.kind == ADD else "stale-read"
    return _found(calls, name, why, int(at[two]), one)


def _found(calls: Calls, name: str, why: str, *shown: int) -> Decided:
    return Decided(False, "fast test", name, why, tuple(int(calls.begun[n]) for n in shown))
