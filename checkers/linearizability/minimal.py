"""A counterexample small enough to read: a part of a key's calls that is illegal by itself.

The witness is tried first, with what explains it; then what surrounds it; then everything up to the
end of the witness. What is left is made smaller by delta debugging: parts are taken out, in halves
first and one by one at last, as long as the model still calls the rest illegal. What may be taken
out with what is the model's to say (`ties`).

Source: docs/spec/checkers.md 8.5. Zeller and Hildebrandt, *Simplifying and isolating
failure-inducing input*, 2002.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

import numpy as np

from maxq.checkers.linearizability.calls import NEVER, Calls, Ints
from maxq.checkers.linearizability.decided import Decided
from maxq.checkers.linearizability.judge import decide
from maxq.checkers.linearizability.model import Model
from maxq.checkers.linearizability.space import Over

ENOUGH = 20  # calls that a person reads at a sight
LOOKS_MAX = 100  # at the budget, of one part that a search decides


class Smallest(NamedTuple):
    """The begins of the calls that are left, ascending, and why they are illegal by themselves;
    `stopped`: the budget was used up, and fewer might do. `keys`: of transactions, what is on
    these keys suffices, as Python writes them; none: all of it."""

    begins: tuple[int, ...]
    decided: Decided
    stopped: bool = False
    keys: frozenset[str] = frozenset()


def smallest(model: Model, calls: Calls, found: Decided, over: Over) -> Smallest:
    """The shortest illegal part that was found before the budget was used up.

    Args:
        calls: those of one key.
        found: why they are illegal.
    """
    shrinking = _Shrinking(model.of_parts(found), calls, over)
    kept, why = shrinking.start(found)
    kept, why = shrinking.shrunk(kept, why)
    kept, why = shrinking.alone(kept, why)
    return Smallest(tuple(int(calls.begun[at]) for at in kept), why, over())


class _Shrinking:
    def __init__(self, model: Model, calls: Calls, over: Over) -> None:
        self._model, self._calls, self._over = model, calls, over
        self._ties = model.ties(calls)
        self._mates: dict[int, list[int]] = defaultdict(list)
        for at, unit in enumerate(self._ties.unit):
            self._mates[unit].append(at)

    def start(self, found: Decided) -> tuple[list[int], Decided]:
        """The first of some parts that is illegal, from the smallest to everything."""
        calls = self._calls
        witness = np.flatnonzero(np.isin(calls.begun, found.witness))
        if len(witness):
            for part in self._parts(witness.tolist()):
                kept = self._closed(part)
                if len(kept) < calls.size and (why := self._illegal(kept)) is not None:
                    return kept, why
        return list(range(calls.size)), found

    def _parts(self, witness: list[int]) -> Iterator[Iterable[int]]:
        calls = self._calls
        yield witness
        ends = calls.ended[witness]
        last = int(ends[ends < NEVER].max(initial=-1))
        last = last if last >= 0 else int(calls.begun[-1])
        first = int(calls.begun[witness].min())
        yield np.flatnonzero((calls.begun <= last) & (calls.ended >= first)).tolist()
        end = int(calls.ended[witness[0]])  # a search names the call first that cannot be
        yield np.flatnonzero(calls.begun <= end).tolist()
        yield np.flatnonzero(calls.begun <= last).tolist()

    def _closed(self, part: Iterable[int]) -> list[int]:
        """With all that those calls need."""
        kept: set[int] = set()
        todo = list(part)
        while todo:
            at = todo.pop()
            if at not in kept:
                kept.add(at)
                todo += self._ties.needs(at)
                todo += self._mates[self._ties.unit[at]]
        return sorted(kept)

    def _illegal(self, kept: Collection[int]) -> Decided | None:
        if self._over():
            return None
        looks = iter(range(LOOKS_MAX))

        def over() -> bool:
            return next(looks, None) is None or self._over()

        part = np.union1d(np.array(kept, np.int64), self._silent_before(kept))
        found = decide(self._model, self._calls.take(part), over)
        return found if found.valid is False else None

    def _silent_before(self, kept: Collection[int]) -> Ints:
        """Calls that may have taken something before the last of some calls was over."""
        calls, silent = self._calls, np.array(self._ties.silent, np.int64)
        ends = calls.ended[list(kept)]
        found: Ints = silent[calls.begun[silent] < ends[ends < NEVER].max(initial=-1)]
        return found

    def alone(self, kept: list[int], why: Decided) -> tuple[list[int], Decided]:
        """Without those that have no answer and took nothing, if that can be judged in time."""
        part = self._calls.take(np.array(kept, np.int64))
        found = decide(self._model, part, self._over)
        if found.valid is False:
            return kept, found
        return sorted({*kept, *self._silent_before(kept).tolist()}), why

    def shrunk(self, kept: list[int], why: Decided) -> tuple[list[int], Decided]:
        """What is left once nothing can be taken out."""
        size = max(1, len(kept) // 2)
        while not self._over():
            smaller, why_smaller = self._pass(kept, why, size)
            if size == 1 and len(smaller) == len(kept):
                break
            kept, why = smaller, why_smaller
            size = max(1, min(size // 2, len(kept) // 2))
        return kept, why

    def _pass(self, kept: list[int], why: Decided, size: int) -> tuple[list[int], Decided]:
        """Try once to do without each stretch of so many calls, the last ones first."""
        users = self._users(kept)
        at = len(kept)
        while at > 0:
            at = min(at, len(kept))
            without = self._without(kept, kept[max(0, at - size) : at], users)
            if len(without) < len(kept) and (found := self._illegal(without)) is not None:
                kept, why = without, found
            at -= size
        return kept, why

    def _users(self, kept: list[int]) -> dict[int, list[int]]:
        """By call: those that cannot stay without it."""
        found: dict[int, list[int]] = defaultdict(list)
        for at in kept:
            for other in self._ties.needs(at):
                found[other].append(at)
        return found

    def _without(
        self, kept: list[int], part: Iterable[int], users: dict[int, list[int]]
    ) -> list[int]:
        gone: set[int] = set()
        todo = list(part)
        while todo:
            at = todo.pop()
            if at not in gone:
                gone.add(at)
                todo += users.get(at, ())
                todo += self._mates[self._ties.unit[at]]
        return [at for at in kept if at not in gone]
