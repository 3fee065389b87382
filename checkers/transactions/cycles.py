"""Cycles of dependencies: which anomalies there are, and a short cycle that shows each.

A component of the graph is named by the worst cycle in it: of ``ww`` edges alone (G0), with ``wr``
(G1c), with one ``rw`` (G-single), with several of which no two follow each other
(G-nonadjacent), with any (G2). First without the order of processes and of real time, then with the
first, then with both: a cycle that needs it is named so.

Whether there is a cycle without two ``rw`` in a row is asked of a graph in which each transaction
is two vertices, its start and its commit. An ``rw`` edge leads from a start to a commit, others
from a commit to a start: such a cycle is one of that graph, and the other way round.

Source: docs/spec/checkers.md 9. Cerone and Gotsman, *Analysing snapshot isolation*, 2018.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from maxq.checkers.linearizability.calls import Ints, Mask
from maxq.checkers.transactions.components import components, cyclic, narrowest
from maxq.checkers.transactions.graph import (
    NONE,
    PROCESS,
    REALTIME,
    RW,
    STEP,
    WR,
    WW,
    Edges,
    Graph,
    joined,
)
from maxq.checkers.transactions.levels import CYCLES, EXTRAS
from maxq.checkers.transactions.reach import reaching, shortest

SHOWN_MAX = 8  # cycles of one name; others are counted
G0, G1C, SINGLE, NONADJACENT, G2 = range(5)
_UNTOLD = len(CYCLES)


class Step(NamedTuple):
    """From a transaction to the next one in a cycle, and what the edge is about."""

    txn: int
    kind: int
    seen: int
    made: int


class Cycle(NamedTuple):
    """An anomaly, and the steps that lead back to the first transaction. `forced`: that some of
    their versions come later than others was not read, but follows."""

    name: str
    steps: tuple[Step, ...]
    forced: bool = False


class Cycles(NamedTuple):
    """`counts` says of each name how many components show it; `undecided` names those of which the
    budget did not let us say whether they are there; `hidden` are anomalies that another name shows
    already."""

    shown: Sequence[Cycle]
    counts: dict[str, int]
    undecided: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()


def acyclic(size: int, parts: Sequence[Edges]) -> bool:
    """Whether some edges have no cycle, which is all that is asked of most histories."""
    kind: Any = narrowest(size)
    source, target = (
        np.concatenate([getattr(p, end) for p in parts], dtype=kind, casting="same_kind")
        for end in ("source", "target")
    )
    labels = components(size, source, target)
    return not len(labels) or int(np.bincount(labels).max()) == 1


def with_cycle(found: Cycles, cycle: Cycle) -> Cycles:
    """The same with one more."""
    counts = {**found.counts, cycle.name: found.counts.get(cycle.name, 0) + 1}
    return found._replace(shown=[*found.shown, cycle], counts=counts)


def refuted(graph: Graph, forced: Edges, name: str, over: Callable[[], bool]) -> Cycle:
    """A cycle that comes of edges that every serial order has; without steps if none does, and all
    orders were tried."""
    edges = joined((graph.edges, forced))
    labels = components(graph.size, edges.source, edges.target)
    inside = labels[edges.source] == labels[edges.target]
    if not np.any(inside):
        return Cycle(name, ())
    first = labels[edges.source[inside]][0]
    return (
        _Naming(graph, edges.take(inside & (labels[edges.source] == first)), over)
        .one(name)
        ._replace(forced=True)
    )


class _Part(NamedTuple):
    """Edges in one component of a graph, and which name they may have."""

    vertices: Ints
    edges: Edges


def cycles(graph: Graph, over: Callable[[], bool], *, sessions: bool = False) -> Cycles:
    """All anomalies that are cycles.

    Args:
        graph: the dependencies.
        over: whether the budget is used up.
        sessions: whether the order of a process counts as any other dependency.
    """
    labels = components(graph.size, graph.edges.source, graph.edges.target)
    inside = labels[graph.edges.source] == labels[graph.edges.target]
    if not np.any(inside):
        return Cycles((), {})
    return _Naming(graph, graph.edges.take(inside), over).all(sessions=sessions)


class _Naming:
    def __init__(self, graph: Graph, edges: Edges, over: Callable[[], bool]) -> None:
        self._graph, self._over = graph, over
        used, packed = np.unique(np.append(edges.source, edges.target), return_inverse=True)
        self._vertices = used
        self._real = used < graph.txns
        half = len(edges.source)
        self._edges = edges._replace(source=packed[:half], target=packed[half:])
        self._told = np.full(len(used), _UNTOLD)  # the worst name of the components of each
        self._shown: list[Cycle] = []
        self._counts: dict[str, int] = {}
        self._undecided: list[str] = []

    def all(self, *, sessions: bool) -> Cycles:
        """Every name, the worst first."""
        levels = [(extra, REALTIME if number > 1 else PROCESS if number else RW)
                  for number, extra in enumerate(EXTRAS)]  # fmt: skip
        for extra, last in [("", PROCESS)] if sessions else levels:
            beside = self._edges.kind > RW
            allowed = ~beside | (self._edges.kind <= last)
            if extra and not np.any(self._edges.kind == last):
                continue
            for rank, most in ((G0, WW), (G1C, WR)):
                chosen = allowed & (beside | (self._edges.kind <= most))
                self._plain(self._edges.take(chosen), rank, extra)
            self._snapshots(self._edges.take(allowed), extra)
            self._plain(self._edges.take(allowed), G2, extra)
        return Cycles(self._shown, self._counts, tuple(self._undecided))

    def one(self, name: str) -> Cycle:
        """A short cycle, whatever its edges are."""
        return Cycle(name, self._steps(self._shortest(self._edges, None)))

    def _plain(self, edges: Edges, rank: int, extra: str) -> None:
        for part in self._parts(len(self._vertices), edges, rank, 0):
            kind = RW if rank == G2 else None
            self._tell(rank, extra, part, partial(self._shortest, part.edges, kind))

    def _snapshots(self, edges: Edges, extra: str) -> None:
        """Cycles without two rw in a row: G-single if one has a single rw, else G-nonadjacent."""
        count = len(self._vertices)
        for part in self._parts(2 * count, events(edges, self._real), NONADJACENT, count):
            own = part.edges.take(part.edges.kind != STEP)
            own = own._replace(source=own.source % count, target=own.target % count)
            rw = np.flatnonzero(own.kind == RW)
            single = reaching(own, rw, self._real, self._over)
            if single is None:
                self._undecided.append(CYCLES[SINGLE] + extra)
            if single:
                self._tell(SINGLE, extra, part, partial(own.take, np.array(single)))
            else:
                self._tell(NONADJACENT, extra, part, partial(self._shortest, part.edges, RW))

    def _shortest(self, edges: Edges, kind: int | None) -> Edges:
        real = np.append(self._real, self._real)
        return edges.take(np.array(shortest(edges, real, self._over, kind)))

    def _parts(self, size: int, edges: Edges, rank: int, half: int) -> Iterator[_Part]:
        """The components in which no name is told yet that is as bad."""
        labels = components(size, edges.source, edges.target)
        many = cyclic(labels)
        inside = np.flatnonzero(many[edges.source] & (labels[edges.source] == labels[edges.target]))
        if not len(inside):
            return
        inside = inside[np.argsort(labels[edges.source[inside]], kind="stable")]
        of = labels[edges.source[inside]]
        heads = np.flatnonzero(np.append(True, of[1:] != of[:-1]))
        for start, end in zip(heads, np.append(heads[1:], len(of)), strict=True):
            own = edges.take(inside[start:end])
            vertices = np.unique(np.append(own.source, own.target))
            vertices = np.unique(vertices % half) if half else vertices
            if self._told[vertices].min() > rank:
                yield _Part(vertices, own)

    def _tell(self, rank: int, extra: str, part: _Part, found: Callable[[], Edges]) -> None:
        self._told[part.vertices] = np.minimum(self._told[part.vertices], rank)
        name = CYCLES[rank] + extra
        self._counts[name] = self._counts.get(name, 0) + 1
        if self._counts[name] <= SHOWN_MAX:
            self._shown.append(Cycle(name, self._steps(found())))

    def _steps(self, edges: Edges) -> tuple[Step, ...]:
        """The steps of a closed walk, without way stations; from the least transaction on."""
        steps: list[Step] = []
        count = len(self._vertices)
        rows = [row for row in zip(*(c.tolist() for c in edges), strict=True) if row[2] != STEP]
        while not self._real[rows[0][0] % count]:
            rows = [*rows[1:], rows[0]]
        for source, _, kind, seen, made in rows:
            if self._real[source % count]:
                steps.append(Step(int(self._vertices[source % count]), kind, seen, made))
            elif made != NONE:
                steps[-1] = steps[-1]._replace(made=made)
        first = min(range(len(steps)), key=lambda at: steps[at].txn)
        return (*steps[first:], *steps[:first])


def events(edges: Edges, real: Mask) -> Edges:
    """The graph of starts (as the vertices) and commits (as many further on). What reached a way
    station by rw goes on to a commit."""
    count = len(real)
    real_from, rw = real[edges.source], edges.kind == RW
    plain = edges._replace(source=edges.source + count * (real_from & ~rw))
    plain = plain._replace(target=plain.target + count * rw)
    on = edges.take(~real_from & (edges.kind != REALTIME))
    after_rw = on._replace(source=on.source + count, target=on.target + count)
    own: Ints = np.flatnonzero(real)
    nothing = np.full(len(own), NONE)
    steps = Edges(own, own + count, np.full(len(own), STEP), nothing, nothing)
    return joined((plain, after_rw, steps))
