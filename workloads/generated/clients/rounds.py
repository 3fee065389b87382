"""When clients' operations begin and end: drawn for all threads at a time.

A round is a part of a history at whose ends nothing is open. In a round with a fail-over what is
under way at its moment gets no answer, the next operation of each thread falls into the outage, and
everything after that comes later by its length. Times are ns.
"""

from typing import NamedTuple

import numpy as np

from maxq.workloads.generated.columns.rows import Flags, Ints
from maxq.workloads.generated.nodes.cluster import OUTAGE_NS

GAP_NS, LASTS_NS, LEAST_NS = 2_000_000.0, 1_500_000.0, 200_000
LASTS_MAX_NS = 40_000_000
CUT_AT = 0.4  # of a round's operations begin before a fail-over in it


class Times(NamedTuple):
    """Of each operation its thread, invocation, completion, and an instant in between, in order of
    threads and of time. `flying` were under way at the cut, `outage` begin in the outage; `cut` is
    -1 where there is none."""

    thread: Ints
    inv: Ints
    ret: Ints
    lin: Ints
    flying: Flags
    outage: Flags
    cut: int


def drawn(rng: np.random.Generator, threads: int, count: int, start: int, *, cuts: bool) -> Times:
    """Draw so many operations of so many threads, the first of them after `start`."""
    each = -(-count // threads)
    shape = (threads, each)
    gaps = 1_000 + rng.exponential(GAP_NS, shape).astype(np.int64)
    lasts = np.minimum(LEAST_NS + rng.exponential(LASTS_NS, shape).astype(np.int64), LASTS_MAX_NS)
    ret = start + np.cumsum(gaps + lasts, axis=1)
    inv = ret - lasts
    kept = inv <= np.partition(inv, count - 1, axis=None)[count - 1]
    cut = -1
    flying = np.zeros(shape, np.bool_)
    outage = np.zeros(shape, np.bool_)
    if cuts:
        cut = int(np.quantile(inv[kept], CUT_AT))
        after = inv > cut
        flying = ~after & (ret > cut)
        outage = after & (np.cumsum(after, axis=1) == 1)
        later = after & ~outage
        inv = inv + later * OUTAGE_NS
        ret = ret + later * OUTAGE_NS
    thread = np.nonzero(kept)[0].astype(np.int64)
    inv, ret = inv[kept], ret[kept]
    lin = inv + 1 + (rng.random(len(inv)) * (ret - inv - 2)).astype(np.int64)
    return Times(thread, inv, ret, lin, flying[kept], outage[kept], cut)


def ordinals(groups: Ints) -> Ints:
    """How many of the same group come before each; equal ones must be side by side."""
    n = len(groups)
    if not n:
        return np.empty(0, np.int64)
    begins = np.flatnonzero(np.concatenate(([True], groups[1:] != groups[:-1])))
    sizes = np.diff(np.append(begins, n))
    return np.arange(n, dtype=np.int64) - np.repeat(begins, sizes)


def before(marks: Flags, groups: Ints) -> Ints:
    """How many marked ones of the same group come before each; as `ordinals`."""
    total: Ints = np.cumsum(marks, dtype=np.int64) - marks
    n = len(groups)
    if not n:
        return np.empty(0, np.int64)
    begins = np.flatnonzero(np.concatenate(([True], groups[1:] != groups[:-1])))
    sizes = np.diff(np.append(begins, n))
    return (total - np.repeat(total[begins], sizes)).astype(np.int64)
