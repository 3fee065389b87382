"""Is there an order of transactions on registers? What edges cannot tell alone.

That no cycle is found among the dependencies that are known proves nothing where values are written
without having been read: their versions have no order yet. Here an order is sought in which every
read returns what was written last, which proves it; or it is shown that there is none.

If a transaction reads a key from one writer, every other writer of the key comes before that one,
or after the reader. Under snapshot isolation that is said of starts and commits, and of any two
writers of a key one commits before the other starts. Which of two is so is forced where a way leads
against the other. What is forced is added until nothing is; then one is tried, and its opposite if
that fails. Deciding it is NP-complete: over its budget there is no answer.

Source: docs/spec/checkers.md 9. Papadimitriou, *The serializability of concurrent database
updates*, 1979.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from maxq.checkers.linearizability.calls import Ints
from maxq.checkers.transactions.columns import Transactions
from maxq.checkers.transactions.components import components
from maxq.checkers.transactions.cycles import events
from maxq.checkers.transactions.findings import Analysis, final_writes, placed
from maxq.checkers.transactions.graph import RW, WW, Edges, Graph, edges_of, joined

EXACT_MAX = 1500  # transactions of which all ways are held
ROUNDS_MAX = 60


class Choice(NamedTuple):
    """One of two edges is so: each is (source, target, kind, what the source saw or wrote, what the
    target wrote)."""

    one: tuple[int, int, int, int, int]
    two: tuple[int, int, int, int, int]


class Proof(NamedTuple):
    """`holds` is None where nothing was decided; `forced` are edges that every order has, which
    have a cycle with the others if that is how it was refuted."""

    holds: bool | None
    forced: Edges


class _Reads(NamedTuple):
    """Reads of written values: who read, which part wrote what; and the last writes of each
    transaction and key, by key."""

    reader: Ints
    wrote: Ints
    final: Ints


def serial(t: Transactions, analysis: Analysis, graph: Graph, over: Callable[[], bool]) -> Proof:
    """Whether there is a serial order.

    Args:
        t: the transactions.
        analysis: of them, by `registers.analysed`, which found nothing wrong with single reads.
        graph: what the order must respect.
        over: whether the budget is used up.
    """
    owner = t.owner()
    reads = _reads(t, owner, analysis)
    edges, rank = graph.edges, _ranks(graph.size, graph.edges)
    if rank is None:
        return Proof(False, joined(()))
    for _ in range(ROUNDS_MAX):
        rank = _ranks(graph.size, edges)
        if rank is None or over():
            break
        wrong = _wrong(t, owner, reads, rank)
        if not len(wrong.reader):
            return Proof(True, joined(()))
        edges = joined((edges, _guesses(t, owner, wrong)))
    if t.size > EXACT_MAX:
        return Proof(None, joined(()))
    choices = [Choice((reader, other, RW, wrote, made), (other, writer, WW, made, wrote))
               for reader, writer, other, wrote, made in _rivals(t, owner, reads)]  # fmt: skip
    return Solving(graph.size, graph.edges, choices, over).proof()


def snapshots(
    t: Transactions, analysis: Analysis, graph: Graph, over: Callable[[], bool], *, lists: bool
) -> Proof:
    """Whether there is an order of starts and commits as snapshot isolation demands it.

    Args:
        t: the transactions.
        analysis: as for `serial`.
        graph: what the order must respect; it has no cycle without two rw in a row.
        over: whether the budget is used up.
        lists: whether all reads are explained by the graph, as those of lists are.
    """
    owner = t.owner()
    real = np.arange(graph.size) < t.size
    real[: t.size] = analysis.there
    size, commit = 2 * graph.size, graph.size
    edges = events(graph.edges, real)
    rank = _ranks(size, edges)
    if rank is None:
        return Proof(False, joined(()))
    if lists and _ranks(size, joined((edges, _in_turn(t, analysis, rank, commit)))) is not None:
        return Proof(True, joined(()))
    if t.size > EXACT_MAX:
        return Proof(None, joined(()))
    choices = [] if lists else [
        Choice((reader, commit + other, RW, wrote, made),
               (commit + other, writer, WW, made, wrote))
        for reader, writer, other, wrote, made in _rivals(t, owner, _reads(t, owner, analysis))
    ]  # fmt: skip
    for parts in _by_key(t, analysis.loose).values():
        for one, two in combinations(parts, 2):
            a, b = int(owner[one]), int(owner[two])
            if a != b:
                choices.append(Choice((commit + a, b, WW, one, two), (commit + b, a, WW, two, one)))
    return Solving(size, edges, choices, over).proof()


def _in_turn(t: Transactions, analysis: Analysis, rank: Ints, commit: int) -> Edges:
    """Loose versions of each key in the order in which an order commits them."""
    owner = t.owner()
    part = analysis.loose
    part = part[np.lexsort((rank[commit + owner[part]], t.key[part]))]
    txn, key = owner[part], t.key[part]
    same = np.flatnonzero((key[1:] == key[:-1]) & (txn[1:] != txn[:-1]))
    one, two = part[same], part[same + 1]
    return edges_of(commit + txn[same], txn[same + 1], WW, one, two)


def _reads(t: Transactions, owner: Ints, analysis: Analysis) -> _Reads:
    part = np.flatnonzero(analysis.version >= 0)
    wrote = analysis.version[part]
    good = analysis.there[owner[part]] & analysis.there[owner[wrote]]
    good &= owner[part] != owner[wrote]
    final = np.flatnonzero(final_writes(t, placed(t, owner)))
    return _Reads(owner[part[good]], wrote[good], final[analysis.there[owner[final]]])


def _ranks(size: int, edges: Edges) -> Ints | None:
    """A place for each vertex, so that edges lead forward; None: there is a cycle."""
    labels = components(size, edges.source, edges.target)
    if len(labels) and int(np.bincount(labels).max()) > 1:
        return None
    # Both ways of finding components number them against the edges.
    if np.all(labels[edges.source] > labels[edges.target]):
        return size - 1 - labels
    return labels if np.all(labels[edges.source] < labels[edges.target]) else None


class _Wrong(NamedTuple):
    """Reads that an order contradicts: who read, the part that wrote what it returned, and the part
    that wrote what it would have returned."""

    reader: Ints
    wrote: Ints
    made: Ints


def _wrong(t: Transactions, owner: Ints, reads: _Reads, rank: Ints) -> _Wrong:
    """The reads that, in an order, would have returned another value."""
    span = int(rank.max(initial=0)) + 2
    final = reads.final
    pack = t.key[final] * span + rank[owner[final]]
    order = np.argsort(pack, kind="stable")
    pack, final = pack[order], final[order]
    at = np.searchsorted(pack, t.key[reads.wrote] * span + rank[reads.reader]) - 1
    bad = np.flatnonzero(final[at] != reads.wrote) if len(final) else at
    return _Wrong(reads.reader[bad], reads.wrote[bad], final[at[bad]])


def _guesses(t: Transactions, owner: Ints, wrong: _Wrong) -> Edges:
    """The other writer before the one that was read from if it was over first, else after the
    reader; by times alone where that is forced."""
    reader, wrote, made = wrong
    writer, other = owner[wrote], owner[made]
    later = t.begun[other] > t.ended[writer]
    earlier = t.ended[other] < t.begun[reader]
    first = (earlier | (t.ended[other] < t.ended[writer])) & ~later
    return joined((
        edges_of(other[first], writer[first], WW, made[first], wrote[first]),
        edges_of(reader[~first], other[~first], RW, wrote[~first], made[~first]),
    ))  # fmt: skip


def _by_key(t: Transactions, written: Ints) -> dict[int, list[int]]:
    found: dict[int, list[int]] = defaultdict(list)
    for part in written.tolist():
        found[int(t.key[part])].append(part)
    return found


def _rivals(
    t: Transactions, owner: Ints, reads: _Reads
) -> Iterator[tuple[int, int, int, int, int]]:
    """Of each read and each other writer of its key: the reader, whom it read from, the other, and
    the writes of these two."""
    by_key = _by_key(t, reads.final)
    pairs = dict.fromkeys(zip(reads.reader.tolist(), reads.wrote.tolist(), strict=True))
    for reader, wrote in pairs:
        writer = int(owner[wrote])
        for made in by_key[int(t.key[wrote])]:
            other = int(owner[made])
            if other not in (reader, writer):
                yield reader, writer, other, wrote, made


class Solving:
    """All ways as sets of bits, for histories that are small."""

    def __init__(
        self, size: int, edges: Edges, choices: Sequence[Choice], over: Callable[[], bool]
    ) -> None:
        self._size, self._edges, self._choices, self._over = size, edges, choices, over

    def proof(self) -> Proof:
        """Decide it."""
        forced, legal = self._forced(self._edges)
        if not legal:
            more = np.arange(len(self._edges.source), len(forced.source))
            return Proof(False, forced.take(more))
        return Proof(self._tried(forced), joined(()))

    def _tried(self, edges: Edges) -> bool | None:
        """Whether a graph from which nothing more follows can be completed."""
        stack = [edges]
        while stack:
            if self._over():
                return None
            edges = stack.pop()
            open_ = self._open(edges)
            if open_ is None:
                return True
            for way in (open_.two, open_.one):
                further, legal = self._forced(joined((edges, _one(way))))
                if legal:
                    stack.append(further)
        return False

    def _open(self, edges: Edges) -> Choice | None:
        """A choice of which an order has neither edge."""
        rank = _ranks(self._size, edges)
        if rank is None:
            raise AssertionError("a graph that was found legal has a cycle")
        at = rank.tolist()
        for choice in self._choices:
            if all(at[source] >= at[target] for source, target, *_ in choice):
                return choice
        return None

    def _forced(self, edges: Edges) -> tuple[Edges, bool]:
        """With all that follows; and whether there is no cycle yet."""
        while True:
            reach = self._reach(edges)
            if reach is None:
                return edges, False
            more = []
            for one, two in self._choices:
                for way, other in ((one, two), (two, one)):
                    against = reach[other[1]] >> other[0] & 1
                    if against and not reach[way[0]] >> way[1] & 1:
                        more.append(_one(way))
            if not more or self._over():
                return edges, True
            edges = joined((edges, *more))

    def _reach(self, edges: Edges) -> list[int] | None:
        """Of each vertex a bit for each that it leads to; None: there is a cycle."""
        rank = _ranks(self._size, edges)
        if rank is None:
            return None
        ahead: dict[int, list[int]] = defaultdict(list)
        for source, target in zip(edges.source.tolist(), edges.target.tolist(), strict=True):
            ahead[source].append(target)
        reach = [0] * self._size
        for vertex in np.argsort(-rank).tolist():
            for other in ahead.get(vertex, ()):
                reach[vertex] |= reach[other] | 1 << other
        return reach


def _one(edge: tuple[int, int, int, int, int]) -> Edges:
    source, target, kind, seen, made = (np.array([value], np.int64) for value in edge)
    return Edges(source, target, kind, seen, made)
