"""Read committed, read atomic and causal consistency, exactly, where only sessions are known.

Each value of a key is written once, so every read names its writer. Nothing is assumed of the order
of versions; what a level demands of it is added to the orders of sessions and of reads: if a
transaction reads a key from one writer, another writer of that key *that it can see* comes before
that one. It sees, by level:

* read committed: whom an earlier read of the transaction read from;
* read atomic: whom any of its reads read from, and who came before it in its session;
* causal: who came before it by sessions and reads, over any number of steps.

The level holds iff no cycle comes of it. Of those in one session only the last is asked for: the
others come before it.

Source: docs/spec/checkers.md 9. Moldrup and Pavlogiannis, *AWDIT*, PLDI 2025.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from maxq.checkers.linearizability.calls import Ints, Mask
from maxq.checkers.linearizability.space import Over
from maxq.checkers.transactions.columns import Transactions
from maxq.checkers.transactions.components import components
from maxq.checkers.transactions.cycles import Cycle, Step
from maxq.checkers.transactions.findings import Analysis
from maxq.checkers.transactions.graph import (
    COMMIT,
    NONE,
    WR,
    Edges,
    Graph,
    edges_of,
    joined,
    none,
    process_edges,
)
from maxq.checkers.transactions.reach import shortest

LEVELS = ("read-committed", "read-atomic", "causal")


class Reads(NamedTuple):
    """Reads from other transactions, in order of transactions and parts: who read, which part it
    was, whom it read from, and the part that wrote what it returned. The initial nil was written by
    a transaction of its own, the one after all others, that comes before them."""

    txn: Ints
    part: Ints
    writer: Ints
    wrote: Ints


def demanded(t: Transactions, analysis: Analysis, level: str) -> Graph:
    """The graph that must have no cycle.

    Args:
        t: the transactions.
        analysis: of them, by `registers.analysed`.
        level: one of `LEVELS`.
    """
    owner = t.owner()
    reads = _reads(t, owner, analysis)
    wr = edges_of(reads.writer, reads.txn, WR, reads.wrote, NONE)
    there = np.flatnonzero(analysis.there)
    initial = edges_of(np.full(len(there), t.size), there, COMMIT, NONE, NONE)
    sure = joined((wr, process_edges(t, analysis.there), initial))
    writes = _writes(t, owner, analysis.there)
    if level == "read-committed":
        more = _by_earlier_reads(t, reads, writes)
    elif level == "read-atomic":
        more = _by_any(t, reads, writes)
    else:
        clocks = _clocks(t, sure, analysis.there)
        more = none() if clocks is None else _by_clock(t, owner, reads, clocks, analysis.there)
    return Graph(t.size + 1, t.size + 1, joined((sure, more)))


def broken(t: Transactions, analysis: Analysis, over: Over) -> tuple[str, Cycle] | None:
    """The weakest level that does not hold, with a cycle that shows it; None: all hold."""
    found = None
    for level in reversed(LEVELS):  # what holds of a level holds of those below it
        graph = demanded(t, analysis, level)
        labels = components(graph.size, graph.edges.source, graph.edges.target)
        inside = labels[graph.edges.source] == labels[graph.edges.target]
        if not np.any(inside):
            break
        own = graph.edges.take(inside)
        at = shortest(own, np.ones(graph.size, np.bool_), over, None)
        steps = tuple(
            Step(int(own.source[n]), int(own.kind[n]), int(own.seen[n]), int(own.made[n]))
            for n in at
        )
        found = level, Cycle(f"{level}-cycle", steps)
    return found


def _reads(t: Transactions, owner: Ints, analysis: Analysis) -> Reads:
    part = np.flatnonzero(analysis.version >= NONE)
    wrote = analysis.version[part]
    writer = np.where(wrote >= 0, owner[wrote], t.size)
    good = (writer != owner[part]) & analysis.there[owner[part]]
    good &= np.append(analysis.there, True)[writer]
    return Reads(owner[part[good]], part[good], writer[good], wrote[good])


def _writes(t: Transactions, owner: Ints, there: Mask) -> dict[int, set[int]]:
    """The keys that each transaction wrote."""
    found: dict[int, set[int]] = defaultdict(set)
    part = np.flatnonzero(t.writes)
    part = part[there[owner[part]]]
    for txn, key in zip(owner[part].tolist(), t.key[part].tolist(), strict=True):
        found[txn].add(key)
    return found


def _by_earlier_reads(t: Transactions, reads: Reads, writes: dict[int, set[int]]) -> Edges:
    """Whom earlier reads read from, if it wrote the key. Once a key is read all of those come
    before whom it was read from, who stands for them from then on."""
    found: list[tuple[int, int, int, int]] = []
    for keys, writers, wrote, parts in _each(t, reads):
        visible: dict[int, list[int]] = defaultdict(list)
        for key, writer, version, part in zip(keys, writers, wrote, parts, strict=True):
            found += [(other, writer, version, part) for other in visible[key]]
            visible[key] = []
            for each in writes[writer].intersection(keys):
                visible[each].append(writer)
    return _commits(found)


def _each(
    t: Transactions, reads: Reads
) -> Iterator[tuple[list[int], list[int], list[int], list[int]]]:
    """Of each transaction that reads: the keys, whom it read from, their writes, and its parts."""
    ends = np.flatnonzero(np.append(reads.txn[1:] != reads.txn[:-1], True)) + 1
    rows = (t.key[reads.part], reads.writer, reads.wrote, reads.part)
    columns = [row.tolist() for row in rows]
    start = 0
    for end in ends.tolist() if len(reads.txn) else []:
        keys, writers, wrote, parts = (column[start:end] for column in columns)
        yield keys, writers, wrote, parts
        start = end


def _by_any(t: Transactions, reads: Reads, writes: dict[int, set[int]]) -> Edges:
    """Whom any read read from, and the session's last writer of the key."""
    found: list[tuple[int, int, int, int]] = []
    before = _session_writers(t, reads, writes)
    for keys, writers, wrote, parts in _each(t, reads):
        wanted: dict[int, list[int]] = defaultdict(list)
        for other in dict.fromkeys(writers):
            for key in writes[other].intersection(keys):
                wanted[key].append(other)
        for key, writer, version, part in zip(keys, writers, wrote, parts, strict=True):
            found += [(other, writer, version, part) for other in wanted[key]]
            if (last := before.get(part)) is not None:
                found.append((last, writer, version, part))
    return _commits(found)


