"""Strongly connected components: of large graphs by scipy where it is installed, else by Tarjan's
algorithm."""

from collections.abc import Callable

import numpy as np

from maxq.checkers.linearizability.calls import Ints, Mask

Components = Callable[[int, Ints, Ints], Ints]
SMALL_MAX = 50_000  # vertices and edges that Python searches sooner than scipy is imported


def components(size: int, source: Ints, target: Ints) -> Ints:
    """The number of each vertex's component; shape (size,).

    Args:
        size: how many vertices there are.
        source: where each edge begins; shape (edges,).
        target: where it ends.
    """
    if size + len(source) <= SMALL_MAX:
        return by_tarjan(size, source, target)
    try:
        return by_scipy(size, source, target)
    except ImportError:
        return by_tarjan(size, source, target)


def narrowest(size: int) -> type[np.int32] | type[np.int64]:
    """What the numbers of so many vertices fit into."""
    return np.int32 if size < np.iinfo(np.int32).max else np.int64


def cyclic(labels: Ints) -> Mask:
    """Which vertices are not alone in their component; edges from a vertex to itself aside."""
    counts = np.bincount(labels) if len(labels) else np.zeros(0, np.int64)
    return np.asarray(counts[labels] > 1)


def by_scipy(size: int, source: Ints, target: Ints) -> Ints:
    """The same, by scipy.

    Raises:
        ImportError: it is not installed.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    if not size:
        return np.zeros(0, np.int64)
    edges = tuple(ends.astype(narrowest(size), copy=False) for ends in (source, target))
    # Converting drops edges that are there twice: on those scipy's search does not end.
    matrix = coo_array((np.ones(len(source)), edges), shape=(size, size)).tocsr()
    found = connected_components(matrix, directed=True, connection="strong")[1]
    return np.asarray(found, np.int64)


def by_tarjan(size: int, source: Ints, target: Ints) -> Ints:
    """The same without scipy. Source: Tarjan, *Depth-first search and linear graph algorithms*,
    1972; with a stack of its own, since paths are longer than Python's."""
    order = np.argsort(source, kind="stable")
    to = target[order].tolist()
    ends = np.cumsum(np.bincount(source, minlength=size)).tolist()
    next_edge = [0, *ends[:-1]] if size else []
    labels, low = [-1] * size, [-1] * size
    count, number, waiting = 0, 0, list[int]()
    for root in range(size):
        if low[root] >= 0:
            continue
        index: dict[int, int] = {}
        low[root] = index[root] = number
        number += 1
        path = [root]
        waiting.append(root)
        while path:
            vertex = path[-1]
            at = next_edge[vertex]
            if at < ends[vertex]:
                next_edge[vertex] = at + 1
                other = to[at]
                if low[other] < 0:
                    low[other] = index[other] = number
                    number += 1
                    path.append(other)
                    waiting.append(other)
                elif labels[other] < 0:
                    low[vertex] = min(low[vertex], low[other])
                continue
            path.pop()
            if path:
                low[path[-1]] = min(low[path[-1]], low[vertex])
            if low[vertex] == index[vertex]:
                while labels[vertex] < 0:
                    labels[waiting.pop()] = count
                count += 1
    return np.array(labels, np.int64)
