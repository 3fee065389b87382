"""A legal order found in depth: of the calls that may take effect next, one is tried at a time.

Configurations are those of `maxq.checkers.linearizability.search`: an event, a state, which open
calls took effect, and how many of those without an answer. Where a call returns that has not taken
effect yet, calls are tried until it has: itself first, then those after which it can, then others,
each in order of their ends. What led to nothing is remembered and not tried again. So a legal
history costs little more than its length where each choice is right, or is found to be wrong soon;
an illegal one costs all its configurations.

Source: docs/spec/checkers.md 8.2. Wing and Gong, *Testing and verifying concurrent objects*, 1993;
Lowe, *Testing for linearizability*, 2017.
"""

from collections.abc import Hashable, Iterator
from typing import NamedTuple

from maxq.checkers.linearizability.decided import Decided
from maxq.checkers.linearizability.space import LOOK_EVERY, Event, Kind, Over, Space


class _Configuration(NamedTuple):
    """`event` is the next one, `used` counts calls without an answer, so many bits a class."""

    event: int
    state: int
    mask: int
    used: int


class Depth:
    """A search of one key that looks at so many configurations at most."""

    def __init__(self, space: Space, over: Over, most: int) -> None:
        self._space, self._over, self._most = space, over, most
        self._open: dict[int, dict[int, int]] = {}  # by class: the bits of open calls, their ends
        self._lasting: dict[int, int] = {}  # of each class without an answer: how many have begun
        self._shift: dict[int, int] = {}
        self._event = 0  # the next one, as far as `_open` and `_lasting` are
        self._seen: set[_Configuration] = set()
        self._furthest = -1
        self._states: set[int] = set()  # in which the furthest event was reached

    def decided(self) -> Decided | None:
        """What is found; None where there may be more configurations than it looks at."""
        todo = [(_Configuration(0, 0, 0, 0), False)]
        while todo:
            came, others = todo.pop()
            self._go_back(came.event)
            if others:
                todo += [(after, False) for after in self._others(came)]
                continue
            here = self._go_on(came)
            if here.event == len(self._space.events):
                return Decided(True, "search", frontier=len(self._seen))
            if here in self._seen:
                continue
            self._seen.add(here)
            if len(self._seen) > self._most or self._is_over():
                return None
            self._reached(here, moved=here.event > came.event)
            todo.append((here, True))
            todo += [(after, False) for after in self._own(here)]
        return self._refuted()

    def _is_over(self) -> bool:
        return len(self._seen) % LOOK_EVERY == 0 and self._over()

    def _go_on(self, at: _Configuration) -> _Configuration:
        """Take events as long as there is nothing to choose."""
        number, state, mask, used = at
        events, classes, step = self._space.events, self._space.classes, self._space.step
        while number < len(events):
            event = events[number]
            if event.kind is Kind.END:
                if not mask & event.bit:
                    break
                mask ^= event.bit
            elif event.kind is Kind.BEGIN and classes[event.number].reads and step(
                state, event.number
            ):  # fmt: skip
                mask |= event.bit
            self._take(event, back=False)
            number += 1
        self._event = number
        return _Configuration(number, state, mask, used)

    def _go_back(self, number: int) -> None:
        while self._event > number:
            self._event -= 1
            self._take(self._space.events[self._event], back=True)

    def _take(self, event: Event, *, back: bool) -> None:
        """An event comes to pass, or is taken back."""
        number = event.number
        if event.kind is Kind.LAST:
            self._lasting[number] = self._lasting.get(number, 0) + (-1 if back else 1)
            self._shift.setdefault(number, self._space.width * len(self._shift))
        elif (event.kind is Kind.BEGIN) != back:
            self._open.setdefault(number, {})[event.bit] = self._space.ended[event.at]
        else:
            of_class = self._open[number]
            del of_class[event.bit]
            if not of_class:
                del self._open[number]

    def _own(self, here: _Configuration) -> list[_Configuration]:
        """The call that returns takes effect next."""
        event = self._space.events[here.event]
        return [
            here._replace(state=state, mask=here.mask | event.bit | self._right(state))
            for state in self._space.step(here.state, event.number)
        ]

    def _others(self, here: _Configuration) -> list[_Configuration]:
        """What else may take effect next, what is tried first the last."""
        event = self._space.events[here.event]
        tries = []
        for lasting, end, after in (*self._of_open(here), *self._of_lasting(here)):
            # What makes its return possible comes first.
            helps = after.mask & event.bit or self._space.step(after.state, event.number)
            tries.append((not helps, lasting, end, after))
        return [one[-1] for one in sorted(tries, reverse=True)]

    def _of_open(self, here: _Configuration) -> Iterator[tuple[bool, int, _Configuration]]:
        """Calls that end, of each class the one that ends first; without the next to return."""
        own = self._space.events[here.event].bit
        for number, bits in self._open.items():
            if self._space.classes[number].reads:  # those took effect as soon as they could
                continue
            end, bit = min(
                ((end, bit) for bit, end in bits.items() if not here.mask & bit), default=(0, 0)
            )
            for state in self._space.step(here.state, number) if bit not in (0, own) else ():
                yield (
                    False,
                    end,
                    here._replace(state=state, mask=here.mask | bit | self._right(state)),
                )

    def _of_lasting(self, here: _Configuration) -> Iterator[tuple[bool, int, _Configuration]]:
        """Calls without an answer that somebody wants."""
        if not self._lasting:
            return
        classes, all_bits = self._space.classes, (1 << self._space.width) - 1
        wants: set[Hashable] = {
            classes[number].wants
            for number, bits in self._open.items() if any(not here.mask & bit for bit in bits)
        }  # fmt: skip
        begun = [number for number, count in self._lasting.items() if count]
        for number in self._space.wanted(wants, begun):
            shift = self._shift[number]
            if (here.used >> shift) & all_bits >= self._lasting[number]:
                continue
            for state in self._space.step(here.state, number):
                if state != here.state:
                    mask, used = here.mask | self._right(state), here.used + (1 << shift)
                    yield True, number, _Configuration(here.event, state, mask, used)

    def _right(self, state: int) -> int:
        """The bits of the open reads that are right in a state."""
        found = 0
        for number, bits in self._open.items():
            if self._space.classes[number].reads and self._space.step(state, number):
                for bit in bits:
                    found |= bit
        return found

    def _reached(self, here: _Configuration, *, moved: bool) -> None:
        """Remember in which states the furthest event was come to."""
        if here.event > self._furthest:
            self._furthest = here.event
            self._states.clear()
        if here.event == self._furthest and moved:
            self._states.add(here.state)

    def _refuted(self) -> Decided:
        """No configuration gets past the furthest event."""
        last = self._space.events[self._furthest]
        begun = dict[int, int]()
        for event in self._space.events[: self._furthest]:
            if event.kind is Kind.BEGIN:
                begun[event.bit] = event.at
            elif event.kind is Kind.END:
                del begun[event.bit]
        return self._space.refuted(last.at, begun.values(), self._states, len(self._seen))
