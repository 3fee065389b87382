"""Texts that only grow, read whole: decided in one sweep.

The longest text that was read says in which order its parts were appended; every other one must be
how it began. So each part has a place, and each read shows how many were there. Of every place the
moment at which it was filled is bounded: it is after the append of its part began, and after every
read began that ended before it; it is before that append was over, and before every read was over
that shows it. Such moments exist, one after the other, iff no lower bound exceeds an upper one of
its own or a later place. Appends that were acknowledged and never read come last, in any order.

Source: docs/spec/checkers.md 8.
"""

from itertools import pairwise

import numpy as np

from maxq.checkers.linearizability.calls import FAILED, NEVER, OK, Calls, Ints
from maxq.checkers.linearizability.decided import LEGAL, Decided

APPEND, GET = "append", "get"
NO_COUNT = -1  # of a text that was not read


def decide(calls: Calls) -> Decided | None:
    """Decide the calls on one text, which is empty at the beginning.

    Not ours is one that is not only appended to, or whose parts cannot be told apart.
    """
    if set(calls.kinds) - {APPEND, GET}:
        return None
    appends = np.flatnonzero(calls.of(APPEND) & (calls.outcome != FAILED))
    reads = np.flatnonzero(calls.of(GET) & (calls.outcome == OK))
    values = calls.values
    by = {values[code]: at for code, at in zip(calls.argument[appends].tolist(), appends.tolist(),
                                               strict=True)}  # fmt: skip
    if len(by) < len(appends) or "" in by:
        return None
    if not len(reads):
        return LEGAL
    seen = sorted(np.unique(calls.result[reads]).tolist(), key=lambda code: len(values[code]))
    for one, two in pairwise(seen):
        if not values[two].startswith(values[one]):
            shown = [int(reads[calls.result[reads] == code][0]) for code in (one, two)]
            why = "{} and {} cannot both have been there, one after the other"
            return _found("incompatible-order", why, calls, *shown)
    places = _places(values[seen[-1]], by)
    if places is None:
        return None  # a part of it is nobody's, or two could be it: a search says so
    parts = [len(values[code]) for code in calls.argument[places].tolist()]
    ends = {length: n for n, length in enumerate(np.cumsum([0, *parts]).tolist())}
    count_of = np.full(len(values), NO_COUNT)
    count_of[seen] = [ends.get(len(values[code]), NO_COUNT) for code in seen]
    counts = count_of[calls.result[reads]]
    if (counts == NO_COUNT).any():
        return None
    return _swept(calls, appends, np.array(places, np.int64), reads, counts) or LEGAL


def _places(text: str, by: dict[str, int]) -> list[int] | None:
    """The appends of which a text consists, in order; None: not known."""
    found: list[int] = []
    left, at = dict(by), 0
    lengths = sorted({len(part) for part in by})
    while at < len(text):
        fit = [part for n in lengths if (part := text[at : at + n]) in left]
        if len(fit) != 1:
            return None
        found.append(left.pop(fit[0]))
        at += len(fit[0])
    return found


def _swept(calls: Calls, appends: Ints, places: Ints, reads: Ints, counts: Ints) -> Decided | None:
    """Whether each place has its moment; `counts` is how many parts each read shows."""
    last = len(places)
    below, above = np.full(last + 1, -1), np.full(last + 1, NEVER)
    below[:last], above[:last] = calls.begun[places], calls.ended[places]
    np.maximum.at(below, counts, calls.begun[reads])
    some = counts > 0
    np.minimum.at(above, counts[some] - 1, calls.ended[reads[some]])
    unread = np.setdiff1d(appends, places, assume_unique=True)
    above[last] = calls.ended[unread].min(initial=above[last])
    latest = np.maximum.accumulate(below)
    bad = np.flatnonzero(latest > above)
    if not len(bad):
        return None
    over = int(np.flatnonzero(calls.ended == above[bad[0]])[0])
    began = int(np.flatnonzero(calls.begun == latest[bad[0]])[0])
    why = "{} was over before {} began, which saw or made an earlier text"
    return _found("stale-read", why, calls, over, began)


def _found(name: str, why: str, calls: Calls, *at: int) -> Decided:
    """What is wrong with two calls; `why` has a place for each."""
    shown = [calls.call(n) for n in at]
    said = why.format(*(call.said() for call in shown))
    return Decided(False, "fast test", name, said, tuple(call.begun for call in shown))
