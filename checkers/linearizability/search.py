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

from maxq.checkers.linearizability.calls import FAILED, OPEN, Call, Calls, shortened, stated
from maxq.checkers.linearizability.decided import Decided
from maxq.checkers.linearizability.model import ANYTHING, Model

OVER_BUDGET = "over-budget"  # what is said of a key whose search was not over
LOOK_EVERY = 512  # configurations between two looks at the budget
Used = int  # how many of each class of calls without an answer took effect, so many bits each
Place = tuple[int, int]  # a state, and a mask of the open calls that took effect
Frontier = dict[Place, list[Used]]


Over = Callable[[], bool]  # whether the budget is used up


class OverBudget(Exception):
    """A search was not over when its budget was."""


class _Left(NamedTuple):
    """What may still take effect under a mask: classes with the bits that are left of them, and
    classes of calls without an answer that somebody wants."""

    bits: list[tuple[int, int]]
    lasting: list[int]


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
        self._lasting: dict[int, int] = {}  # of each class without an answer: how many have begun
        self._shift: dict[int, int] = {}  # the place of its count in `Used`
        self._width = calls.size.bit_length() + 1  # of a count, with a bit that it never reaches
        self._guards = 0  # those bits
        self._frontier: Frontier = {(0, 0): [0]}
        # By mask and by state, as long as the open calls are the same.
        self._left_of: dict[int, _Left] = {}
        self._right_in: dict[int, int] = {}
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
            if not one.reads:  # else it shows nothing, and changes nothing
                self._last(number)
            return
        slot = self._free.pop() if self._free else len(self._slots)
        self._slots[at] = slot
        self._open[number] |= 1 << slot
        self._forget()
        if one.reads:
            self._frontier = {
                (state, mask | (1 << slot) if self._step(state, number) else mask): used
                for (state, mask), used in self._frontier.items()
            }

    def _last(self, number: int) -> None:
        """One more call without an answer."""
        if number not in self._lasting:
            shift = self._width * len(self._lasting)
            self._lasting[number], self._shift[number] = 0, shift
            self._guards |= 1 << (shift + self._width - 1)
        self._lasting[number] += 1
        self._forget()

    def _forget(self) -> None:
        self._left_of.clear()
        self._right_in.clear()

    def _end(self, at: int) -> bool:
        """Whether the call can have taken effect by now."""
        number, slot = self._class_of[at], self._slots[at]
        bit = 1 << slot
        after: Frontier = {}
        seen: Frontier = {}
        for (state, mask), every in self._frontier.items():
            if mask & bit:
                after[state, mask ^ bit] = every
            else:
                seen[state, mask] = every
        todo = [(*place, used) for place, every in seen.items() for used in every]
        seen = {place: [*every] for place, every in seen.items()}
        keep = self._keep
        while todo:
            for state, mask, used in self._next(*todo.pop()):
                self._look()
                if mask & bit:
                    keep(after, (state, mask ^ bit), used)
                elif keep(seen, (state, mask), used):
                    todo.append((state, mask, used))
        if not after:
            return False
        self._frontier = after
        self._open[number] ^= bit
        if not self._open[number]:
            del self._open[number]
        self._free.append(self._slots.pop(at))
        self._forget()
        return True

    def _next(self, state: int, mask: int, used: Used) -> Iterator[tuple[int, int, Used]]:
        """The configurations after one more call has taken effect."""
        left = self._left_of.get(mask) or self._left(mask)
        for number, bits in left.bits:
            for new in self._step(state, number):
                right = self._right(new)
                for bit in _bits(bits):
                    yield new, mask | bit | right, used
        for number in left.lasting:
            shift = self._shift[number]
            if (used >> shift) & ((1 << self._width) - 1) >= self._lasting[number]:
                continue
            for new in self._step(state, number):
                if new != state:
                    yield new, mask | self._right(new), used + (1 << shift)

    def _left(self, mask: int) -> _Left:
        bits, wanted = [], set[Hashable]()
        for number, every in self._open.items():
            if left := every & ~mask:
                one = self._classes[number]
                wanted.add(one.wants)
                if not one.reads:  # those took effect as soon as they could
                    bits.append((number, left))
        self._left_of[mask] = found = _Left(bits, self._wanted(wanted - {None}))
        return found

    def _wanted(self, wanted: set[Hashable]) -> list[int]:
        """Classes of calls without an answer that bring about what is wanted, or nobody knows what;
        and those that bring about what they want."""
        classes, grown = self._classes, True
        while grown:
            more = {classes[n].wants for n in self._lasting if classes[n].gives in wanted}
            grown = not more <= wanted | {None}
            wanted |= more - {None}
        return [
            n for n in self._lasting
            if classes[n].gives is None or classes[n].gives in wanted or ANYTHING in wanted
        ]  # fmt: skip

    def _right(self, state: int) -> int:
        """The bits of the open reads that are right in a state."""
        found = self._right_in.get(state)
        if found is None:
            found = 0
            for number, bits in self._open.items():
                if self._classes[number].reads and self._step(state, number):
                    found |= bits
            self._right_in[state] = found
        return found

    def _keep(self, frontier: Frontier, place: Place, used: Used) -> bool:
        """Add a configuration unless one that used no more is there; drop those that used more."""
        have = frontier.get(place)
        if have is None:
            frontier[place] = [used]
            return True
        guards = self._guards
        guarded = used | guards
        for other in have:  # a guard is left where a count is no greater
            if (guarded - other) & guards == guards:
                return False
        have[:] = [other for other in have if ((other | guards) - used) & guards != guards]
        have.append(used)
        return True

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
        states = sorted(shortened(stated(state)) for state in known)
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


def _bits(mask: int) -> Iterator[int]:
    while mask:
        bit = mask & -mask
        yield bit
        mask ^= bit
