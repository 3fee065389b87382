"""Locks by arrays: what they prove is what the rows say, and of a lock that is right they do."""

from both_ways import compared
from lock_histories import any_answers, lock_history

from maxq.checkers.core.api import Context
from maxq.checkers.locks.locks import REQUEST_NS, Locks

CONTEXT = Context()
TIGHT = (
    Context(lock_lease_ns=REQUEST_NS + 6, client_lease_ns=4),
    Context(lock_lease_ns=REQUEST_NS + 2, client_lease_ns=9),  # L2 alone is broken
)
SEEDS = 150


def test_locks_that_are_right_or_nearly_so_are_judged_alike() -> None:
    """Of both kinds there are many, or agreement would say little."""
    found = compared(Locks(), ((lock_history(seed), CONTEXT) for seed in range(SEEDS)))
    assert found["sure"] > SEEDS, found
    assert found["blamed"] > SEEDS / 5, found
    assert found["spared"] < found["sure"] / 50, found
    assert found["valid? True"] > SEEDS / 4, found


def test_grants_that_come_at_one_time_are_judged_alike() -> None:
    found = compared(Locks(), ((any_answers(seed), TIGHT[seed % 2]) for seed in range(SEEDS)))
    assert min(found["sure"], found["blamed"]) > SEEDS / 5, found
