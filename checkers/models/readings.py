"""Values that were written more than once, read in every way that they can be.

Who wrote such a value that was read is not known. Each choice of writers is a *reading*: under it
every value is written once, and the history can be judged. What all readings agree on is so.

Of a list the first of equal elements is one writer's in all reads, the second another one's. A read
that follows a write of the same value by its own transaction returned that one.

Source: docs/spec/checkers.md 9.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import permutations, product
from math import perm, prod
from typing import NamedTuple

import numpy as np

from maxq.checkers.linearizability.calls import NOTHING
from maxq.checkers.linearizability.space import Over
from maxq.checkers.transactions.columns import Transactions
from maxq.checkers.transactions.findings import Writers, writers
from maxq.checkers.transactions.judged import Asked, Judged

MANY = 256  # readings above which they are not tried
Judge = Callable[[Transactions, Asked, Over], Judged]
Version = tuple[int, int]  # a key and a value, as places in `keys` and `values`


class _Choice(NamedTuple):
    """The parts that wrote one version, and where it was read: of registers the part of one read,
    of lists for each of equal elements its places in `elements`."""

    made: Sequence[int]
    seen: Sequence[Sequence[int]]
    column: str

    @property
    def orders(self) -> int:
        """How many orders of writers there are."""
        return perm(len(self.made), min(len(self.made), len(self.seen)))

    def ways(self) -> Iterator[tuple[int, ...]]:
        """Each of them."""
        return permutations(self.made, min(len(self.made), len(self.seen)))


def judged(judge: Judge, t: Transactions, asked: Asked, over: Over) -> Judged:
    """A history, judged; where values were written more than once, by what all readings say.

    Args:
        judge: who judges a history in which each was written once.
        t: the transactions.
        asked: the consistency model, and what may be assumed.
        over: whether the budget is used up.
    """
    found = judge(t, asked, over)
    if found.valid != "unknown" or not len((table := writers(t)).many):
        return found
    made = _made(t, table)
    choices = [*_of_registers(t, made, table), *_of_lists(t, made, table)]
    if prod(choice.orders for choice in choices) > MANY:
        return found
    all_: Judged | None = None
    nothing: Judged | None = None
    for ways in product(*(choice.ways() for choice in choices)):
        if over():
            return found
        one = judge(_renamed(t, made, choices, ways), asked, over)
        if not choices:
            return one  # nobody read such a value
        if one.valid == "unknown" and not any(one.dependencies.values()):
            nothing = one  # it tests nothing, so it is as good as valid
            continue
        if all_ is not None and one.valid != all_.valid:
            return found
        all_ = all_ or one
    if all_ is None:
        return nothing or found
    return found if nothing and all_.valid is not True else all_


def _made(t: Transactions, table: Writers) -> dict[Version, list[int]]:
    """The parts that wrote each version that several wrote."""
    made: dict[Version, list[int]] = defaultdict(list)
    for part in np.flatnonzero(t.writes & ~table.sole(t.key, t.value)).tolist():
        made[int(t.key[part]), int(t.value[part])].append(part)
    return made


def _of_registers(
    t: Transactions, made: dict[Version, list[int]], table: Writers
) -> Iterator[_Choice]:
    owner = t.owner()
    read = ~t.writes & (t.length == 0) & (t.value != NOTHING) & ~table.sole(t.key, t.value)
    for part in np.flatnonzero(read).tolist():
        parts = made[int(t.key[part]), int(t.value[part])]
        own = [w for w in parts if owner[w] == owner[part] and w < part]
        yield _Choice(own[-1:] or parts, [[part]], "value")


def _of_lists(t: Transactions, made: dict[Version, list[int]], table: Writers) -> Iterator[_Choice]:
    reads = np.flatnonzero(~t.writes & (t.length > 0))
    read = np.repeat(reads, t.length[reads])  # of each element, since they stand in order of reads
    seen: dict[Version, list[list[int]]] = defaultdict(list)
    nth: dict[tuple[int, int], int] = defaultdict(int)
    many = ~table.sole(t.key[read], t.elements) & (t.elements != NOTHING)
    for at in np.flatnonzero(many).tolist():
        places, value = seen[int(t.key[read[at]]), int(t.elements[at])], int(t.elements[at])
        place = nth[int(read[at]), value]
        nth[int(read[at]), value] += 1
        places += [[]] if place == len(places) else []
        places[place].append(at)
    for version, found in seen.items():
        yield _Choice(made[version], found, "elements")


def _renamed(
    t: Transactions,
    made: dict[Version, list[int]],
    choices: Sequence[_Choice],
    ways: Sequence[Sequence[int]],
) -> Transactions:
    """The same under one reading: each write of a value has a code of its own. An element that is
    there more often than it was written is the last one's again."""
    columns = {"value": t.value.copy(), "elements": t.elements.copy()}
    values = list(t.values)
    for (_, value), parts in made.items():
        for part in parts:
            columns["value"][part] = len(values)
            values.append(t.values[value])
    codes = columns["value"].copy()
    for choice, way in zip(choices, ways, strict=True):
        for nth, places in enumerate(choice.seen):
            columns[choice.column][places] = codes[way[min(nth, len(way) - 1)]]
    return t._replace(values=values, value=columns["value"], elements=columns["elements"])
