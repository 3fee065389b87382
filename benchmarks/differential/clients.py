"""Histories of clients that lock, some of whom go away or go on without an answer."""

import itertools
from random import Random

import numpy as np

from benchmarks.differential.oracle import said
from maxq.checkers.linearizability.calls import FAILED, OK, OPEN, Call, Calls, CallsMaker, Row
from maxq.checkers.linearizability.model import Model

TTL = (4, 8, 16)  # how long a lease may last, in moments


def locked(random: Random, *, info: float, wrong: float, length: int = 9) -> Calls:
    """A history of clients that compete for one lock, as `drawn`: each acquires, then releases."""
    maker, position, left, holder, fresh = CallsMaker(), 0, length, -1, 4
    busy: dict[int, tuple[str, int, bool | None]] = {}
    has: dict[int, bool] = dict.fromkeys(range(4), False)
    while left or busy:
        position += 1
        who = random.choice([*has])
        if who not in busy:
            if left and len(busy) < 3:
                kind = "release" if has[who] else "acquire"
                busy[who] = (kind, position, None)
                left -= 1
            continue
        kind, begun, took = busy[who]
        if took is None:
            free = holder == (-1 if kind == "acquire" else who) or random.random() < wrong
            if free:
                holder = who if kind == "acquire" else -1
            elif random.random() < 0.5 and left:
                continue  # it waits
            busy[who] = (kind, begun, free)
            continue
        del busy[who]
        lost = took and random.random() < info
        outcome = OPEN if lost else OK if took else FAILED
        maker.add(Row(None, kind, who), begun, position, outcome, who)
        if lost:  # its client is gone, and another one comes
            del has[who]
            who, fresh = fresh, fresh + 1
        has[who] = bool(took) and not lost and kind == "acquire"
    return maker.done()


def clients(model: Model, kinds: tuple[str, ...], permits: int, random: Random, info: float,
            wrong: float) -> Calls:  # fmt: skip
    """A history of clients that compete, of whom some go on after a call without an answer: they
    ask again, or release what they may hold."""
    maker, position, left, fresh = CallsMaker(), 0, 9, 4
    state = model.initial
    busy: dict[int, tuple[str, int, bool | None]] = {}
    has = dict.fromkeys(range(4), False)
    while left or busy:
        position += 1
        who = random.choice([*has])
        if who not in busy:
            if left and len(busy) < 3:
                busy[who] = ("release" if has[who] else random.choice(kinds), position, None)
                left -= 1
            continue
        kind, begun, took = busy[who]
        other = None if kind == "release" else permits
        if took is None:
            after = [*model.step(state, Call(kind, who, None, other, 0, 0, OK, who))]
            took = bool(after) or random.random() < wrong
            state = after[0] if after else state
            if took or random.random() < 0.5 or not left:
                busy[who] = (kind, begun, took)
            continue
        del busy[who]
        lost = random.random() < info
        outcome = OPEN if lost else OK if took else FAILED
        maker.add(Row(None, kind, who, other=other), begun, position, outcome, who)
        if lost and random.random() < 0.5:  # its client is gone, and another one comes
            del has[who]
            who, fresh = fresh, fresh + 1
        has[who] = kind != "release" and (took or lost) and who in has
        if lost and random.random() < 0.3:
            has[who] = not has[who]
    return maker.done()


def proven(calls: Calls) -> bool:
    """Whether an acquire without an answer is followed by a release of its process."""
    order = calls.by_process()
    takes = (~calls.of("release") & (calls.outcome == OPEN))[order]
    gives = (calls.of("release") & (calls.outcome == OK))[order]
    process = calls.process[order]
    return bool(np.any(takes[:-1] & gives[1:] & (process[1:] == process[:-1])))


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
        row = Row(None, kind, asked, end, None if kind == "release" else random.choice(TTL))
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
