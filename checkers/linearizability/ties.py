"""Which calls may be taken out of a history without making an honest answer a lie.

Anyone who takes a call out must not blame what is left for it: a read keeps the calls that may have
written what it returned, and what was put in goes together with the call that took it out. Where
that is kept, a legal history stays legal, so a part of it that is illegal shows that the whole is.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:  # numpy, for those who judge
    from maxq.checkers.linearizability.calls import Call, Calls


NEVER = (1 << 63) - 1  # as in `calls`, which needs numpy


class Ties(NamedTuple):
    """`unit` has of each call the number of its unit: units are taken out whole. `needs` says which
    calls must stay as long as a call stays (positions, in any order). `silent` are calls without
    an answer that may have taken what another one brought: whatever is taken out, what is left has
    to be illegal beside them. Without them it is then too, since they may not have happened."""

    unit: list[int]
    needs: Callable[[int], Iterable[int]]
    silent: list[int] = []


def alone(size: int, needs: Callable[[int], Iterable[int]]) -> Ties:
    """Ties of calls each of which can be taken out by itself."""
    return Ties(list(range(size)), needs)


class Values(Protocol):
    """What a model says of the values of its calls (`maxq.checkers.linearizability.model`)."""

    reads: Collection[str]

    def brings(self, call: "Call") -> Iterable[Hashable]:
        """The values that others may see because of it."""

    def shows(self, call: "Call") -> Iterable[Hashable]:
        """The values that its answer shows."""


def by_values(model: Values, calls: "Calls") -> Ties:
    """Ties by what calls bring in and what their answers show.

    A call that only reads needs who brought what it shows. One that changes the state and shows a
    value, as who takes it out of a queue, is one unit with who brought it.
    """
    every = [calls.call(at) for at in range(calls.size)]
    makers: dict[Hashable, list[int]] = defaultdict(list)
    for at, call in enumerate(every):
        if call.kind not in model.reads:
            for value in model.brings(call):
                makers[value].append(at)
    sources = [_sources(model, every, makers, at) for at in range(len(every))]
    taken = [at for at, call in enumerate(every) if call.kind not in model.reads and sources[at]]
    silent = [
        at
        for at, call in enumerate(every)
        if call.ended == NEVER and call.kind not in model.reads and not model.brings(call)
    ]
    return Ties(joined(len(every), ((at, other) for at in taken for other in sources[at])),
                sources.__getitem__, silent)  # fmt: skip


def _sources(
    model: Values, every: "list[Call]", makers: dict[Hashable, list[int]], at: int
) -> list[int]:
    """The calls that may have brought what a call shows: they began before it was over. Of a value
    that none of those brings, the first that ever does."""
    found = []
    for value in model.shows(every[at]):
        some = [m for m in makers.get(value, ()) if m != at]
        found += [m for m in some if every[m].begun < every[at].ended] or some[:1]
    return found


def joined(size: int, pairs: Iterable[tuple[int, int]]) -> list[int]:
    """The unit of each call, where those of a pair are in one."""
    root = list(range(size))

    def find(at: int) -> int:
        while root[at] != at:
            root[at] = root[root[at]]
            at = root[at]
        return at

    for one, other in pairs:
        root[find(one)] = find(other)
    return [find(at) for at in range(size)]
