"""Draws that depend on nothing but a seed and a key: what is left out leaves the rest as it was.

A stream of random numbers gives the next caller what another caller would have got. Here every
draw is a hash of the seed and of what it is for. Draws are integers.
"""

import math
from collections.abc import Sequence
from typing import TypeVar

from maxq.harness.contracts.draws import Draws

T = TypeVar("T")
BITS = 64


class Keyed:
    """Draws of one seed.

    Args:
        seed: a number or a name.
    """

    def __init__(self, seed: int | str) -> None:
        self._draws = Draws(seed)

    def bits(self, *key: int | str) -> int:
        """64 bits."""
        return self._draws.of(*key).bits()

    def below(self, bound: int, *key: int | str) -> int:
        """A number from 0 to `bound` - 1."""
        return self.bits(*key) * bound >> BITS

    def between(self, low: int, high: int, *key: int | str) -> int:
        """A number from `low` to `high`."""
        return low + self.below(high - low + 1, *key)

    def chance(self, percent: int, *key: int | str) -> bool:
        """True in so many of a hundred."""
        return self.below(100, *key) < percent

    def choice(self, items: Sequence[T], *key: int | str) -> T:
        """One of them."""
        return items[self.below(len(items), *key)]

    def shuffled(self, items: Sequence[T], *key: int | str) -> list[T]:
        """All of them in another order, each keyed by what it is."""
        return sorted(items, key=lambda item: self.bits(*key, str(item)))

    def log_uniform(self, low: int, high: int, *key: int | str) -> int:
        """A number from `low` to `high`, as likely in each of equal ratios."""
        share = self.below(1 << 30, *key) / (1 << 30)
        return round(low * math.pow(high / low, share))
