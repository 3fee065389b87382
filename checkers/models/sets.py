"""Sets that grow, counters, and numbers that are given out once."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from maxq.checkers.linearizability.calls import OK, OPEN, Call, Calls, Row
from maxq.checkers.linearizability.decided import LEGAL, Decided
from maxq.checkers.linearizability.exact import sets
from maxq.checkers.linearizability.model import Client, Drawn, Model, State
from maxq.checkers.linearizability.ties import Ties, alone
from maxq.checkers.models.shapes import answered, frozen, keyed, members, something
from maxq.histories.op import HistoryError, Op

ADDS = {"broadcast": "add", "insert": "add"}  # the first is Maelstrom's


class GrowSet(Model):
    """Values are added, and all of them are read.

    Operations: `add` v; `read` (its completion has them all).
    """

    name = "set"
    about = "linearizable set to which values are added, and which is read whole"
    reads = ("read",)
    blind = ("add",)
    synonyms = ADDS
    by_key = True
    asks = ("add",)
    initial: State = frozenset()

    def read(self, begun: Op, ended: Op | None) -> Iterable[Row]:
        key, value = keyed(begun)
        if begun.f == "add":
            yield Row(key, "add", something(begun, value))
        elif begun.f == "read":
            shown = frozenset(members(begun, ended.value)) if ended and answered(ended) else None
            yield Row(key, "read", result=shown)

    def step(self, state: State, call: Call) -> Iterator[State]:
        inside: frozenset[State] = state  # type: ignore[assignment]
        if call.kind == "add":
            yield inside | {call.argument}
        elif call.outcome == OPEN or call.result == state:
            yield state

    def ask(self, state: State, client: Client) -> Drawn:
        inside: frozenset[Any] = state  # type: ignore[assignment]
        if client.below(2) or not inside:
            value = client.value()
            return Drawn("add", value, value)
        return Drawn("read", None, sorted(inside, key=repr))

    def fast(self, calls: Calls) -> Decided | None:
        return sets.decide(calls)


class Counter(Model):
    """A number that is added to and read. Operations: `add` n; `read` (its completion has it)."""

    name = "counter"
    about = "linearizable counter with add and read"
    reads = ("read",)
    blind = ("add",)
    by_key = True
    initial: State = 0

    def read(self, begun: Op, ended: Op | None) -> Iterable[Row]:
        key, value = keyed(begun)
        if begun.f == "add":
            yield Row(key, "add", _number(begun, value))
        elif begun.f == "read":
            shown = _number(begun, ended.value) if ended and answered(ended) else None
            yield Row(key, "read", result=shown)

    def step(self, state: State, call: Call) -> Iterator[State]:
        if call.kind == "add":
            yield state + call.argument
        elif call.outcome == OPEN or call.result == state:
            yield state

    def ask(self, state: State, client: Client) -> Drawn:
        if client.below(2):
            return Drawn("read", None, state)
        number = client.below(3) + 1
        return Drawn("add", number, number)

    def ties(self, calls: Calls) -> Ties:
        adds, reads = calls.of("add"), calls.of("read")

        def needs(at: int) -> Iterable[int]:
            """A read shows the sum of all that was added until it was over."""
            there = adds & (calls.begun < calls.ended[at]) if reads[at] else adds & False
            return np.flatnonzero(there).tolist()

        return alone(calls.size, needs)


def _number(op: Op, value: object) -> int:
    if type(value) is not int:
        raise HistoryError(f"op {op.index}: {op.f} wants a number, not {value!r:.100}")
    return value


class UniqueIds(Model):
    """Each number is given out once. Operation: `generate` (its completion has the number)."""

    name = "unique-ids"
    about = "no id is given out twice"
    by_key = True
    initial: State = frozenset()

    def read(self, begun: Op, ended: Op | None) -> Iterable[Row]:
        if begun.f == "generate":
            given = ended.value if ended is not None and ended.type == "ok" else None
            yield Row(keyed(begun)[0], "generate", result=frozen(given))

    def step(self, state: State, call: Call) -> Iterator[State]:
        given: frozenset[State] = state  # type: ignore[assignment]
        if call.outcome == OPEN:
            yield state
        elif call.result not in given:
            yield given | {call.result}

    def ask(self, state: State, client: Client) -> Drawn:
        given: frozenset[State] = state  # type: ignore[assignment]
        return Drawn("generate", None, len(given))

    def fast(self, calls: Calls) -> Decided | None:
        seen: dict[object, Call] = {}
        for at in range(calls.size):
            call = calls.call(at)
            if call.outcome != OK:
                continue
            if call.result in seen:
                why = f"{seen[call.result].said()} and {call.said()} were given the same"
                witness = (seen[call.result].begun, call.begun)
                return Decided(False, "fast test", "duplicate", why, witness)
            seen[call.result] = call
        return LEGAL
