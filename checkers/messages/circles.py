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
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from maxq.checkers.evidence.log import KeyLog, LogOp
from maxq.checkers.evidence.log_key import Finding, Order, committed

if TYPE_CHECKING:
    from maxq.checkers.transactions.graph import Edges, Graph
    from maxq.histories.columns.scan import Ints

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

    pairs = _turning(_table(found, lambda one: (one.polled[::2], one.polled[1::2])))
    by_polls = cycles(_graph(pairs, WR), _never)
    places = sorted({*pairs[:, 1:].ravel().tolist()})
    findings = []
    for cycle in by_polls.shown:
        ops = [places[step.txn] for step in cycle.steps]
        steps = [[places[step.txn], int(pairs[step.seen][0])] for step in cycle.steps]
        detail = {"key": steps[0][1], "cycle": steps[:STEPS_MAX]}
        findings.append(Finding(CYCLE, steps[0][1], tuple(sorted(ops)), detail))
    rows = _turning(_table(found, lambda one: (one.chain[:-1], one.chain[1:])))
    by_writes = cycles(_graph(rows, WW), _never)
    return Circles(findings, sum(by_polls.counts.values()), sum(by_writes.counts.values()))


def _table(
    found: Mapping[int, Links], ends: "Callable[[Links], tuple[array[int], array[int]]]"
) -> "Ints":
    """Which operation comes before which, and in what queue: rows of queue, first, second."""
    import numpy as np

    parts = [np.zeros((0, 3), np.int64)]
    for key, one in found.items():
        first, second = (np.array(side, np.int64) for side in ends(one))
        parts.append(np.stack([np.full(len(first), key), first, second], axis=1))
    return np.concatenate(parts)


def _turning(table: "Ints") -> "Ints":
    """The rows that may be part of a circle, in order.

    A circle gets back to where it began, so over all that it spans some row of it leads backwards.
    Where none does, nothing turns: of a long history that is nearly all of it.
    """
    import numpy as np

    first, second = table[:, 1], table[:, 2]
    back = table[first > second]
    if not len(back):
        return back
    back = back[np.argsort(back[:, 2], kind="stable")]
    reached = np.maximum.accumulate(back[:, 1])
    apart = np.flatnonzero(back[1:, 2] > reached[:-1])
    begins = back[np.append(0, apart + 1), 2]
    ends = reached[np.append(apart, len(back) - 1)]
    at = np.searchsorted(begins, first, "right") - 1
    same = at == np.searchsorted(begins, second, "right") - 1
    inside = (at >= 0) & same & (np.maximum(first, second) <= ends[at])
    kept: Ints = table[inside]
    return kept


def _graph(table: "Ints", kind: int) -> "Graph":
    """Edges of one kind; `seen` is the row that an edge is of."""
    import numpy as np

    from maxq.checkers.transactions.graph import NONE as NOTHING
    from maxq.checkers.transactions.graph import Graph, edges_of

    names, ends = np.unique(table[:, 1:], return_inverse=True)
    ends = ends.reshape(len(table), 2)
    edges: Edges = edges_of(ends[:, 0], ends[:, 1], kind, np.arange(len(table)), NOTHING)
    return Graph(len(names), len(names), edges)


def _never() -> bool:
    return False
