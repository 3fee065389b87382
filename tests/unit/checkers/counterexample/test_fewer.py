"""Delta debugging over positions."""

from collections.abc import Sequence

import pytest

from maxq.checkers.counterexample.fewer import fewer


@pytest.mark.parametrize("wanted", [{0}, {7}, {99}, {3, 50}, {0, 1, 98, 99}, set(range(0, 100, 9))])
def test_what_is_needed_is_what_is_left(wanted: set[int]) -> None:
    tried: list[Sequence[int]] = []

    def shows(at: Sequence[int]) -> bool:
        tried.append(at)
        return wanted <= set(at)

    found = fewer(100, shows, lambda: True)
    assert set(found.kept) == wanted
    assert found.minimal
    assert all(list(at) == sorted(at) for at in tried)
    assert len(tried) <= 30 * len(wanted) + 40


def test_what_needs_each_other_is_left_whole() -> None:
    found = fewer(40, lambda at: {5, 6} <= set(at) or {20, 30} <= set(at), lambda: True)
    assert set(found.kept) in ({5, 6}, {20, 30})


def test_it_ends_when_it_may_not_go_on() -> None:
    left = 5

    def goes_on() -> bool:
        nonlocal left
        left -= 1
        return left >= 0

    found = fewer(1_000, lambda at: 999 in at, goes_on)
    assert 999 in found.kept
    assert not found.minimal
    assert 1 < len(found.kept) < 1_000


def test_nothing_is_never_tried() -> None:
    found = fewer(1, lambda at: bool(at), lambda: True)
    assert (found.kept, found.minimal) == ((0,), True)
