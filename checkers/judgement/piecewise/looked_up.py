"""The operations that anomalies name, and those beside them, of a history that is not held.

What is beside an anomaly is what a search for a counterexample looks at, as
`maxq.checkers.counterexample.looked_at` finds it in a history in memory.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain

import numpy as np

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
from maxq.checkers.judgement.piecewise.asks import Each, Plan
from maxq.checkers.judgement.runner import Results
from maxq.histories.columns.messages import Messages, messages_on
from maxq.histories.columns.outline import Outline
from maxq.histories.columns.rows import INVOKE, Rows
from maxq.histories.columns.scan import Ints, Mask
from maxq.histories.history import History
from maxq.histories.observed import ASSIGNMENTS
from maxq.histories.op import Op

Spans = Mapping[int, tuple[int, int]]  # by queue, from one value to another


def ops_at(outline: Outline, wanted: frozenset[int]) -> Plan[list[Op]]:
    """The operations with these indices."""
    if not wanted:
        return []
    found = yield Each(partial(_ops_in, wanted), outline, outline.pieces_of(wanted))
    return [*chain.from_iterable(found)]


def _ops_in(wanted: frozenset[int], rows: Rows) -> list[Op]:
    at = np.flatnonzero(np.isin(rows.index, list(wanted)))
    return [op for _, op, _ in rows.events(at)]


def evidence_of(
    outline: Outline, history: History, results: Results, here: frozenset[int]
) -> Plan[list[Op]]:
    """What shows the anomalies that were found.

    Args:
        outline: of the whole history.
        history: what is held of it.
        results: what was found in it.
        here: the operations that are held whole, by index.
    """
    anomalies = firsts(results.verdicts)
    logs = {op.index for a in anomalies for op in logs_near(history, a)}
    near = logs | (yield from _assignments_near(outline, anomalies))
    wanted = (yield from _with_pairs(outline, results.cited | near)) - here
    if not wanted:
        return []
    cited = yield from ops_at(outline, wanted)
    on_queues = [a for a in anomalies if type(a.detail.get("key")) is int]
    if not on_queues:
        return cited
    beside = yield from _beside(outline, _joined(history, cited), on_queues)
    more = (yield from _with_pairs(outline, beside)) - here - wanted
    return [*cited, *(yield from ops_at(outline, more))]


def _assignments_near(outline: Outline, anomalies: Sequence[Anomaly]) -> Plan[set[int]]:
    """Those that `small_near` looks at, of a history that holds none."""
    ends = [max(a.cited, default=0) for a in anomalies]
    pieces = {n for end in ends for n in outline.pieces_with_assignments(end, NEAR_MAX)}
    if not pieces:
        return set()
    parts = yield Each(_assignments_in, outline, sorted(pieces))
    index, found = np.sort(np.concatenate(parts)), set[int]()
    for end in np.searchsorted(index, ends).tolist():
        found.update(index[max(0, end - NEAR_MAX) : end + NEAR_MAX].tolist())
    return found


def _assignments_in(rows: Rows) -> Ints:
    found: Ints = rows.index[rows.client & rows.of(ASSIGNMENTS)]
    return found


def _with_pairs(outline: Outline, indices: frozenset[int]) -> Plan[frozenset[int]]:
    """The same operations, whole ones."""
    if not indices:
        return indices
    wanted = list(indices)
    ending = [n for n, o in enumerate(outline.before) if np.isin(o.index, wanted).any()]
    pieces = sorted({*outline.pieces_of(indices), *ending})
    found = yield Each(partial(_halves_in, indices), outline, pieces)
    return indices.union(*found)


def _halves_in(wanted: frozenset[int], rows: Rows) -> frozenset[int]:
    """The other halves of some operations, as far as one is a completion here."""
    done = np.flatnonzero((rows.type != INVOKE) & (rows.begun >= 0))
    one, other = rows.index[done], rows.begun[done]
    either = np.isin(one, list(wanted)) | np.isin(other, list(wanted))
    return frozenset((*one[either].tolist(), *other[either].tolist()))


def _joined(history: History, more: Sequence[Op]) -> History:
    known = {op.index: op for op in [*history, *more]}
    return History(known[index] for index in sorted(known))


def _beside(
    outline: Outline, history: History, anomalies: Sequence[Anomaly]
) -> Plan[frozenset[int]]:
    """The polls around those that anomalies name, and who sent what all of them show, by index."""
    keys = frozenset(a.detail["key"] for a in anomalies)
    polls, sent = yield from _polls(outline, history, anomalies, keys)
    shown = _joined(history, (yield from ops_at(outline, polls)))
    messages = frozenset[Message]().union(*(messages_shown(shown, a, polls) for a in anomalies))
    pieces = [number for number, spans in enumerate(sent) if _may_send(spans, messages)]
    senders = yield Each(partial(_senders_in, keys, messages), outline, pieces)
    return polls.union(*senders)


def _may_send(spans: Spans, messages: Collection[Message]) -> bool:
    """Whether one of these messages may be among those that lie so."""
    nowhere = (1, 0)
    spanned = ((*spans.get(key, nowhere), value) for key, value in messages)
    return any(low <= value <= high for low, high, value in spanned)


def _polls(
    outline: Outline, history: History, anomalies: Sequence[Anomaly], keys: frozenset[int]
) -> Plan[tuple[frozenset[int], list[Spans]]]:
    """Polls, and between which values each piece has messages that were sent."""
    cited = {at for a in anomalies for at in a.cited}
    by = {at: op.process for at in cited if (op := held(history, at)) and op.is_client}
    own = frozenset[Message]().union(*map(messages_named, anomalies))
    clients = frozenset(int(process) for process in by.values())
    pieces = yield Each(partial(_places_in, keys, clients, own), outline)
    places: dict[tuple[int, int], list[int]] = defaultdict(list)
    showing: dict[Message, list[int]] = defaultdict(list)
    for theirs, shown, _ in pieces:
        for place, indices in theirs.items():
            places[place] += indices
        for message, indices in shown.items():
            showing[message] += indices
    found = {at for those in showing.values() for at in those[:AROUND]}
    for a in anomalies:
        for at in a.cited & by.keys():
            found.update(around(places.get((int(by[at]), a.detail["key"]), ()), at))
    return frozenset(found), [spans for *_, spans in pieces]


def _places_in(
    keys: frozenset[int], clients: frozenset[int], own: frozenset[Message], rows: Rows
) -> tuple[Mapping[tuple[int, int], list[int]], Mapping[Message, list[int]], Spans]:
    """The polls of some clients that show some of a queue, by client and queue; the first that show
    the anomalies' own messages; and the spans of what is sent."""
    m = messages_on(rows, keys)
    found: dict[tuple[int, int], list[int]] = defaultdict(list)
    showing: dict[Message, list[int]] = defaultdict(list)
    at = np.flatnonzero(m.polled & np.isin(rows.process[m.row], list(clients)))
    each = np.unique(np.stack([m.row[at], m.key[at]]), axis=1).T
    for row, key in each.tolist():
        found[int(rows.process[row]), key].append(int(rows.index[row]))
    for place, message in _places_of(m, m.polled, own):
        if len(showing[message]) < AROUND:
            showing[message].append(int(rows.index[m.row[place]]))
    return found, showing, _spans_of(m)


def _spans_of(m: Messages) -> Spans:
    """The lowest and the highest value that is sent to each queue, as values often rise."""
    key, value = m.key[~m.polled], m.value[~m.polled]
    own = ((int(k), value[key == k]) for k in np.unique(key))
    return {k: (int(values.min()), int(values.max())) for k, values in own}


def _senders_in(keys: frozenset[int], messages: frozenset[Message], rows: Rows) -> list[int]:
    m = messages_on(rows, keys)
    return [int(rows.index[m.row[place]]) for place, _ in _places_of(m, ~m.polled, messages)]


def _places_of(
    m: Messages, among: Mask, wanted: Collection[Message]
) -> Iterator[tuple[int, Message]]:
    """Where some messages are, in order."""
    for at in np.flatnonzero(among & np.isin(m.value, [value for _, value in wanted])).tolist():
        message = int(m.key[at]), int(m.value[at])
        if message in wanted:
            yield at, message
