"""The operations that anomalies name, and those beside them, of a history that is not held.

What is beside an anomaly is what a search for a counterexample looks at, as
`maxq.checkers.counterexample.looked_at` finds it in a history in memory.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from maxq.checkers.core.api import Anomaly
from maxq.checkers.counterexample.looked_at import (
    AROUND,
    NEAR_MAX,
    Message,
    around,
    firsts,
    held,
    logs_near,
    messages_named,
    messages_shown,
)
from maxq.checkers.evidence.log import MESSAGES
from maxq.checkers.judgement.runner import Results
from maxq.histories.columns.messages import Messages, messages_of
from maxq.histories.columns.rows import Outline, Rows, rows_of
from maxq.histories.columns.scan import Mask
from maxq.histories.history import History
from maxq.histories.observed import ASSIGNMENTS
from maxq.histories.op import Op

Reading = Callable[[], Iterator[pa.RecordBatch]]  # each call reads the history once


def ops_at(reading: Reading, outline: Outline, wanted: frozenset[int]) -> list[Op]:
    """The operations with these indices."""
    if not wanted:
        return []
    found: list[Op] = []
    for rows in rows_of(reading(), outline):
        at = np.flatnonzero(np.isin(rows.index, list(wanted)))
        found += [op for _, op, _ in rows.events(at)]
    return found


def evidence_of(
    reading: Reading, outline: Outline, history: History, results: Results, here: frozenset[int]
) -> list[Op]:
    """What shows the anomalies that were found.

    Args:
        reading: gives the batches of the events table.
        outline: of the whole history.
        history: what is held of it.
        results: what was found in it.
        here: the operations that are held whole, by index.
    """
    anomalies = firsts(results.verdicts)
    logs = {op.index for a in anomalies for op in logs_near(history, a)}
    near = logs | _assignments_near(outline, anomalies)
    wanted = _with_pairs(outline, results.cited | near) - here
    if not wanted:
        return []
    cited = ops_at(reading, outline, wanted)
    on_queues = [a for a in anomalies if type(a.detail.get("key")) is int]
    if not on_queues:
        return cited
    beside = _Beside(reading, outline, _joined(history, cited), on_queues)
    more = _with_pairs(outline, beside.found()) - here - wanted
    return [*cited, *ops_at(reading, outline, more)]


def _assignments_near(outline: Outline, anomalies: Sequence[Anomaly]) -> set[int]:
    """Those that `small_near` looks at, of a history that holds none."""
    own = outline.client & np.isin(outline.f, outline.codes(ASSIGNMENTS))
    index, found = np.sort(outline.index[own]), set[int]()
    for end in np.searchsorted(index, [max(a.cited, default=0) for a in anomalies]).tolist():
        found.update(index[max(0, end - NEAR_MAX) : end + NEAR_MAX].tolist())
    return found


def _with_pairs(outline: Outline, indices: frozenset[int]) -> frozenset[int]:
    """The same operations, whole ones."""
    pair = outline.pair[np.isin(outline.index, list(indices))]
    return indices | {*outline.index[pair[pair >= 0]].tolist()}


def _joined(history: History, more: Sequence[Op]) -> History:
    known = {op.index: op for op in [*history, *more]}
    return History(known[index] for index in sorted(known))


class _Beside:
    """The polls around those that anomalies name, and who sent what all of them show."""

    def __init__(
        self, reading: Reading, outline: Outline, history: History, anomalies: Sequence[Anomaly]
    ) -> None:
        self._reading, self._outline = reading, outline
        self._history, self._anomalies = history, anomalies
        self._keys = {a.detail["key"] for a in anomalies}

    def found(self) -> frozenset[int]:
        """All of them, by index."""
        polls = self._polls()
        shown = _joined(self._history, ops_at(self._reading, self._outline, polls))
        messages = set[Message]().union(*(messages_shown(shown, a, polls) for a in self._anomalies))
        return polls | self._senders(messages)

    def _polls(self) -> frozenset[int]:
        cited = {at for a in self._anomalies for at in a.cited}
        by = {at: op.process for at in cited if (op := held(self._history, at)) and op.is_client}
        places, found = self._places({int(process) for process in by.values()})
        for a in self._anomalies:
            for at in a.cited & by.keys():
                found.update(around(places.get((int(by[at]), a.detail["key"]), ()), at))
        return frozenset(found)

    def _places(
        self, clients: Collection[int]
    ) -> tuple[Mapping[tuple[int, int], list[int]], set[int]]:
        """The polls of some clients that show some of a queue, by client and queue; and the first
        that show the anomalies' own messages."""
        found: dict[tuple[int, int], list[int]] = defaultdict(list)
        own = set[Message]().union(*map(messages_named, self._anomalies))
        showing: dict[Message, list[int]] = {message: [] for message in own}
        for rows, m in self._messages():
            at = np.flatnonzero(m.polled & np.isin(rows.process[m.row], list(clients)))
            each = np.unique(np.stack([m.row[at], m.key[at]]), axis=1).T
            for row, key in each.tolist():
                found[int(rows.process[row]), key].append(int(rows.index[row]))
            for place, message in _places_of(m, m.polled, own):
                if len(showing[message]) < AROUND:
                    showing[message].append(int(rows.index[m.row[place]]))
        return found, {at for those in showing.values() for at in those}

    def _senders(self, messages: Collection[Message]) -> frozenset[int]:
        return frozenset(
            int(rows.index[m.row[place]])
            for rows, m in self._messages()
            for place, _ in _places_of(m, ~m.polled, messages)
        )

    def _messages(self) -> Iterator[tuple[Rows, Messages]]:
        """The messages of those queues, batch by batch."""
        for rows in rows_of(self._reading(), self._outline):
            m = messages_of(rows, np.flatnonzero(rows.client & rows.of(MESSAGES)))
            mine = np.isin(m.key, list(self._keys))
            yield (
                rows,
                Messages(
                    m.row[mine],
                    m.key[mine],
                    m.offset[mine],
                    m.value[mine],
                    m.polled[mine],
                    m.foreign,
                ),
            )


def _places_of(
    m: Messages, among: Mask, wanted: Collection[Message]
) -> Iterator[tuple[int, Message]]:
    """Where some messages are, in order."""
    for at in np.flatnonzero(among & np.isin(m.value, [value for _, value in wanted])).tolist():
        message = int(m.key[at]), int(m.value[at])
        if message in wanted:
            yield at, message
