"""Leases and fencing tokens: by hand, and against every pair and every order tried."""

import itertools
from collections import Counter
from random import Random

import pytest
from linear_oracle import exhaustive, said

from maxq.checkers.linearizability.calls import FAILED, OK, OPEN, Calls, CallsMaker, Row
from maxq.checkers.linearizability.exact import leases, tokens
from maxq.checkers.models.judged import judge
from maxq.checkers.models.leases import Fencing, Lease
from maxq.histories.history import History
from maxq.histories.op import HistoryError, Op

COUNT = 400
TTL = 8


def leased(random: Random, info: float) -> Calls:
    """A few clients that acquire, renew and release at times of their own, as if nobody asked."""
    maker, events = CallsMaker(), []
    for who in range(3):
        now, held = random.randrange(6), False
        for _ in range(random.randrange(1, 4)):
            kind = random.choice(("renew", "release")) if held else "acquire"
            asked, now = now, now + random.randrange(1, 6)
            lost = random.random() < info
            outcome = OPEN if lost else FAILED if random.random() < 0.2 else OK
            held = kind != "release" and outcome == OK if not lost else held
            events.append((asked, now, who, kind, outcome))
            now += random.randrange(1, 12)
    order = sorted({t for asked, end, *_ in events for t in (asked, end)})
    for number, (asked, end, who, kind, outcome) in enumerate(events):
        place = {t: n for n, t in enumerate(order)}
        row = Row(None, kind, asked, end, None if kind == "release" else TTL)
        maker.add(row, 100 * place[asked] + number, 100 * place[end] + 50, outcome, who)
    return maker.done()


def overlap(calls: Calls) -> bool:
    """Whether two clients rely on the lease at one time, by the words of the definition."""
    every = said(calls)
    spans = []
    for call in every:
        if call.kind == "release" or call.outcome != OK:
            continue
        later = [c for c in every if c.process == call.process and c.begun > call.begun]
        ends = [call.argument + call.other]
        ends += [c.argument for c in later if c.kind == "release"]
        ends += [c.result for c in later if c.kind == "renew" and c.outcome == FAILED]
        spans.append((call.result, min(ends), call.process))
    return any(
        max(a[0], b[0]) < min(a[1], b[1]) and a[0] < a[1] and b[0] < b[1] and a[2] != b[2]
        for a, b in itertools.combinations(spans, 2)
    )


def test_leases_overlap_where_some_pair_does() -> None:
    seen: Counter[bool] = Counter()
    for number in range(3 * COUNT):
        calls = leased(Random(f"lease {number}"), (0.0, 0.15, 0.35)[number % 3])
        found = leases.decide(calls)
        assert found.valid is not overlap(calls), (found, said(calls))
        seen[overlap(calls)] += 1
    assert min(seen[True], seen[False]) > COUNT / 2, seen


def fenced(random: Random, info: float, wrong: float) -> Calls:
    """Clients that lock and write with what they were given, of a lock that is sometimes wrong."""
    maker, position, token, written = CallsMaker(), 0, 0, 0
    holder = -1
    expires = random.random() < 0.3
    mine: dict[int, int] = {}
    busy: dict[int, tuple[str, int, Row | None, int]] = {}
    left = 9
    while left or busy:
        position += 1
        who = random.randrange(3)
        if who not in busy:
            if left:
                kind = random.choice(("write", "write", "release")) if who in mine else "acquire"
                busy[who] = (kind, position, None, OK)
                left -= 1
            continue
        kind, begun, row, outcome = busy[who]
        if row is None:
            bad = random.random() < wrong
            other = 1 if expires else None
            row = Row(None, kind, who, other=other if kind == "acquire" else None)
            if kind == "acquire":
                outcome = OK if holder == -1 or expires or bad else FAILED
                if outcome == OK:
                    token += random.choice((0, -1)) if bad else 1
                    holder, row = who, row._replace(result=token)
            elif kind == "release":
                holder = -1 if holder == who else holder
            else:
                outcome = OK if mine[who] >= written or bad else FAILED
                row = Row(None, "write", mine[who])
                written = max(written, mine[who]) if outcome == OK else written
            busy[who] = (kind, begun, row, outcome)
            continue
        del busy[who]
        lost = random.random() < info
        if kind == "acquire" and outcome == OK and not lost:
            mine[who] = row.result
        elif kind == "release":
            del mine[who]
        row = row._replace(result=None) if lost else row
        maker.add(row, begun, position, OPEN if lost else outcome, who)
    return maker.done()


def test_tokens_are_in_order_where_some_order_of_all_calls_is() -> None:
    seen: Counter[object] = Counter()
    for number in range(3 * COUNT):
        random = Random(f"fencing {number}")
        calls = fenced(random, (0.0, 0.15, 0.35)[number % 3], random.choice((0.0, 0.2, 0.4)))
        found, legal = tokens.decide(calls), exhaustive(Fencing(), calls)
        assert found is None or found.valid is legal, (found, said(calls))
        seen[legal] += 1
        seen[found.name if found else None] += 1
    assert min(seen[True], seen[False]) > COUNT / 2, seen
    names = ("token-reused", "token-went-back", "token-not-checked", "held-twice")
    assert all(seen[name] > 5 for name in names), seen


def ops(*steps: tuple[int, str, str, object, float, dict[str, object]]) -> History:
    """Of (process, type, f, value, seconds, what is beside the value)."""
    return History(
        Op(type=kind, process=process, f=f, value=value, index=at, time=round(when * 1e9), ext=ext)  # type: ignore[arg-type]
        for at, (process, kind, f, value, when, ext) in enumerate(steps)
    )


def taken(process: int, asked: float, answered: float, margin: int = 0) -> list[object]:
    ext = {"ttl-ms": 1000, "margin-ms": margin}
    return [(process, "invoke", "acquire", None, asked, ext),
            (process, "ok", "acquire", None, answered, {})]  # fmt: skip


@pytest.mark.parametrize(
    ("second", "margin", "valid"),
    [(0.95, 0, False), (1.0, 0, True), (0.95, 50, True), (0.949, 50, False)],
)
def test_a_lease_lasts_from_the_request(second: float, margin: int, valid: bool) -> None:
    """One that was asked for at 0 s may be relied on until 1 s, less the margin."""
    steps = [*taken(0, 0, 0.4, margin), *taken(1, 0.5, second, margin)]
    judged = judge(Lease(), ops(*steps), lambda: False)  # type: ignore[arg-type]
    assert judged.valid is valid
    if not valid:
        assert judged.keys[0].decided.name == "lease-overlap"
        assert judged.keys[0].smallest is not None


def test_a_release_ends_a_lease_and_stays_with_it() -> None:
    asked: object = (0, "invoke", "release", None, 0.5, {})
    release: list[object] = [asked, (0, "info", "release", None, 0.6, {})]
    steps = [*taken(0, 0, 0.1), *release, *taken(1, 0.6, 0.7), *taken(2, 0.7, 0.8)]
    judged = judge(Lease(), ops(*steps), lambda: False)  # type: ignore[arg-type]
    assert judged.valid is False
    assert judged.keys[0].smallest is not None
    assert judged.keys[0].smallest.begins == (4, 6)


def test_what_is_missing_beside_a_lease_is_named() -> None:
    bare = ops((0, "invoke", "acquire", None, 0, {}))
    with pytest.raises(HistoryError, match="wants `ttl-ms`"):
        judge(Lease(), bare, lambda: False)
