"""Histories with a known answer: each shows one anomaly by its name."""

import pytest

from benchmarks.differential.txn_oracle import Txn, history_of
from maxq.checkers.transactions.columns import transactions_of
from maxq.checkers.transactions.judged import Asked, Judged, judge_lists, judge_registers
from maxq.histories.history import History
from maxq.histories.op import HistoryError, Op


def append(key: object, value: object) -> list[object]:
    return ["append", key, value]


def write(key: object, value: object) -> list[object]:
    return ["w", key, value]


def read(key: object, value: object) -> list[object]:
    return ["r", key, value]


def row(*txns: list[list[object]], outcomes: str = "", processes: str = "") -> list[Txn]:
    """One after the other, each by a process of its own; `outcomes` has o, f or i of each."""
    names = {"o": "ok", "f": "fail", "i": "info"}
    return [Txn(int(processes[n]) if processes else n, 2 * n, 2 * n + 1,
                names[outcomes[n] if outcomes else "o"], parts)
            for n, parts in enumerate(txns)]  # fmt: skip


def together(*txns: list[list[object]]) -> list[Txn]:
    return [Txn(n, n, len(txns) + n, "ok", parts) for n, parts in enumerate(txns)]


LISTS: dict[str, tuple[list[Txn], object, set[str]]] = {
    "each reads the other": (
        together([append(1, 1), read(2, [1])], [append(2, 1), read(1, [1])]), False, {"G1c"}),
    "late read of nothing": (
        row([append("x", 1)], [read("x", [])]), False, {"G-single-item-realtime"}),
    "failed append seen": (
        row([append("x", 1)], [read("x", [1])], outcomes="fo"), False, {"G1a"}),
    "two orders": (
        row([append("x", 1)], [append("x", 2)], [read("x", [1, 2])], [read("x", [2, 1])]), False,
        {"incompatible-order", "G-single-item-realtime"}),
    "own append not seen": (row([append("x", 1), read("x", [])]), False, {"internal"}),
    "own append seen too early": (row([read("x", [1]), append("x", 1)]), False, {"internal"}),
    "element twice": (row([append("x", 1)], [read("x", [1, 1])]), False, {"duplicate-elements"}),
    "nothing depends": (row([read("x", None)]), "unknown", set()),
    "from nowhere": (
        together([append("x", 1)], [read("x", [2])]), False, {"phantom"}),
    "amid another's appends": (
        together([append("x", 1), append("x", 2)], [read("x", [1])]), False,
        {"G1b"}),
    "over a failed append": (
        row([append("x", 1)], [append("x", 2)], [read("x", [1, 2])], outcomes="foo"), False,
        {"G1a", "dirty-update"}),
    "both replace one version": (
        together([read("x", []), append("x", 1)], [read("x", []), append("x", 2)]), False,
        {"lost-update", "G2-item"}),
    "writes crossed": (
        [*together([append("x", 1), append("y", 1)], [append("x", 2), append("y", 2)]),
         Txn(9, 8, 9, "ok", [read("x", [1, 2]), read("y", [2, 1])])], False, {"G0"}),
    "write skew": (
        together([read("x", []), append("y", 1)], [read("y", []), append("x", 1)]), False,
        {"G2-item"}),
    "long fork": (
        together([append("x", 1)], [append("y", 1)], [read("x", [1]), read("y", [])],
                 [read("x", []), read("y", [1])]), False, {"G-nonadjacent-item"}),
    "own write not read": (
        row([append("x", 1)], [read("x", [])], processes="00"), False, {"G-single-item-process"}),
    "unknown append read": (
        row([append("x", 1)], [read("x", [1])], outcomes="io"), True, set()),
    "unknown append not read": (
        row([append("x", 1)], [append("x", 2)], [read("x", [2])], outcomes="ioo"), True, set()),
    "all is well": (
        row([append("x", 1)], [read("x", [1]), append("x", 2)], [read("x", [1, 2])]), True, set()),
    "a value twice": (
        row([append("x", 1)], [append("x", 1)], [read("x", [1])]), "unknown", set()),
}  # fmt: skip
REGISTERS: dict[str, tuple[list[Txn], str, object, set[str]]] = {
    "from nowhere": (row([write("x", 1)], [read("x", 7)]), "", False, {"phantom"}),
    "each reads the other": (
        together([write("x", 1), read("y", 1)], [write("y", 1), read("x", 1)]), "", False,
        {"G1c", "read-committed-cycle"}),
    "stale read": (row([write("x", 1)], [write("x", 2)], [read("x", 1)]), "", False,
                   {"G2-item-realtime"}),
    "stale read, keys linearizable": (
        row([write("x", 1)], [write("x", 2)], [read("x", 1)]), "linearizable", False,
        {"cyclic-versions"}),
    "stale read of one process, keys sequential": (
        row([write("x", 1)], [write("x", 2)], [read("x", 1)], processes="000"), "sequential", False,
        {"cyclic-versions"}),
    "versions that replace each other": (
        together([read("x", 1), write("x", 2)], [read("x", 2), write("x", 1)]), "", False,
        {"cyclic-versions", "G1c", "read-committed-cycle"}),
    "both replace one version": (
        together([read("x", None), write("x", 1)], [read("x", None), write("x", 2)]), "", False,
        {"lost-update", "G2-item"}),
    "failed write seen": (
        row([write("x", 1)], [read("x", 1)], outcomes="fo"), "", False, {"G1a"}),
    "amid another's writes": (
        together([write("x", 1), write("x", 2)], [read("x", 1)]), "", False, {"G1b"}),
    "own write not seen": (row([write("x", 1), read("x", None)]), "", False, {"internal"}),
    "two answers": (
        together([write("x", 1)], [read("x", None), read("x", 1)]), "", False,
        {"internal", "read-atomic-cycle"}),
    "blind writes in another order": (
        [*together([write("x", 1)], [write("x", 2)]), Txn(7, 8, 9, "ok", [read("x", 1)])], "", True,
        set()),
}  # fmt: skip


