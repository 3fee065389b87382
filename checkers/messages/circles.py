"""Which operations depend on each other by their messages, and in a circle: G0 and G1c.

An operation that sends to several queues, or that sends and polls, is a transaction. One comes
before another by ``ww`` where its message stands before the other's in a queue, by ``wr`` where the
other polled what it sent. A circle of ``wr`` is G1c: each saw what another did before that one was
over. A circle of ``ww`` is G0; logs that are appended to one by one promise nothing against it, so
it is counted and allowed, as upstream does, and circles of both kinds together are not looked for.

Each queue is looked at by itself and says only what may be part of a circle: of ``wr`` every
operation in one both sends and polls; of ``ww`` every one sends to several queues. Where there is
none nothing is left to be put together.

Source: docs/spec/checkers.md 2.2 and 9.
"""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from maxq.checkers.evidence.log import KeyLog, LogOp
from maxq.checkers.evidence.log_key import Finding, Order, committed

if TYPE_CHECKING:
    from maxq.checkers.transactions.graph import Edges, Graph

CYCLE, WRITE_CYCLE = "G1c", "G0"
STEPS_MAX = 32  # of a circle that is told


class Links(NamedTuple):
    """What one queue adds; numbers are indices of completions.

    `chain` are the operations on several queues whose messages stand in it, in its order; `polled`
    a sender and who polled its message, by turns, where both send and poll.
    """

    chain: "array[int]"
    polled: "array[int]"


def links(chain: Iterable[int], polled: Iterable[tuple[int, int]]) -> Links:
    """Put them down."""
    kept: array[int] = array("q")
    for op in chain:
        if not kept or kept[-1] != op:
            kept.append(op)
    return Links(kept, array("q", [op for pair in sorted(set(polled)) for op in pair]))


def links_of(log: KeyLog, rows: Sequence[LogOp], order: Order, proven: frozenset[int]) -> Links:
    """Those of a queue that was judged row by row."""
    shared = {row.at for row in rows if row.shared}
    mixed = {row.at for row in rows if row.mixed and row.type == "ok"}
    if not shared and not mixed:
        return NONE
    writers = {s.value: s for s in log.sent}
    placed = (writers[value] for value in order.values if value in writers)
    chain = (s.op for s in placed if s.op in shared and committed(s, proven))
    sent = ((writers[r.value].op, r.op) for r in log.read if r.op in mixed and r.value in writers)
    return links(chain, ((one, two) for one, two in sent if one in mixed and one != two))


NONE = links((), ())


class Circles(NamedTuple):
    """What all queues together show: circles of ``wr``, how many components have one, and how many
    have one of ``ww``."""

    findings: Sequence[Finding]
    cycles: int = 0
    write_cycles: int = 0


def circles(found: Mapping[int, Links]) -> Circles:
    """Look for them."""
    if not any(one.polled for one in found.values()) and sum(
        len(one.chain) > 1 for one in found.values()
    ) < 2:  # fmt: skip
        return Circles(())
    return _circles(found)


def _circles(found: Mapping[int, Links]) -> Circles:
    from maxq.checkers.transactions.cycles import cycles  # numpy, where there are transactions
    from maxq.checkers.transactions.graph import WR, WW

    pairs = [(k, x, y) for k, one in found.items() for x, y in _pairs(one.polled)]
    by_polls = cycles(_graph(pairs, WR), _never)
    places = sorted({op for _, *both in pairs for op in both})
    findings = []
    for cycle in by_polls.shown:
        ops = [places[step.txn] for step in cycle.steps]
        steps = [[places[step.txn], pairs[step.seen][0]] for step in cycle.steps]
        detail = {"key": steps[0][1], "cycle": steps[:STEPS_MAX]}
        findings.append(Finding(CYCLE, steps[0][1], tuple(sorted(ops)), detail))
    rows = [
        (k, x, y)
        for k, one in found.items()
        for x, y in zip(one.chain, one.chain[1:], strict=False)
    ]
    by_writes = cycles(_graph(rows, WW), _never)
    return Circles(findings, sum(by_polls.counts.values()), sum(by_writes.counts.values()))


def _pairs(polled: "array[int]") -> Iterable[tuple[int, int]]:
    return zip(polled[::2], polled[1::2], strict=True)


def _graph(pairs: Sequence[tuple[int, int, int]], kind: int) -> "Graph":
    """Edges of one kind; `seen` is the position of the pair that an edge is of."""
    import numpy as np

    from maxq.checkers.transactions.graph import NONE as NOTHING
    from maxq.checkers.transactions.graph import Graph, edges_of

    table = np.array(pairs, np.int64).reshape(len(pairs), 3)
    names, ends = np.unique(table[:, 1:], return_inverse=True)
    ends = ends.reshape(len(pairs), 2)
    edges: Edges = edges_of(ends[:, 0], ends[:, 1], kind, np.arange(len(pairs)), NOTHING)
    return Graph(len(names), len(names), edges)


def _never() -> bool:
    return False
