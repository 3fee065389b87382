"""The block lemma: calls that must stand together, and the order of those blocks.

Where every legal order keeps the calls of a *block* contiguous, and blocks may come in any order,
a history is linearizable iff no block is broken inside and no two blocks X, Y have
``first_end(X) < last_begin(Y)`` and ``first_end(Y) < last_begin(X)``. So it is enough to know of
each block when the first of its calls was over (`first`), and when the last began (`last`). A block
is *forward* if first < last: it is in effect all through [first, last]. Two forward blocks must not
overlap, and none that is not forward may lie strictly inside one.

Source: docs/spec/checkers.md 8. Gibbons and Korach, *Testing shared memories*, 1997.
"""

import numpy as np

from maxq.checkers.linearizability.calls import Ints


def clash(first: Ints, last: Ints) -> tuple[int, int] | None:
    """Two blocks that cannot be put in an order; None if all can.

    Args:
        first: of each block the least end of its calls; shape (n,).
        last: of each the greatest begin.
    """
    lasts = first < last
    forward = np.flatnonzero(lasts)
    forward = forward[np.argsort(first[forward], kind="stable")]
    begins, ends = first[forward], last[forward]
    bad = np.flatnonzero(ends[:-1] > begins[1:])
    if len(bad):
        return int(forward[bad[0]]), int(forward[bad[0] + 1])
    backward = np.flatnonzero(~lasts)
    if not len(forward) or not len(backward):
        return None
    # The last forward block that began before this one's last begin is the only one around it.
    at = np.searchsorted(begins, last[backward], side="left") - 1
    inside = np.flatnonzero((at >= 0) & (ends[at] > first[backward]))
    if len(inside):
        return int(forward[at[inside[0]]]), int(backward[inside[0]])
    return None


def least(groups: Ints, values: Ints, count: int, start: int) -> tuple[Ints, Ints]:
    """The least value of each group, and where it is (-1: the group has none)."""
    found = np.full(count, start, np.int64)
    np.minimum.at(found, groups, values)
    return found, _where(groups, values, found)


def greatest(groups: Ints, values: Ints, count: int, start: int) -> tuple[Ints, Ints]:
    """The greatest value of each group, and where it is (-1: the group has none)."""
    found = np.full(count, start, np.int64)
    np.maximum.at(found, groups, values)
    return found, _where(groups, values, found)


def _where(groups: Ints, values: Ints, found: Ints) -> Ints:
    at = np.full(len(found), -1, np.int64)
    hit = np.flatnonzero(values == found[groups])
    at[groups[hit]] = hit
    return at
