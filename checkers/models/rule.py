"""Models that ask for no order of calls, but for a rule on their answers."""

from abc import abstractmethod
from collections.abc import Iterable

from maxq.checkers.linearizability.calls import Call, Calls
from maxq.checkers.linearizability.decided import Decided
from maxq.checkers.linearizability.model import Model, State
from maxq.checkers.linearizability.ties import Ties, alone


class Rule(Model):
    """The base of those. Their `fast` decides everything, and no search is ever asked."""

    are = "legal as"

    def step(self, state: State, call: Call) -> Iterable[State]:
        return (state,)  # every order will do

    @abstractmethod
    def fast(self, calls: Calls) -> Decided:
        """Decide one key."""

    def ties(self, calls: Calls) -> Ties:
        everything = super().ties(calls)
        return alone(calls.size, everything.needs)


def legal(name: str = "", why: str = "") -> Decided:
    """The rule is kept; `name` is what was found beside it."""
    return Decided(True, "fast test", name, why)


def illegal(name: str, why: str, *shown: Call) -> Decided:
    """The rule is broken."""
    return Decided(False, "fast test", name, why, _begins(shown))


def unsure(name: str, why: str, *shown: Call) -> Decided:
    """Whether the rule is kept is not known."""
    return Decided("unknown", "fast test", name, why, _begins(shown))


def _begins(shown: Iterable[Call]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(call.begun for call in shown))[:4]
