"""Delta debugging: as few parts of a whole as still show something.

Source: Zeller and Hildebrandt, "Simplifying and isolating failure-inducing input", IEEE TSE 28(2),
2002; of its algorithm only the removal of parts, since what shows it by itself is tried first here.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

PartT = TypeVar("PartT")


class Reduced(NamedTuple):
    """What was left of `parts`, by position; `minimal`: none of it can be left out alone."""

    kept: tuple[int, ...]
    minimal: bool


def fewer(
    parts: int, shows: Callable[[Sequence[int]], bool], goes_on: Callable[[], bool]
) -> Reduced:
    """The positions of some parts that still show it. All of them are known to do so.

    Args:
        parts: how many there are; the first are left out first.
        shows: whether the parts at these positions, which ascend, show it.
        goes_on: whether there may be one more trial.
    """
    kept = list(range(parts))
    size = max(1, len(kept) // 2)
    while goes_on():
        before = len(kept)
        kept, ended = _without_pieces(kept, size, shows, goes_on)
        if not ended:
            break
        if size == 1 and len(kept) == before:
            return Reduced(tuple(kept), minimal=True)
        size = max(1, min(size // 2, len(kept) // 2))
    return Reduced(tuple(kept), minimal=False)


def _without_pieces(
    kept: list[int],
    size: int,
    shows: Callable[[Sequence[int]], bool],
    goes_on: Callable[[], bool],
) -> tuple[list[int], bool]:
    """What is left when each piece of that size was tried to be left out; whether all were."""
    at = 0
    while at < len(kept):
        if not goes_on():
            return kept, False
        without = kept[:at] + kept[at + size :]
        if without and shows(without):
            kept = without
        else:
            at += size
    return kept, True
