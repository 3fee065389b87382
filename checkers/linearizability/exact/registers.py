"""Registers whose values are written once: decided by sorting.

The block of a value is the call that wrote it and the reads that returned it. A compare-and-set
ties the block of its new value to that of its old one: such chains are one block, in which each
call has its place. A value that is written twice, or that the register begins with, gives no such
blocks: the key is not ours. A compare-and-set that was refused shows that a value was *not* there,
which blocks cannot say: what is found without it is found; that nothing is found proves nothing.

Source: docs/spec/checkers.md 8.
"""

from typing import NamedTuple

import numpy as np

from maxq.checkers.linearizability.calls import FAILED, NEVER, NOTHING, OK, OPEN, Calls, Ints, Mask
from maxq.checkers.linearizability.decided import LEGAL, Decided
from maxq.checkers.linearizability.exact import plain_registers
from maxq.checkers.linearizability.exact.blocks import clash, greatest, least
from maxq.checkers.linearizability.exact.plain_registers import surely_legal

READ, WRITE, CAS = plain_registers.READ, plain_registers.WRITE, "cas"
BEFORE = plain_registers.BEFORE


class _Values(NamedTuple):
    """Of each value, its number shifted by one since nothing is value 0: who wrote it (a call, or
    -1), the value before it in its chain (itself if none), and how many stand before it."""

    writer: Ints
    before: Ints
    depth: Ints
    root: Ints


def decide(calls: Calls, initial: int = NOTHING, *, refusals: bool = False) -> Decided | None:
    """Decide the calls on one register, of kinds read, write and cas.

    Args:
        calls: a write's value is its `argument`; a cas has the old one there, and the new one in
            `other`; a read's is its `result`.
        initial: the code of the value at the beginning.
        refusals: whether a cas that failed shows that its old value was not there.
    """
    if surely_legal(calls, initial):
        return LEGAL
    refused = calls.outcome == FAILED
    blind = refusals and bool(np.any(refused & calls.of(CAS)))
    aborted = _aborted(calls, initial)
    if aborted is not None:
        return aborted
    calls = _kept(calls, ~refused & ~(calls.of(READ) & (calls.outcome == OPEN)))
    written = np.where(calls.of(CAS), calls.other, calls.argument)[calls.of(WRITE, CAS)]
    same = calls.of(CAS) & (calls.argument == calls.other)
    if np.any(np.bincount(written + 1) > 1) or np.any(written == initial) or np.any(same):
        return None
    calls = _kept(calls, _happened(calls))
    if not calls.size:
        return None if blind else LEGAL
    return _phantom(calls, initial) or _by_blocks(calls, initial) or (None if blind else LEGAL)


def _kept(calls: Calls, keep: Mask) -> Calls:
    """Some of the calls; mostly all of them, which need not be copied."""
    return calls if np.all(keep) else calls.take(keep)


def _writer(calls: Calls, at: Ints) -> Ints:
    """Who wrote each value, of some calls that write; -1: none of them."""
    values = np.where(calls.of(CAS), calls.other, calls.argument) + 1
    found = np.full(len(calls.values) + 1, -1, np.int64)
    found[values[at]] = at
    return found


def _wanted(calls: Calls) -> tuple[Ints, Ints]:
    """The calls that saw a value, and the values, shifted by one."""
    at = np.flatnonzero(calls.of(READ, CAS) & (calls.outcome == OK))
    return at, np.where(calls.of(CAS), calls.argument, calls.result)[at] + 1


def _aborted(calls: Calls, initial: int) -> Decided | None:
    """A value that only a call wrote that failed, and that was seen."""
    writes = calls.of(WRITE, CAS)
    if not np.any(writes & (calls.outcome == FAILED)):
        return None
    failed = _writer(calls, np.flatnonzero(writes & (calls.outcome == FAILED))[::-1])  # the first
    other = _writer(calls, np.flatnonzero(writes & (calls.outcome != FAILED)))
    at, wanted = _wanted(calls)
    begun = calls.begun[failed[wanted]] < calls.ended[at]  # else it is no cause of what was seen
    bad = (failed[wanted] >= 0) & begun & (other[wanted] < 0) & (wanted != initial + 1)
    bad = np.flatnonzero(bad)
    if not len(bad):
        return None
    one, two = int(failed[wanted[bad[0]]]), int(at[bad[0]])
    why = f"{calls.call(two).said()} saw what only {calls.call(one).said()} wrote"
    return Decided(False, "fast test", "aborted-read", why, _begins(calls, one, two))


