"""What depends on what: edges between transactions, as arrays.

An edge goes from a transaction to one that must come after it:

* ``ww``: the second installed a version of a key after the first one's;
* ``wr``: the second read what the first wrote;
* ``rw``: the first read a version that the second one replaced (an anti-dependency);
* ``process``: the same process ran them in this order;
* ``realtime``: the first was over before the second began;
* ``co``: a consistency model demands it (`maxq.checkers.transactions.weak`).

Where a version may be followed by any of many, or one transaction by all that began later, the
edges go by *way stations*: vertices that are no transactions and hand on what reached them. So
there are O(n) edges of each kind.

Source: docs/spec/checkers.md 9. Kingsbury and Alvaro, *Elle*, VLDB 2020.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from maxq.checkers.linearizability.calls import NEVER, Ints, Mask
from maxq.checkers.transactions.columns import Transactions

WW, WR, RW, PROCESS, REALTIME, COMMIT = range(6)
KINDS = ("ww", "wr", "rw", "process", "realtime", "co")
NONE = -1
STEP = -1  # no edge between two transactions: from the start of one to its commit


class Edges(NamedTuple):
    """Shapes are (edges,). `seen` is the part that wrote the version that the first transaction
    wrote or read, `made` the one that wrote what replaced it; NONE: the initial version, or not
    known to this edge."""

    source: Ints
    target: Ints
    kind: Ints
    seen: Ints
    made: Ints

    def take(self, at: Ints | Mask) -> "Edges":
        """Some of them."""
        return Edges(*(column[at] for column in self))


class Graph(NamedTuple):
    """`txns` transactions are the first of `size` vertices; the others are way stations."""

    txns: int
    size: int
    edges: Edges


class Fan(NamedTuple):
    """What leads to every member of a group: from `source`, edges of `kind` into `group`, whose
    members are transactions with the part that makes each of them one. Shapes are (edges,) of the
    first four, (members,) of the others."""

    source: Ints
    group: Ints
    kind: Ints
    seen: Ints
    member: Ints
    of: Ints
    made: Ints


def edges_of(source: Ints, target: Ints, kind: int, seen: Ints | int, made: Ints | int) -> Edges:
    """Edges of one kind, without those that lead back to where they come from."""
    at = np.flatnonzero(source != target)
    full = (np.broadcast_to(np.asarray(c, np.int64), source.shape)[at] for c in (seen, made))
    return Edges(source[at], target[at], np.full(len(at), kind, np.int64), *full)


def joined(parts: Iterable[Edges]) -> Edges:
    """All edges of all."""
    kept = list(parts)
    columns = zip(*kept, strict=True)
    return Edges(*(np.concatenate(column) for column in columns)) if kept else none()


def none() -> Edges:
    """No edges."""
    return Edges(*(np.zeros(0, np.int64) for _ in range(5)))


class Stations:
    """Numbers for way stations."""

    def __init__(self, count: int) -> None:
        self.size = count

    def more(self, count: int) -> int:
        """So many new ones; the first of them."""
        first = self.size
        self.size += count
        return first


def fanned(fan: Fan, stations: Stations) -> Edges:
    """From each source to every member of its group but itself.

    A group of one needs no way station. In others the members stand in a row, and two chains of
    stations lead to all before, and to all behind, a place in it.
    """
    groups = int(max(fan.of.max(initial=-1), fan.group.max(initial=-1))) + 1
    order = np.lexsort((fan.member, fan.of))
    of, member, made = fan.of[order], fan.member[order], fan.made[order]
    new = np.ones(len(of), np.bool_)
    new[1:] = (of[1:] != of[:-1]) | (member[1:] != member[:-1])
    of, member, made = of[new], member[new], made[new]
    sizes = np.bincount(of, minlength=groups)
    begin = np.cumsum(sizes) - sizes
    size = sizes[fan.group]
    one = np.flatnonzero(size == 1)
    at = begin[fan.group[one]]
    found = [
        edges._replace(kind=fan.kind[one][fan.source[one] != member[at]])
        for edges in (edges_of(fan.source[one], member[at], WW, fan.seen[one], made[at]),)
    ]
    many = np.flatnonzero(size > 1)
    if not len(many):
        return joined(found)
    wanted = np.zeros(groups, np.bool_)
    wanted[fan.group[many]] = True
    places = np.flatnonzero(wanted[of])
    found.append(_chains(of, member, made, places, stations, len(places)))
    first = stations.size - 2 * len(places)  # of those to all before; of those to all behind
    rank = np.full(len(of) + 1, NONE)
    rank[places] = np.arange(len(places))
    found += _entries(fan, many, of, member, (begin, sizes, rank), (first, len(places)))
    return joined(found)


def _chains(
    of: Ints, member: Ints, made: Ints, places: Ints, stations: Stations, count: int
) -> Edges:
    """Stations to all up to a place, then stations to all from a place on."""
    first = stations.more(2 * count)
    back, on = first + np.arange(count), first + count + np.arange(count)
    same = np.flatnonzero(of[places][1:] == of[places][:-1])
    ways = [
        edges_of(back, member[places], WW, NONE, made[places]),
        edges_of(on, member[places], WW, NONE, made[places]),
        edges_of(back[same + 1], back[same], WW, NONE, NONE),
        edges_of(on[same], on[same + 1], WW, NONE, NONE),
    ]
    return joined(ways)


def _entries(
    fan: Fan,
    many: Ints,
    of: Ints,
    member: Ints,
    rows: tuple[Ints, Ints, Ints],
    stations: tuple[int, int],
) -> Sequence[Edges]:
    """From the sources to the stations; one that is a member itself to those around its place."""
    (begin, sizes, rank), (first, count) = rows, stations
    group, source = fan.group[many], fan.source[many]
    span = int(max(member.max(initial=0), source.max(initial=0))) + 1
    sought = group * span + source
    at = np.searchsorted(of * span + member, sought)
    inside = (at < len(of)) & (of[np.minimum(at, len(of) - 1)] == group)
    inside &= member[np.minimum(at, len(of) - 1)] == source
    start, end = begin[group], begin[group] + sizes[group]
    found = []
    for which, station in (
        (~inside, first + count + rank[start]),
        (inside & (at > start), first + rank[np.minimum(at, len(of)) - 1]),
        (inside & (at + 1 < end), first + count + rank[np.minimum(at + 1, len(of))]),
    ):
        edges = edges_of(source[which], station[which], WW, fan.seen[many][which], NONE)
        found.append(edges._replace(kind=fan.kind[many][which]))
    return found


def process_edges(txns: Transactions, there: Mask) -> Edges:
    """From each transaction to the next one of its process.

    Args:
        txns: the transactions.
        there: which of them took effect.
    """
    at = np.flatnonzero(there)
    at = at[np.lexsort((txns.begun[at], txns.process[at]))]
    same = np.flatnonzero(txns.process[at][1:] == txns.process[at][:-1])
    return edges_of(at[same], at[same + 1], PROCESS, NONE, NONE)


def realtime_edges(txns: Transactions, there: Mask, stations: Stations) -> Edges:
    """From each transaction to all that began after it was over: a chain of way stations, one for
    each time at which transactions begin that others precede."""
    at = np.flatnonzero(there)
    over = at[txns.ended[at] < NEVER]
    over = over[np.argsort(txns.ended[over], kind="stable")]
    before = np.searchsorted(txns.ended[over], txns.begun[at])
    times, place = np.unique(before, return_inverse=True)
    skip = int(bool(len(times)) and times[0] == 0)
    first = stations.more(len(times)) if len(times) else 0
    station = first + np.arange(len(times))
    then = np.searchsorted(times, np.arange(len(over)), side="right")
    leads = np.flatnonzero(then < len(times))
    begins = np.flatnonzero(place >= skip)
    return joined((
        edges_of(over[leads], station[then[leads]], REALTIME, NONE, NONE),
        edges_of(station[skip:-1], station[skip + 1 :], REALTIME, NONE, NONE),
        edges_of(station[place[begins]], at[begins], REALTIME, NONE, NONE),
    ))  # fmt: skip
