"""A shuffled bag: everything in it is drawn once before anything is drawn again.

Faults choose by it what to strike. With dice a short run may well never strike a master, and the
luck of one seed decides what a campaign has tried; a bag strikes each part in turn.
"""

from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import Generic, TypeVar

T = TypeVar("T")
U = TypeVar("U")


class Bag(Generic[T]):
    """Draws without putting back; an empty bag is filled again.

    Args:
        rng: shuffles it.
        items: what is in a full bag; one that is in it twice is drawn twice as often.
    """

    def __init__(self, rng: Random, items: Sequence[T]) -> None:
        self._rng = rng
        self._items = tuple(items)
        self._left: list[T] = []

    def next(self) -> T:
        """Draw what comes next."""
        if not self._left:
            self._fill()
        return self._left.pop(0)

    async def draw(self, use: Callable[[T], Awaitable[U | None]]) -> tuple[T, U] | None:
        """Draw the next item that is of use now, and what use; None if none is.

        What is of no use stays in the bag, and is drawn as soon as it is, until all others are
        drawn as well.
        """
        tried: list[T] = []
        for fresh in (False, True):
            if fresh:
                self._fill()
            for item in [i for i in dict.fromkeys(self._left) if i not in tried]:
                tried.append(item)
                found = await use(item)
                if found is not None:
                    self._left.remove(item)
                    return item, found
        return None

    def _fill(self) -> None:
        self._left = list(self._items)
        self._rng.shuffle(self._left)
