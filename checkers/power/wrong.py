"""Wrong answers that a recorded run could have had: what a plant is, and how a history takes it.

A *wrong answer* is one way for a cluster to break a promise, such as to lose an acknowledged
message. Its *places* are the operations of a run at which that can be written into the history; a
*plant* is the history with it at one place. A plant changes values and types of completions, never
an index or a process, so that its pairs are those of the run; and no time, but where a run would
have waited longer for a cluster that does not recover.

Who knows what is wrong does not know how it is judged: nothing here asks a checker.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from maxq.checkers.core.api import Context
from maxq.histories.history import History
from maxq.histories.op import Op

Changes = Mapping[int, Op]  # by index: the operation that stands there instead


class Plant(NamedTuple):
    """One place: the index of the operation that it is named by, and what makes the changes."""

    at: int
    changes: Callable[[], Changes]


class Wrong(NamedTuple):
    """One wrong answer.

    Attributes:
        name: what is wrong, as a sentence without its period.
        claims: those of which any may call it; the first is what it is about.
        checker: who judges them.
        plants: the places of a run.
    """

    name: str
    claims: tuple[str, ...]
    checker: str
    plants: Callable[[History, Context], Iterator[Plant]]


def planted(history: History, changes: Changes) -> History:
    """The history with some operations changed; all pairs are those of before."""
    if all(0 <= at < len(history.ops) and history.ops[at].index == at for at in changes):
        ops = list(history.ops)
        for at, op in changes.items():
            ops[at] = op
    else:
        ops = [changes.get(op.index, op) for op in history.ops]
    other = History(ops)
    for name in ("_partners", "_positions"):
        if name in history.__dict__:
            other.__dict__[name] = history.__dict__[name]
    return other


def with_value(op: Op, value: Any) -> Op:
    """The same operation with another value."""
    return msgspec.structs.replace(op, value=value)


def answers(history: History, f: str) -> Iterator[tuple[Op, Op]]:
    """The ok answers to one question, each with its invocation."""
    for op in history.clients:
        if op.f == f and op.type == "ok" and isinstance(op.value, dict):
            begun = history.invocation(op)
            if begun is not None:
                yield begun, op


def waited(history: History, since: int, by_ns: int, changes: Changes) -> Changes:
    """The same changes in a run that went on for longer: all after an index is later."""
    later = {
        op.index: msgspec.structs.replace(op, time=op.time + by_ns)
        for op in history.ops
        if op.index > since and op.time >= 0
    }
    for at, op in changes.items():
        later[at] = msgspec.structs.replace(op, time=later[at].time) if at in later else op
    return later


def edited(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """A copy of nested maps with another value at a path; of what is on the way nothing changes."""
    if not path:
        return new
    return {**value, path[0]: edited(value.get(path[0], {}), path[1:], new)}