def _happened(calls: Calls) -> Mask:
    """Which calls took effect: of those without an answer the ones whose effect was seen, by a
    read or by a compare-and-set that took effect itself."""
    sure = np.asarray(calls.outcome != OPEN)
    if np.all(sure):
        return sure
    writes = calls.of(WRITE, CAS)
    writer = _writer(calls, np.flatnonzero(writes))
    _, seen = _wanted(calls)
    todo = writer[seen]
    while len(todo := np.unique(todo[(todo >= 0) & ~sure[todo]])):
        sure[todo] = True
        chained = todo[calls.of(CAS)[todo]]
        todo = writer[calls.argument[chained] + 1]
    return sure


def _phantom(calls: Calls, initial: int) -> Decided | None:
    """A value that nobody wrote."""
    writer = _writer(calls, np.flatnonzero(calls.of(WRITE, CAS)))
    at = np.flatnonzero(calls.of(READ, CAS))
    wanted = np.where(calls.of(CAS), calls.argument, calls.result)[at] + 1
    bad = np.flatnonzero((writer[wanted] < 0) & (wanted != initial + 1))
    if not len(bad):
        return None
    one = int(at[bad[0]])
    why = f"{calls.call(one).said()} saw a value that nobody wrote"
    return Decided(False, "fast test", "phantom", why, _begins(calls, one))


def _by_blocks(calls: Calls, initial: int) -> Decided | None:
    values = _chained(calls)
    if isinstance(values, Decided):
        return values
    at = np.arange(calls.size)
    own = np.where(
        calls.of(READ), calls.result, np.where(calls.of(CAS), calls.other, calls.argument)
    ) + 1  # fmt: skip
    root, place = values.root[own], 2 * values.depth[own] + calls.of(READ)
    # The register's first value was written before everything.
    first, first_at = least(root, calls.ended, len(values.root), NEVER)
    last, last_at = greatest(root, calls.begun, len(values.root), BEFORE)
    base = values.root[initial + 1]
    first[base], first_at[base] = BEFORE, -1
    swaps = bool(np.any(calls.of(CAS)))
    found = _inside(calls, root, place, at) if swaps else _too_early(calls, values, own)
    if found is not None:
        return found
    used = np.flatnonzero(np.bincount(np.append(root, base)))
    pair = clash(first[used], last[used])
    if pair is None:
        return None
    one, two = (int(used[n]) for n in pair)
    shown = [int(n) for b in (one, two) for n in (first_at[b], last_at[b]) if n >= 0]
    seen = [_value(calls, v) for v in (one, two)]
    why = (f"the value {seen[0]} was there before and after the value {seen[1]}: "
           + "; ".join(calls.call(n).said() for n in dict.fromkeys(shown)))  # fmt: skip
    return Decided(False, "fast test", "stale-read", why, _begins(calls, *shown))


def _chained(calls: Calls) -> "_Values | Decided":
    """The chains of values; or why they are none."""
    writer = _writer(calls, np.flatnonzero(calls.of(WRITE, CAS)))
    count = len(writer)
    before = np.arange(count)
    swaps = np.flatnonzero(calls.of(CAS))
    before[calls.other[swaps] + 1] = calls.argument[swaps] + 1
    old = calls.argument[swaps] + 1
    order = np.argsort(old, kind="stable")
    twice = np.flatnonzero(old[order][1:] == old[order][:-1])
    if len(twice):
        one, two = (int(swaps[order[twice[0] + n]]) for n in (0, 1))
        why = f"{calls.call(one).said()} and {calls.call(two).said()} replaced the same value"
        return Decided(False, "fast test", "lost-update", why, _begins(calls, one, two))
    depth = (before != np.arange(count)).astype(np.int64)
    root = before.copy()
    for _ in range(count.bit_length() + 1 if len(swaps) else 0):
        depth += depth[root]
        root = root[root]
    round_ = np.flatnonzero(before[root] != root)
    if len(round_):
        one = int(writer[round_[0]])
        why = f"{calls.call(one).said()} replaced a value that came from its own"
        return Decided(False, "fast test", "cyclic-versions", why, _begins(calls, one))
    return _Values(writer, before, depth, root)


