"""What happened while slaves acted for their masters, counted. Nothing is judged by it.

Of a broker set whose master is gone a slave acts; what waits at it, delayed messages and half
messages, moves to another broker set; once the master is back and has what its slaves have, it ends
its isolation, and is asked for offsets that were committed while it was away. A claim that was kept
over one such time says less than one that was kept over ten.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from maxq.checkers.core.api import Context, Verdict
from maxq.checkers.core.keyed import Event, KeyedChecker
from maxq.checkers.evidence.observations import Sighting, replica_sightings
from maxq.histories.history import History
from maxq.histories.observed import (
    COMMIT_OFFSET,
    FETCH_OFFSET,
    READ_DELAYED,
    READ_TRANSACTIONS,
    SEND_DELAYED,
    SEND_HALF,
    ReplicaView,
)
from maxq.histories.op import Op

ACTED, ACTING_MS, RETURNED = "acted", "acting-ms", "returned"
DELAYED_MOVED, HALF_MOVED = "delayed-moved", "transactions-moved"
TWICE = "-twice"  # of what moved, what came from its own broker set as well
ASKED = "returned-offsets"
NAMES = (
    *(ACTED, ACTING_MS, RETURNED, ASKED),
    *(f"{moved}{twice}" for moved in (DELAYED_MOVED, HALF_MOVED) for twice in ("", TWICE)),
)
MOVED = ((DELAYED_MOVED, SEND_DELAYED, READ_DELAYED), (HALF_MOVED, SEND_HALF, READ_TRANSACTIONS))


class Asked(NamedTuple):
    """What a broker answered about a key: a commit, or what is committed. `ok` False: nobody knows
    whether it took the commit."""

    f: str
    ok: bool
    node: str
    at: int


class Known(NamedTuple):
    """Which broker has an address, and the answers by which each was in its group again."""

    nodes: Mapping[str, str]
    back: Mapping[str, Sequence[int]]


Return = tuple[str, int]  # a broker, and which of its returns


class Failovers(KeyedChecker):
    """The counts. See the module's text."""

    name = "failovers"
    claims: tuple[str, ...] = ()
    reads = frozenset((COMMIT_OFFSET, FETCH_OFFSET))

    def prepare(self, history: History, context: Context) -> Known:
        said = _said(history)
        return Known(
            nodes={s.view.address: name for name, seen in said.items() for s in seen},
            back={name: _returned(seen) for name, seen in said.items()},
        )

    def rows(self, event: Event, known: Known) -> Iterator[tuple[int, Asked]]:
        op, begun = event.op, event.begun
        if begun is None or op.type not in ("ok", "info"):
            return
        key = begun.value[0] if isinstance(begun.value, list) else begun.value
        node = known.nodes.get((op.ext or {}).get("broker", ""), "")
        if type(key) is int:
            yield key, Asked(op.f, op.type == "ok", node, op.index)

    def judge(
        self, key: int, rows: Sequence[Asked], known: Known, more: object = None
    ) -> set[Return]:
        """The returns of masters each of which was asked for an offset that nobody had committed
        since another broker of its set took it."""
        taken_by = ""  # who took the last commit; empty: unknown
        found = set[Return]()
        for row in rows:
            if row.f == COMMIT_OFFSET:
                taken_by = row.node if row.ok else ""
            elif row.ok and taken_by not in ("", row.node):
                times = bisect_right(known.back.get(row.node, ()), row.at)
                found |= {(row.node, times)} if times else set()
        return found

    def conclude(
        self,
        history: History,
        context: Context,
        known: Known,
        results: Mapping[int, set[Return]],
    ) -> Verdict:
        counts = _counts(history)
        if results:
            counts[ASKED] = len(set[Return]().union(*results.values()))
        return Verdict(checker=self.name, counts=counts)


def _said(history: History) -> Mapping[str, Sequence[Sighting[ReplicaView]]]:
    """What each broker said of itself, in order."""
    said: dict[str, list[Sighting[ReplicaView]]] = defaultdict(list)
    for s in replica_sightings(history):
        said[s.view.node].append(s)
    return said


def _counts(history: History) -> dict[str, int]:
    """What is counted without looking at each request."""
    said = _said(history)
    spans = [span for seen in said.values() for span in _acting(seen)]
    found = {
        ACTED: len(spans),
        ACTING_MS: sum(spans) // 1_000_000,
        RETURNED: sum(len(_returned(seen)) for seen in said.values()),
    }
    totals = history.totals
    for name, sent, read in MOVED:
        if totals[sent, "ok"] or totals[sent, "info"]:
            found[name], found[f"{name}{TWICE}"] = _moved(history, sent, read)
    return found


def _acting(seen: Sequence[Sighting[ReplicaView]]) -> Iterator[int]:
    """How long (ns) a broker acted each time: from the first answer that said so to the last."""
    first = last = None
    for s in seen:
        if s.view.acting is True:
            first, last = first or s, s
        elif first is not None and last is not None:
            yield last.at_ns - first.begun_ns
            first = last = None
    if first is not None and last is not None:
        yield last.at_ns - first.begun_ns


def _returned(seen: Sequence[Sighting[ReplicaView]]) -> list[int]:
    """The indices of the answers by which a broker was in its group again: it was isolated, and
    then was not."""
    told = [s for s in seen if isinstance(s.view.isolated, bool)]
    return [s.at for was, s in pairwise(told) if was.view.isolated and not s.view.isolated]


def _moved(history: History, sent: str, read: str) -> tuple[int, int]:
    """How many messages were read at another broker set than the one that took them, and how many
    of these at that one too."""
    home: dict[int, str] = {}
    for op in history.of_f(sent):
        if op.type == "ok" and isinstance(op.value, list) and type(op.value[0]) is int:
            home[op.value[0]] = _set(op)
    at = _read_at(history.of_f(read))
    moved = [own in at[value] for value, own in home.items() if own and at[value] - {own, ""}]
    return len(moved), sum(moved)


def _read_at(reads: Sequence[Op]) -> Mapping[int, set[str]]:
    """The broker sets at which each message was read."""
    found: dict[int, set[str]] = defaultdict(set)
    for op in reads:
        if op.type == "ok" and isinstance(op.value, list):
            for value in op.value:
                if type(value) is int:
                    found[value].add(_set(op))
    return found


def _set(op: Op) -> str:
    """The broker set that answered."""
    return str((op.ext or {}).get("node", ""))
