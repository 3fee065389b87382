"""Objects as a model's states have them: any model that says what clients may ask.

A planted call is one that the model's next state rules out there and then. Whether the history
shows it is asked of the model afterwards (`maxq.workloads.of_models.making`).
"""

from collections.abc import Sequence
from random import Random
from typing import Any

from maxq.checkers.linearizability.calls import NEVER, OK, OPEN
from maxq.checkers.linearizability.calls import Call as Read
from maxq.checkers.linearizability.model import Client, Drawn, Model, State
from maxq.histories.op import Op
from maxq.workloads.generated.asked.request import Refusal
from maxq.workloads.of_models.calls import Call, Values, places
from maxq.workloads.of_models.request import ModelRequest

DRAWS_MAX = 20  # operations that are drawn at one place until one can be planted
STALE = "stale-answer"


class Stated:
    """So many objects of a model.

    Args:
        request: what is asked for.
        model: the model.
        random: for what is drawn.
        wanted: what is to be planted.
    """

    unfinished = False

    def __init__(
        self, request: ModelRequest, model: Model, random: Random, wanted: Sequence[str]
    ) -> None:
        self._request, self._model, self._random = request, model, random
        self.keys = request.keys
        self._states: list[list[State]] = [[model.initial] for _ in range(self.keys)]
        self._all_kept = STALE in wanted  # else the last one will do
        self._plan = places(request, random, wanted)
        self._values = Values(request, random)
        self._effects = 0

    def begun(self, call: Call) -> None:
        """A call begins: what it is depends on its effect."""

    def ended(self, call: Call) -> None:
        """A call has its answer."""

    def take_effect(self, call: Call) -> None:
        """Draw what a call asks, its answer and its outcome, and do it.

        Raises:
            Refusal: of the model no histories are made, or not of several keys.
        """
        states = self._states[call.key]
        kind = self._plan.pop(self._effects, None)
        self._effects += 1
        if kind is not None and not self._plant(kind, call, states):
            self._plan[self._effects] = kind  # the next one, then
        if call.drawn is None:
            self._rightly(call, states)

    def _rightly(self, call: Call, states: list[State]) -> None:
        call.drawn = drawn = self._ask(states[-1], call)
        lost = self._random.random() < self._request.info
        call.outcome = "info" if lost else "fail" if drawn.fails else "ok"
        none = drawn.fails or (lost and (drawn.sure or self._random.random() < 0.5))
        if not none:
            self._follow(states, self._after(states[-1], drawn, call)[0])

    def _follow(self, states: list[State], state: State) -> None:
        if self._all_kept:
            states.append(state)
        else:
            states[-1] = state

    def _plant(self, kind: str, call: Call, states: list[State]) -> bool:
        """Whether this call could be made wrong."""
        now = states[-1]
        for _ in range(DRAWS_MAX):
            seen = self._random.choice(states) if kind == STALE else now
            drawn = self._ask(seen, call)
            after = [] if drawn.fails else self._after(now, drawn, call)
            if kind == STALE and not drawn.fails and not after:
                call.drawn, call.wrong = drawn, kind
                return True
            if kind != STALE and after and after[0] != now:
                return self._misdone(kind, call, drawn, states, after[0])
        return False

    def _misdone(
        self, kind: str, call: Call, drawn: Drawn, states: list[State], after: State
    ) -> bool:
        """Whether a right call could be lost, done twice, or said to have failed."""
        if kind == "double-effect":
            again = self._after(after, drawn, call, answered=False)
            if not again or again[0] == after:
                return False
            self._follow(states, again[0])
        elif kind == "failed-effect":
            self._follow(states, after)
            call.outcome = "fail"
        call.drawn, call.wrong = drawn, kind
        return True

    def _ask(self, state: State, call: Call) -> Drawn:
        client = Client(call.process, self._random.randrange, self._values.next)
        drawn = self._model.ask(state, client)
        if drawn is None:
            raise Refusal(f"of {self._request.model} no histories are made")
        return drawn

    def _after(
        self, state: State, drawn: Drawn, call: Call, *, answered: bool = True
    ) -> list[State]:
        """The states after a call, as the model reads it."""
        begun = self._op("invoke", drawn, call, drawn.value)
        ended = self._op("ok", drawn, call, drawn.answer) if answered else None
        for row in self._model.read(begun, ended):
            if row.key is None and self.keys > 1:
                raise Refusal(f"--keys {self.keys}: {self._request.model} is one object")
            outcome = OK if answered else OPEN
            one = Read(row.kind, row.argument, row.result, row.other, 0, NEVER, outcome,
                       call.process)  # fmt: skip
            return list(self._model.step(state, one))
        return []

    def _op(self, kind: str, drawn: Drawn, call: Call, value: Any) -> Op:
        ext = dict(drawn.ext) if kind == "invoke" else {}
        if self.keys > 1:
            ext["key"] = call.key
        return Op(type=kind, process=call.process, f=drawn.f, value=value, ext=ext or None)  # type: ignore[arg-type]
