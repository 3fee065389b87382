"""Rows that are left out say nothing: drawn histories of locks, judged with all rows and few."""

from collections import defaultdict
from random import Random

import pytest

from maxq.checkers.core.keyed import Event, events_of
from maxq.checkers.evidence.observations import NEVER
from maxq.checkers.evidence.quiescence import Interval
from maxq.checkers.locks.lock_service import Known, LockJudgement, LockService, Quorate
from maxq.checkers.locks.locks import Asked
from maxq.histories.columns.outline import batches_of, outline_of, rows_of
from maxq.histories.history import History
from maxq.histories.observed import NOT_GRANTED
from maxq.histories.op import Op, OpType
from maxq.histories.tables import events_table

SECOND_NS = 1_000_000_000
BROKERS = ("a:1", "b:1", "c:1")
SEEDS = range(300)
OUTCOMES: tuple[OpType, ...] = ("ok", "ok", "fail", "fail", "info")


def drawn(rng: Random) -> History:
    """Requests of some clients for two locks, of all outcomes; some processes never end one."""
    ops: list[Op] = []
    pending: dict[int, Op] = {}
    outcomes = rng.choice((OUTCOMES, OUTCOMES[2:]))  # the other half of the time nobody gets any
    now, processes = 0, [*range(rng.choice((1, 2, 4)))]
    for _ in range(rng.randrange(20, 160)):
        now += rng.choice((0, SECOND_NS // 3, SECOND_NS, 4 * SECOND_NS, 9 * SECOND_NS))
        if len(processes) > 1 and not pending and rng.random() < 0.3:
            now += 30 * SECOND_NS
            hand_over(rng, ops, processes[0], processes[1], now)
            continue
        at = rng.randrange(len(processes))
        process = processes[at]
        begun = pending.pop(process, None)
        if begun is None:
            f = rng.choice(("acquire", "acquire", "renew", "release"))
            op = Op("invoke", process, f, rng.randrange(2), None, len(ops), now, None)
            pending[process] = op
        elif rng.random() < 0.1:
            processes[at] = max(processes) + 1  # it never ends
            continue
        else:
            kind = rng.choice(outcomes)
            error = rng.choice((NOT_GRANTED, "no-route")) if kind == "fail" else None
            ext = {"broker": rng.choice(BROKERS)} if rng.random() < 0.9 else None
            op = Op(kind, process, begun.f, begun.value, error, len(ops), now, ext)
            if kind == "info":
                processes[at] = max(processes) + 1
        ops.append(op)
    return History(ops)


def hand_over(rng: Random, ops: list[Op], one: int, other: int, now: int) -> None:
    """A client has a lock and gives it back, and the next one asks for it."""
    for process, f in ((one, "acquire"), (one, "release"), (other, "acquire")):
        last: OpType = "ok" if process == one else rng.choice(("ok", "fail"))
        error = NOT_GRANTED if last == "fail" else None
        ops.append(Op("invoke", process, f, 1, None, len(ops), now, None))
        ops.append(Op(last, process, f, 1, error, len(ops), now + 1, {"broker": BROKERS[0]}))
        now += 4 * SECOND_NS


def known(rng: Random, history: History) -> Known:
    """Times without an act, which do not overlap, and one after the last heal."""
    last = history.ops[-1]
    cuts = sorted(rng.sample(range(len(history.ops)), k=min(len(history.ops), 7)))
    quorate = []
    for one, other in zip(cuts[:6:2], cuts[1:6:2], strict=False):
        time = Interval(one, history.ops[one].time, other, history.ops[other].time)
        for _ in range(rng.randrange(1, 3)):
            running = frozenset(rng.sample(BROKERS, k=2))
            quorate.append(Quorate(time, running, rng.random() < 0.6))
    begin = rng.choice(history.ops)
    rest = Interval(begin.index, begin.time, last.index + rng.randrange(2))
    if rng.random() < 0.3:
        rest = rest._replace(at_ns=NEVER)
    lease_ns = rng.choice((2, 10)) * SECOND_NS
    return Known(tuple(quorate), rest, lease_ns, lease_ns + rng.choice((0, 5)) * SECOND_NS)


def all_rows(history: History, facts: Known) -> dict[int, LockJudgement]:
    return _judged(events_of(history, LockService.reads), facts)


def few_rows(history: History, facts: Known, size: int) -> dict[int, LockJudgement]:
    reading = batches_of(events_table(history.ops, run_id="r"), size)
    events = []
    for rows in rows_of(reading, outline_of(reading(None))):
        chosen = LockService().sift(rows, rows.of(LockService.reads).nonzero()[0], facts)
        events += [Event(op, begun, bool(rows.open[at])) for at, op, begun in rows.events(chosen)]
    return _judged(events, facts)


def _judged(events: object, facts: Known) -> dict[int, LockJudgement]:
    rows: dict[int, list[Asked]] = defaultdict(list)
    for event in events:  # type: ignore[attr-defined]
        for key, said in LockService().rows(event, facts):
            rows[key].append(said)
    return {key: LockService().judge(key, own, facts) for key, own in sorted(rows.items())}


def kept(results: dict[int, LockJudgement]) -> dict[int, LockJudgement]:
    return {key: one for key, one in results.items() if one.found or any(one.judged.values())}


@pytest.mark.parametrize("size", [7, 1000])
def test_few_rows_say_what_all_do(size: int) -> None:
    judged: dict[str, int] = defaultdict(int)
    found: dict[str, int] = defaultdict(int)
    for seed in SEEDS:
        rng = Random(seed)
        history = drawn(rng)
        facts = known(rng, history)
        whole = all_rows(history, facts)
        assert kept(few_rows(history, facts, size)) == kept(whole), seed
        for one in whole.values():
            for claim, count in one.judged.items():
                judged[claim] += count
            for each in one.found:
                found[each.claim] += 1
    assert all(judged[claim] > 10 for claim in ("L6", "L7", "L8", "L9")), dict(judged)
    assert all(found[claim] for claim in ("L6", "L7", "L8", "L9")), dict(found)
