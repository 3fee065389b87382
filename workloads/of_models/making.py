"""Histories as a model's objects answer them, with clients that overlap.

Each call takes effect at one instant between its invocation and its completion, on the state that
the object then has: so what comes out is linearizable. A call whose answer is lost took effect or
did not; its client goes on under another name. What is planted changes one call each, and is
planted only if the model then says that the history is invalid.
"""

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any, NamedTuple

from maxq.checkers.linearizability.calls import NEVER, OK, OPEN, Call
from maxq.checkers.linearizability.model import Client, Drawn, Model, State
from maxq.checkers.models.judged import judge
from maxq.checkers.models.transactions import TransactionModel
from maxq.histories.history import History
from maxq.histories.op import Op
from maxq.workloads.generated.asked.request import Refusal
from maxq.workloads.of_models.request import ModelRequest

TRIES = 40  # places for what is planted
LOOKS_MAX = 2000  # at the budget, of a judgement whether what was planted shows
MOMENT_NS = 1_000_000
DRAWS_MAX = 20  # operations that are drawn at one place until one can be planted


class Wrong(NamedTuple):
    """What was planted, and the indices of the call's invocation and completion."""

    kind: str
    ops: tuple[int, ...]


class Made(NamedTuple):
    """A history and what was planted in it."""

    ops: tuple[Op, ...]
    planted: tuple[Wrong, ...]


def made(request: ModelRequest, model: Model) -> Made:
    """Make what is asked for.

    Raises:
        Refusal: of the model no histories are made, or what is asked for cannot be planted.
    """
    request.checked()
    if model.ask(model.initial, Client(0, lambda n: 0, lambda: 1)) is None:
        raise Refusal(f"of {request.model} no histories are made: its class has no `ask`")
    if request.values and isinstance(model, TransactionModel):
        raise Refusal(f"--values {request.values}: {request.model} writes each value once")
    wanted = list(Counter(request.anomalies).elements())
    for attempt in range(TRIES if wanted else 1):
        done = _World(request, model, Random(f"{request.seed} {attempt}"), wanted).run()
        if len(done.planted) == len(wanted) and (not wanted or _is_invalid(model, done)):
            return done
    planted = ", ".join(f"{kind}={n}" for kind, n in request.anomalies.items())
    raise Refusal(f"{planted}: no place was found where {request.model} shows it in "
                  f"{request.ops:,} operations")  # fmt: skip


def _is_invalid(model: Model, done: Made) -> bool:
    looks = iter(range(LOOKS_MAX))
    return judge(model, History(done.ops), lambda: next(looks, None) is None).valid is False


class _Call:
    """A call under way: its client, its key and, once it took effect, what it was."""

    def __init__(self, process: int, key: int, begun: int) -> None:
        self.process, self.key, self.begun = process, key, begun
        self.drawn: Drawn | None = None
        self.outcome = "ok"
        self.wrong = ""


