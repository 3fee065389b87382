"""Verdicts on small histories of transactions, against every order tried.

``MAXQ_CASES=20000`` takes so many histories of each kind, and not as many as suffice each time.
"""

import os
from collections import Counter
from collections.abc import Callable
from random import Random

import pytest
from txn_oracle import Txn, by_axioms, drawn, history_of, in_a_row, serializable, snapshots

from maxq.checkers.transactions.columns import transactions_of
from maxq.checkers.transactions.judged import Asked, Judged, judge_lists, judge_registers

CASES = int(os.environ.get("MAXQ_CASES", "120"))
INFO = (0.0, 0.15, 0.35)
ORDERS = {"": "", "strong-session-": "process", "strict-": "realtime", "strong-": "realtime"}


def lists(txns: list[Txn], level: str) -> Judged:
    t = transactions_of(history_of(txns), "append", lists=True)
    return judge_lists(t, Asked(level), lambda: False)


def registers(txns: list[Txn], level: str, *, sessions: bool = False) -> Judged:
    t = transactions_of(history_of(txns, sessions=sessions), "w", lists=False)
    return judge_registers(t, Asked(level), lambda: False)


def same(found: Judged, legal: bool, txns: list[Txn], seen: Counter[object]) -> None:
    """A verdict says what is so; it is unknown only where no transaction depends on another."""
    seen[legal] += 1
    if found.valid == "unknown":
        assert legal, (found, txns)
        assert found.unknown.startswith("no transaction depends"), (found, txns)
    else:
        assert found.valid is legal, (found, txns)
    assert found.valid is not False or any(a.forbidden and a.lines for a in found.anomalies)


def compared(
    check: Callable[[list[Txn], Counter[object]], None], *, lists: bool, size: int
) -> None:
    seen: Counter[object] = Counter()
    for info in INFO:
        for number in range(CASES):
            random = Random(f"{info} {number}")
            check(drawn(random, lists=lists, info=info, size=random.randint(2, size)), seen)
    assert min(seen[True], seen[False]) > CASES / 4, seen


@pytest.mark.parametrize("level", ["serializable", "strong-session-serializable",
                                   "strict-serializable"])  # fmt: skip
@pytest.mark.parametrize("kind", ["list-append", "rw-register"])
def test_serializable_is_that_an_order_explains_all_reads(kind: str, level: str) -> None:
    order = ORDERS[level.removesuffix("serializable")]
    is_list = kind == "list-append"

    def check(txns: list[Txn], seen: Counter[object]) -> None:
        legal = serializable(txns, lists=is_list, order=order)
        same((lists if is_list else registers)(txns, level), legal, txns, seen)

    compared(check, lists=is_list, size=6)


@pytest.mark.parametrize("level", ["snapshot-isolation", "strong-session-snapshot-isolation",
                                   "strong-snapshot-isolation"])  # fmt: skip
@pytest.mark.parametrize("kind", ["list-append", "rw-register"])
def test_snapshot_isolation_is_that_snapshots_explain_all_reads(kind: str, level: str) -> None:
    order = ORDERS[level.removesuffix("snapshot-isolation")]
    is_list = kind == "list-append"

    def check(txns: list[Txn], seen: Counter[object]) -> None:
        legal = snapshots(txns, lists=is_list, order=order)
        same((lists if is_list else registers)(txns, level), legal, txns, seen)

    compared(check, lists=is_list, size=5)


@pytest.mark.parametrize("level", ["read-atomic", "causal"])
def test_processes_are_sessions_where_there_are_times_too(level: str) -> None:
    def check(txns: list[Txn], seen: Counter[object]) -> None:
        txns = [txn for txn in txns if txn.outcome == "ok"]
        same(registers(txns, level), by_axioms(txns, level), txns, seen)

    compared(check, lists=False, size=7)


@pytest.mark.parametrize("level", ["read-committed", "read-atomic", "causal", "serializable"])
def test_sessions_alone_are_judged_by_the_axioms(level: str) -> None:
    def check(txns: list[Txn], seen: Counter[object]) -> None:
        txns = [txn for txn in txns if txn.outcome == "ok"]
        if level == "serializable":
            legal = serializable(txns, lists=False, order="process")
        else:
            legal = by_axioms(txns, level)
        same(registers(txns, level, sessions=True), legal, txns, seen)

    compared(check, lists=False, size=7)


@pytest.mark.parametrize("kind", ["list-append", "rw-register"])
def test_what_a_serial_order_gave_is_never_blamed(kind: str) -> None:
    """Bigger ones, of which no clock and no session says in which order it was."""
    is_list = kind == "list-append"
    for number in range(CASES):
        random = Random(f"serial {number}")
        txns = in_a_row(random, lists=is_list, size=random.randint(8, 40))
        random.shuffle(txns)
        at = [txn._replace(process=n, begun=n, ended=len(txns) + n) for n, txn in enumerate(txns)]
        found = (lists if is_list else registers)(at, "serializable")
        assert found.valid is True, (number, found)
