"""What is asked of many keys at once is what is asked of each by itself."""

from random import Random

import numpy as np

from maxq.checkers.core.groups import before, running_max

SEEDS = 300


def test_each_group_is_looked_at_by_itself() -> None:
    for seed in range(SEEDS):
        rnd = Random(seed)
        wide = rnd.choice((5, 1_000, 1 << 61))  # sums of the last do not fit
        sizes = [rnd.randrange(6) for _ in range(rnd.randrange(1, 6))]
        groups = [sorted(rnd.randrange(-wide, wide) for _ in range(size)) for size in sizes]
        group = np.repeat(np.arange(len(sizes)), sizes)
        values = np.array([v for own in groups for v in own], np.int64)
        of = np.array([rnd.randrange(len(sizes)) for _ in range(9)])
        wanted = np.array([rnd.choice((rnd.randrange(-wide, wide), *groups[g])) for g in of])
        for side in ("left", "right"):
            count, first = before(group, values, of, wanted, side)
            expected = [
                np.searchsorted(groups[g], w, side) for g, w in zip(of, wanted, strict=True)
            ]
            assert count.tolist() == expected, seed
            assert first.tolist() == [sum(sizes[:g]) for g in of], seed
        mixed = np.concatenate([rnd.sample(own, len(own)) for own in groups]).astype(np.int64)
        each = np.split(mixed, np.cumsum(sizes)[:-1])
        highest = np.concatenate([np.maximum.accumulate(own) for own in each])
        assert running_max(group, mixed).tolist() == highest.tolist(), seed
