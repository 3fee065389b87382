"""Findings have one order, whoever found them and in whatever order."""

from random import Random
from typing import Any

from maxq.checkers.core.listing import LISTED_MAX, in_order, reported
from maxq.checkers.evidence.verdicts import Found


def found(name: str, *ops: int, **detail: Any) -> Found:
    return Found("S11", name, ops, "", detail)


ORDERED = [
    found("duplicate", 9, 1, key=2),
    found("phantom", 1, 9, key=2),
    found("phantom", 2, key=2),
    found("duplicate", 1, key=10),
    found("duplicate", 0),
    found("duplicate", 0, key="a key of another recorder"),
    found("epoch-went-back", 5, set="b0"),
    found("epoch-went-back", 3, set="b1"),
]


def test_they_stand_by_what_they_are_about_then_by_place_then_by_name() -> None:
    for seed in range(20):
        mixed = list(ORDERED)
        Random(seed).shuffle(mixed)
        assert in_order(mixed) == ORDERED


def test_of_each_kind_the_first_are_kept() -> None:
    many = [found(name, at, key=1) for at in range(LISTED_MAX + 5) for name in ("phantom", "x")]
    kept = reported(reversed(many), lambda f: f.name)
    assert kept == many[: 2 * LISTED_MAX]
