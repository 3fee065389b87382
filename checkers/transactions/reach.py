"""Ways through a graph: which edges lie on a cycle with others, and the shortest one."""

from collections import defaultdict, deque
from collections.abc import Callable, Sequence

import numpy as np

from maxq.checkers.linearizability.calls import Ints, Mask
from maxq.checkers.transactions.graph import RW, STEP, Edges

TRIES_MAX = 96  # vertices or edges from which a short cycle is sought
BATCH = 2048  # edges asked about at a time
LOOK_EVERY = 50_000  # edges between two looks at the budget
Next = dict[int, list[tuple[int, int, int]]]  # of a vertex: (target, edge, length)


def reaching(
    edges: Edges, asked: Ints, real: Mask, over: Callable[[], bool]
) -> Sequence[int] | None:
    """A short cycle of one `rw` edge, and others that are none.

    Args:
        edges: of which those that are no `rw` have no cycle.
        asked: the `rw` edges.
        real: which vertices are transactions.
        over: whether the budget is used up.

    Returns:
        Its edges, in order, the rw first; empty: there is none; None: the budget was used up.
    """
    plain = np.flatnonzero(edges.kind != RW)
    order, ahead = _sorted(edges, plain)
    for start in range(0, len(asked), BATCH):
        if over():
            return None
        batch = asked[start : start + BATCH].tolist()
        marks: dict[int, int] = defaultdict(int)
        for bit, edge in enumerate(batch):
            marks[int(edges.target[edge])] |= 1 << bit
        for vertex in order:
            if mark := marks.get(vertex, 0):
                for other in ahead.get(vertex, ()):
                    marks[other] |= mark
        hits = [e for bit, e in enumerate(batch) if marks[int(edges.source[e])] >> bit & 1]
        if hits:
            ways = _adjacent(edges, plain, real)
            return _best(edges, hits, ways, over)
    return []


def _sorted(edges: Edges, chosen: Ints) -> tuple[list[int], dict[int, list[int]]]:
    """Vertices so that edges lead forward, and where they lead."""
    ahead: dict[int, list[int]] = defaultdict(list)
    waits: dict[int, int] = defaultdict(int)
    for source, target in zip(
        edges.source[chosen].tolist(), edges.target[chosen].tolist(), strict=True
    ):
        ahead[source].append(target)
        waits[target] += 1
    ready = [vertex for vertex in ahead if not waits[vertex]]
    order = []
    while ready:
        vertex = ready.pop()
        order.append(vertex)
        for other in ahead.get(vertex, ()):
            waits[other] -= 1
            if not waits[other]:
                ready.append(other)
    return order, ahead


def shortest(edges: Edges, real: Mask, over: Callable[[], bool], kind: int | None) -> Sequence[int]:
    """A short cycle: the shortest one where there are few edges.

    Args:
        edges: of one component, so there is a cycle.
        real: which vertices are transactions: only steps from these count.
        over: whether the budget is used up: then the first one that is found will do.
        kind: of an edge that must be on it; None: any will do.

    Returns:
        Its edges, in order.
    """
    ways = _adjacent(edges, np.arange(len(edges.source)), real)
    if kind is not None:
        asked = np.flatnonzero(edges.kind == kind)
    else:
        asked = np.flatnonzero(real[edges.source])
    return _best(edges, asked.tolist(), ways, over)


def _adjacent(edges: Edges, chosen: Ints, real: Mask) -> Next:
    ways: Next = defaultdict(list)
    columns = (edges.source[chosen], edges.target[chosen], edges.kind[chosen], chosen)
    for source, target, kind, edge in zip(*(c.tolist() for c in columns), strict=True):
        ways[source].append((target, edge, int(kind != STEP and bool(real[source]))))
    return ways


def _best(edges: Edges, asked: list[int], ways: Next, over: Callable[[], bool]) -> Sequence[int]:
    """The shortest cycle through one of some edges; of many only some are tried."""
    if len(asked) > TRIES_MAX:
        asked = [asked[n * len(asked) // TRIES_MAX] for n in range(TRIES_MAX)]
    best: list[int] = []
    bound = 1 << 62
    for edge in asked:
        if best and (bound <= 2 or over()):
            break
        found = _way(ways, int(edges.target[edge]), int(edges.source[edge]), bound - 1)
        if found is not None:
            best, bound = [edge, *found[0]], found[1] + 1
    return best


def _way(ways: Next, start: int, goal: int, bound: int) -> tuple[list[int], int] | None:
    """The shortest way that is shorter than a bound: its edges, and how many of them count."""
    came: dict[int, tuple[int, int]] = {start: (-1, -1)}
    far = {start: 0}
    todo = deque([start])
    while todo:
        vertex = todo.popleft()
        if vertex == goal:
            return _back(came, goal), far[goal]
        here = far[vertex]
        for target, edge, length in ways.get(vertex, ()):
            there = here + length
            if there < bound and there < far.get(target, bound):
                far[target] = there
                came[target] = (vertex, edge)
                if length:
                    todo.append(target)
                else:
                    todo.appendleft(target)
    return None


def _back(came: dict[int, tuple[int, int]], goal: int) -> list[int]:
    found = []
    vertex, edge = came[goal]
    while edge >= 0:
        found.append(edge)
        vertex, edge = came[vertex]
    return found[::-1]
