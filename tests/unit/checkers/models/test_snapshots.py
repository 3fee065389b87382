"""A bank whose sum stays, and writes that all readers see in one order."""

from typing import Any

import pytest

from maxq.checkers.models.catalogue import models
from maxq.checkers.models.judged import judge
from maxq.histories.history import History
from maxq.histories.op import Op


def ops(*steps: tuple[str, Any, Any, str]) -> History:
    """One operation after another, of (f, asked, answered, how it ended)."""
    every: list[Op] = []
    for f, asked, answered, kind in steps:
        for how, value in (("invoke", asked), (kind, answered)):
            every.append(Op(type=how, process=0, f=f, value=value, index=len(every)))  # type: ignore[arg-type]
    return History(every)


def balances(**balance: int) -> tuple[str, Any, Any, str]:
    return ("read", None, balance, "ok")


def transfer(kind: str) -> tuple[str, Any, Any, str]:
    moved = {"from": "a", "to": "b", "amount": 1}
    return ("transfer", moved, moved, kind)


def reads(**seen: Any) -> tuple[str, Any, Any, str]:
    return ("txn", [["r", k, None] for k in seen], [["r", k, v] for k, v in seen.items()], "ok")


def writes(key: str, value: int, kind: str = "ok") -> tuple[str, Any, Any, str]:
    return ("txn", [["w", key, value]], [["w", key, value]], kind)


X, Y = writes("x", 1), writes("y", 2)
CASES: dict[str, tuple[str, list[tuple[str, Any, Any, str]], object, str]] = {
    "sums": ("bank", [balances(a=5, b=0), transfer("ok"), balances(a=4, b=1)], True, ""),
    "a sum that grew": ("bank", [balances(a=5, b=0), balances(a=5, b=1)], False, "wrong-total"),
    "below zero": ("bank", [balances(a=6, b=-1)], False, "negative-value"),
    "an account left out": ("bank", [balances(a=5), balances(a=5, b=0)], True, ""),
    "nil": ("bank", [("read", None, {"a": 5, "b": None}, "ok")], False, "nil-balance"),
    "never read": ("bank", [transfer("ok")], "unknown", "never-read"),
    "a fork": ("long-fork", [X, Y, reads(x=1, y=None), reads(x=None, y=2)], False, "long-fork"),
    "a late reader": ("long-fork", [X, Y, reads(x=1, y=2), reads(x=None, y=None)], True, ""),
    "unasked": ("long-fork", [X, reads(x=1, y=2)], False, "phantom"),
    "failed": ("long-fork", [writes("x", 1, "fail"), reads(x=1, y=None)], False, "aborted-read"),
    "no answer": ("long-fork", [writes("x", 1, "info"), reads(x=1, y=None)], True, ""),
    "twice": ("long-fork", [X, X, reads(x=1, y=None)], True, ""),
    "two values": ("long-fork", [X, writes("x", 2), reads(x=1, y=None), reads(x=2, y=None)],
                   "unknown", "written-twice"),
    "one key": ("long-fork", [X, reads(x=1)], "unknown", "never-read"),
    "groups": ("long-fork", [X, reads(x=1, y=None), reads(x=1, z=None)], "unknown",
               "overlapping-groups"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_each_has_its_verdict(name: str) -> None:
    model, steps, valid, called = CASES[name]
    judged = judge(models()[model], ops(*steps), lambda: False)
    assert (judged.valid, judged.keys[0].decided.name) == (valid, called)
    if valid is False:
        assert judged.keys[0].smallest is not None
        assert judged.keys[0].smallest.decided.name == called


def test_an_empty_history_is_unknown() -> None:
    """T2. Nothing is known of it, by whatever model."""
    assert {judge(model, History([]), lambda: False).valid for model in models().values()} == {
        "unknown"
    }
