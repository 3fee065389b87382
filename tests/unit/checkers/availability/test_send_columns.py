"""Sends by columns say what all of them say, one by one."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np

from maxq.checkers.availability.answers import Answers
from maxq.checkers.availability.attempts import Attempts
from maxq.checkers.availability.lost_masters import Lost
from maxq.checkers.availability.recovery import Recoveries, recovered
from maxq.checkers.availability.write_availability import Window
from maxq.checkers.core.api import Context
from maxq.checkers.core.columnar import KeyArrays, judged_groups
from maxq.checkers.core.keyed import Event, results_of
from maxq.checkers.evidence.active_faults import State
from maxq.checkers.evidence.faults import faults
from maxq.checkers.evidence.quiescence import Interval, Lull
from maxq.histories.columns.beside import beside
from maxq.histories.columns.outline import batches_of, outline_of, rows_of
from maxq.histories.columns.rows import Rows
from maxq.histories.history import History
from maxq.histories.op import NEMESIS, Op
from maxq.histories.tables import events_table

SEEDS, CLIENTS, SECOND_NS = 300, 5, 1_000_000_000


def sends(seed: int) -> History:
    """Sends to two broker sets by some clients at a time, some never answered, and faults."""
    rnd = Random(seed)
    ops: list[Op] = []
    under_way: dict[int, tuple[int, Any]] = {}  # by thread: its process, and what it sends
    process = list(range(CLIENTS))
    odd = 3 * (seed % 3 == 0)  # how often it is odd who answers
    now = 0

    def add(kind: Any, who: int | str, f: str, value: Any, ext: Any = None) -> None:
        ops.append(Op(kind, who, f, value, None, len(ops), now, ext))

    node: Any
    for value in range(rnd.randrange(10, 150)):
        now += rnd.randrange(3) * SECOND_NS // 4
        thread = rnd.randrange(CLIENTS)
        if rnd.random() < 0.06:
            node = rnd.choice(("b0-0", "b1-0", "n0"))
            for told in (None, {node: {"holds": True}}):
                add("info", NEMESIS, rnd.choice(("kill", "start")), told)
        elif thread not in under_way:
            count = 1 + (rnd.random() < 0.1)
            wanted = [["send", rnd.randrange(3), 2 * value + n] for n in range(count)]
            under_way[thread] = process[thread], wanted
            add("invoke", process[thread], "send", wanted)
        else:
            who, wanted = under_way.pop(thread)
            kind = rnd.choices(("ok", "fail", "info"), (8, 1, 1))[0]
            node = rnd.choices((f"b{wanted[0][1] % 2}", "b1", None, 7), (30, odd, odd, odd))[0]
            ext = {"broker": f"x{rnd.randrange(2)}:1", "byte": value * 99, "node": node}
            if rnd.random() < 0.1:
                ext = {"node": node, "pinned": True}
            done = [["send", key, [value, sent]] for _, key, sent in wanted]
            add(kind, who, "send", done if kind == "ok" else wanted, ext if kind == "ok" else None)
            process[thread] += CLIENTS * (kind == "info")
    return History(ops)


def parts_of(history: History, check: Any, rows: int) -> Iterator[tuple[Rows, Any]]:
    """The batches of a history, each with the rows that a check reads."""
    reading = batches_of(events_table(history.ops, run_id="r"), rows)
    for part in rows_of(reading, outline_of(reading(None))):
        chosen = part.is_of(np.arange(len(part)), *check.reads) & part.client
        yield part, chosen.nonzero()[0]


def sifted(check: Any, history: History, known: Any, rows: int) -> tuple[dict[Any, Any], int]:
    """What a check finds in the rows that it does not sift out; and how many these are."""
    dealt: dict[Any, list[Any]] = defaultdict(list)
    count = 0
    for part, chosen in parts_of(history, check, rows):
        left = check.sift(part, chosen, known)
        count += len(left)
        for at, op, begun in part.events(left):
            for key, row in check.rows(Event(op, begun, bool(part.open[at])), known):
                dealt[key].append(row)
    return {key: check.judge(key, of, known) for key, of in sorted(dealt.items())}, count


def in_arrays(check: Any, history: History, known: Any, rows: int) -> dict[Any, Any]:
    """What a check finds in the arrays of all keys."""
    arrays = KeyArrays()
    for part, chosen in parts_of(history, check, rows):
        arrays.take(check.columns(part, chosen, known))
    assert not arrays.unsure
    groups = arrays.groups()
    return dict(zip(groups.keys, judged_groups(check, groups, known), strict=True))


def test_recoveries_are_those_of_all_sends() -> None:
    check, seen = Recoveries(), Counter[str]()
    for seed in range(SEEDS):
        history = sends(seed)
        known = check.prepare(history, Context())
        for rows in (1_000, 13):
            found, left = sifted(check, history, known, rows)
            expected = recovered(history, results_of(check, history, known)) if known else []
            assert recovered(history, found) == expected, seed
            seen.update(left=left, all=sum(op.f == "send" for op in history) * (rows == 1_000))
            seen.update(struck=len(expected), moved=sum(r.failed_over for r in expected))
    assert min(seen["struck"], seen["moved"]) > SEEDS, seen
    assert seen["left"] < 0.8 * 2 * seen["all"], seen


def windows_of(history: History, rnd: Random) -> tuple[Window, ...]:
    """Some windows; one may be behind the loss of a master."""
    found: list[Window] = []
    acts = faults(history)
    for _ in range(rnd.randrange(4)):
        until = rnd.choice(history.ops)
        due_ns = until.time - rnd.randrange(9) * SECOND_NS
        time = Interval(0, 0, until.index, until.time)
        state = State(frozenset(), frozenset(), frozenset())
        lost = (
            Lost("b0-0", rnd.choice(acts), 0, "n0", "", False)
            if acts and rnd.random() < 0.7
            else None
        )
        name = rnd.choice(("b0", "b1"))
        found.append(Window(name, Lull(time, state), due_ns, (), lost=lost))
    return tuple(found)


def test_attempts_are_those_of_all_sends() -> None:
    check, seen = Attempts(), Counter[str]()
    for seed in range(SEEDS):
        history = sends(seed)
        known = windows_of(history, Random(seed))
        for rows in (1_000, 13):
            expected = results_of(check, history, known)
            assert in_arrays(check, history, known, rows) == expected, seed
            tried = [t for of in expected.values() for t in of.values()]
            seen.update(tries=sum(t.tries for t in tried), led=sum(t.led for t in tried))
    assert min(seen["tries"], seen["led"]) > SEEDS, seen


def test_stretches_are_those_of_all_operations() -> None:
    check, seen = Answers(), Counter[str]()
    for seed in range(80):
        rnd = Random(seed)
        errors = (["FLUSH_SLAVE_TIMEOUT", ""], "timeout", "not-granted", "nothing-assigned", 7)
        drawn = [
            op if op.type in ("invoke", "ok") or not op.is_client
            else Op(op.type, op.process, op.f, op.value, rnd.choice(errors), op.index, op.time)
            for op in sends(seed)
        ]  # fmt: skip
        several = History(drawn)
        for known in ({}, {0: "b0", 1: "b1", 2: "b0"}):
            expected = results_of(check, several, known)
            for rows in (1_000, 13):
                found, left = sifted(check, several, known, rows)
                mine = {key: of for key, of in found.items() if of}
                assert mine == {key: of for key, of in expected.items() if of}, seed
                seen.update(left=left, all=len(drawn) // 2, found=sum(map(len, mine.values())))
    assert seen["found"] > 80, seen
    assert seen["left"] < 0.8 * seen["all"], seen


def test_what_is_beside_is_told_apart_by_all_but_the_place_in_the_log() -> None:
    exts: list[Any] = [
        {"broker": "x:1", "byte": 41, "node": "b0"}, {"broker": "x:1", "byte": 22, "node": "b0"},
        {"broker": "x:1", "byte": 22, "node": "b1"}, {"node": "b0"}, None,
        {"broker": "x:1", "byte": -3, "node": "b0"}, {"byte": 5}, {"byte": 1.5},
        {"node": '"byte":4'},
    ]  # fmt: skip
    ops = [Op("ok", 0, "send", None, None, at, at, ext) for at, ext in enumerate(exts)]
    reading = batches_of(events_table(ops, run_id="r"))
    [rows] = rows_of(reading, outline_of(reading(None)))
    said, code = beside(rows, (rows.type >= 0).nonzero()[0])
    assert code[0] == code[1]
    assert len(set(code.tolist())) == len(exts) - 1
    for number, ext in zip(code.tolist(), exts, strict=True):
        told = said[number]
        assert {**told, "byte": 0} == {**(ext or {}), "byte": 0} or ext["byte"] in (-3, 1.5)
