"""Which puts and takes of a queue belong together, where values are put in again.

Of the calls that put one value in, and of those that took it, the first so many are the first in
every order if all of them were over before any other one began. Where that holds for as many puts
as takes, these are each other's: they can be taken out of the history together, and a legal one
stays legal. What overlaps stays together, and so does all behind a call without an answer, which
may be one of them.

Source: docs/spec/checkers.md 8.5.
"""

from itertools import pairwise

import numpy as np

from maxq.checkers.linearizability.calls import FAILED, NEVER, OK, OPEN, Calls, Ints
from maxq.checkers.linearizability.exact.queues import PUT, TAKE
from maxq.checkers.linearizability.ties import Ties


def ties(calls: Calls) -> Ties:
    """The ties of the calls on one queue, whether it is in order or not."""
    unit = np.arange(calls.size)
    is_put, is_take = calls.of(PUT), calls.of(TAKE)
    silent = np.flatnonzero(is_take & (calls.outcome == OPEN))
    limit = int(calls.begun[silent].min(initial=NEVER))
    puts = np.flatnonzero(is_put & (calls.outcome != FAILED))
    takes = np.flatnonzero(is_take & (calls.outcome == OK))
    refused = np.flatnonzero(is_put & (calls.outcome == FAILED))
    by_value = [_grouped(at, codes, len(calls.values)) for at, codes in (
        (puts, calls.argument), (takes, calls.result), (refused, calls.argument),
    )]  # fmt: skip
    for own_puts, own_takes, failed in zip(*by_value, strict=True):
        for block in _blocks(calls, own_puts, own_takes, limit):
            unit[block] = block[0]
        if len(failed) and len(own_takes):
            unit[failed] = unit[own_takes[-1]]
    return Ties(unit.tolist(), lambda at: (), silent.tolist())


def _grouped(at: Ints, codes: Ints, count: int) -> list[Ints]:
    """Some calls, by a value of each; ascending by their begins."""
    order = np.argsort(codes[at], kind="stable")
    ends = np.cumsum(np.bincount(codes[at], minlength=count))
    return np.split(at[order], ends[:-1]) if count else []


def _blocks(calls: Calls, puts: Ints, takes: Ints, limit: int) -> list[Ints]:
    """The puts and the takes of one value, as they belong together."""
    both = min(len(puts), len(takes))
    clean = _cuts(calls, puts, NEVER)[: both + 1] & _cuts(calls, takes, limit)[: both + 1]
    cuts = np.flatnonzero(clean).tolist()
    if len(takes) > len(puts) and len(cuts) > 1 and cuts[-1] == len(puts):
        cuts.pop()  # one that was taken too often is seen as that beside the others
    found = [np.append(puts[a:b], takes[a:b]) for a, b in pairwise(cuts)]
    rest = cuts[-1]
    if rest == len(takes):  # nothing took what is left
        return [*found, *puts[rest:].reshape(-1, 1)]
    return [*found, np.append(puts[rest:], takes[rest:])]


def _cuts(calls: Calls, at: Ints, limit: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Before which of some calls all the others were over, and before a limit; also behind all."""
    over = np.maximum.accumulate(np.append(-1, calls.ended[at]))
    begun = np.append(calls.begun[at], NEVER)
    return np.asarray((over < begun) & (over < limit))
