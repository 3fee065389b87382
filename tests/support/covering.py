"""Rows in which every pair of values of two factors is met: a covering array of strength two.

A row is made greedily, factor by factor, of the values that meet most pairs that no row has met
yet. Of 110 factors of three values some 30 rows are enough; there are 3 ** 110.
"""

import random
from collections.abc import Iterator, Sequence

import numpy as np


def covering(counts: Sequence[int], seed: int = 0) -> Iterator[tuple[int, ...]]:
    """Make the rows, each when it is asked for; the first ones meet most.

    Args:
        counts: how many values each factor has.
        seed: of another array.
    """
    starts = np.cumsum([0, *counts])
    factor_of = np.repeat(np.arange(len(counts)), counts)
    missing = factor_of[:, None] != factor_of[None, :]
    rng = random.Random(seed)
    while missing.any():
        first = int(missing.sum(axis=1).argmax())
        second = int(missing[first].argmax())
        row = np.full(len(counts), -1)
        row[factor_of[first]], row[factor_of[second]] = first, second
        gains = missing[first].astype(int) + missing[second]
        for factor in rng.sample(range(len(counts)), len(counts)):
            if row[factor] < 0:
                values = gains[starts[factor] : starts[factor + 1]]
                best = np.flatnonzero(values == values.max())
                row[factor] = starts[factor] + int(best[rng.randrange(len(best))])
                gains += missing[row[factor]]
        missing[np.ix_(row, row)] = False
        yield tuple(int(n) for n in row - starts[:-1])
