"""Fast tests and search against every order tried, on small histories."""

import itertools
from collections import Counter
from collections.abc import Callable, Hashable
from random import Random

import pytest
from linear_oracle import REFUSED, Ask, drawn, exhaustive, locked, said

from maxq.checkers.linearizability.calls import Calls, Row
from maxq.checkers.linearizability.judge import searched
from maxq.checkers.linearizability.model import Model
from maxq.checkers.linearizability.search import search
from maxq.checkers.models.kv import KeyValue
from maxq.checkers.models.locks import Mutex
from maxq.checkers.models.log import Log
from maxq.checkers.models.queues import FifoQueue, Queue
from maxq.checkers.models.registers import CasRegister, MultiRegister, Register, StrictCasRegister
from maxq.checkers.models.sets import Counter as CounterModel
from maxq.checkers.models.sets import GrowSet

COUNT = 150
INFO = (0.0, 0.15, 0.35)
Values = Callable[[Random], int]


def once() -> Values:
    count = itertools.count(1)
    return lambda random: next(count)


def again() -> Values:
    return lambda random: random.randrange(1, 4)


def register(values: Values, *, swaps: bool) -> Ask:
    def ask(random: Random, state: Hashable) -> tuple[Row, Hashable]:
        value, kind = values(random), random.random()
        if kind < 0.45:
            return Row(None, "read", result=state), state
        if swaps and kind < 0.6:
            old = random.randrange(1, 4)
            if old != state:
                return Row(None, "cas", old, REFUSED, value), state
        if swaps and kind < 0.75 and state is not None:
            return Row(None, "cas", state, other=value), value
        return Row(None, "write", value), value

    return ask


def queue(values: Values) -> Ask:
    def ask(random: Random, state: Hashable) -> tuple[Row, Hashable]:
        inside: tuple[Hashable, ...] = state  # type: ignore[assignment]
        value = values(random)
        if random.random() < 0.5:
            return Row(None, "enqueue", value), (*inside, value)
        if not inside:
            return Row(None, "empty"), state
        return Row(None, "dequeue", result=inside[0]), inside[1:]

    return ask


def text(values: Values) -> Ask:
    def ask(random: Random, state: Hashable) -> tuple[Row, Hashable]:
        if random.random() < 0.5:
            return Row(None, "get", result=state), state
        part = f"<{values(random)}>"
        if random.random() < 0.05:
            return Row(None, "put", part), part
        return Row(None, "append", part), f"{state}{part}"

    return ask


def growing(values: Values) -> Ask:
    def ask(random: Random, state: Hashable) -> tuple[Row, Hashable]:
        inside: frozenset[Hashable] = state  # type: ignore[assignment]
        if random.random() < 0.5:
            return Row(None, "read", result=state), state
        value = values(random)
        return Row(None, "add", value), inside | {value}

    return ask


def counter(values: Values) -> Ask:
    def ask(random: Random, state: Hashable) -> tuple[Row, Hashable]:
        if random.random() < 0.5:
            return Row(None, "read", result=state), state
        value = random.choice((-1, 1, 2))
        return Row(None, "add", value), int(str(state)) + value

    return ask


def log(values: Values) -> Ask:
    """Some retry, which puts a value at two offsets."""

    def ask(random: Random, state: Hashable) -> tuple[Row, Hashable]:
        inside: tuple[Hashable, ...] = state  # type: ignore[assignment]
        at, kind = random.randrange(len(inside) + 1), random.random()
        if kind < 0.5:
            value = values(random)
            return Row(None, "append", value, len(inside)), (*inside, value)
        if at == len(inside):
            return Row(None, "end", at), state
        if kind < 0.75:
            return Row(None, "read", at, inside[at]), state
        shown = tuple(enumerate(inside))[at : at + random.randrange(1, 4)]
        return Row(None, "poll", at, shown), state

    return ask