def names(found: Judged) -> set[str]:
    return {anomaly.name for anomaly in found.anomalies}


def of_lists(txns: list[Txn], level: str = "") -> Judged:
    t = transactions_of(history_of(txns), "append", lists=True)
    return judge_lists(t, Asked(level), lambda: False)


@pytest.mark.parametrize("name", LISTS)
def test_lists_by_name(name: str) -> None:
    txns, valid, wanted = LISTS[name]
    found = of_lists(txns)
    assert found.valid == valid, found
    assert wanted <= names(found), found
    assert bool(found.unknown) is (valid == "unknown")


@pytest.mark.parametrize("name", REGISTERS)
def test_registers_by_name(name: str) -> None:
    txns, keys, valid, wanted = REGISTERS[name]
    t = transactions_of(history_of(txns), "w", lists=False)
    found = judge_registers(t, Asked("", keys), lambda: False)
    assert found.valid == valid, found
    assert wanted <= names(found), found


@pytest.mark.parametrize(
    ("name", "kept", "broken"),
    [
        ("write skew", "snapshot-isolation", "repeatable-read"),
        ("long fork", "consistent-view", "snapshot-isolation"),
        ("each reads the other", "read-uncommitted", "read-committed"),
        ("late read of nothing", "strong-session-serializable", "strong-snapshot-isolation"),
        ("own write not read", "serializable", "strong-session-snapshot-isolation"),
        ("both replace one version", "strong-read-committed", "cursor-stability"),
    ],
)
def test_what_is_kept_is_legal_and_what_is_broken_is_not(name: str, kept: str, broken: str) -> None:
    txns = LISTS[name][0]
    assert of_lists(txns, kept).valid is True
    assert of_lists(txns, broken).valid is False
    assert broken in of_lists(txns).broken


def test_each_step_of_a_cycle_is_told_with_its_key_and_values() -> None:
    (anomaly,) = of_lists(LISTS["late read of nothing"][0]).anomalies
    assert anomaly.why == "op 0 -realtime-> op 2 -rw-> op 0"
    assert anomaly.lines == (
        'T1 = op 0 (process 0): [append "x" 1]',
        'T2 = op 2 (process 1): [r "x" []]',
        "T1 < T2 (realtime): T1 was over (op 1) before T2 began (op 2)",
        'T2 < T1 (rw): T2 read key "x" before anything was there, and T1 appended 1, which comes '
        "later",
    )
    assert anomaly.witness == (0, 2)


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ("x", "wants a list"), ([["r", "x"]], r"wants \[f key value\]"),
        ([["r", None, []]], "without a key"), ([["append", "x", None]], "wants a value"),
        ([["pop", "x", 1]], "neither r nor append"), ([["r", "x", 7]], "returned 7"),
    ],
)  # fmt: skip
def test_what_is_no_transaction_is_refused_by_its_index(parts: object, said: str) -> None:
    history = History([Op("invoke", 0, "txn", parts, index=4), Op("ok", 0, "txn", parts, index=5)])
    with pytest.raises(HistoryError, match=f"op 4: .*{said}"):
        transactions_of(history, "append", lists=True)


def test_values_of_different_types_are_different() -> None:
    txns = row([append("x", 1)], [append("x", True)], [read("x", [1, True])])
    assert of_lists(txns).valid is True


def test_a_model_that_cannot_be_said_of_a_history_is_refused() -> None:
    t = transactions_of(history_of(row([write("x", 1)]), sessions=True), "w", lists=False)
    with pytest.raises(ValueError, match="strict-serializable cannot be said of this history"):
        judge_registers(t, Asked("strict-serializable"), lambda: False)
