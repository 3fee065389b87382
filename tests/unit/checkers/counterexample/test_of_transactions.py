"""A part of a history of transactions that is invalid by itself."""

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maxq.checkers.counterexample.of_transactions import on_keys
from maxq.checkers.models.judged import judge
from maxq.checkers.models.transactions import ListAppend
from maxq.histories.history import History
from maxq.histories.op import Op

SKEW = [
    (1, [["append", 1, 1], ["r", 2, None]], [["append", 1, 1], ["r", 2, []]]),
    (2, [["append", 2, 1], ["r", 1, None]], [["append", 2, 1], ["r", 1, []]]),
]
Both = tuple[int, list[Any], list[Any]]


def overlapping(pairs: list[Both], before: int = 0) -> list[Op]:
    """Transactions all of which began before one was over."""
    begun = [Op("invoke", process, "txn", asked, index=before + n)
             for n, (process, asked, _) in enumerate(pairs)]  # fmt: skip
    ended = [Op("ok", process, "txn", said, index=before + len(pairs) + n)
             for n, (process, _, said) in enumerate(pairs)]  # fmt: skip
    return [*begun, *ended]


def others(count: int) -> list[Op]:
    """Legal transactions, one after the other, on other keys."""
    random, lists, ops = Random(4), dict[int, list[int]](), list[Op]()
    for n in range(count):
        key = random.randrange(10, 14)
        asked = [["append", key, n], ["r", key, None]]
        lists.setdefault(key, []).append(n)
        said = [["append", key, n], ["r", key, list(lists[key])]]
        ops += [Op("invoke", 9, "txn", asked, index=2 * n),
                Op("ok", 9, "txn", said, index=2 * n + 1)]  # fmt: skip
    return ops


def found(ops: list[Op]) -> tuple[Any, Any]:
    judged = judge(ListAppend(), History(ops), lambda: False)
    return judged, judged.keys[0].smallest


@pytest.mark.parametrize("count", [0, 3, 60])
def test_a_write_skew_is_two_transactions(count: int) -> None:
    ops = [*others(count), *overlapping(SKEW, 2 * count)]
    # What the two wrote is read later, else nothing says which list is first.
    after = [(3, [["r", 1, None], ["r", 2, None]], [["r", 1, [1]], ["r", 2, [1]]])]
    ops += overlapping(after, len(ops))
    judged, small = found(ops)
    assert judged.valid is False
    assert small is not None
    assert small.decided.name == judged.keys[0].decided.name
    assert set(small.begins) <= {2 * count, 2 * count + 1, 2 * count + 4}
    part = [
        op for op in ops if op.index in small.begins or History(ops).pair_index(op) in small.begins
    ]
    again, _ = found(part)
    assert again.valid is False


def test_what_is_valid_has_none() -> None:
    judged, small = found(others(20))
    assert (judged.valid, small) == (True, None)


def test_a_writer_stays_while_its_value_is_read() -> None:
    aborted = [Op("invoke", 1, "txn", [["append", 1, 1]], index=0),
               Op("fail", 1, "txn", [["append", 1, 1]], index=1)]  # fmt: skip
    ops = [*aborted, *overlapping([(2, [["r", 1, None]], [["r", 1, [1]]])], 2)]
    _, small = found(ops)
    assert small is not None
    assert small.decided.name == "G1a"
    assert small.begins == (0, 2)


def busy(count: int, seed: int) -> list[list[Any]]:
    """The answers of transactions, one after the other, each on up to four of some living keys."""
    random, keys, lists, said = Random(seed), list(range(6)), dict[int, list[int]](), []
    for _ in range(count):
        parts: list[Any] = []
        for _ in range(random.randint(1, 4)):
            at = random.randrange(len(keys))
            values = lists.setdefault(keys[at], [])
            if random.random() < 0.5:
                values.append(len(values) + 1)
                parts.append(["append", keys[at], len(values)])
            else:
                parts.append(["r", keys[at], list(values)])
            if len(values) >= 12:
                keys[at] = max(keys) + 1
        said.append(parts)
    return said


def spoilt(said: list[list[Any]], how: str, random: Random) -> None:
    """Plant an anomaly in the answer of one read of at least four values."""
    reads = [part for parts in said for part in parts if part[0] == "r" and len(part[2]) >= 4]
    values = random.choice(reads)[2]
    match how:
        case "incompatible-order":
            values[:2] = values[1], values[0]
        case "stale":
            del values[-2:]
        case "duplicate-elements":
            values.append(values[0])
        case "phantom":
            values.append(99)


@given(st.integers(0, 9999), st.sampled_from(
    ("incompatible-order", "stale", "duplicate-elements", "phantom")))  # fmt: skip
@settings(max_examples=8, deadline=None)
def test_of_a_busy_history_a_few_transactions_are_left(seed: int, how: str) -> None:
    said = busy(150, seed)
    spoilt(said, how, Random(seed))
    ops = []
    for n, parts in enumerate(said):
        asked = [[f, key, None if f == "r" else value] for f, key, value in parts]
        ops += [Op("invoke", n % 5, "txn", asked, index=2 * n),
                Op("ok", n % 5, "txn", parts, index=2 * n + 1)]  # fmt: skip
    judged, small = found(ops)
    if judged.valid is True:  # a read that is stale by what its own transaction had appended
        return
    assert small is not None
    assert len(small.begins) <= 40
    part = [on_keys([ops[at], ops[at + 1]], small.keys) for at in small.begins]
    again, _ = found([op for unit in part for op in unit])
    assert small.decided.name == judged.keys[0].decided.name
    assert small.decided.name in {a.name for a in again.transactions.anomalies}
