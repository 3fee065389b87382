"""Draws of a simulated world: each follows from the seed and from what it is drawn for.

A running stream gives everybody who draws after a removed operation other numbers, so that a run
without it is another run, and no schedule can be made smaller. Here nothing runs: a draw is a mix
of the seed, of names (a purpose, a link, a disk: `Draws.of`) and of numbers (a time, an offset, a
term: the arguments of each draw), and equal keys give equal draws. The numbers are part of the
identity of what is drawn for, never a count of what came before it.

All of it is arithmetic on integers: no platform, hash seed or version of Python changes it. The
mixing function is SplitMix64's (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number
Generators", 2014), about half a microsecond a number, since each segment of the network draws.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import TypeVar

T = TypeVar("T")
WORD = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15  # 2**64 divided by the golden ratio, made odd
MILLION = 1_000_000


class Draws:
    """Draws for one purpose.

    Args:
        seed: of the run, or whatever names the purpose.
    """

    __slots__ = ("_key",)

    def __init__(self, seed: int | str) -> None:
        self._key = _key_of(repr(seed))

    def of(self, *names: int | str) -> "Draws":
        """Draws for something more special: a purpose, and whom it concerns."""
        made = Draws.__new__(Draws)
        made._key = _key_of(repr((self._key, *names)))
        return made

    def bits(self, *key: int) -> int:
        """64 bits, drawn for these numbers."""
        x = self._key
        for number in key:
            # The key itself is mixed in each round: (1, 2) and (2, 1) are different keys.
            x = (x + (number + 1) * GOLDEN) & WORD
            x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & WORD
            x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & WORD
            x ^= x >> 31
        return x

    def below(self, count: int, *key: int) -> int:
        """One of 0 … count-1."""
        return (self.bits(*key) * count) >> 64

    def between(self, low: int, high: int, *key: int) -> int:
        """One of low … high."""
        return low + ((self.bits(*key) * (high - low + 1)) >> 64)

    def chance(self, per_million: int, *key: int) -> bool:
        """True in so many of a million cases."""
        return (self.bits(*key) * MILLION) >> 64 < per_million

    def choice(self, among: Sequence[T], *key: int) -> T:
        """One of them."""
        return among[self.below(len(among), *key)]


def _key_of(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")
