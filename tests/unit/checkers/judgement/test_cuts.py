"""Cuts in few words."""

import pytest

from maxq.checkers.judgement.cuts import Link, described, links_of


def both(*pairs: tuple[str, str]) -> list[Link]:
    return [Link(*p) for a, b in pairs for p in ((a, b), (b, a))]


@pytest.mark.parametrize(
    ("links", "said"),
    [
        ([], ""),
        ([Link("b0-0", "c0")], "b0-0 ⇸ c0"),
        ([Link("b0-0", n) for n in ("c0", "c1", "c2", "n0")], "b0-0 ⇸ 4 nodes"),
        ([Link(n, "b0-0") for n in ("c0", "c1")], "c0 c1 ⇸ b0-0"),
        (both(("b0-1", "c2")), "b0-1 ⇹ c2"),
        (
            both(*((a, b) for a in ("a", "b") for b in ("c", "d", "e"))),
            "a b ⇹ c d e",
        ),
        (both(("a", "b"), ("b", "c"), ("c", "d")), "6 links between 4 nodes"),
    ],
)
def test_links_in_words(links: list[Link], said: str) -> None:
    assert described(links) == said


def test_links_are_from_who_sends_to_who_does_not_hear() -> None:
    proof = {"c0": {"holds": True, "from": {"b0-0": "gone", "b0-1": "gone"}}, "c1": {"holds": True}}
    assert links_of(proof) == (Link("b0-0", "c0"), Link("b0-1", "c0"))
    assert links_of(None) == links_of({"c0": "x"}) == links_of({"c0": {"from": 3}}) == ()
