"""Is there a serial order of transactions on registers? What edges cannot tell alone.

That no cycle is found among the dependencies that are known proves nothing where values are written
without having been read: their versions have no order yet. Here an order is sought in which every
read returns what was written last, which proves it; or it is shown that there is none.

If a transaction reads a key from one writer, every other writer of the key comes before that one,
or after the reader. Which of the two is forced where a way leads from the first to the other, or
from the other to the reader. What is forced is added until nothing is; then one is tried, and its
opposite if that fails. Deciding it is NP-complete: over its budget there is no answer.

Source: docs/spec/checkers.md 9. Papadimitriou, *The serializability of concurrent database
updates*, 1979.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from maxq.checkers.linearizability.calls import Ints
from maxq.checkers.transactions.columns import Transactions
from maxq.checkers.transactions.components import components
from maxq.checkers.transactions.findings import Analysis, final_writes, placed
from maxq.checkers.transactions.graph import RW, WW, Edges, Graph, edges_of, joined

EXACT_MAX = 1500  # transactions of which all ways are held
ROUNDS_MAX = 60


class Choice(NamedTuple):
    """Who read, from whom, and who wrote the same key; with the parts: the read one's write, and
    the other's."""

    reader: int
    writer: int
    other: int
    wrote: int
    made: int


class Proof(NamedTuple):
    """`holds` is None where nothing was decided; `forced` are edges that every serial order has,
    which have a cycle with the others if that is how it was refuted."""

    holds: bool | None
    forced: Edges


class _Reads(NamedTuple):
    """Reads of written values: who read, which part wrote what; and the last writes of each
    transaction and key, by key."""

    reader: Ints
    wrote: Ints
    final: Ints


def serial(t: Transactions, analysis: Analysis, graph: Graph, over: Callable[[], bool]) -> Proof:
    """Whether there is an order.

    Args:
        t: the transactions.
        analysis: of them, by `registers.analysed`, which found nothing wrong with single reads.
        graph: what the order must respect; it has no cycle.
        over: whether the budget is used up.
    """
    owner = t.owner()
    reads = _reads(t, owner, analysis)
    edges, guessed = graph.edges, 0
    for _ in range(ROUNDS_MAX):
        rank = _ranks(graph.size, edges)
        if rank is None or over():
            break
        choices = _wrong(t, owner, reads, rank)
        if not choices:
            return Proof(True, joined(()))
        guessed += len(choices)
        edges = joined((edges, _guesses(t, choices)))
    if t.size > EXACT_MAX:
        return Proof(None, joined(()))
    return _Solving(t, owner, reads, graph, over).proof()


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


def _wrong(t: Transactions, owner: Ints, reads: _Reads, rank: Ints) -> Sequence[Choice]:
    """The reads that, in an order, would have returned another value."""
    span = int(rank.max(initial=0)) + 2
    final = reads.final
    pack = t.key[final] * span + rank[owner[final]]
    order = np.argsort(pack, kind="stable")
    pack, final = pack[order], final[order]
    at = np.searchsorted(pack, t.key[reads.wrote] * span + rank[reads.reader]) - 1
    bad = np.flatnonzero(final[at] != reads.wrote)
    return [
        Choice(int(reads.reader[n]), int(owner[reads.wrote[n]]), int(owner[final[at[n]]]),
               int(reads.wrote[n]), int(final[at[n]]))
        for n in bad.tolist()
    ]  # fmt: skip


def _guesses(t: Transactions, choices: Sequence[Choice]) -> Edges:
    """The other writer before the one that was read from if it was over first, else after the
    reader; by times alone where that is forced."""
    columns = np.array(choices, np.int64).T
    reader, writer, other, wrote, made = columns
    later = t.begun[other] > t.ended[writer]
    earlier = t.ended[other] < t.begun[reader]
    first = (earlier | (t.ended[other] < t.ended[writer])) & ~later
    return joined((
        edges_of(other[first], writer[first], WW, made[first], wrote[first]),
        edges_of(reader[~first], other[~first], RW, wrote[~first], made[~first]),
    ))  # fmt: skip


class _Solving:
    """All ways as sets of bits, for histories that are small."""

    def __init__(
        self, t: Transactions, owner: Ints, reads: _Reads, graph: Graph, over: Callable[[], bool]
    ) -> None:
        self._t, self._owner, self._reads, self._graph, self._over = t, owner, reads, graph, over
        by_key: dict[int, list[int]] = defaultdict(list)
        for part in reads.final.tolist():
            by_key[int(t.key[part])].append(part)
        self._choices = [
            Choice(reader, int(owner[wrote]), int(owner[other]), wrote, other)
            for reader, wrote in dict.fromkeys(
                zip(reads.reader.tolist(), reads.wrote.tolist(), strict=True)
            )
            for other in by_key[int(t.key[wrote])]
            if owner[other] not in (reader, owner[wrote])
        ]

    def proof(self) -> Proof:
        """Decide it."""
        forced, legal = self._forced(self._graph.edges)
        more = forced.take(np.arange(len(self._graph.edges.source), len(forced.source)))
        if not legal:
            return Proof(False, more)
        found = self._tried(forced)
        return Proof(found, joined(()))

    def _tried(self, edges: Edges) -> bool | None:
        """Whether a graph from which nothing more follows can be completed."""
        stack = [edges]
        while stack:
            if self._over():
                return None
            edges = stack.pop()
            rank = _ranks(self._graph.size, edges)
            wrong = () if rank is None else _wrong(self._t, self._owner, self._reads, rank)
            if not wrong:
                return True
            for way in (_after(wrong[0]), _before(wrong[0])):
                further, legal = self._forced(joined((edges, way)))
                if legal:
                    stack.append(further)
        return False

    def _forced(self, edges: Edges) -> tuple[Edges, bool]:
        """With all that follows; and whether there is no cycle yet."""
        while True:
            reach = self._reach(edges)
            if reach is None:
                return edges, False
            more = []
            for choice in self._choices:
                if reach[choice.writer] >> choice.other & 1:
                    if not reach[choice.reader] >> choice.other & 1:
                        more.append(_after(choice))
                elif (
                    reach[choice.other] >> choice.reader & 1
                    and not reach[choice.other] >> choice.writer & 1
                ):
                    more.append(_before(choice))
            if not more or self._over():
                return edges, True
            edges = joined((edges, *more))

    def _reach(self, edges: Edges) -> list[int] | None:
        """Of each vertex a bit for each that it leads to; None: there is a cycle."""
        rank = _ranks(self._graph.size, edges)
        if rank is None:
            return None
        ahead: dict[int, list[int]] = defaultdict(list)
        for source, target in zip(edges.source.tolist(), edges.target.tolist(), strict=True):
            ahead[source].append(target)
        reach = [0] * self._graph.size
        for vertex in np.argsort(-rank).tolist():
            for other in ahead.get(vertex, ()):
                reach[vertex] |= reach[other] | 1 << other
        return reach


def _after(choice: Choice) -> Edges:
    """The other writer after the reader."""
    return _one(choice.reader, choice.other, RW, choice.wrote, choice.made)


def _before(choice: Choice) -> Edges:
    """The other writer before the one that was read from."""
    return _one(choice.other, choice.writer, WW, choice.made, choice.wrote)


def _one(source: int, target: int, kind: int, seen: int, made: int) -> Edges:
    columns = (np.array([value], np.int64) for value in (source, target, kind, seen, made))
    return Edges(*columns)
