"""Semaphores and locks of readers and writers: decided by sorting.

Every hold is made as short as it may be (`holds`). One that is surely held at some time is in
effect all through it; one that is not fits into an instant between the begin of its release and the
end of its first call. A semaphore of k permits is legal iff never more than k are surely held, and
each of the others finds an instant with less than k; a lock of readers and writers iff a writer's
hold meets no other one, and each of the others finds an instant that is free of whom it excludes.

Source: docs/spec/checkers.md 8.
"""

import numpy as np

from maxq.checkers.linearizability.calls import NEVER, Calls, Ints, Mask
from maxq.checkers.linearizability.decided import LEGAL, Decided
from maxq.checkers.linearizability.exact.holds import Holds, holds_of, together

READ, WRITE = "acquire-read", "acquire-write"


def semaphore(calls: Calls) -> Decided | None:
    """Decide the calls on one semaphore, of which the acquires say how many permits there are.

    Not ours is one whose number changes, or of which a process holds more than one permit.
    """
    numbers = np.unique(calls.other[~calls.of("release")])
    if len(numbers) > 1:
        return None
    holds = holds_of(calls, many=True)
    if not isinstance(holds, Holds):
        return holds
    permits = int(calls.values[numbers[0]]) if len(numbers) else 1
    sure = np.flatnonzero(holds.start < holds.stop)
    at = np.concatenate((holds.start[sure], holds.stop[sure]))
    step = np.repeat((1, -1), len(sure))
    order = np.argsort(at, kind="stable")
    at, count = at[order], np.cumsum(step[order])
    over = np.flatnonzero(count > permits)
    if len(over):
        moment = at[over[0]]
        there = sure[(holds.start[sure] <= moment) & (holds.stop[sure] > moment)]
        return _too_many(holds, there.tolist(), permits)
    full = count >= permits
    until = np.append(at[1:], NEVER)
    blocked = _blocked(at[full], until[full], holds)
    if not len(blocked):
        return LEGAL
    one = int(blocked[0])
    there = sure[(holds.start[sure] < holds.first[one]) & (holds.stop[sure] > holds.stop[one])]
    return _too_many(holds, [one, *there.tolist()], permits)


def _too_many(holds: Holds, there: list[int], permits: int) -> Decided:
    who = "; ".join(holds.said(n) for n in there[:4])
    of = "permit" if permits == 1 else "permits"
    why = f"{len(there)} held at one time, of {permits} {of}: {who}"
    shown = there if len(there) <= 4 else there[:4]
    return Decided(False, "fast test", "too-many-holders", why,
                   tuple(int(holds.calls.begun[holds.taken[n]]) for n in shown))  # fmt: skip


def rw_lock(calls: Calls) -> Decided | None:
    """Decide the calls on one lock of readers and writers, free at the beginning."""
    holds = holds_of(calls)
    if not isinstance(holds, Holds):
        return holds
    writes = holds.calls.of(WRITE)[holds.taken]
    return _clash(holds, writes) or _no_room(holds, writes) or LEGAL


def _clash(holds: Holds, writes: Mask) -> Decided | None:
    """Two that are surely held at one time, of which one is a writer's."""
    sure = np.flatnonzero(holds.start < holds.stop)
    sure = sure[np.argsort(holds.start[sure], kind="stable")]
    start, stop, write = holds.start[sure], holds.stop[sure], writes[sure]
    latest = np.append(-1, np.maximum.accumulate(stop)[:-1]) if len(sure) else stop
    own = np.where(write, stop, -1)
    latest_write = np.append(-1, np.maximum.accumulate(own)[:-1]) if len(sure) else stop
    bad = np.flatnonzero(np.where(write, latest, latest_write) > start)
    if not len(bad):
        return None
    two = int(bad[0])
    excludes = write[two] | write[:two]
    one = int(np.flatnonzero(excludes & (stop[:two] > start[two]))[0])
    return together(holds, int(sure[one]), int(sure[two]))


def _no_room(holds: Holds, writes: Mask) -> Decided | None:
    """One that finds no instant free of whom it excludes."""
    sure = holds.start < holds.stop
    for excluding, those in ((sure, writes), (sure & writes, ~writes)):
        blocked = _blocked(holds.start[excluding], holds.stop[excluding], holds, those)
        if len(blocked):
            one = int(blocked[0])
            around = excluding & (holds.start < holds.first[one]) & (holds.stop > holds.stop[one])
            return together(holds, int(np.flatnonzero(around)[0]), one)
    return None


def _blocked(start: Ints, stop: Ints, holds: Holds, those: Mask | None = None) -> Ints:
    """The holds that are not surely held, and lie wholly inside some intervals, taken together."""
    never_sure = holds.start >= holds.stop
    brief = np.flatnonzero(never_sure if those is None else never_sure & those)
    if not len(start) or not len(brief):
        return brief[:0]
    order = np.argsort(start, kind="stable")
    start, stop = start[order], np.maximum.accumulate(stop[order])
    heads = np.flatnonzero(np.append(True, start[1:] > stop[:-1]))
    first, last = start[heads], stop[np.append(heads[1:], len(start)) - 1]
    at = np.searchsorted(first, holds.stop[brief]) - 1
    found: Ints = brief[(at >= 0) & (last[at] > holds.first[brief])]
    return found
