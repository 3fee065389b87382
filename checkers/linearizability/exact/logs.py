"""Logs that are appended to, and read by offset: decided by sorting.

Each offset that was acknowledged or shown is a *slot*, filled at one moment; moments rise with
offsets. A slot's moment is after the append that filled it began, and after every read began that
found the end of the log at or below it; it is before that append was over, and before every read
was over that shows it. Such moments exist iff no lower bound exceeds an upper one of its own or of
a later slot.

A slot that nobody acknowledged was filled by an append without an answer: of several of its value,
as many retries are, by the last that began in time, which leaves the early ones for *holes*, slots
below the last that nobody has seen. Where offsets have no gaps the k-th hole needs the k-th of what
is left to have begun before anything above the hole was over.

Source: docs/spec/checkers.md 8.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from maxq.checkers.linearizability.calls import (
    FAILED,
    NEVER,
    NOTHING,
    OK,
    OPEN,
    Call,
    Calls,
    Ints,
    Mask,
)
from maxq.checkers.linearizability.decided import LEGAL, Decided
from maxq.checkers.linearizability.ties import Ties, alone

APPEND, READ, POLL, END = "append", "read", "poll", "end"
HOLE = "hole"  # what is said of an offset that nothing can have filled
UNKNOWN = -2  # the code of a value that nobody appended


class _Seen(NamedTuple):
    """What was acknowledged and shown, by offset: the code of the value, and the call."""

    offset: Ints
    value: Ints
    call: Ints


class _Polled(NamedTuple):
    """What polls show, in order: the poll, the offset, the one before it (of the first: that which
    was asked for, less one), and the value."""

    at: Ints
    offset: Ints
    before: Ints
    values: list[Any]


class _Slots(NamedTuple):
    """Offsets ascending: what is there, the call that was over first of those that show it, when
    that was; who acknowledged it, and who filled it (-1: nobody)."""

    offset: Ints
    value: Ints
    shown: Ints
    ended: Ints
    acked: Ints
    filler: Ints


def decide(calls: Calls, *, dense: bool = True) -> Decided | None:
    """Decide the calls on one log, which is empty at the beginning.

    Not ours is a log of which an append was acknowledged without its offset, unless something else
    is wrong with it.

    Args:
        calls: an append has its value in `argument` and its offset in `result`; a read its offset
            in `argument`; a poll too, and pairs of offset and value in `result`; an `end` is a read
            or a poll that found nothing.
        dense: whether offsets begin with 0 and have no gaps.
    """
    appends = calls.of(APPEND)
    polled = _polled(calls)
    seen = _seen(calls, appends, polled)
    if (found := _twice(calls, seen, appends)) is not None:
        return found
    slots = _slots(calls, seen, appends)
    found = (
        _without_source(calls, slots, appends)
        or _skipped(calls, slots, polled)
        or _swept(calls, slots := _filled(calls, slots, appends))
    )
    if found is not None or not dense:
        return found or LEGAL
    if np.any(appends & (calls.outcome == OK) & (calls.result == NOTHING)):
        return None
    return _gaps(calls, polled) or _holes(calls, slots, appends) or LEGAL


def _polled(calls: Calls) -> _Polled:
    polls = np.flatnonzero(calls.of(POLL) & (calls.outcome == OK))
    shown = [calls.values[code] for code in calls.result[polls].tolist()]
    sizes = np.fromiter(map(len, shown), np.int64, len(shown))
    pairs = list(chain.from_iterable(shown))
    offset = np.fromiter((o for o, _ in pairs), np.int64, len(pairs))
    before = np.append(-1, offset[:-1])[: len(offset)]
    heads = np.cumsum(sizes) - sizes
    before[heads] = calls.numbers(calls.argument[polls]) - 1
    return _Polled(np.repeat(polls, sizes), offset, before, [v for _, v in pairs])


def _seen(calls: Calls, appends: Mask, polled: _Polled) -> _Seen:
    done = calls.outcome == OK
    acked = np.flatnonzero(appends & done & (calls.result != NOTHING))
    reads = np.flatnonzero(calls.of(READ) & done)
    offset = np.append(calls.numbers(calls.result[acked]), calls.numbers(calls.argument[reads]))
    value = np.append(calls.argument[acked], calls.result[reads])
    order = np.argsort(offset, kind="stable")
    known = _Seen(offset[order], value[order], np.append(acked, reads)[order])
    if not polled.values:
        return known
    value = np.append(known.value, _codes(calls, appends, polled, known))
    offset, call = np.append(known.offset, polled.offset), np.append(known.call, polled.at)
    order = np.argsort(offset, kind="stable")
    return _Seen(offset[order], value[order], call[order])


def _codes(calls: Calls, appends: Mask, polled: _Polled, known: _Seen) -> Ints:
    """The codes of the values that polls show. Most are those that others show there."""
    at = np.minimum(np.searchsorted(known.offset, polled.offset), len(known.offset) - 1)
    likely = known.value[at].tolist() if len(known.offset) else [0] * len(polled.values)
    every = calls.values
    found = np.array(
        [
            code if type(own := every[code]) is type(value) and own == value else UNKNOWN
            for code, value in zip(likely, polled.values, strict=True)
        ],
        np.int64,
    )
    if len(strange := np.flatnonzero(found == UNKNOWN)):
        values = [polled.values[at] for at in strange.tolist()]
        codes, wanted = np.flatnonzero(np.bincount(calls.argument[appends])).tolist(), set(values)
        of = {(type(every[n]), every[n]): n for n in codes if every[n] in wanted}
        found[strange] = [of.get((type(value), value), UNKNOWN) for value in values]
    return found


def _twice(calls: Calls, seen: _Seen, appends: Mask) -> Decided | None:
    """Two values at one offset, or two appends that were given it."""
    same = seen.offset[1:] == seen.offset[:-1]
    bad = np.flatnonzero(same & (seen.value[1:] != seen.value[:-1]))
    if len(bad):
        one, two = int(seen.call[bad[0]]), int(seen.call[bad[0] + 1])
        why = f"{calls.call(one).said()} and {calls.call(two).said()} show two values at offset " \
              f"{seen.offset[bad[0]]}"  # fmt: skip
        return _found(calls, "inconsistent-offsets", why, one, two)
    given = appends[seen.call]
    by, offset = seen.call[given], seen.offset[given]
    bad = np.flatnonzero(offset[1:] == offset[:-1])
    if not len(bad):
        return None
    one, two = int(by[bad[0]]), int(by[bad[0] + 1])
    why = f"{calls.call(one).said()} and {calls.call(two).said()} were given one offset"
    return _found(calls, "offset-reused", why, one, two)


def _slots(calls: Calls, seen: _Seen, appends: Mask) -> _Slots:
    heads = np.flatnonzero(np.append(True, seen.offset[1:] != seen.offset[:-1])[: len(seen.offset)])
    group = np.repeat(np.arange(len(heads)), np.diff(np.append(heads, len(seen.offset))))
    ends = calls.ended[seen.call]
    soonest = np.minimum.reduceat(ends, heads) if len(heads) else ends
    hits = np.flatnonzero(ends == soonest[group])[::-1]
    first = np.zeros(len(heads), np.int64)
    first[group[hits]] = seen.call[hits]
    acked = np.full(len(heads), -1)
    given = appends[seen.call]
    acked[group[given]] = seen.call[given]
    return _Slots(seen.offset[heads], seen.value[heads], first, calls.ended[first], acked, acked)


def _without_source(calls: Calls, slots: _Slots, appends: Mask) -> Decided | None:
    """A value that nobody appended, or only a call that failed; or at more offsets than there are
    appends of it."""
    bare = np.flatnonzero(slots.acked < 0)
    maybe = appends & (calls.outcome != FAILED)
    count = len(calls.values) + 1
    might = np.bincount(calls.argument[maybe], minlength=count)
    known = np.bincount(calls.argument[slots.acked[slots.acked >= 0]], minlength=count)
    code = slots.value[bare]
    there = np.where(code >= 0, might[code], 0)
    bad = np.flatnonzero(there == 0)
    if len(bad):
        at = int(slots.shown[bare[bad[0]]])
        offset = slots.offset[bare[bad[0]]]
        refused = np.flatnonzero(appends & (calls.argument == code[bad[0]]))
        if len(refused):
            one = int(refused[0])
            why = f"{calls.call(at).said()} shows at offset {offset} what only " \
                  f"{calls.call(one).said()} appended"  # fmt: skip
            return _found(calls, "aborted-read", why, one, at)
        why = f"{calls.call(at).said()} shows at offset {offset} what nobody appended"
        return _found(calls, "phantom", why, at)
    used = np.bincount(code, minlength=count) + known
    over = np.flatnonzero(used > might)
    if not len(over):
        return None
    twice = np.flatnonzero(slots.value == over[0])
    shown = [int(n) for n in slots.shown[twice]]
    makers = np.flatnonzero(maybe & (calls.argument == over[0]))
    offsets = ", ".join(str(n) for n in slots.offset[twice][:4])
    why = f"{calls.call(int(makers[0])).said()} is at offsets {offsets}, and was appended " \
          f"{'once' if len(makers) == 1 else f'{len(makers)} times'}"  # fmt: skip
    return _found(calls, "duplicate", why, *shown[:3], int(makers[0]))


def _skipped(calls: Calls, slots: _Slots, polled: _Polled) -> Decided | None:
    """A poll that does not show what is known to be between, or goes back."""
    back = np.flatnonzero(polled.offset <= polled.before)
    if len(back):
        at = int(polled.at[back[0]])
        why = f"{calls.call(at).said()} does not go upwards at offset {polled.offset[back[0]]}"
        return _found(calls, "nonmonotonic-poll", why, at)
    over = np.flatnonzero(polled.offset > polled.before + 1)
    next_known = np.searchsorted(slots.offset, polled.before[over], side="right")
    bad = np.flatnonzero(slots.offset[next_known] < polled.offset[over])
    if not len(bad):
        return None
    at, skipped = int(polled.at[over[bad[0]]]), int(next_known[bad[0]])
    other = int(slots.shown[skipped])
    why = f"{calls.call(at).said()} does not show offset {slots.offset[skipped]}, which " \
          f"{calls.call(other).said()} does"  # fmt: skip
    return _found(calls, "poll-skip", why, at, other)


def _filled(calls: Calls, slots: _Slots, appends: Mask) -> _Slots:
    """With who filled the slots that nobody acknowledged."""
    bare = np.flatnonzero(slots.acked < 0)
    if not len(bare):
        return slots
    # An append that was acknowledged without an offset is bounded by nothing here but its begin.
    maybe = appends & (calls.outcome != FAILED) & (calls.result == NOTHING)
    left: dict[int, list[int]] = defaultdict(list)
    for at in np.flatnonzero(maybe).tolist():
        left[int(calls.argument[at])].append(at)
    filler, deadline = slots.filler.copy(), _deadlines(slots)
    for slot in bare.tolist():
        some = left[int(slots.value[slot])]
        early = [n for n, at in enumerate(some) if calls.begun[at] < deadline[slot]]
        filler[slot] = some.pop(early[-1] if early else 0)
    return slots._replace(filler=filler)


def _deadlines(slots: _Slots) -> Ints:
    """Of each slot, when something was over that shows it or a later one."""
    found: Ints = np.minimum.accumulate(slots.ended[::-1])[::-1]
    return found


def _swept(calls: Calls, slots: _Slots) -> Decided | None:
    """No lower bound exceeds an upper one of its own or a later slot."""
    ends = np.flatnonzero(calls.of(END) & (calls.outcome == OK))
    above = np.searchsorted(slots.offset, calls.numbers(calls.argument[ends]))
    ends, above = ends[above < len(slots.offset)], above[above < len(slots.offset)]
    slot = np.append(np.arange(len(slots.offset)), above)
    by = np.append(slots.filler, ends)
    order = np.argsort(slot, kind="stable")
    slot, by = slot[order], by[order]
    begun = calls.begun[by]
    latest = np.maximum.accumulate(begun)
    bad = np.flatnonzero(latest > slots.ended[slot])
    if not len(bad):
        return None
    one = int(by[np.flatnonzero(begun == latest[bad[0]])[0]])
    at = int(slot[bad[0]])
    two = int(slots.shown[at])
    first, last = calls.call(two), calls.call(one)
    why = f"{first.said()}, at offset {slots.offset[at]}, was over before {last.said()} began"
    name = "out-of-order"
    if last.kind == END:
        name, why = "stale-read", f"{why}, which found less"
    elif slots.filler[at] == one:
        name = "future-read"
    elif last.kind == APPEND:
        own = slots.offset[np.flatnonzero(slots.filler == one)[0]]
        why += f", which went to offset {own}"
    return _found(calls, name, why, two, one)


def _gaps(calls: Calls, polled: _Polled) -> Decided | None:
    """A poll that passes over an offset, where there are no gaps."""
    over = np.flatnonzero(polled.offset > polled.before + 1)
    if not len(over):
        return None
    at, offset = int(polled.at[over[0]]), polled.before[over[0]] + 1
    why = f"{calls.call(at).said()} does not show offset {offset}, and offsets have no gaps"
    return _found(calls, "poll-skip", why, at)


def _holes(calls: Calls, slots: _Slots, appends: Mask) -> Decided | None:
    """An offset below the last that nothing can have filled in time."""
    missing = np.diff(np.append(-1, slots.offset)) - 1
    count = int(missing.sum())
    if not count:
        return None
    unused = appends & (calls.outcome == OPEN)
    unused[slots.filler] = False
    begun = calls.begun[unused]
    # A corrupt offset may claim any number of holes: no more are looked at than can be filled.
    total = np.cumsum(missing)
    slot = np.searchsorted(total, np.arange(1, min(count, len(begun) + 1) + 1))
    enough = np.append(begun, NEVER)[: len(slot)]
    bad = np.flatnonzero(enough >= _deadlines(slots)[slot])
    if not len(bad):
        return None
    above = slots.offset[slot[bad[0]]]
    at = int(slots.shown[slot[bad[0]] + np.argmin(slots.ended[slot[bad[0]] :])])
    why = f"{calls.call(at).said()} was over, and nothing can have filled all offsets below {above}"
    return _found(calls, HOLE, why, at)


def _found(calls: Calls, name: str, why: str, *shown: int) -> Decided:
    begins = tuple(dict.fromkeys(int(calls.begun[n]) for n in shown))
    return Decided(False, "fast test", name, why, begins)


def ties(calls: Calls, *, gaps: bool = True) -> Ties:
    """The ties of the calls on one log: what is shown stays with who may have put it there. That is
    the append that was given the offset; where none was, every one of the value without an offset,
    or else the first that has one, so that a value seen twice is no phantom.

    Args:
        calls: the calls.
        gaps: whether what is left may have gaps; if not, what is shown stays with all below it.
    """
    every = [calls.call(at) for at in range(calls.size)]
    given: dict[int, int] = {}
    unplaced: dict[Any, list[int]] = defaultdict(list)
    placed: dict[Any, int] = {}
    for at, call in enumerate(every):
        if call.kind == APPEND and call.result is not None:
            given[call.result] = at
            placed.setdefault(_typed(call.argument), at)
        elif call.kind == APPEND:
            unplaced[_typed(call.argument)].append(at)
    offsets = sorted(given)
    maybe = [at for some in unplaced.values() for at in some if every[at].outcome != FAILED]

    def needs(at: int) -> Iterator[int]:
        call = every[at]
        if not gaps and call.kind != END:
            yield from (n for n in maybe if every[n].begun < call.ended)
            own = [call.result] if call.kind == APPEND else [o for o, _ in _shown(call)]
            lower = [bisect_left(offsets, o) for o in own if o is not None]
            yield from (given[offsets[n - 1]] for n in lower if n)
        for offset, value in _shown(call):
            code = _typed(value)
            if offset in given and _typed(every[given[offset]].argument) == code:
                yield given[offset]
            elif code in unplaced or code not in placed:
                yield from unplaced.get(code, ())
            else:
                yield placed[code]

    return alone(calls.size, needs)


def _typed(value: Any) -> Any:
    return type(value), value


def _shown(call: Call) -> list[tuple[int, Any]]:
    if call.kind == POLL and call.result is not None:
        return list(call.result)
    shows = call.kind == READ and call.result is not None
    return [(call.argument, call.result)] if shows else []
