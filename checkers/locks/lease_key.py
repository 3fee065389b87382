"""The lock of one key: holds that overlap (L2), and grants too soon after another's (L1).

A pure function of one key's operations, so keys can be judged anywhere and in any order. Times are
ns of the one clock of the harness, on which all clients are, so no margin is taken from a lease.

**L2.** A client relies on the lock from an answer that granted it until its lease runs out, counted
from the *sending* of that request; or until it asks to give the lock back, or learns that it does
not have it. Holds of two clients that have an instant in common are a violation. A renewal that was
not answered extends nothing. Touching is not overlapping.

**L1.** A broker keeps a lock for its lease; so two grants to different clients are apart by that,
unless the earlier holder gave the lock back in between. A grant happened at an instant between
sending and answer, so two of them are *surely* closer than d if

    max(ret2 - inv1, ret1 - inv2) < d        whichever of the two came first

and a release counts as given back from the moment that it was asked for, whatever came of it.
Let ret1 <= ret2. Was 2 first, then its holder cannot have released before 1 was granted, since 2
was not even answered. So what excuses the pair is a release by the holder of 1 that was sent before
ret2, and nothing else: one condition for both orders. If an acquire was not answered it proves no
grant, and is left out.

Both checks are exact and O(n log n). Sources: docs/spec/checkers.md 3.1 and 3.2,
docs/spec/acting-master.md 6.6.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from maxq.checkers.evidence.observations import NEVER


class Grant(NamedTuple):
    """An acquire or renew that was granted; `released_ns` is when its holder next asked to give
    the lock back, `lost_ns` when it next learnt that it does not have it (NEVER if not)."""

    process: int
    inv_ns: int
    ret_ns: int
    at: int  # index of the completion
    released_ns: int
    lost_ns: int


class Overlap(NamedTuple):
    """`b` was granted the lock while `a` could rely on it, for so long."""

    a: Grant
    b: Grant
    for_ns: int


class TooSoon(NamedTuple):
    """Two grants that are surely closer than allowed."""

    a: Grant
    b: Grant
    apart_ns_max: int


def hold_ends(grant: Grant, lease_ns: int) -> int:
    """Until when (ns) a client may rely on this grant."""
    return min(grant.inv_ns + lease_ns, grant.released_ns, grant.lost_ns)


def overlaps(grants: Iterable[Grant], lease_ns: int) -> tuple[list[Overlap], int | None]:
    """Holds of different clients that overlap; one finding for each hold that begins in another.

    Returns:
        The findings, and the smallest time (ns) between the end of a client's hold and the next
        beginning of another's; negative if they overlap, None where nothing was handed over.
    """
    holds = sorted((g for g in grants if hold_ends(g, lease_ns) > g.ret_ns), key=_by_answer)
    found: list[Overlap] = []
    gap: int | None = None
    longest: list[Grant] = []
    for b in holds:
        a = next((g for g in longest if g.process != b.process), None)
        if a is not None:
            between = b.ret_ns - hold_ends(a, lease_ns)
            gap = between if gap is None else min(gap, between)
            if between < 0:
                end = min(hold_ends(a, lease_ns), hold_ends(b, lease_ns))
                found.append(Overlap(a, b, end - b.ret_ns))
        longest = latest([*longest, b], lease_ns)
    return found, gap


def latest(grants: list[Grant], lease_ns: int) -> list[Grant]:
    """Of some grants those of two clients at most, whose holds end last."""
    ranked = sorted(grants, key=lambda g: hold_ends(g, lease_ns), reverse=True)
    first = ranked[0]
    return [first, *(g for g in ranked if g.process != first.process)][:2]


def _by_answer(grant: Grant) -> tuple[int, int]:
    return grant.ret_ns, grant.at


def too_soon(grants: Iterable[Grant], apart_ns: int) -> list[TooSoon]:
    """Grants to different clients that are surely closer than `apart_ns`; one for each later one.

    For each grant the closest other is looked up: among those answered before a bound, and whose
    holders asked to give back only after this one's answer, the one that was sent last.
    """
    ordered = sorted(grants, key=_by_answer)
    ranks = sorted({g.released_ns for g in ordered})
    # Of two that were answered at one instant the one with the higher index is the later.
    queries = sorted(
        (min(_by_answer(g), (g.inv_ns + apart_ns - 1, NEVER)), position)
        for position, g in enumerate(ordered)
    )
    tree = _LastSent(len(ranks))
    found: list[TooSoon] = []
    added = 0
    for bound, position in queries:
        b = ordered[position]
        while added < len(ordered) and _by_answer(ordered[added]) < bound:
            earlier = ordered[added]
            tree.add(bisect_left(ranks, earlier.released_ns), earlier)
            added += 1
        a = tree.last(bisect_left(ranks, b.ret_ns + 1), b.process)
        if a is not None and b.ret_ns - a.inv_ns < apart_ns:
            apart = max(b.ret_ns - a.inv_ns, a.ret_ns - b.inv_ns)
            found.append(TooSoon(a, b, apart))
    return sorted(found, key=lambda f: f.b.at)


class _LastSent:
    """For each rank of release: of which two clients the grants sent last are, of that rank or a
    higher one. A Fenwick tree over reversed ranks."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._best: list[tuple[Grant, ...]] = [()] * (size + 1)

    def add(self, rank: int, grant: Grant) -> None:
        at = self._size - rank
        while at <= self._size:
            self._best[at] = _last_sent((*self._best[at], grant))
            at += at & -at

    def last(self, rank: int, but: int) -> Grant | None:
        """The grant that was sent last, of that rank or higher, by another client than `but`."""
        at = self._size - rank
        best: Grant | None = None
        while at > 0:
            for grant in self._best[at]:
                if grant.process != but and (best is None or grant.inv_ns > best.inv_ns):
                    best = grant
            at -= at & -at
        return best


def _last_sent(grants: Sequence[Grant]) -> tuple[Grant, ...]:
    first = max(grants, key=lambda g: g.inv_ns)
    others = [g for g in grants if g.process != first.process]
    return (first, max(others, key=lambda g: g.inv_ns)) if others else (first,)
