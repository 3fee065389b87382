"""What searches of one key go through: classes of calls, states, and events in order."""

from collections.abc import Callable, Collection, Hashable
from enum import Enum
from typing import NamedTuple

from maxq.checkers.linearizability.calls import FAILED, OPEN, Call, Calls, shortened, stated
from maxq.checkers.linearizability.decided import Decided
from maxq.checkers.linearizability.model import ANYTHING, Model

Over = Callable[[], bool]  # whether the budget is used up
LOOK_EVERY = 512  # configurations between two looks at the budget


class OverBudget(Exception):
    """A search was not over when its budget was."""


class Class(NamedTuple):
    """Calls that are alike: one kind, with equal argument and result."""

    call: Call
    reads: bool
    gives: Hashable
    wants: Hashable

    @property
    def lasts(self) -> bool:
        """Whether they have no answer, and so are open for ever."""
        return self.call.outcome == OPEN


class Kind(Enum):
    """What an event is."""

    BEGIN = "begin"
    LAST = "last"  # the begin of a call without an answer
    END = "end"


class Event(NamedTuple):
    """A call begins or ends: its position, its class, and its bit; no two open calls have the same
    one, and calls without an answer have none."""

    kind: Kind
    at: int
    number: int
    bit: int


class Space:
    """The calls of one key, as a search needs them; states and classes are numbered."""

    def __init__(self, model: Model, calls: Calls) -> None:
        self._model, self.calls = model, calls
        self._states: list[Hashable] = [model.initial]
        self._numbers: dict[Hashable, int] = {model.initial: 0}
        self._steps: dict[tuple[int, int], tuple[int, ...]] = {}
        self.classes: list[Class] = []
        self.ended: list[int] = calls.ended.tolist()  # where each call ends
        self.events = self._events()
        self.width = calls.size.bit_length() + 1  # of a count, with a bit that it never reaches

    def step(self, state: int, number: int) -> tuple[int, ...]:
        """The states after a call of a class took effect; none: it cannot."""
        found = self._steps.get((state, number))
        if found is None:
            after = self._model.step(self._states[state], self.classes[number].call)
            found = self._steps[state, number] = tuple(self._number(s) for s in after)
        return found

    def wanted(self, wanted: set[Hashable], lasting: Collection[int]) -> list[int]:
        """Of classes of calls without an answer, those that bring about what is wanted, or nobody
        knows what; and those that bring about what they want."""
        classes, grown = self.classes, True
        wanted = wanted - {None}
        while grown:
            more = {classes[n].wants for n in lasting if classes[n].gives in wanted}
            grown = not more <= wanted | {None}
            wanted |= more - {None}
        return [
            n for n in lasting
            if classes[n].gives is None or classes[n].gives in wanted or ANYTHING in wanted
        ]  # fmt: skip

    def refuted(
        self, at: int, still_open: Collection[int], states: Collection[int], most: int
    ) -> Decided:
        """There is no legal order.

        Args:
            at: the call that cannot have taken effect by its end.
            still_open: that one, and the others that were open then.
            states: in which the object may have been.
            most: configurations, at a time.
        """
        call = self.calls.call(at)
        others = sorted(self.calls.call(n).begun for n in still_open if n != at)
        known = sorted(shortened(stated(self._states[state])) for state in set(states))
        shown = ", ".join(known[:4])
        shown += f" and {len(known) - 4} more" if len(known) > 4 else ""
        helpless = f"none of the {len(others)} other open calls makes it possible"
        why = (
            f"{call.said()} cannot have taken effect between its begin and its end: the state was "
            f"{shown} before it, and {helpless if others else 'no other call was open'}"
        )
        witness = (call.begun, *others[:3])
        return Decided(False, "search", "not-linearizable", why, witness, most)

    def _number(self, state: Hashable) -> int:
        number = self._numbers.setdefault(state, len(self._states))
        if number == len(self._states):
            self._states.append(state)
        return number

    def _classified(self) -> list[int]:
        """The class of each call."""
        known: dict[tuple[int, ...], int] = {}
        found = []
        c = self.calls
        columns = (c.kind, c.argument, c.other, c.result, c.outcome)
        for at, key in enumerate(zip(*(x.tolist() for x in columns), strict=True)):
            if key not in known:
                call = c.call(at)
                known[key] = len(self.classes)
                self.classes.append(Class(
                    call, call.kind in self._model.reads or call.outcome == FAILED,
                    self._model.gives(call) if call.outcome == OPEN else None,
                    self._model.wants(call),
                ))  # fmt: skip
            found.append(known[key])
        return found

    def _events(self) -> list[Event]:
        """In order; without reads that have no answer, which show nothing."""
        class_of, found = self._classified(), list[Event]()
        slots, free = dict[int, int](), list[int]()
        for _, at, ends in self._moments():
            number = class_of[at]
            one = self.classes[number]
            if ends:
                slot = slots.pop(at)
                free.append(slot)
                found.append(Event(Kind.END, at, number, 1 << slot))
            elif not one.lasts:
                slots[at] = slot = free.pop() if free else len(slots)
                found.append(Event(Kind.BEGIN, at, number, 1 << slot))
            elif not one.reads:
                found.append(Event(Kind.LAST, at, number, 0))
        return found

    def _moments(self) -> list[tuple[int, int, bool]]:
        """(position, call, whether it ends there), in order."""
        begins = [(b, at, False) for at, b in enumerate(self.calls.begun.tolist())]
        lasts = (self.calls.outcome == OPEN).tolist()
        ends = [(e, at, True) for at, e in enumerate(self.ended) if not lasts[at]]
        return sorted([*begins, *ends])