def _too_early(calls: Calls, values: _Values, own: Ints) -> Decided | None:
    """A read that was over before the write of its value began, where nothing is swapped."""
    writer = values.writer[own]
    bad = np.flatnonzero((writer >= 0) & (calls.begun[writer] > calls.ended))
    if not len(bad):
        return None
    two, one = int(bad[0]), int(writer[bad[0]])
    why = f"{calls.call(two).said()} was over before {calls.call(one).said()} began"
    return Decided(False, "fast test", "future-read", why, _begins(calls, two, one))


def _inside(calls: Calls, root: Ints, place: Ints, at: Ints) -> Decided | None:
    """A call that was over before another one began that stands before it in its block."""
    order = np.lexsort((place, root))
    root, place, at = root[order], place[order], at[order]
    begun, ended = calls.begun[at], calls.ended[at]
    starts = np.flatnonzero(np.append(True, root[1:] != root[:-1]))
    rank = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(root))))
    span = int(begun.max(initial=0)) + 2
    latest = np.maximum.accumulate(begun + rank * span) - rank * span
    # Those of one place may come in any order: what counts is the latest begin of places before.
    heads = np.flatnonzero(np.append(True, (root[1:] != root[:-1]) | (place[1:] != place[:-1])))
    group = np.repeat(np.arange(len(heads)), np.diff(np.append(heads, len(root))))
    earlier = np.where(np.isin(heads, starts), BEFORE, latest[heads - 1])[group]
    bad = np.flatnonzero(earlier > ended)
    if not len(bad):
        return None
    two = int(bad[0])
    one = int(np.flatnonzero((root == root[two]) & (begun == earlier[two]))[0])
    why = (
        f"{calls.call(int(at[two])).said()} was over before {calls.call(int(at[one])).said()} began"
    )
    return Decided(False, "fast test", "future-read", why,
                   _begins(calls, int(at[two]), int(at[one])))  # fmt: skip


def _value(calls: Calls, shifted: int) -> str:
    return "nothing" if shifted == 0 else repr(calls.values[shifted - 1])


def _begins(calls: Calls, *at: int) -> tuple[int, ...]:
    return tuple(dict.fromkeys(int(calls.begun[n]) for n in at))


def surely_stale(calls: Calls, initial: int = NOTHING) -> Decided | None:
    """A read whose every possible source was surely overwritten: found whatever is written twice.

    A write can be what a read returned if it began before the read was over, and no other write
    lies wholly between the two. What is found is wrong; that nothing is found proves nothing.
    """
    aborted = _aborted(calls, initial)
    if aborted is not None:
        return aborted
    calls = calls.take(calls.outcome != FAILED)
    writes = np.flatnonzero(calls.of(WRITE, CAS))
    if not len(writes):
        return _phantom(calls, initial)
    written = np.where(calls.of(CAS), calls.other, calls.argument)[writes] + 1
    reads, wanted = _wanted(calls)
    over = np.sort(calls.ended[writes])
    by_end = np.argsort(calls.ended[writes], kind="stable")
    latest = np.maximum.accumulate(calls.begun[writes][by_end])
    there = np.searchsorted(over, calls.begun[reads])  # writes that were over before the read began
    between = np.where(there > 0, latest[np.maximum(there - 1, 0)], BEFORE)
    order = np.lexsort((calls.begun[writes], written))
    written, writes = written[order], writes[order]
    span = int(max(calls.begun.max(initial=0), 0)) + 2
    keys = written * span + calls.begun[writes]
    ended = np.minimum(calls.ended[writes], span)
    best = np.maximum.accumulate(written * (span + 1) + ended)
    at = np.searchsorted(keys, wanted * span + np.minimum(calls.ended[reads], span - 1)) - 1
    source = np.full(len(reads), BEFORE - 1)
    fits = (at >= 0) & (written[at] == wanted)
    source[fits] = best[at[fits]] - wanted[fits] * (span + 1)
    first = (wanted == initial + 1) & (between == BEFORE)
    bad = np.flatnonzero(~first & (source <= between))
    if not len(bad):
        return None
    one = int(reads[bad[0]])
    why = f"every write that {calls.call(one).said()} can have seen was overwritten before it began"
    if not fits[bad[0]] and wanted[bad[0]] != initial + 1:
        why = f"{calls.call(one).said()} saw a value that nobody had begun to write"
    return Decided(False, "pre-test", "stale-read", why, _begins(calls, one))
