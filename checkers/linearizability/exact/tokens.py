"""Fencing tokens: grants in order of their numbers, and writes in order of theirs.

Tokens say in which order a lock was granted. So each grant and the release that follows it have
their place, and moments in that order exist iff no call was over before one began that must come
before it. At the resource, a write was accepted only if none with a greater token was before it:
the same test once more.

Source: docs/spec/checkers.md 8. Kleppmann, *How to do distributed locking*, 2016.
"""

import numpy as np

from maxq.checkers.linearizability.calls import FAILED, NEVER, NOTHING, OK, Calls, Ints
from maxq.checkers.linearizability.decided import LEGAL, Decided

ACQUIRE, RELEASE, WRITE = "acquire", "release", "write"


def decide(calls: Calls) -> Decided | None:
    """Decide the calls on one lock and what it protects.

    Not ours is a lock that a process released whose acquire had no answer.

    Args:
        calls: an acquire has its token in `result`, and in `other` a number if it ends by itself; a
            write has its token in `argument`.
    """
    return _writes(calls) or _grants(calls)


def _writes(calls: Calls) -> Decided | None:
    at = np.flatnonzero(calls.of(WRITE) & (calls.outcome == OK))
    token = calls.numbers(calls.argument[at])
    order = np.argsort(token, kind="stable")
    at, token = at[order], token[order]
    pair = _out_of_order(calls.begun[at], calls.ended[at], token)
    if pair is None:
        return None
    one, two = (int(at[n]) for n in pair)
    why = f"{calls.call(one).said()} was accepted, although {calls.call(two).said()} was over " \
          "before it began"  # fmt: skip
    return _found(calls, "token-not-checked", why, one, two)


def _grants(calls: Calls) -> Decided | None:
    taken = np.flatnonzero(calls.of(ACQUIRE) & (calls.outcome == OK))
    token = calls.numbers(calls.result[taken])
    order = np.argsort(token, kind="stable")
    taken, token = taken[order], token[order]
    same = np.flatnonzero(token[1:] == token[:-1])
    if len(same):
        one, two = int(taken[same[0]]), int(taken[same[0] + 1])
        why = f"{calls.call(one).said()} and {calls.call(two).said()} were given one token"
        return _found(calls, "token-reused", why, one, two)
    released = _released(calls)
    if released is None:
        return None
    last = released[taken]
    held = calls.other[taken] == NOTHING
    until = np.where(held, np.where(last >= 0, calls.begun[last], NEVER), calls.begun[taken])
    pair = _out_of_order(until, calls.ended[taken], token)
    if pair is None:
        return LEGAL
    one, two = (int(taken[n]) for n in pair)
    first, second = calls.call(one), calls.call(two)
    if first.begun > second.ended:
        why = f"{second.said()} was over before {first.said()} began, which has the smaller token"
        return _found(calls, "token-went-back", why, one, two)
    why = f"{second.said()} was granted before the holder of {first.said()} asked to release it"
    return _found(calls, "held-twice", why, *(n for n in (one, two, released[one]) if n >= 0))


def _out_of_order(begun: Ints, ended: Ints, token: Ints) -> tuple[int, int] | None:
    """Two of which the one with the greater token was over before the other one began; or None.
    All are in order of tokens."""
    if not len(token):
        return None
    latest = np.maximum.accumulate(begun)
    heads = np.searchsorted(token, token)
    before = np.where(heads > 0, latest[heads - 1], -1)
    bad = np.flatnonzero(before > ended)
    if not len(bad):
        return None
    return int(np.flatnonzero(begun == before[bad[0]])[0]), int(bad[0])


def _released(calls: Calls) -> Ints | None:
    """Of each call the next one of its process that is no write, if that is a release (-1: it is
    not). None: a release follows an acquire without an answer, which it may be of."""
    found = np.full(calls.size, -1)
    some = np.flatnonzero(~calls.of(WRITE) & (calls.outcome != FAILED))
    order = some[np.lexsort((calls.begun[some], calls.process[some]))]
    here, after = order[:-1], order[1:]
    takes = calls.of(ACQUIRE)
    follows = (calls.process[here] == calls.process[after]) & takes[here] & ~takes[after]
    if np.any(follows & (calls.outcome[here] != OK)):
        return None
    found[here[follows]] = after[follows]
    return found


def _found(calls: Calls, name: str, why: str, *shown: int) -> Decided:
    return Decided(False, "fast test", name, why, tuple(int(calls.begun[n]) for n in shown))
