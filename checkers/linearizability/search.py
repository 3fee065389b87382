"""Is there a legal order? Just-in-time linearization, for what no exact test decides.

The events are walked in order, with all *configurations* that may be: a state, and which of the
open calls have taken effect. When a call returns that has not, open calls take effect, in every
order, until it has; a configuration in which it cannot is dropped. If none is left there is no
legal order, and the call that returned is where it shows.

What keeps it small:

* a configuration holds open calls only, a bit each, and bits are used again;
* a call that only reads takes effect as soon as its answer is right: that takes nothing away;
* calls without an answer are open for ever. Those that are alike are counted, not told apart; of
  two configurations with one state and one mask the one that used no more of each is enough; and
  where the model says what such a call brings about (`gives`), it takes effect only when another
  one that is open wants it, since what nobody wants might as well never have happened.

Source: docs/spec/checkers.md 8. Lowe, *Testing for linearizability*, 2017.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator
from typing import NamedTuple

from maxq.checkers.linearizability.calls import FAILED, OPEN, Call, Calls, shortened
from maxq.checkers.linearizability.decided import Decided
from maxq.checkers.linearizability.model import ANYTHING, Model

OVER_BUDGET = "over-budget"  # what is said of a key whose search was not over
LOOK_EVERY = 512  # configurations between two looks at the budget
Used = tuple[int, ...]  # how many of each class of calls without an answer took effect
Place = tuple[int, int]  # a state, and a mask of the open calls that took effect
Frontier = dict[Place, list[Used]]


Over = Callable[[], bool]  # whether the budget is used up


class OverBudget(Exception):
    """A search was not over when its budget was."""


class _Class(NamedTuple):
    """Calls that are alike: one kind, with equal argument and result."""

    call: Call
    reads: bool
    gives: Hashable
    wants: Hashable


def search(model: Model, calls: Calls, over: Over) -> Decided:
    """Decide one key; unknown once the budget is used up."""
    return _Search(model, calls, over).decided()


class _Search:
    def __init__(self, model: Model, calls: Calls, over: Over) -> None:
        self._model, self._calls, self._over = model, calls, over
        self._states: list[Hashable] = [model.initial]
        self._numbers: dict[Hashable, int] = {model.initial: 0}
        self._steps: dict[tuple[int, int], tuple[int, ...]] = {}
        self._classes: list[_Class] = []
        self._class_of = self._classified()
        self._slots: dict[int, int] = {}  # of open calls: the bit
        self._free: list[int] = []
        self._open: dict[int, int] = defaultdict(int)  # by class: the bits of its open calls
        self._there: list[int] = []  # of each class without an answer: how many have begun
        self._lasting: dict[int, int] = {}  # its place in `Used`
        self._frontier: Frontier = {(0, 0): [()]}
        self._greatest, self._looked = 1, 0

    def _classified(self) -> list[int]:
        """The class of each call."""
        known: dict[tuple[int, ...], int] = {}
        found = []
        c = self._calls
        columns = (c.kind, c.argument, c.other, c.result, c.outcome)
        for at, key in enumerate(zip(*(x.tolist() for x in columns), strict=True)):
            if key not in known:
                call = c.call(at)
                known[key] = len(self._classes)
                self._classes.append(_Class(
                    call, call.kind in self._model.reads or call.outcome == FAILED,
                    self._model.gives(call) if call.outcome == OPEN else None,
                    self._model.wants(call),
                ))  # fmt: skip
            found.append(known[key])
        return found

    def decided(self) -> Decided:
        at = -1
        try:
            for _, at, ends in _events(self._calls):
                if not ends:
                    self._begin(at)
                elif not self._end(at):
                    return self._refuted(at)
                self._greatest = max(self._greatest, self._size(self._frontier))
        except OverBudget:
            begun = int(self._calls.begun[at])
            why = f"the budget was used up at the call that began at op {begun}, with up to " \
                  f"{self._greatest:,} configurations"  # fmt: skip
            return Decided("unknown", "search", OVER_BUDGET, why, (begun,), self._greatest)
        return Decided(True, "search", frontier=self._greatest)

    def _begin(self, at: int) -> None:
        number = self._class_of[at]
        one = self._classes[number]
        if one.call.outcome == OPEN:
            if one.reads:
                return  # it shows nothing, and changes nothing
            if number not in self._lasting:
                self._lasting[number] = len(self._there)
                self._there.append(0)
            self._there[self._lasting[number]] += 1
            return
        slot = self._free.pop() if self._free else len(self._slots)
        self._slots[at] = slot
        self._open[number] |= 1 << slot
        if one.reads:
            self._frontier = {
                (state, mask | (1 << slot) if self._step(state, number) else mask): used
                for (state, mask), used in self._frontier.items()
            }

    def _end(self, at: int) -> bool:
        """Whether the call can have taken effect by now."""
        number, slot = self._class_of[at], self._slots[at]
        bit = 1 << slot
        before = self._frontier
        after: Frontier = {}
        todo: list[tuple[int, int, Used]] = []
        for (state, mask), every in before.items():
            for used in every:
                if mask & bit:
                    _keep(after, (state, mask ^ bit), used)
                else:
                    todo.append((state, mask, used))
        seen: Frontier = {}
        for state, mask, used in todo:
            _keep(seen, (state, mask), used)
        while todo:
            state, mask, used = todo.pop()
            for new_state, new_mask, new_used in self._next(state, mask, used):
                self._look()
                if new_mask & bit:
                    _keep(after, (new_state, new_mask ^ bit), new_used)
                elif _keep(seen, (new_state, new_mask), new_used):
                    todo.append((new_state, new_mask, new_used))
        if after:
            self._frontier = after
            self._open[number] ^= bit
            if not self._open[number]:
                del self._open[number]
            self._free.append(self._slots.pop(at))
            return True
        return False

    def _next(self, state: int, mask: int, used: Used) -> Iterator[tuple[int, int, Used]]:
        """The configurations after one more call has taken effect."""
        wanted: set[Hashable] = set()
        for number, bits in self._open.items():
            left = bits & ~mask
            if not left:
                continue
            one = self._classes[number]
            if one.wants is not None:
                wanted.add(one.wants)
            if one.reads:
                continue  # it took effect as soon as it could
            for new in self._step(state, number):
                for bit in _bits(left):
                    yield new, self._read(new, mask | bit), used
        yield from self._lasting_next(state, mask, used, wanted)

    def _lasting_next(
        self, state: int, mask: int, used: Used, wanted: set[Hashable]
    ) -> Iterator[tuple[int, int, Used]]:
        left = [
            (number, place) for number, place in self._lasting.items()
            if self._there[place] > (used[place] if place < len(used) else 0)
        ]  # fmt: skip
        grown = True
        while grown:  # a call without an answer may want what another one brings about
            more = {self._classes[n].wants for n, _ in left
                    if self._classes[n].gives in wanted} - wanted - {None}  # fmt: skip
            wanted |= more
            grown = bool(more)
        for number, place in left:
            gives = self._classes[number].gives
            if gives is not None and gives not in wanted and ANYTHING not in wanted:
                continue
            for new in self._step(state, number):
                if new != state:
                    yield new, self._read(new, mask), _one_more(used, place)

    def _read(self, state: int, mask: int) -> int:
        """The mask, with the reads that are right in this state."""
        for number, bits in self._open.items():
            if bits & ~mask and self._classes[number].reads and self._step(state, number):
                mask |= bits
        return mask

    def _step(self, state: int, number: int) -> tuple[int, ...]:
        found = self._steps.get((state, number))
        if found is None:
            after = self._model.step(self._states[state], self._classes[number].call)
            found = self._steps[state, number] = tuple(self._number(s) for s in after)
        return found

    def _number(self, state: Hashable) -> int:
        number = self._numbers.setdefault(state, len(self._states))
        if number == len(self._states):
            self._states.append(state)
        return number

    def _look(self) -> None:
        self._looked += 1
        if self._looked % LOOK_EVERY == 0 and self._over():
            raise OverBudget

    @staticmethod
    def _size(frontier: Frontier) -> int:
        return sum(map(len, frontier.values()))

    def _refuted(self, at: int) -> Decided:
        """There is no legal order: the call, those that were open, and the states before it."""
        call = self._calls.call(at)
        others = sorted(self._calls.call(n).begun for n in self._slots if n != at)
        known = {self._states[state] for state, _ in self._frontier}
        states = sorted(shortened(repr(state)) for state in known)
        shown = ", ".join(states[:4])
        shown += f" and {len(states) - 4} more" if len(states) > 4 else ""
        helpless = f"none of the {len(others)} other open calls makes it possible"
        why = (
            f"{call.said()} cannot have taken effect between its begin and its end: the state was "
            f"{shown} before it, and {helpless if others else 'no other call was open'}"
        )
        witness = (call.begun, *others[:3])
        return Decided(False, "search", "not-linearizable", why, witness, self._greatest)


def _events(calls: Calls) -> Iterator[tuple[int, int, bool]]:
    """(position, call, whether it ends there), in order."""
    found = [(int(b), at, False) for at, b in enumerate(calls.begun.tolist())]
    for at, (end, outcome) in enumerate(
        zip(calls.ended.tolist(), calls.outcome.tolist(), strict=True)
    ):
        if outcome != OPEN:
            found.append((end, at, True))
    return iter(sorted(found))


def _keep(frontier: Frontier, place: Place, used: Used) -> bool:
    """Add a configuration unless one that used no more is there; drop those that used more."""
    have = frontier.get(place)
    if have is None:
        frontier[place] = [used]
        return True
    if any(_within(other, used) for other in have):
        return False
    have[:] = [other for other in have if not _within(used, other)]
    have.append(used)
    return True


def _within(one: Used, other: Used) -> bool:
    """Whether one used no more of each class than the other."""
    if len(one) > len(other):
        other = other + (0,) * (len(one) - len(other))
    return all(a <= b for a, b in zip(one, other, strict=False))


def _one_more(used: Used, place: int) -> Used:
    counts = list(used) + [0] * (place + 1 - len(used))
    counts[place] += 1
    return tuple(counts)


def _bits(mask: int) -> Iterator[int]:
    while mask:
        bit = mask & -mask
        yield bit
        mask ^= bit
