"""What a judge of a history that is not held asks of its reader.

A `Plan` is a generator: it yields what it wants to know and is sent the answer. So it is written
once, and has several readers: a loop over the pieces of a file in this process, or tasks of
Spark over many files at once.
"""

from collections.abc import Callable, Generator, Mapping
from typing import Any, NamedTuple, TypeVar

from maxq.checkers.judgement.piecewise.dealt import Task
from maxq.histories.columns.outline import Outline
from maxq.histories.columns.rows import Rows
from maxq.histories.op import Op

T = TypeVar("T")


class Survey(NamedTuple):
    """What `maxq.checkers.judgement.piecewise.pieces.Surveyor` says of each piece, in order."""


class Each(NamedTuple):
    """What a function says of each of some pieces, in order; None: of all.

    The function is pure; it and its answers can be pickled.
    """

    look: Callable[[Rows], Any]
    outline: Outline
    pieces: list[int] | None = None


class Deal(NamedTuple):
    """What each key of some tasks comes to (`Found`), `Unsure` where arrays cannot say. `held` are
    operations that need not be read once more, by index; `by_rows`: without arrays; `pieces` are
    those that are read (None: all)."""

    tasks: Mapping[str, Task]
    outline: Outline
    held: Mapping[int, Op]
    by_rows: bool = False
    pieces: list[int] | None = None


class Reread(NamedTuple):
    """The history's `Reading`, to be read here; what operations say may be left out."""


Ask = Survey | Each | Deal | Reread


def named(ask: Ask) -> str:
    """What is done to answer, for people."""
    match ask:
        case Survey():
            return "looking at all events"
        case Deal(by_rows=True):
            return "judging what may be wrong, event by event"
        case Deal():
            return "dealing events by queue, lock and broker set"
        case Each():
            return "looking up what findings name"
    return ""


def silent(step: str) -> None:
    """Nobody wants to know what is done."""


Plan = Generator[Ask, Any, T]


def carried_out(plan: Plan[T], answer: Callable[[Ask], Any]) -> T:
    """What a plan comes to, each of its questions answered in turn."""
    try:
        ask = next(plan)
        while True:
            ask = plan.send(answer(ask))
    except StopIteration as end:
        found: T = end.value
        return found