def registers(values: Values) -> Ask:
    """Two of them; what they hold at the beginning shows when they are read first."""

    def ask(random: Random, state: Hashable) -> tuple[Row, Hashable]:
        have: dict[str, int] = dict(state)  # type: ignore[call-overload]
        parts = []
        for key in random.choice((("x",), ("y",), ("x", "y"))):
            if random.random() < 0.5:
                parts.append(("r", key, have.setdefault(key, 7)))
            else:
                have[key] = values(random)
                parts.append(("w", key, have[key]))
        return Row(None, "txn", tuple(parts)), frozenset(have.items())

    return ask


CASES: dict[str, tuple[Model, Callable[[], Ask], bool]] = {
    "register": (Register(), lambda: register(once(), swaps=False), True),
    "register, values again": (Register(), lambda: register(again(), swaps=False), False),
    "cas-register": (CasRegister(), lambda: register(once(), swaps=True), True),
    "cas-register, values again": (CasRegister(), lambda: register(again(), swaps=True), False),
    "strict-cas-register": (StrictCasRegister(), lambda: register(once(), swaps=True), False),
    "strict, values again": (StrictCasRegister(), lambda: register(again(), swaps=True), False),
    "fifo-queue": (FifoQueue(), lambda: queue(once()), True),
    "fifo-queue, values again": (FifoQueue(), lambda: queue(again()), False),
    "queue": (Queue(), lambda: queue(once()), True),
    "queue, values again": (Queue(), lambda: queue(again()), False),
    "log": (Log(), lambda: log(once()), True),
    "log, values again": (Log(), lambda: log(again()), True),
    "multi-register": (MultiRegister(), lambda: registers(again()), False),
    "kv": (KeyValue(), lambda: text(once()), False),
    "set": (GrowSet(), lambda: growing(once()), True),
    "set, values again": (GrowSet(), lambda: growing(again()), False),
    "counter": (CounterModel(), lambda: counter(once()), False),
}


def compared(model: Model, calls: Calls, seen: Counter[object]) -> None:
    legal = exhaustive(model, calls)
    found = search(model, searched(model, calls), lambda: False)
    assert found.valid is legal, (found, said(calls))
    quick = model.fast(calls)
    assert quick is None or quick.valid is legal, (quick, said(calls))
    if quick is not None and not legal:
        assert set(quick.witness) <= set(calls.begun.tolist())
        assert 1 <= len(quick.witness) <= 4, quick
        assert quick.why, quick
    seen[legal] += 1
    seen["fast"] += quick is not None


@pytest.mark.parametrize("name", CASES)
def test_they_say_what_trying_every_order_says(name: str) -> None:
    model, ask, always = CASES[name]
    seen: Counter[object] = Counter()
    for info, number in itertools.product(INFO, range(COUNT)):
        random = Random(f"{name}/{info}/{number}")
        wrong = random.choice((0.0, 0.1, 0.3))
        compared(model, drawn(ask(), model, random, info=info, wrong=wrong), seen)
    assert min(seen[True], seen[False]) > COUNT * len(INFO) / 12, seen
    assert not always or seen["fast"] == COUNT * len(INFO), "it decides every history of its kind"


def test_locks_too() -> None:
    seen: Counter[object] = Counter()
    for info, number in itertools.product(INFO, range(2 * COUNT)):
        random = Random(f"{info}/{number}")
        compared(Mutex(), locked(random, info=info, wrong=random.choice((0.0, 0.1, 0.3))), seen)
    assert min(seen[True], seen[False], seen["fast"]) > COUNT / 2, seen


def test_a_budget_that_is_used_up_says_unknown_and_where() -> None:
    calls = drawn(register(again(), swaps=True), CasRegister(), Random(3), info=0, wrong=0,
                  length=3000)  # fmt: skip
    found = search(CasRegister(), searched(CasRegister(), calls), lambda: True)
    assert found.valid == "unknown"
    assert "the budget was used up at the call that began at op" in found.why
    assert found.frontier > 0
