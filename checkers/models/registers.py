"""Registers: one value, written, read and compared-and-set."""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator
from typing import Any

import numpy as np

from maxq.checkers.linearizability.calls import (
    FAILED,
    NEVER,
    NOTHING,
    OK,
    OPEN,
    Call,
    Calls,
    CallsMaker,
    Row,
)
from maxq.checkers.linearizability.decided import Decided
from maxq.checkers.linearizability.exact import overwriting, registers
from maxq.checkers.linearizability.model import ANYTHING, SHOWN_FIRST, Client, Drawn, Model, State
from maxq.checkers.linearizability.ties import Ties, alone
from maxq.checkers.models.shapes import frozen, keyed, pair_in
from maxq.histories.op import Op


class CasRegister(Model):
    """A value that is read, written, and replaced where it is as expected.

    Operations: `read` (its completion has the value), `write` v, `cas` [old new]. What failed did
    not happen; why a cas failed is not asked (`StrictCasRegister`).
    """

    name = "cas-register"
    about = "linearizable register with read, write and compare-and-set"
    reads = (registers.READ,)
    blind = (registers.WRITE,)
    synonyms = {
        "r": registers.READ, "get": registers.READ, "w": registers.WRITE, "put": registers.WRITE,
        "compare-and-set": registers.CAS, "compare-and-swap": registers.CAS,
    }  # fmt: skip
    by_key = True
    asks = (registers.WRITE, registers.CAS)
    initial: State = None

    def read(self, begun: Op, ended: Op | None) -> Iterable[Row]:
        key, asked = keyed(begun)
        if begun.f == registers.READ:
            answer = keyed(ended)[1] if ended is not None and ended.type == "ok" else None
            yield Row(key, registers.READ, result=frozen(answer))
        elif begun.f == registers.WRITE:
            yield Row(key, registers.WRITE, frozen(asked))
        elif begun.f == registers.CAS:
            old, new = pair_in(begun, asked)
            yield Row(key, registers.CAS, frozen(old), other=frozen(new))

    def step(self, state: State, call: Call) -> Iterator[State]:
        if call.kind == registers.READ:
            if call.result == state or call.outcome == OPEN:
                yield state
        elif call.kind == registers.WRITE:
            yield call.argument
        elif call.outcome == FAILED:
            if call.argument != state:
                yield state
        elif call.argument == state:
            yield call.other

    def ask(self, state: State, client: Client) -> Drawn:
        kind, value = client.below(10), client.value()
        if kind < 5:
            return Drawn(registers.READ, None, state)
        if kind < 8:
            return Drawn(registers.WRITE, value, value)
        old = state if client.below(2) else client.below(9)
        return Drawn(registers.CAS, [old, value], [old, value], fails=old != state)

    def begun_with(self, initial: Any, calls: Calls) -> Model:
        if initial is not SHOWN_FIRST:
            first = frozen(initial)
            return self if first is None else type(self)(first)
        first = _first_shown(calls)
        if first is not None:
            return type(self)(first)
        return self._of_early(calls)

    def _of_early(self, calls: Calls) -> Model:
        """The register that began with a value which was shown before any was surely overwritten,
        and which somebody may have written: as the calls allow. Else as it is."""
        undecided: list[CasRegister] = []
        for value in (None, *_early(calls)):
            register = type(self)(value)
            found = register.fast(calls)
            if found is not None and found.valid is True:
                return register
            undecided += [register] if found is None else []
        return undecided[-1] if undecided else self

    def __init__(self, initial: State = None) -> None:
        self.initial = initial

    def gives(self, call: Call) -> Hashable:
        return ("value", call.other if call.kind == registers.CAS else call.argument)

    def wants(self, call: Call) -> Hashable:
        if call.kind == registers.WRITE:
            return None
        if call.outcome == FAILED:
            return ANYTHING
        return ("value", call.argument if call.kind == registers.CAS else call.result)

    def ties(self, calls: Calls) -> Ties:
        return overwriting.ties(calls)

    def fast(self, calls: Calls) -> Decided | None:
        calls, first = self._with_first(calls)
        return registers.decide(calls, first) or registers.surely_stale(calls, first)

    def _with_first(self, calls: Calls) -> tuple[Calls, int]:
        """The calls, and among their values the code of the one at the beginning."""
        first = self.initial
        if first is None:
            return calls, NOTHING
        for code, value in enumerate(calls.values):
            if value == first and type(value) is type(first):
                return calls, code
        return calls._replace(values=[*calls.values, first]), len(calls.values)


