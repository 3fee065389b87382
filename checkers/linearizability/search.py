"""Is there a legal order? For what no exact test decides: first by a search in depth, which ends at
the first order that explains all (`maxq.checkers.linearizability.depth`); where that one has come
to nothing after so many configurations, by one in breadth, which holds fewer at a time.

Both are just-in-time linearization: when a call returns that has not taken effect, open calls take
effect, in every order, until it has. In breadth the events are walked once, with all
*configurations* that may be: a state, and which of the open calls have taken effect. One in which
the call cannot is dropped; if none is left there is no legal order, and the call that returned is
where it shows.

What keeps it small:

* a configuration holds open calls only, a bit each, and bits are used again;
* a call that only reads takes effect as soon as its answer is right: that takes nothing away;
* of open calls that are alike the one that ends first takes effect first: another one could
  change places with it;
* calls without an answer are open for ever. Those that are alike are counted, not told apart; of
  two configurations with one state and one mask the one that used no more of each is enough; and
  where the model says what such a call causes (`gives`), it takes effect only when another
  one that is open wants it, since what nobody wants might as well never have happened.

Source: docs/spec/checkers.md 8. Lowe, *Testing for linearizability*, 2017.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterator
from typing import NamedTuple

from maxq.checkers.linearizability.calls import Calls
from maxq.checkers.linearizability.decided import Decided
from maxq.checkers.linearizability.depth import Depth
from maxq.checkers.linearizability.model import Model
from maxq.checkers.linearizability.space import (
    LOOK_EVERY,
    Event,
    Kind,
    Over,
    OverBudget,
    Space,
)

OVER_BUDGET = "over-budget"  # what is said of a key whose search was not over
DEPTH_FREE, DEPTH_PER_EVENT = 10_000, 4  # configurations that a search in depth may look at
Used = int  # how many of each class of calls without an answer took effect, so many bits each
Place = tuple[int, int]  # a state, and a mask of the open calls that took effect
Frontier = dict[Place, list[Used]]


class _Left(NamedTuple):
    """What may still take effect under a mask: classes with the bit of that which ends first, and
    classes of calls without an answer that somebody wants."""

    bits: list[tuple[int, int]]
    lasting: list[int]


def search(model: Model, calls: Calls, over: Over) -> Decided:
    """Decide one key; unknown once the budget is used up."""
    space = Space(model, calls)
    depth = Depth(space, over, DEPTH_FREE + DEPTH_PER_EVENT * len(space.events))
    return depth.decided() or _Breadth(space, over).decided()


def in_breadth(model: Model, calls: Calls, over: Over) -> Decided:
    """As `search`, without one in depth before it."""
    return _Breadth(Space(model, calls), over).decided()


class _Breadth:
    def __init__(self, space: Space, over: Over) -> None:
        self._space, self._over = space, over
        self._step, self._classes = space.step, space.classes
        self._open: dict[int, int] = defaultdict(int)  # by class: the bits of its open calls
        self._at: dict[int, int] = {}  # by bit: the open call
        self._lasting: dict[int, int] = {}  # of each class without an answer: how many have begun
        self._shift: dict[int, int] = {}  # the place of its count in `Used`
        self._guards = 0  # the bits that no count reaches
        self._frontier: Frontier = {(0, 0): [0]}
        # By mask and by state, as long as the open calls are the same.
        self._left_of: dict[int, _Left] = {}
        self._right_in: dict[int, int] = {}
        self._greatest, self._looked = 1, 0

    def decided(self) -> Decided:
        """Decide it."""
        at = -1
        try:
            for event in self._space.events:
                at = event.at
                if event.kind is Kind.BEGIN:
                    self._begin(event)
                elif event.kind is Kind.LAST:
                    self._last(event.number)
                elif not self._end(event):
                    states = {state for state, _ in self._frontier}
                    return self._space.refuted(at, self._at.values(), states, self._greatest)
                self._greatest = max(self._greatest, self._size(self._frontier))
        except OverBudget:
            begun = int(self._space.calls.begun[at])
            why = f"the budget was used up at the call that began at op {begun}, with up to " \
                  f"{self._greatest:,} configurations"  # fmt: skip
            return Decided("unknown", "search", OVER_BUDGET, why, (begun,), self._greatest)
        return Decided(True, "search", frontier=self._greatest)

    def _begin(self, event: Event) -> None:
        number, bit = event.number, event.bit
        self._at[bit] = event.at
        self._open[number] |= bit
        self._forget()
        if self._classes[number].reads:
            self._frontier = {
                (state, mask | bit if self._step(state, number) else mask): used
                for (state, mask), used in self._frontier.items()
            }

    def _last(self, number: int) -> None:
        """One more call without an answer."""
        if number not in self._lasting:
            shift = self._space.width * len(self._lasting)
            self._lasting[number], self._shift[number] = 0, shift
            self._guards |= 1 << (shift + self._space.width - 1)
        self._lasting[number] += 1
        self._forget()

    def _forget(self) -> None:
        self._left_of.clear()
        self._right_in.clear()

    def _end(self, event: Event) -> bool:
        """Whether the call can have taken effect by now."""
        number, bit = event.number, event.bit
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
        del self._at[bit]
        self._forget()
        return True

    def _next(self, state: int, mask: int, used: Used) -> Iterator[tuple[int, int, Used]]:
        """The configurations after one more call has taken effect."""
        left = self._left_of.get(mask) or self._left(mask)
        for number, bit in left.bits:
            for new in self._step(state, number):
                yield new, mask | bit | self._right(new), used
        for number in left.lasting:
            shift = self._shift[number]
            if (used >> shift) & ((1 << self._space.width) - 1) >= self._lasting[number]:
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
                    bits.append((number, self._first_to_end(left)))
        found = _Left(bits, self._space.wanted(wanted, self._lasting))
        self._left_of[mask] = found
        return found

    def _first_to_end(self, bits: int) -> int:
        ended, at = self._space.ended, self._at
        return min(_bits(bits), key=lambda bit: ended[at[bit]])

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

    def _look(self) -> None:
        self._looked += 1
        if self._looked % LOOK_EVERY == 0 and self._over():
            raise OverBudget

    @staticmethod
    def _size(frontier: Frontier) -> int:
        return sum(map(len, frontier.values()))


def _bits(mask: int) -> Iterator[int]:
    while mask:
        bit = mask & -mask
        yield bit
        mask ^= bit
