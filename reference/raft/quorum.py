"""Majority arithmetic."""

from collections.abc import Collection, Iterable


def majority(peers: int) -> int:
    """How many of `peers` are more than half of them."""
    return peers // 2 + 1


def is_majority(of: Collection[str], peers: Collection[str]) -> bool:
    """Whether those of `of` that are peers are more than half of them."""
    return sum(1 for p in peers if p in of) >= majority(len(peers))


def reached_by_majority(positions: Iterable[int]) -> int:
    """The highest position that more than half of the given ones have reached; 0 of none."""
    ranked = sorted(positions, reverse=True)
    return ranked[majority(len(ranked)) - 1] if ranked else 0