def _session_writers(t: Transactions, reads: Reads, writes: dict[int, set[int]]) -> dict[int, int]:
    """Of each read: who wrote its key last before it in its session."""
    last: dict[tuple[int, int], int] = {}
    found: dict[int, int] = {}
    at, count = 0, len(reads.txn)
    txns, parts, process = reads.txn.tolist(), reads.part.tolist(), t.process.tolist()
    keys = t.key[reads.part].tolist()
    for txn in range(t.size):
        while at < count and txns[at] == txn:
            if (writer := last.get((process[txn], keys[at]))) is not None:
                found[parts[at]] = writer
            at += 1
        for key in writes.get(txn, ()):
            last[process[txn], key] = txn
    return found


def _clocks(t: Transactions, edges: Edges, there: Mask) -> Ints | None:
    """Of each transaction and session: how many of the session's come before it; None: reads and
    sessions have a cycle. Shape (n, sessions)."""
    session, place = _places(t, there)
    ahead: dict[int, list[int]] = defaultdict(list)
    waits = np.bincount(edges.target, minlength=t.size + 1).tolist()
    for source, target in zip(edges.source.tolist(), edges.target.tolist(), strict=True):
        ahead[source].append(target)
    clocks = np.zeros((t.size + 1, int(session.max(initial=0)) + 1), np.int64)
    ready = [txn for txn in range(t.size + 1) if not waits[txn]]
    done = 0
    while ready:
        txn = ready.pop()
        done += 1
        own = clocks[txn].copy()
        if txn < t.size:
            own[session[txn]] = place[txn] + 1
        for other in ahead.get(txn, ()):
            np.maximum(clocks[other], own, out=clocks[other])
            waits[other] -= 1
            if not waits[other]:
                ready.append(other)
    return clocks if done == t.size + 1 else None


def _places(t: Transactions, there: Mask) -> tuple[Ints, Ints]:
    """Of each transaction its session, as a number, and its place in it."""
    session = np.unique(t.process, return_inverse=True)[1].astype(np.int64)
    place = np.zeros(t.size, np.int64)
    at = np.flatnonzero(there)
    at = at[np.argsort(session[at], kind="stable")]
    heads = np.flatnonzero(np.append(True, session[at][1:] != session[at][:-1])) if len(at) else at
    place[at] = np.arange(len(at)) - np.repeat(heads, np.diff(np.append(heads, len(at))))
    return session, place


def _by_clock(t: Transactions, owner: Ints, reads: Reads, clocks: Ints, there: Mask) -> Edges:
    """Of each read and session: the last writer of its key that comes before it."""
    session, place = _places(t, there)
    part = np.flatnonzero(t.writes)
    part = part[there[owner[part]]]
    txn = owner[part]
    count, span = clocks.shape[1], t.size + 1
    pack = (t.key[part] * count + session[txn]) * span + place[txn]
    order = np.argsort(pack, kind="stable")
    pack, txn = pack[order], txn[order]
    found = []
    for which in range(count):
        sought = (t.key[reads.part] * count + which) * span + clocks[reads.txn, which]
        at = np.searchsorted(pack, sought) - 1  # the last place that is less than the clock
        inside = (at >= 0) & (pack[at] // span == sought // span) if len(pack) else at < -1
        other = txn[at[inside]]
        rows = (reads.writer[inside], reads.wrote[inside], reads.part[inside])
        found.append(edges_of(other, rows[0], COMMIT, rows[1], rows[2]))
    return joined(found)


def _commits(rows: list[tuple[int, int, int, int]]) -> Edges:
    """Edges of (the other writer, the one that was read from, its write, the read)."""
    columns = np.array(rows, np.int64).reshape(len(rows), 4).T
    return edges_of(columns[0], columns[1], COMMIT, columns[2], columns[3])
