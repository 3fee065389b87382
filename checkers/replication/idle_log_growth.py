"""Logs do not grow while no client sends.

A new master begins its epoch with a record of its own (RocketMQ writes none, ours one), and from
then on a log grows by what clients send. So while no client sends, no epoch of a replica gets
longer than its master first said. Two times are judged: before the first send was asked for, and
after the last one was over; a send with an unknown outcome may be written at any time
after it, and so may what brokers write themselves of delayed messages and transactions. Ends are
bytes of the commit log. Claim: S11b.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from maxq.checkers.core.api import Context, Verdict
from maxq.checkers.core.keyed import Event, KeyedChecker
from maxq.checkers.evidence.observations import NEVER, Sighting, replica_sightings
from maxq.checkers.evidence.verdicts import Case, Found, rule
from maxq.histories.history import History
from maxq.histories.observed import (
    END_TRANSACTION,
    READ_TRANSACTIONS,
    SEND_DELAYED,
    SEND_DELAYED_ALONE,
    SEND_FLOOD,
    SEND_HALF,
    SEND_ORDERED,
    ReplicaView,
)

if TYPE_CHECKING:
    from maxq.histories.columns.rows import Rows
    from maxq.histories.columns.scan import Ints

# Of which brokers write more, at any time: what was delayed, and what becomes of half messages. Who
# reads transactions is ready for them: with its half message of the set-up, which brokers ask about
# again and again, and write anew each time.
LATER = frozenset((SEND_DELAYED, SEND_DELAYED_ALONE, SEND_HALF, END_TRANSACTION, READ_TRANSACTIONS))
WRITES = LATER.union(("send", "txn", SEND_ORDERED, SEND_FLOOD))
PIECE = 1 << 16  # indices whose sends are looked at together
Epoch = tuple[str, int, int]  # set, epoch, start


class Written(NamedTuple):
    """Between which indices something may have been written."""

    first: int
    last: int


class Idle(KeyedChecker):
    """The checker. See the module's text."""

    name = "idle-log"
    claims = ("S11b",)
    reads = WRITES

    def prepare(self, history: History, context: Context) -> None:
        """Nothing."""

    def sift(self, rows: "Rows", chosen: "Ints", known: None) -> "Ints":
        from maxq.checkers.replication.idle_columns import outermost

        return outermost(rows, chosen, PIECE, LATER)

    def rows(self, event: Event, known: None) -> Iterator[tuple[int, Written]]:
        op, begun = event.op, event.begun
        if op.type != "invoke" or event.open:
            first = op.index if begun is None else begun.index
            sure = op.type in ("ok", "fail") and op.f not in LATER
            begin = 0 if op.f == READ_TRANSACTIONS else first
            yield first // PIECE, Written(begin, op.index if sure else NEVER)

    def judge(self, key: int, rows: Sequence[Written], known: None, more: object = None) -> Written:
        return _from_to(rows)

    def conclude(
        self, history: History, context: Context, known: None, results: Mapping[int, Written]
    ) -> Verdict:
        written = _from_to(list(results.values()))
        replicas = replica_sightings(history)
        before = grown([s for s in replicas if s.at < written.first])
        after = grown([s for s in replicas if s.begun > written.last]) if results else ([], 0)
        case = Case(found=[*before[0], *after[0]], judged={"S11b": before[1] + after[1]})
        case.counts = {"idle-epochs-before": before[1], "idle-epochs-after": after[1]}
        return rule(self, history, context, case)


def _from_to(rows: Sequence[Written]) -> Written:
    first = min((row.first for row in rows), default=NEVER)
    return Written(first, max((row.last for row in rows), default=-1))


def grown(replicas: Sequence[Sighting[ReplicaView]]) -> tuple[list[Found], int]:
    """Epochs that grew, and how many could have been seen to.

    Args:
        replicas: what brokers said while no client sent.
    """
    first: dict[Epoch, tuple[int, int]] = {}  # how long its master said first, and where
    # One that was deposed, and has not come back, may have had more of an epoch all the time.
    own: dict[tuple[str, Epoch], int] = {}  # how long each node said first
    seen_again: set[Epoch] = set()
    found: dict[Epoch, Found] = {}
    for s in replicas:
        for epoch, start, end in ((e.epoch, e.start, e.end) for e in s.view.epochs):
            key, length = (s.view.set, epoch, start), end - start
            had = own.setdefault((s.view.node, key), length)
            if key not in first:
                if s.view.leads and length:
                    first[key] = length, s.at
                continue
            seen_again.add(key)
            if length > max(first[key][0], had) and key not in found:
                found[key] = _found(key, s.view.node, length, s.at, first[key])
    return list(found.values()), len(seen_again)


def _found(key: Epoch, node: str, length: int, at: int, first: tuple[int, int]) -> Found:
    name, epoch, start = key
    before, seen = first
    said = (
        f"Broker set {name}: no client sent a message, but epoch {epoch} from {start} on grew. "
        f"Its master first said that it has {before} bytes (op {seen}), and {node} has {length} "
        f"(op {at})."
    )
    detail = {"set": name, "epoch": epoch, "start": start, "node": node, "bytes": [before, length]}
    return Found("S11b", "written-by-nobody", (seen, at), said, detail)
