"""Keyed draws: the same on every machine, another for every key, spread evenly."""

from collections import Counter

import pytest

from maxq.harness.contracts.draws import Draws


def test_draws_are_the_same_everywhere() -> None:
    """What a seed gave once it gives for ever: these numbers were drawn when it was written."""
    draws = Draws(7).of("network", "a", 9)
    assert [draws.bits(n) for n in range(2)] == [0x2F1E95419DFBEEEF, 0x5BAC2A622A83B217]
    assert Draws("7/x").bits() == 0xDB3E6E7027ED4751


def test_every_part_of_a_key_counts() -> None:
    draws = Draws(1)
    found = [
        draws.bits(),
        draws.bits(0),
        draws.bits(0, 0),
        draws.bits(1, 2),
        draws.bits(2, 1),
        draws.of("a").bits(1),
        draws.of("a", "b").bits(1),
        draws.of("a").of("b").bits(1),
        draws.of("ab").bits(1),
        Draws(2).bits(1),
        Draws("1").bits(1),
    ]
    assert len(set(found)) == len(found)
    assert draws.of("a", "b").bits(1) == Draws(1).of("a", "b").bits(1)


def test_what_is_drawn_for_others_does_not_matter() -> None:
    alone = Draws(3).below(1000, 5)
    draws = Draws(3)
    for number in range(100):
        draws.below(1000, number)
    assert draws.below(1000, 5) == alone


@pytest.mark.parametrize("step", [1, 512, 1_000_000])
def test_neighbouring_keys_spread_evenly(step: int) -> None:
    draws = Draws(11)
    counts = Counter(draws.below(10, n * step) for n in range(20_000))
    assert set(counts) == set(range(10))
    assert all(abs(count - 2000) < 200 for count in counts.values())


def test_bounds_are_within() -> None:
    draws = Draws(5)
    drawn = {draws.between(3, 6, n) for n in range(200)}
    assert drawn == {3, 4, 5, 6}
    assert {draws.choice("xy", n) for n in range(50)} == {"x", "y"}
    assert not any(draws.chance(0, n) for n in range(100))
    assert all(draws.chance(1_000_000, n) for n in range(100))
    share = sum(draws.chance(250_000, n) for n in range(4000))
    assert abs(share - 1000) < 150
