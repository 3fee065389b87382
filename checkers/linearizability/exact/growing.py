"""Texts that only grow, read whole: decided in one sweep.

The longest text that was read says in which order its parts were appended; every other one must be
how it began. So each part has a place, and each read shows how many were there. Of every place the
moment at which it was filled is bounded: it is after the append of its part began, and after every
read began that ended before it; it is before that append was over, and before every read was over
that shows it. Such moments exist, one after the other, iff no lower bound exceeds an upper one of
its own or a later place. Appends that were acknowledged and never read come last, in any order.

Source: docs/spec/checkers.md 8.
"""

from collections import defaultdict
from itertools import pairwise
from typing import NamedTuple

from maxq.checkers.linearizability.calls import FAILED, NEVER, OK, Call, Calls
from maxq.checkers.linearizability.decided import LEGAL, Decided

APPEND, GET = "append", "get"


class _Bound(NamedTuple):
    """A moment, and the call that it is of."""

    at: int
    call: Call


def decide(calls: Calls) -> Decided | None:
    """Decide the calls on one text, which is empty at the beginning.

    Not ours is one that is not only appended to, or whose parts cannot be told apart.
    """
    every = [calls.call(at) for at in range(calls.size)]
    appends = [c for c in every if c.kind == APPEND and c.outcome != FAILED]
    reads = sorted((c for c in every if c.kind == GET and c.outcome == OK),
                   key=lambda c: len(c.result))  # fmt: skip
    texts = {c.argument: c for c in appends}
    if set(calls.kinds) - {APPEND, GET} or len(texts) < len(appends) or "" in texts:
        return None
    if not reads:
        return LEGAL
    for one, two in pairwise(reads):
        if not two.result.startswith(one.result):
            why = f"{one.said()} and {two.said()} cannot both have been there, one after the other"
            return _found("incompatible-order", why, one, two)
    places = _places(reads[-1].result, texts)
    if places is None:
        return None  # a part of it is nobody's, or two could be it: a search says so
    ends, length = {0: 0}, 0
    for n, call in enumerate(places, start=1):
        length += len(call.argument)
        ends[length] = n
    if any(len(c.result) not in ends for c in reads):
        return None
    return _swept(appends, places, [(ends[len(c.result)], c) for c in reads]) or LEGAL


def _places(text: str, texts: dict[str, Call]) -> list[Call] | None:
    """The appends of which a text consists, in order; None: not known."""
    found: list[Call] = []
    left, at = dict(texts), 0
    lengths = sorted({len(part) for part in texts})
    while at < len(text):
        fit = [left[part] for n in lengths if (part := text[at : at + n]) in left]
        if len(fit) != 1:
            return None
        found.append(left.pop(fit[0].argument))
        at += len(fit[0].argument)
    return found


def _swept(
    appends: list[Call], places: list[Call], reads: list[tuple[int, Call]]
) -> Decided | None:
    below: dict[int, list[_Bound]] = defaultdict(list)
    above: dict[int, list[_Bound]] = defaultdict(list)
    for count, call in reads:
        below[count].append(_Bound(call.begun, call))
        above[count - 1].append(_Bound(call.ended, call))
    for place, call in enumerate(places):
        below[place].append(_Bound(call.begun, call))
        above[place].append(_Bound(call.ended, call))
    known = {call.begun for call in places}
    last = len(places)
    for call in appends:
        if call.begun not in known and call.ended < NEVER:
            above[last].append(_Bound(call.ended, call))
    latest: _Bound | None = None
    for place in range(last + 1):
        latest = max(
            [*below[place], *([latest] if latest else [])], key=lambda b: b.at, default=None
        )
        soonest = min(above[place], key=lambda b: b.at, default=None)
        if latest and soonest and latest.at > soonest.at:
            why = (
                f"{soonest.call.said()} was over before {latest.call.said()} began, which saw or "
                "made an earlier text"
            )
            return _found("stale-read", why, soonest.call, latest.call)
    return None


def _found(name: str, why: str, *shown: Call) -> Decided:
    return Decided(False, "fast test", name, why, tuple(call.begun for call in shown))
