"""Locks that one owner at a time holds: decided by sorting.

A *hold* is an `acquire` and the `release` of the same process that follows it. It is surely held
from the end of the one to the begin of the other; to take it as late and to release it as early as
can be makes every hold as short as it may be, so the history is legal iff these fit: none is in
force while another one is. A hold without a release lasts for ever; a release without an answer may
have released. An acquire without an answer is for a search.

Source: docs/spec/checkers.md 8.
"""

from typing import NamedTuple

import numpy as np

from maxq.checkers.linearizability.blocks import clash
from maxq.checkers.linearizability.calls import FAILED, NEVER, OPEN, Calls, Ints, Mask
from maxq.checkers.linearizability.decided import LEGAL, Decided
from maxq.checkers.linearizability.ties import Ties, joined

ACQUIRE, RELEASE = "acquire", "release"


def ties(calls: Calls) -> Ties:
    """The ties of the calls on a lock: an acquire goes with the releases that follow it."""
    last: dict[int, int] = {}
    pairs = []
    takes = calls.of(ACQUIRE)
    for at, process in enumerate(calls.process.tolist()):
        if calls.outcome[at] == FAILED:
            continue
        if takes[at]:
            last[process] = at
        elif process in last:
            pairs.append((at, last[process]))
    return Ties(joined(calls.size, pairs), lambda at: ())


class _Holds(NamedTuple):
    """The calls that make each hold; -1: it is not released."""

    taken: Ints
    released: Ints


def decide(calls: Calls) -> Decided | None:
    """Decide the calls on one lock, which is free at the beginning. Not ours is a lock of which a
    process asks again while its last request is open, or does not know what it holds."""
    if np.any(calls.of(ACQUIRE) & (calls.outcome == OPEN)):
        return None  # its process is gone, and whether it held the lock is for a search to say
    calls = calls.take(calls.outcome != FAILED)
    order = np.lexsort((calls.begun, calls.process))
    takes, process = calls.of(ACQUIRE)[order], calls.process[order]
    first = np.append(True, process[1:] != process[:-1]) if len(order) else np.zeros(0, bool)
    again = np.append(False, takes[1:] & takes[:-1]) & ~first
    alone = ~takes & (first | np.append(False, ~takes[:-1]))
    if np.any(again) or np.any(alone):
        # Held twice, or released by one who did not hold it: never legal, unless a release without
        # an answer is one of them, which a search has to say.
        at = order[np.flatnonzero(again | alone)[0]]
        unsure = np.any(calls.outcome == OPEN)
        return None if unsure else _not_held(calls, int(at))
    holds = _paired(calls, order, takes, process)
    return _overlap(calls, holds) or LEGAL


def _not_held(calls: Calls, at: int) -> Decided:
    call = calls.call(at)
    if call.kind == RELEASE:
        why, name = f"{call.said()} released what its process did not hold", "not-held"
    else:
        why, name = f"{call.said()} was granted to a process that held the lock", "held-twice"
    return Decided(False, "fast test", name, why, (call.begun,))


def _paired(calls: Calls, order: Ints, takes: Mask, process: Ints) -> _Holds:
    at = np.flatnonzero(takes)
    follows = np.minimum(at + 1, len(order) - 1)
    has = (at + 1 < len(order)) & (process[follows] == process[at]) if len(order) else at
    return _Holds(order[at], np.where(has, order[follows], -1))


def _overlap(calls: Calls, holds: _Holds) -> Decided | None:
    if not len(holds.taken):
        return None
    released = holds.released >= 0
    begun = np.where(released, calls.begun[holds.released], NEVER)
    ended = np.where(released, calls.ended[holds.released], NEVER)
    pair = clash(np.minimum(calls.ended[holds.taken], ended), begun)
    if pair is None:
        return None
    shown = [int(n) for p in pair for n in (holds.taken[p], holds.released[p]) if n >= 0]
    one, two = (calls.call(int(holds.taken[p])).said() for p in pair)
    why = f"{one} and {two} held the lock at one time"
    return Decided(False, "fast test", "held-twice", why,
                   tuple(int(calls.begun[n]) for n in shown))  # fmt: skip