class _World:
    def __init__(
        self, request: ModelRequest, model: Model, random: Random, wanted: Sequence[str]
    ) -> None:
        self._request, self._model, self._random = request, model, random
        self._states: list[list[State]] = [[model.initial] for _ in range(request.keys)]
        self._ops: list[Op | None] = []
        self._values = 0
        places = sorted(random.sample(range(request.ops), min(len(wanted), request.ops)))
        self._plan = dict(zip(places, random.sample(wanted, len(wanted)), strict=False))
        self._effects = 0
        self._planted: list[Wrong] = []

    def run(self) -> Made:
        random, left = self._random, self._request.ops
        threads = list(range(self._request.concurrency))  # of each its process
        busy: dict[int, _Call] = {}
        while left or busy:
            thread = random.randrange(len(threads))
            call = busy.get(thread)
            if call is None:
                if left:
                    left -= 1
                    busy[thread] = _Call(
                        threads[thread], random.randrange(self._request.keys), len(self._ops)
                    )
                    self._ops.append(None)  # what it was is known once it took effect
            elif call.drawn is None:
                self._take_effect(call)
            else:
                del busy[thread]
                self._complete(call)
                if call.outcome == "info":
                    threads[thread] += self._request.concurrency
        return Made(tuple(op for op in self._ops if op), tuple(self._planted))

    def _take_effect(self, call: _Call) -> None:
        states = self._states[call.key]
        kind = self._plan.get(self._effects)
        self._effects += 1
        if kind is not None and not self._plant(kind, call, states):
            self._plan[self._effects] = kind  # the next one, then
        if call.drawn is None:
            self._rightly(call, states)

    def _rightly(self, call: _Call, states: list[State]) -> None:
        call.drawn = drawn = self._ask(states[-1], call)
        lost = self._random.random() < self._request.info
        call.outcome = "info" if lost else "fail" if drawn.fails else "ok"
        none = drawn.fails or (lost and (drawn.sure or self._random.random() < 0.5))
        if not none:
            states.append(self._after(states[-1], drawn, call)[0])

    def _plant(self, kind: str, call: _Call, states: list[State]) -> bool:
        """Whether this call could be made wrong."""
        now = states[-1]
        for _ in range(DRAWS_MAX):
            seen = self._random.choice(states) if kind == "stale-answer" else now
            drawn = self._ask(seen, call)
            after = [] if drawn.fails else self._after(now, drawn, call)
            if kind == "stale-answer" and not drawn.fails and not after:
                self._wrong(call, drawn, kind)
                return True
            if kind != "stale-answer" and after and after[0] != now:
                return self._misdone(kind, call, drawn, states, after[0])
        return False

    def _misdone(
        self, kind: str, call: _Call, drawn: Drawn, states: list[State], after: State
    ) -> bool:
        """Whether a right call could be lost, done twice, or said to have failed."""
        if kind == "double-effect":
            again = self._after(after, drawn, call, answered=False)
            if not again or again[0] == after:
                return False
            states.append(again[0])
        elif kind == "failed-effect":
            states.append(after)
            call.outcome = "fail"
        self._wrong(call, drawn, kind)
        return True

    def _wrong(self, call: _Call, drawn: Drawn, kind: str) -> None:
        call.drawn, call.wrong = drawn, kind

    def _ask(self, state: State, call: _Call) -> Drawn:
        drawn = self._model.ask(state, Client(call.process, self._random.randrange, self._value))
        if drawn is None:
            raise Refusal(f"of {self._request.model} no histories are made")
        return drawn

    def _value(self) -> int:
        if self._request.values:
            return self._random.randrange(self._request.values) + 1
        self._values += 1
        return self._values

    def _after(
        self, state: State, drawn: Drawn, call: _Call, *, answered: bool = True
    ) -> list[State]:
        """The states after a call, as the model reads it."""
        begun = self._op("invoke", drawn, call, drawn.value)
        ended = self._op("ok", drawn, call, drawn.answer) if answered else None
        for row in self._model.read(begun, ended):
            if row.key is None and self._request.keys > 1:
                raise Refusal(f"--keys {self._request.keys}: {self._request.model} is one object")
            outcome = OK if answered else OPEN
            one = Call(row.kind, row.argument, row.result, row.other, 0, NEVER, outcome,
                       call.process)  # fmt: skip
            return list(self._model.step(state, one))
        return []

    def _op(self, kind: str, drawn: Drawn, call: _Call, value: Any, index: int = 0) -> Op:
        ext = dict(drawn.ext) if kind == "invoke" else {}
        if self._request.keys > 1:
            ext["key"] = call.key
        return Op(type=kind, process=call.process, f=drawn.f, value=value, index=index,  # type: ignore[arg-type]
                  time=index * MOMENT_NS, ext=ext or None)  # fmt: skip

    def _complete(self, call: _Call) -> None:
        drawn = call.drawn
        if drawn is None:
            raise RuntimeError("a call ends after it took effect")
        end = len(self._ops)
        self._ops[call.begun] = self._op("invoke", drawn, call, drawn.value, call.begun)
        answer = drawn.answer if call.outcome == "ok" else drawn.value
        self._ops.append(self._op(call.outcome, drawn, call, answer, end))
        if call.wrong:
            self._planted.append(Wrong(call.wrong, (call.begun, end)))
