"""Mutexes, locks of readers and writers, and semaphores against every order tried."""

import itertools
from collections import Counter
from random import Random

import numpy as np
import pytest
from linear_oracle import exhaustive, said

from maxq.checkers.linearizability.calls import FAILED, OK, OPEN, Call, Calls, CallsMaker, Row
from maxq.checkers.linearizability.judge import searched
from maxq.checkers.linearizability.model import Model
from maxq.checkers.linearizability.search import search
from maxq.checkers.models.locks import Mutex, RwLock, Semaphore

COUNT = 200
CASES: dict[str, tuple[Model, tuple[str, ...], int]] = {
    "mutex": (Mutex(), ("acquire",), 1),
    "rw-lock": (RwLock(), ("acquire-read", "acquire-read", "acquire-write"), 1),
    "semaphore of one": (Semaphore(), ("acquire",), 1),
    "semaphore of two": (Semaphore(), ("acquire",), 2),
}


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


@pytest.mark.parametrize("name", CASES)
def test_they_say_what_trying_every_order_says(name: str) -> None:
    model, kinds, permits = CASES[name]
    seen: Counter[object] = Counter()
    for info, number in itertools.product((0.0, 0.15, 0.35), range(COUNT)):
        random = Random(f"{name}/{info}/{number}")
        calls = clients(model, kinds, permits, random, info, random.choice((0.0, 0.1, 0.3)))
        is_legal = exhaustive(model, calls)
        quick = model.fast(calls)
        assert quick is None or quick.valid is is_legal, (quick, said(calls))
        found = search(model, searched(model, calls), lambda: False)
        assert found.valid is is_legal, (found, said(calls))
        seen[is_legal] += 1
        seen["fast"] += quick is not None
        seen["proven"] += quick is not None and proven(calls)
    assert min(seen[True], seen[False]) > COUNT / 10, seen
    assert seen["fast"] > 2 * COUNT, seen
    assert seen["proven"] > 0, seen


def proven(calls: Calls) -> bool:
    """Whether an acquire without an answer is followed by a release of its process."""
    order = np.lexsort((calls.begun, calls.process))
    takes = (~calls.of("release") & (calls.outcome == OPEN))[order]
    gives = (calls.of("release") & (calls.outcome == OK))[order]
    process = calls.process[order]
    return bool(np.any(takes[:-1] & gives[1:] & (process[1:] == process[:-1])))
