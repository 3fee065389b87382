"""Locks that owners hold: who holds what from when to when, and a lock of one holder, by sorting.

A *hold* is an acquire and the release of the same process that follows it. It is surely held from
the end of the one to the begin of the other; to take it as late and to release it as early as can
be makes every hold as short as it may be, so the history is legal iff these fit: of a mutex, none
is in effect while another one is. A hold without a release lasts for ever; a release without an
answer may have released. An acquire without an answer happened if its process released what it
cannot hold otherwise: it has no end then. If not, it is left out: nothing shows that it happened.

Source: docs/spec/checkers.md 8.
"""

from typing import NamedTuple

import numpy as np

from maxq.checkers.linearizability.calls import FAILED, NEVER, OPEN, Calls, Ints, Mask
from maxq.checkers.linearizability.decided import LEGAL, Decided
from maxq.checkers.linearizability.exact.blocks import clash
from maxq.checkers.linearizability.ties import Ties, joined

ACQUIRE, RELEASE = "acquire", "release"


class Holds(NamedTuple):
    """The calls that make each hold (`released` -1: it is not released): its sure begin, the begin
    of its release and the end of that, NEVER where there is none; shapes (n,)."""

    calls: Calls
    taken: Ints
    released: Ints
    start: Ints
    stop: Ints
    over: Ints

    @property
    def first(self) -> Ints:
        """When the first call of each was over: a hold fits between its `stop` and this if it is
        not surely held at any time."""
        return np.minimum(self.start, self.over)

    def witness(self, *holds: int) -> tuple[int, ...]:
        """The begins of the calls that make some of them."""
        every = (int(n) for h in holds for n in (self.taken[h], self.released[h]) if n >= 0)
        return tuple(int(self.calls.begun[n]) for n in every)

    def said(self, hold: int) -> str:
        """The acquire of one, in words."""
        return self.calls.call(int(self.taken[hold])).said()


def decide(calls: Calls) -> Decided | None:
    """Decide the calls on one lock, which is free at the beginning. Not ours is a lock of which a
    process does not know what it holds."""
    holds = holds_of(calls)
    if not isinstance(holds, Holds):
        return holds
    pair = clash(holds.first, holds.stop)
    return LEGAL if pair is None else together(holds, *pair)


def together(holds: Holds, one: int, two: int) -> Decided:
    """Two holds at one time, of a lock that does not allow it."""
    why = f"{holds.said(one)} and {holds.said(two)} held the lock at one time"
    return Decided(False, "fast test", "held-twice", why, holds.witness(one, two))


def holds_of(calls: Calls, *, many: bool = False) -> Holds | Decided | None:
    """The holds of all processes; or why they are none; None: a search has to say.

    Args:
        calls: of kind `release`, and of kinds that take.
        many: whether a process may hold more than once, which is for a search.
    """
    unsure = bool(np.any(calls.outcome == OPEN))
    calls = calls.take(calls.outcome != FAILED)
    happened = _happened(calls)
    if happened is None:
        return None
    calls = calls.take(happened)
    order = calls.by_process()
    takes, process = ~calls.of(RELEASE)[order], calls.process[order]
    first = np.append(True, process[1:] != process[:-1]) if len(order) else np.zeros(0, bool)
    again = (np.append(False, takes[1:] & takes[:-1]) if len(order) else first) & ~first
    alone = ~takes & (first | np.append(False, ~takes[:-1])) if len(order) else first
    if np.any(again) or np.any(alone):
        # Held twice, or released by one who did not hold it: never legal, unless a call without
        # an answer is one of them, which a search has to say.
        if unsure or many:
            return None
        return _not_held(calls, int(order[np.flatnonzero(again | alone)[0]]))
    return _paired(calls, order, takes, process)


def _happened(calls: Calls) -> Mask | None:
    """Which calls to keep: of acquires without an answer those that a release proves. None: it
    cannot be said, as a release without an answer may give back what was taken after it, or
    acquires of two kinds without an answer follow each other."""
    keep = np.ones(calls.size, bool)
    if not calls.size or not np.any(calls.outcome == OPEN):
        return keep
    order = calls.by_process()
    takes, unsure = ~calls.of(RELEASE)[order], calls.outcome[order] == OPEN
    process = calls.process[order]
    same = process[1:] == process[:-1]
    released = np.append(same & ~takes[1:], False)  # a release of the same process comes next
    unsure_next = np.append(unsure[1:], False)
    held = np.append(False, same & takes[:-1] & ~unsure[:-1])  # it surely held already
    asked = takes & unsure
    gone = asked & (held | ~released | unsure_next)
    keep[order[gone]] = False
    undone = np.flatnonzero(asked & ~held & released & unsure_next) + 1
    kind = calls.kind[order]
    either = asked[1:] & asked[:-1] & same & (kind[1:] != kind[:-1])  # which one happened?
    if np.any(np.append(same, False)[undone]) or np.any(either):
        return None
    keep[order[undone]] = False
    return keep


def _not_held(calls: Calls, at: int) -> Decided:
    call = calls.call(at)
    if call.kind == RELEASE:
        why, name = f"{call.said()} released what its process did not hold", "not-held"
    else:
        why, name = f"{call.said()} was granted to a process that held the lock", "held-twice"
    return Decided(False, "fast test", name, why, (call.begun,))


def _paired(calls: Calls, order: Ints, takes: Mask, process: Ints) -> Holds:
    at = np.flatnonzero(takes)
    follows = np.minimum(at + 1, len(order) - 1)
    has = (at + 1 < len(order)) & (process[follows] == process[at]) if len(at) else takes[:0]
    taken, released = order[at], np.where(has, order[follows], -1)
    stop = np.where(has, calls.begun[released], NEVER) if len(at) else at
    over = np.where(has, calls.ended[released], NEVER) if len(at) else at
    return Holds(calls, taken, released, calls.ended[taken], stop, over)


def ties(calls: Calls) -> Ties:
    """The ties of the calls on a lock: an acquire goes with the releases that follow it."""
    last: dict[int, int] = {}
    pairs = []
    takes = ~calls.of(RELEASE)
    for at, process in enumerate(calls.process.tolist()):
        if calls.outcome[at] == FAILED:
            continue
        if takes[at]:
            last[process] = at
        elif process in last:
            pairs.append((at, last[process]))
    return Ties(joined(calls.size, pairs), lambda at: ())