def _first_shown(calls: Calls) -> State:
    """The first value that was shown before anybody began to write it."""
    compares, reads = calls.of(registers.CAS), calls.of(registers.READ)
    given = np.where(compares, calls.other, calls.argument)
    shown = np.where(reads, calls.result, calls.argument)
    earliest = np.full(len(calls.values) + 1, NEVER)  # the last is that of nil
    writes = ~reads & (calls.outcome != FAILED)
    np.minimum.at(earliest, given[writes], calls.begun[writes])
    early = (calls.outcome == OK) & (reads | compares) & (calls.ended < earliest[shown])
    first = np.flatnonzero(early)
    return calls.values[shown[first[0]]] if len(first) and shown[first[0]] != NOTHING else None


def _early(calls: Calls) -> list[State]:
    """The values that were shown by calls which began before the first write had ended: any of them
    may have been there at the beginning."""
    compares, reads = calls.of(registers.CAS), calls.of(registers.READ)
    done = calls.outcome == OK
    first = np.min(calls.ended[~reads & done], initial=NEVER)
    shown = np.where(reads, calls.result, calls.argument)
    early = shown[(reads | compares) & done & (calls.begun < first)]
    return [calls.values[code] for code in dict.fromkeys(early.tolist()) if code != NOTHING]


class StrictCasRegister(CasRegister):
    """A compare-and-set that fails shows that the value was another one than it expected."""

    name = "strict-cas-register"
    about = "cas-register where a cas that failed shows that the value was not the old one"

    def observes_failure(self, call: Call) -> bool:
        return call.kind == registers.CAS

    def fast(self, calls: Calls) -> Decided | None:
        calls, first = self._with_first(calls)
        found = registers.decide(calls, first, refusals=True)
        return found or registers.surely_stale(calls, first)


class Register(CasRegister):
    """The same without compare-and-set."""

    name = "register"
    about = "linearizable register with read and write"

    def read(self, begun: Op, ended: Op | None) -> Iterable[Row]:
        return () if begun.f == registers.CAS else super().read(begun, ended)

    def ask(self, state: State, client: Client) -> Drawn:
        value = client.value()
        if client.below(2):
            return Drawn(registers.READ, None, state)
        return Drawn(registers.WRITE, value, value)


class MultiRegister(Model):
    """Several registers that are read and written together: `txn` [["read" k v], ["write" k v] …].

    All keys are one object. A register that was not written may hold anything: what is first read
    of it, it held at the beginning.
    """

    name = "multi-register"
    about = "several registers, read and written together in one linearizable step"
    initial: State = frozenset()

    def read(self, begun: Op, ended: Op | None) -> Iterable[Row]:
        parts = ended.value if ended is not None and ended.type == "ok" else begun.value
        if isinstance(parts, list) and all(isinstance(p, list) and len(p) == 3 for p in parts):
            yield Row(None, "txn", frozen([[str(p[0])[:1], p[1], p[2]] for p in parts]))

    def step(self, state: State, call: Call) -> Iterator[State]:
        have: dict[Any, Any] = dict(state)  # type: ignore[call-overload]
        for what, key, value in call.argument:
            if what == "w":
                have[key] = value
            elif call.outcome != OPEN and have.setdefault(key, value) != value:
                return
        yield frozenset(have.items())

    def ask(self, state: State, client: Client) -> Drawn:
        have: dict[Any, Any] = dict(state)  # type: ignore[call-overload]
        parts = []
        for key in ("x", "y")[client.below(2) :]:
            if client.below(2) and key in have:
                parts.append(["r", key, have[key]])
            else:
                have[key] = client.value()
                parts.append(["w", key, have[key]])
        return Drawn("txn", [[f, key, v if f == "w" else None] for f, key, v in parts], parts)

    def ties(self, calls: Calls) -> Ties:
        """Of each register as if there were no other."""
        makers: dict[Any, tuple[list[int], CallsMaker]] = defaultdict(lambda: ([], CallsMaker()))
        for at in range(calls.size):
            call = calls.call(at)
            for what, key, value in call.argument:
                positions, maker = makers[key]
                positions.append(at)
                row = (
                    Row(key, registers.WRITE, value)
                    if what == "w"
                    else Row(key, registers.READ, result=value)
                )
                maker.add(row, call.begun, call.ended, call.outcome, call.process)
        found: dict[int, set[int]] = defaultdict(set)
        for positions, maker in makers.values():
            needs = overwriting.ties(maker.done()).needs
            for at, position in enumerate(positions):
                found[position] |= {positions[n] for n in needs(at)} - {position}
        return alone(calls.size, found.__getitem__)
