"""Registers that are only read and written: whether all is surely right.

The conditions are those of `maxq.checkers.linearizability.exact.registers`, in a few passes over
the arrays, which is what most keys need. A value that is written again is taken for that of the
last such write: if so there is a legal order, it is one. Where a condition does not hold, that
module looks closer, or a search does.
"""

import numpy as np

from maxq.checkers.linearizability.calls import FAILED, OK, Calls
from maxq.checkers.linearizability.exact.blocks import clash

READ, WRITE = "read", "write"
BEFORE = -1  # when the first value was written


def surely_legal(calls: Calls, initial: int) -> bool:
    """Whether the calls on a register are linearizable; False where that takes a closer look.

    Args:
        calls: a write's value is its `argument`, a read's its `result`.
        initial: the code of the value at the beginning.
    """
    if WRITE not in calls.kinds or not {READ, WRITE}.issuperset(calls.kinds):
        return False
    unsure = calls.outcome.any()
    if unsure and (calls.outcome == FAILED).any():
        return False
    writes = calls.kind == calls.kinds.index(WRITE)
    wrote = np.flatnonzero(writes)
    read = np.flatnonzero(~writes & (calls.outcome == OK) if unsure else ~writes)
    value, seen, block = calls.argument[wrote], calls.result[read], np.arange(len(wrote))
    of_value = np.full(len(calls.values) + 1, -1)  # the last one: of "nothing"
    of_value[value] = block
    # Of each block the first end and the last begin; the last block is that of the first value.
    first, last = np.append(calls.ended[wrote], BEFORE), np.append(calls.begun[wrote], BEFORE)
    by, ended = of_value[seen], calls.ended[read]
    if (seen[by < 0] != initial).any() or (last[by] > ended).any():
        return False
    np.minimum.at(first, by, ended)
    np.maximum.at(last, by, calls.begun[read])
    return clash(first, last) is None
