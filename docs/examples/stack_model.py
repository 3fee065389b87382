"""A model of one's own: a stack, which gives what was put on it last.

    maxq check HISTORY --plugin stack_model --model stack

Operations: `push` v; `pop` (its completion has the value, and nothing where the stack was empty).
"""

from collections.abc import Iterable

from maxq.checkers.linearizability.calls import OPEN, Call, Row
from maxq.checkers.linearizability.model import Client, Drawn, Model, State
from maxq.histories.op import Op


class Stack(Model):
    """Its state is what is on it, the top last."""

    name = "stack"
    about = "linearizable stack, last in first out, that may be found empty"
    initial: State = ()

    def read(self, begun: Op, ended: Op | None) -> Iterable[Row]:
        if begun.f == "push":
            yield Row(None, "push", begun.value)
        elif begun.f == "pop":
            yield Row(None, "pop", result=ended.value if ended and ended.type == "ok" else None)

    def step(self, state: State, call: Call) -> Iterable[State]:
        inside: tuple[State, ...] = state  # type: ignore[assignment]
        if call.kind == "push":
            return [(*inside, call.argument)]
        top = inside[-1] if inside else None
        return [inside[:-1]] if call.outcome == OPEN or call.result == top else []

    def ask(self, state: State, client: Client) -> Drawn:
        inside: tuple[State, ...] = state  # type: ignore[assignment]
        if client.below(2):
            value = client.value()
            return Drawn("push", value, value)
        return Drawn("pop", None, inside[-1] if inside else None)


STACK = Stack()
