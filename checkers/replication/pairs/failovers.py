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

from maxq.checkers.core.api import Context, Verdict, unreadable
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
from maxq.histories.op import HistoryError, Op

ACTED, ACTING_MS, RETURNED = "acted", "acting-ms", "returned"
DELAYED_MOVED, HALF_MOVED = "delayed-moved", "transactions-moved"
ASKED = "returned-offsets"
NAMES = (ACTED, ACTING_MS, RETURNED, DELAYED_MOVED, HALF_MOVED, ASKED)
MOVED = ((DELAYED_MOVED, SEND_DELAYED, READ_DELAYED), (HALF_MOVED, SEND_HALF, READ_TRANSACTIONS))


class Failovers:
    """The counts. See the module's text."""

    name = "failovers"
    claims: tuple[str, ...] = ()

    def check(self, history: History, context: Context) -> Verdict:
        try:
            return Verdict(checker=self.name, counts=_counts(history))
        except HistoryError as error:
            return unreadable(self, error)


def _counts(history: History) -> dict[str, int]:
    said: dict[str, list[Sighting[ReplicaView]]] = defaultdict(list)
    for s in replica_sightings(history):
        said[s.view.node].append(s)
    spans = [span for seen in said.values() for span in _acting(seen)]
    found = {
        ACTED: len(spans),
        ACTING_MS: sum(spans) // 1_000_000,
        RETURNED: sum(map(_returns, said.values())),
    }
    totals = history.totals
    if totals[COMMIT_OFFSET, "ok"]:
        found[ASKED] = len(_asked(history, said))
    found |= {
        name: _moved(history, sent, read)
        for name, sent, read in MOVED
        if totals[sent, "ok"] or totals[sent, "info"]
    }
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


def _returns(seen: Sequence[Sighting[ReplicaView]]) -> int:
    """How often a broker was isolated, and then was not, so that it is in its group again."""
    return len(_returned(seen))


def _returned(seen: Sequence[Sighting[ReplicaView]]) -> list[int]:
    """The indices of the answers by which a broker was in its group again."""
    told = [s for s in seen if isinstance(s.view.isolated, bool)]
    return [s.at for was, s in pairwise(told) if was.view.isolated and not s.view.isolated]


def _asked(
    history: History, said: Mapping[str, Sequence[Sighting[ReplicaView]]]
) -> set[tuple[str, int]]:
    """The returns of masters each of which was asked for an offset that nobody had committed since
    another broker of its set took it, as a broker and which of its returns."""
    whose = {s.view.address: name for name, seen in said.items() for s in seen}
    back = {name: _returned(seen) for name, seen in said.items()}
    last: dict[object, str] = {}  # who took a key's last commit; empty: unknown
    found = set[tuple[str, int]]()
    for op in history.of_f(COMMIT_OFFSET, FETCH_OFFSET):
        if op.type not in ("ok", "info") or not isinstance(op.value, list):
            continue
        key, node = op.value[0], whose.get((op.ext or {}).get("broker", ""), "")
        if op.f == COMMIT_OFFSET:
            last[key] = node if op.type == "ok" else ""
            continue
        times = bisect_right(back.get(node, ()), op.index)
        if times and last.get(key, node) not in ("", node):
            found.add((node, times))
    return found


def _moved(history: History, sent: str, read: str) -> int:
    """How many messages were read at another broker set than the one that took them, whether or
    not they were also read at that one."""
    home: dict[int, str] = {}
    for op in history.of_f(sent):
        if op.type == "ok" and isinstance(op.value, list) and type(op.value[0]) is int:
            home[op.value[0]] = _set(op)
    at = _read_at(history.of_f(read))
    return sum(
        bool(taken_by) and bool(at[value] - {taken_by, ""}) for value, taken_by in home.items()
    )


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
