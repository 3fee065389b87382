"""A call under way, and what every kind of objects draws for it."""

from collections.abc import Sequence
from random import Random
from typing import NamedTuple, Protocol

from maxq.checkers.linearizability.model import Drawn
from maxq.workloads.of_models.request import ModelRequest


class Wrong(NamedTuple):
    """What was planted, and the indices of the call's invocation and completion."""

    kind: str
    ops: tuple[int, ...]


class Call:
    """A call under way: its client, its number among all, its key, the index of its invocation and,
    once it took effect, what it was; `wrong` names what was planted in it."""

    def __init__(self, process: int, number: int, key: int, begun: int) -> None:
        self.process, self.number, self.key, self.begun = process, number, key, begun
        self.drawn: Drawn | None = None
        self.outcome = "ok"
        self.wrong = ""


class Objects(Protocol):
    """What clients call: objects that answer rightly, but for what is planted."""

    keys: int  # between which a call chooses before it takes effect

    @property
    def unfinished(self) -> bool:
        """Whether a call more is needed, so that something planted shows."""
        ...

    def begun(self, call: Call) -> None:
        """A call begins."""
        ...

    def take_effect(self, call: Call) -> None:
        """Draw what a call asks, its answer and its outcome, and do it."""
        ...

    def ended(self, call: Call) -> None:
        """A call has its answer."""
        ...


class Values:
    """The values that clients write: each its own, or drawn from so many."""

    def __init__(self, request: ModelRequest, random: Random) -> None:
        self._many, self._random = request.values, random
        self._last = 0

    def next(self) -> int:
        """One more."""
        if self._many:
            return self._random.randrange(self._many) + 1
        self._last += 1
        return self._last


def places(request: ModelRequest, random: Random, wanted: Sequence[str]) -> dict[int, str]:
    """What is planted at which call, by numbers."""
    found = sorted(random.sample(range(request.ops), min(len(wanted), request.ops)))
    return dict(zip(found, random.sample(wanted, len(wanted)), strict=False))
