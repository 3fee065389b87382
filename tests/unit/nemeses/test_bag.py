"""The shuffled bag: everything once before anything twice."""

import asyncio
from collections import Counter
from random import Random

import pytest

from maxq.nemeses.bag import Bag


@pytest.mark.parametrize("seed", range(20))
def test_each_round_holds_everything_once(seed: int) -> None:
    bag = Bag(Random(seed), "aabc")
    for _ in range(5):
        assert Counter(bag.next() for _ in range(4)) == Counter("aabc")


def test_rounds_are_shuffled_and_follow_from_the_stream() -> None:
    def rounds(seed: int) -> list[str]:
        bag = Bag(Random(seed), "abcdef")
        return ["".join(bag.next() for _ in range(6)) for _ in range(4)]

    assert rounds(1) == rounds(1) != rounds(2)
    assert len(set(rounds(1))) > 1


def draw(bag: Bag[str], useful: str) -> str | None:
    async def use(item: str) -> str | None:
        return item.upper() if item in useful else None

    found = asyncio.run(bag.draw(use))
    assert found is None or found[1] == found[0].upper()
    return None if found is None else found[0]


@pytest.mark.parametrize("seed", range(20))
def test_what_is_of_no_use_waits_in_the_bag(seed: int) -> None:
    bag = Bag(Random(seed), "abc")
    assert sorted([draw(bag, "ab") or "", draw(bag, "ab") or ""]) == ["a", "b"]
    assert draw(bag, "abc") == "c", "its turn comes before anybody's second"
    assert draw(bag, "") is None


@pytest.mark.parametrize("seed", range(20))
def test_where_one_thing_is_of_use_it_is_drawn_every_time(seed: int) -> None:
    bag = Bag(Random(seed), "abc")
    assert [draw(bag, "b") for _ in range(5)] == ["b"] * 5
