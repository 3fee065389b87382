"""Who is cut off where peers hold too much."""

import hypothesis.strategies as st
from hypothesis import given

from maxq.reference.bounds import Shares


def test_who_holds_longest_goes_first() -> None:
    shares: Shares[str] = Shares(100)
    assert shares.hold("a", 40) == []
    assert shares.hold("b", 50) == []
    assert shares.hold("a", 50) == []  # still the oldest
    assert shares.hold("c", 20) == ["a"]
    assert shares.total == 70
    assert shares.hold("b", 0) == []
    assert shares.hold("d", 101) == ["c", "d"]  # alone it would be too much
    assert shares.total == 0


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 60)), max_size=60))
def test_together_they_never_hold_more_than_the_bound(steps: list[tuple[int, int]]) -> None:
    shares: Shares[int] = Shares(100)
    held: dict[int, int] = {}
    for holder, size in steps:
        held[holder] = size
        for gone in shares.hold(holder, size):
            del held[gone]
        assert shares.total == sum(held.values()) <= 100
