"""What models that are rules ask for, by their words, and histories for them."""

import itertools
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any, Literal

from maxq.checkers.linearizability.calls import (
    FAILED,
    NEVER,
    OK,
    OPEN,
    Call,
    Calls,
    CallsMaker,
    Row,
)
from maxq.checkers.linearizability.model import Model

Verdict = bool | Literal["unknown"]


def _every(calls: Calls) -> list[Call]:
    return [calls.call(at) for at in range(calls.size)]


def _outcome(random: Random, info: float) -> int:
    return OPEN if random.random() < info else FAILED if random.random() < 0.15 else OK


def moments(random: Random, count: int) -> Iterator[tuple[int, int]]:
    """The begins and ends of calls, which overlap now and then."""
    order = sorted(range(2 * count), key=lambda n: n // 2 * 2 + (random.random() - 0.5) * 4 + n % 2)
    place = {n: at for at, n in enumerate(order)}
    for n in range(count):
        pair = place[2 * n], place[2 * n + 1]
        yield min(pair), max(pair)


def queued(random: Random, info: float, wrong: float) -> Calls:
    """A queue whose values are put in again, taken, and drained, which loses and doubles some."""
    maker, inside = CallsMaker(), list[int]()
    for who, (begun, ended) in enumerate(sorted(moments(random, random.randint(2, 7)))):
        outcome, kind = _outcome(random, info), random.random()
        if kind < 0.5:
            value = random.randrange(1, 3)
            happened = outcome == OK or (outcome == OPEN and random.random() < 0.5)
            inside += [value] * (happened != (random.random() < wrong / 2))
            maker.add(Row(None, "enqueue", value), begun, ended, outcome, who)
        elif kind < 0.75:
            took = (
                inside.pop(random.randrange(len(inside))) if inside and outcome != FAILED else None
            )
            if random.random() < wrong / 3:
                took = random.randrange(1, 4)
            if outcome == OK and took is None:
                maker.add(Row(None, "empty"), begun, ended, OK, who)
            else:
                shown = took if outcome == OK else None
                maker.add(Row(None, "dequeue", result=shown), begun, ended, outcome, who)
        else:
            shown_ = tuple(inside) if outcome == OK or random.random() < 0.3 else None
            inside = [] if outcome != FAILED and random.random() > wrong / 3 else inside
            maker.add(Row(None, "drain", result=shown_), begun, ended, outcome, who)
    return maker.done()


def total(_: Model, calls: Calls) -> Verdict:
    """Whether what was acknowledged came out: every way to say who took what is tried."""
    every = _every(calls)
    puts = [c for c in every if c.kind == "enqueue"]
    takes = [c for c in every if c.kind in ("dequeue", "drain") and c.outcome != FAILED]
    ends = [c for c in every if c.kind == "empty" or (c.kind == "drain" and c.outcome == OK)]
    shown = [(c, v) for c in takes for v in _out(c)]
    sources = [p for p in puts if p.outcome != FAILED]
    if not all(any(p.argument == v and p.begun < c.ended for p in sources) for c, v in shown):
        return False
    open_ = [c for c in takes if c.outcome == OPEN and c.result is None]

    def best(left: Sequence[Call], used: frozenset[int], sure: bool) -> int:
        """2: all came out; 1: that is not known; 0: it is impossible."""
        if not left:
            return 2 if sure else 1
        put, found = left[0], 0
        after = [e for e in ends if e.begun > put.ended]
        for n, (taker, value) in enumerate(shown):
            if n not in used and value == put.argument and taker.ended > put.begun and all(
                taker.begun < e.ended for e in after
            ):  # fmt: skip
                found = max(found, best(left[1:], used | {n}, sure))
        if not after:
            found = max(found, best(left[1:], used, False))
        for n, taker in enumerate(open_, len(shown)):
            if n not in used and all(taker.begun < e.ended for e in after):
                gone = used if taker.kind == "drain" else used | {n}
                found = max(found, best(left[1:], gone, False))
        return found

    verdicts: tuple[Verdict, ...] = (False, "unknown", True)
    return verdicts[best([p for p in puts if p.outcome == OK], frozenset(), True)]


def _out(call: Call) -> tuple[int, ...]:
    if call.result is None:
        return ()
    return tuple(call.result) if call.kind == "drain" else (call.result,)


def grown(random: Random, info: float, wrong: float) -> Calls:
    """A set to which elements are added again, and which forgets some, for a time or for good."""
    maker, inside = CallsMaker(), list[int]()
    for who, (begun, ended) in enumerate(sorted(moments(random, random.randint(2, 8)))):
        outcome = _outcome(random, info)
        if random.random() < 0.5:
            value = random.randrange(1, 4)
            happened = outcome == OK or (outcome == OPEN and random.random() < 0.5)
            if value not in inside and (happened or random.random() < wrong / 4):
                inside.append(value)
            maker.add(Row(None, "add", value), begun, ended, outcome, who)
            continue
        seen = [v for v in inside if random.random() > wrong]
        seen += [random.randrange(1, 5)] * (random.random() < wrong / 6)
        if random.random() < wrong / 2:
            inside = seen
        shown = tuple(seen) if outcome == OK else None
        maker.add(Row(None, "read", result=shown), begun, ended, outcome, who)
    return maker.done()


def kept(_: Model, calls: Calls) -> Verdict:
    """Whether what was known of a set stayed in it."""
    every = _every(calls)
    reads = [c for c in every if c.kind == "read" and c.outcome == OK]
    adds = [c for c in every if c.kind == "add" and c.outcome != FAILED]
    tested = False
    for read in reads:
        seen = read.result
        if len(set(seen)) < len(seen):
            return False
        if not all(any(a.argument == v and a.begun < read.ended for a in adds) for v in seen):
            return False
    for value in {a.argument for a in adds}:
        mine = [a for a in adds if a.argument == value]
        since = [a.ended for a in mine if a.outcome == OK]
        since += [r.ended for r in reads if value in r.result]
        known = min(since, default=NEVER)
        concern = [r for r in reads if r.ended > min(a.begun for a in mine)]
        tested |= bool(concern) and value in concern[-1].result
        for read in reads:
            back = any(value in later.result for later in reads if later.begun > read.begun)
            if value not in read.result and read.begun > known and not back:
                return False
    return True if tested else "unknown"


def forks(random: Random, info: float, wrong: float) -> Calls:
    """Three keys that are written, some of them again after a failure, and read together."""
    maker, keys, begun = CallsMaker(), ("x", "y", "z"), 0
    for key in random.sample(keys, 3):
        for value in random.choice(((1,), (1,), (1, 1), (1, 1), (1, 2))):
            maker.add(Row(None, "write", (key, value)), begun, 100 + begun,
                      _outcome(random, info), begun)  # fmt: skip
            begun += 1
    order = random.sample(range(3), 3)
    for at in range(begun, begun + 4):
        seen = order[: random.randrange(4)]
        pairs = frozenset(
            (k, random.choice((1, 1, 1, 2)) if (n in seen) != (random.random() < wrong) else None)
            for n, k in enumerate(keys)
        )
        maker.add(Row(None, "read", result=pairs), at, 100 + at, OK, at)
    return maker.done()


def one_order(_: Model, calls: Calls) -> Verdict:
    """Whether reads can be put in an order in which each shows all that the one before it shows. Of
    a key that shows two values nothing is known."""
    every = _every(calls)
    written = {c.argument for c in every if c.kind == "write" and c.outcome != FAILED}
    reads = [{pair for pair in c.result if pair[1]} for c in every if c.kind == "read"]
    if not all(seen <= written for seen in reads):
        return False
    keys = [{key for key, _ in seen} for seen in reads]
    if not all(a <= b or b <= a for a, b in itertools.combinations(keys, 2)):
        return False
    shown = set().union(*reads)
    return True if len({key for key, _ in shown}) == len(shown) else "unknown"


def logged(random: Random, info: float, wrong: float, *, again: bool) -> Calls:
    """A log that three clients send to and poll, values once or `again`, of which some are lost,
    moved or shown in another order."""
    maker, log, position = CallsMaker(), list[int](), dict.fromkeys(range(3), 0)
    for number, (begun, ended) in enumerate(sorted(moments(random, random.randint(3, 8)))):
        who, outcome = random.randrange(3), _outcome(random, info)
        if random.random() < 0.5:
            value = random.randrange(1, 3) if again else number
            offset = None
            if outcome == OK or (outcome == OPEN and random.random() < 0.6):
                offset = len(log) if outcome == OK and random.random() < 0.8 else None
                log += [value] * (random.random() > wrong / 3)
            elif random.random() < wrong / 3:
                log.append(value)
            part: tuple[Any, ...] = ("send", "k", offset, value)
            maker.add(Row(None, "send", result=(part,)), begun, ended, outcome, who)
            continue
        at = position[who] + (random.choice((-1, 1)) if random.random() < wrong / 2 else 0)
        shown = [*enumerate(log)][max(at, 0) : max(at, 0) + random.randint(1, 4)]
        if shown and random.random() < wrong / 3:
            shown[-1] = (shown[-1][0] + random.randint(0, 1), random.randrange(1, 4))
        if outcome == OK and shown:
            position[who] = shown[-1][0] + 1
        parts = tuple(("poll", "k", offset, value) for offset, value in shown)
        maker.add(Row(None, "poll", result=parts if outcome == OK else ()), begun, ended, outcome,
                  who)  # fmt: skip
    return maker.done()


Sent = tuple[Call, int | None, Any]  # a send, its offset and its value
Polled = tuple[Call, list[tuple[int, Any]]]


def in_order(_: Model, calls: Calls) -> Verdict:
    """Whether a log was polled as it was sent, under every way to say whose copy of a value that
    was sent again an offset shows."""
    sends: list[Sent] = []
    polls: list[Polled] = []
    for call in _every(calls):
        if call.kind == "send":
            sends += [(call, part[2], part[3]) for part in call.result]
        elif call.outcome == OK:
            polls.append((call, [(part[2], part[3]) for part in call.result]))
    verdicts = {_once(*one) for one in _told_apart(sends, polls)}
    return verdicts.pop() if len(verdicts) == 1 else "unknown"


def _told_apart(
    sends: list[Sent], polls: list[Polled]
) -> Iterator[tuple[list[Sent], list[Polled]]]:
    """Each way to give every offset of a value to a send of it, and to no other one, as far as
    there are sends."""
    for value in {v for _, _, v in sends if not isinstance(v, tuple)}:
        mine = [s for s in sends if s[2] == value]
        done = [s for s in mine if s[0].outcome != FAILED]
        if len(mine) < 2 or not done:
            continue
        known = {o for call, o, _ in done if call.outcome == OK and o is not None}
        shown = {o for _, seen in polls for o, v in seen if v == value}
        free = [call for call, o, _ in done if call.outcome != OK or o is None]
        strange = sorted(shown - known)
        fits = strange[: len(free)]
        rest = [s for s in sends if s[2] != value]
        for order in itertools.permutations(free, len(fits)):
            mark = dict(zip([c.begun for c in order], fits, strict=True))
            named = [(c, o, (value, o if o in known and c.outcome == OK
                             else mark.get(c.begun, f"nowhere {c.begun}")))
                     for c, o, _ in done]  # fmt: skip
            first = fits[0] if fits else min(known, default=None)
            seen = [(c, [(o, (value, o if o in known or o in fits else first)) if v == value
                         else (o, v) for o, v in seen]) for c, seen in polls]  # fmt: skip
            yield from _told_apart([*rest, *named], seen)
        return
    yield sends, polls


def _once(sends: list[Sent], polls: list[Polled]) -> Verdict:
    """The same where each value was sent once."""
    writer = {value: call for call, _, value in sends}
    read = {value for _, seen in polls for _, value in seen}
    for call, seen in polls:
        for _, value in seen:
            send = writer.get(value)
            if send is None or send.outcome == FAILED or call.ended < send.begun:
                return False
    places = {pair for _, seen in polls for pair in seen}
    places |= {(o, v) for call, o, v in sends if o is not None and call.outcome == OK}
    if len({o for o, _ in places}) < len(places) or len({v for _, v in places}) < len(places):
        return False
    order = [value for _, value in sorted(places)]
    last = max((order.index(v) for v in read), default=0)
    if any(v not in read for v in order[:last]):
        return False
    went: dict[int, list[Any]] = {}
    for call, seen in sorted(polls, key=lambda pair: pair[0].begun):
        went.setdefault(call.process, []).extend(value for _, value in seen)
    for values in went.values():
        if any(order.index(b) - order.index(a) != 1 for a, b in itertools.pairwise(values)):
            return False
    sent: dict[int, list[Any]] = {}
    for call, _, value in sorted(sends, key=lambda one: one[0].begun):
        if call.outcome != FAILED:
            sent.setdefault(call.process, []).append(value)
    for values in sent.values():
        pairs = [p for p in itertools.pairwise(values) if set(p) <= set(order)]
        if any(order.index(b) < order.index(a) for a, b in pairs):
            return False
    if not read:
        return "unknown"
    return all(value in read for call, _, value in sends if call.outcome == OK)
