"""Logs: appended to, and read by offset."""

from collections.abc import Iterable, Iterator
from typing import Any

from maxq.checkers.linearizability.calls import OPEN, Call, Calls, Row
from maxq.checkers.linearizability.decided import Decided
from maxq.checkers.linearizability.exact import logs
from maxq.checkers.linearizability.model import Client, Drawn, Model, State
from maxq.checkers.linearizability.ties import Ties
from maxq.checkers.models.shapes import frozen, keyed, something
from maxq.histories.op import HistoryError, Op


class Log(Model):
    """A log whose offsets begin with 0 and have no gaps, such as a queue of a topic.

    Operations: `append` v (its completion has the offset); `read` offset (its completion has the
    value, and nothing beyond the end); `poll` offset (a list of [offset value] from there on, in
    order, and an empty one at the end). A value that was appended again is there once more.
    """

    name = "log"
    about = "linearizable log: append gives an offset, read and poll show what is there"
    by_key = True
    reads = (logs.READ, logs.POLL, logs.END)
    initial: State = ()

    def read(self, begun: Op, ended: Op | None) -> Iterable[Row]:
        key, asked = keyed(begun)
        answered = ended is not None and ended.type == "ok"
        answer = ended.value if answered and ended is not None else None
        if begun.f == logs.APPEND:
            at = None if answer is None else _offset(begun, answer)
            yield Row(key, logs.APPEND, something(begun, asked), at)
        elif begun.f == logs.READ:
            kind = logs.END if answered and answer is None else logs.READ
            yield Row(key, kind, _offset(begun, asked), frozen(answer))
        elif begun.f == logs.POLL:
            shown = _shown(begun, answer)
            kind = logs.END if answered and not shown else logs.POLL
            yield Row(key, kind, _offset(begun, asked), shown or None)

    def step(self, state: State, call: Call) -> Iterator[State]:
        inside: tuple[State, ...] = state  # type: ignore[assignment]
        if call.kind == logs.APPEND:
            if call.result is None or call.result == len(inside):
                yield (*inside, call.argument)
        elif call.outcome == OPEN or self._is_shown(inside, call):
            yield state

    @staticmethod
    def _is_shown(inside: tuple[State, ...], call: Call) -> bool:
        at = call.argument
        if call.kind == logs.END:
            return bool(at >= len(inside))
        if call.kind == logs.READ:
            return at < len(inside) and _same(inside[at], call.result)
        there = inside[at : at + len(call.result)]
        return [o for o, _ in call.result] == [*range(at, at + len(there))] and all(
            _same(one, two) for one, (_, two) in zip(there, call.result, strict=True)
        )

    def ask(self, state: State, client: Client) -> Drawn:
        inside: tuple[State, ...] = state  # type: ignore[assignment]
        at = client.below(len(inside) + 1)
        kind = client.below(4)
        if kind < 2:
            return Drawn(logs.APPEND, client.value(), len(inside))
        if kind == 2:
            return Drawn(logs.READ, at, inside[at] if at < len(inside) else None)
        shown = range(at, min(at + 3, len(inside)))
        return Drawn(logs.POLL, at, [[offset, inside[offset]] for offset in shown])

    def ties(self, calls: Calls) -> Ties:
        return logs.ties(calls)

    def of_parts(self, found: Decided) -> Model:
        """An append that was taken out leaves a gap; where that is what is wrong, none is."""
        return _FromTheFirst() if found.name == logs.HOLE else _WithGaps()

    def fast(self, calls: Calls) -> Decided | None:
        return logs.decide(calls)


class _WithGaps(Log):
    def fast(self, calls: Calls) -> Decided:
        return logs.decide(calls, dense=False) or Decided("unknown", "fast test")


class _FromTheFirst(Log):
    def ties(self, calls: Calls) -> Ties:
        return logs.ties(calls, gaps=False)


def _same(one: Any, two: Any) -> bool:
    return type(one) is type(two) and bool(one == two)


def _offset(op: Op, value: object) -> int:
    if type(value) is not int or not 0 <= value < 1 << 62:
        raise HistoryError(f"op {op.index}: {op.f} wants an offset, not {value!r:.100}")
    return value


def _shown(op: Op, value: object) -> tuple[tuple[int, Any], ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(p, list) and len(p) == 2 for p in value):
        raise HistoryError(f"op {op.index}: poll wants [[offset value] ...], not {value!r:.100}")
    return tuple((_offset(op, offset), frozen(v)) for offset, v in value)
