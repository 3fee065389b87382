"""Snapshot isolation by timestamps: the rules one by one, and against every snapshot tried."""

from random import Random
from typing import Any

import pytest

from benchmarks.differential.txn_oracle import applied, drawn, history_of
from maxq.checkers.transactions.columns import STAMPS, transactions_of
from maxq.checkers.transactions.judged import Asked, Judged, judge_lists, judge_registers
from maxq.histories.history import History
from maxq.histories.op import Op


def stamped(*txns: tuple[int, int, list[list[Any]]], processes: str = "") -> History:
    """Transactions (snapshot, commit, parts), all at once but for those of one process."""
    ops: list[Op] = []
    for n, (start, commit, parts) in enumerate(txns):
        process = int(processes[n]) if processes else n
        ext = dict(zip(STAMPS, (start, commit), strict=True))
        ops.append(Op("invoke", process, "txn", parts, index=2 * n))
        ops.append(Op("ok", process, "txn", parts, index=2 * n + 1, ext=ext))
    return History(ops)


def judged(history: History, level: str = "snapshot-isolation", *, lists: bool = False) -> Judged:
    t = transactions_of(history, "append" if lists else "w", lists=lists)
    return (judge_lists if lists else judge_registers)(t, Asked(level), lambda: False)


def names(found: Judged) -> set[str]:
    return {a.name for a in found.anomalies if a.forbidden}


@pytest.mark.parametrize(
    ("txns", "wanted"),
    [
        ([(0, 2, [["w", "x", 1]]), (3, 3, [["r", "x", 1]])], set()),
        ([(0, 2, [["w", "x", 1]]), (1, 1, [["r", "x", None]])], set()),
        ([(0, 2, [["w", "x", 1]]), (2, 2, [["r", "x", 1]])], set()),
        ([(0, 2, [["w", "x", 1]]), (3, 3, [["r", "x", None]])], {"stale-snapshot"}),
        ([(0, 2, [["w", "x", 1]]), (1, 1, [["r", "x", 1]])], {"stale-snapshot"}),
        ([(0, 2, [["w", "x", 1]]), (1, 3, [["w", "x", 2]])], {"write-conflict"}),
        ([(0, 2, [["w", "x", 1]]), (2, 3, [["w", "x", 2]])], set()),
        ([(0, 2, [["w", "x", 1]]), (1, 3, [["w", "y", 2]])], set()),
        ([(5, 2, [["w", "x", 1]]), (6, 6, [["r", "x", 1]])], {"inverted-timestamps"}),
        # The second write skew: allowed.
        ([(0, 2, [["r", "x", None], ["w", "y", 1]]), (1, 3, [["r", "y", None], ["w", "x", 2]])],
         set()),
    ],
)  # fmt: skip
def test_registers_by_timestamps(
    txns: list[tuple[int, int, list[list[Any]]]], wanted: set[str]
) -> None:
    found = judged(stamped(*txns))
    assert names(found) == wanted
    assert (found.valid is False) is bool(wanted)


def test_lists_by_timestamps() -> None:
    appends = [(0, 2, [["append", "x", 1]]), (3, 5, [["append", "x", 2]])]
    for read, stamp, wanted in (
        ([1, 2], 6, set()), ([1], 4, set()), ([1], 6, {"stale-snapshot"}),
        ([1, 2], 4, {"stale-snapshot"}), ([2, 1], 6, {"stale-snapshot"}),
    ):  # fmt: skip
        found = judged(stamped(*appends, (stamp, stamp, [["r", "x", read]])), lists=True)
        assert names(found) == wanted, read


def test_the_own_process_is_seen_only_where_it_is_promised() -> None:
    history = stamped((0, 4, [["w", "x", 1]]), (2, 2, [["r", "x", None]]), processes="00")
    assert judged(history).valid is True
    strong = judged(history, "strong-session-snapshot-isolation")
    assert "stale-snapshot-process" in names(strong)
    other = stamped((0, 4, [["w", "x", 1]]), (2, 2, [["r", "x", None]]))
    assert judged(other, "strong-session-snapshot-isolation").valid is True
    assert "stale-snapshot-realtime" in names(judged(other, "strong-snapshot-isolation"))


def test_what_has_no_timestamp_and_was_seen_leaves_them_aside() -> None:
    ops = [*stamped((0, 2, [["w", "x", 1]]))]
    ops += [Op("invoke", 5, "txn", [["w", "x", 2]], index=2)]
    ops += [Op("invoke", 6, "txn", [["r", "x", 2]], index=3)]
    ext = dict(zip(STAMPS, (9, 9), strict=True))
    ops += [Op("ok", 6, "txn", [["r", "x", 2]], index=4, ext=ext)]
    assert judged(History(ops)).valid is True


def by_hand(txns: list[Any], stamps: list[tuple[int, int]], *, lists: bool) -> bool:
    """Every snapshot put together anew, and every pair of writers compared."""
    for n, (start, _) in enumerate(stamps):
        state: dict[str, Any] = {}
        for _, other in sorted(
            (stamps[m][1], m) for m in range(len(txns)) if stamps[m][1] <= start
        ):
            for f, key, value in txns[other].parts:
                if f != "r":
                    state[key] = (*state.get(key, ()), value) if lists else value
        if applied(txns[n], state, lists=lists) is None:
            return False
    keys = [{key for f, key, _ in txn.parts if f != "r"} for txn in txns]
    return not any(
        keys[a] & keys[b] and stamps[a][0] < stamps[b][1] and stamps[b][0] < stamps[a][1]
        for a in range(len(txns)) for b in range(a)
    )  # fmt: skip


@pytest.mark.parametrize("lists", [True, False])
def test_timestamps_say_what_building_each_snapshot_says(lists: bool) -> None:
    seen = {True: 0, False: 0}
    for number in range(600):
        random = Random(f"{lists} {number}")
        txns = [x for x in drawn(random, lists=lists, info=0, size=4) if x.outcome == "ok"]
        points = random.sample(range(20), 2 * len(txns))
        if random.random() < 0.8:  # as it happened, mostly
            points = [m for x in txns for m in (10 * x.begun, 10 * x.ended)]
        stamps = [(min(a, b), max(a, b)) for a, b in zip(points[::2], points[1::2], strict=True)]
        at = {(x.begun, x.ended): s for x, s in zip(txns, stamps, strict=True)}
        ops = list(history_of(txns))
        begun: dict[int | str, int] = {}
        for n, op in enumerate(ops):
            if op.type == "invoke":
                begun[op.process] = op.index
            else:
                ext = dict(zip(STAMPS, at[begun[op.process], op.index], strict=True))
                ops[n] = Op("ok", op.process, "txn", op.value, index=op.index, ext=ext)
        found = judged(History(ops), lists=lists)
        legal = by_hand(txns, stamps, lists=lists)
        seen[legal] += 1
        assert found.valid is legal or (legal and "no transaction depends" in found.unknown), (
            found, txns, stamps)  # fmt: skip
    assert min(seen.values()) > 50, seen
