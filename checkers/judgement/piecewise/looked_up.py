"""The operations that anomalies name, and those beside them, of a history that is not held.

What is beside an anomaly is what a search for a counterexample looks at, as
`maxq.checkers.counterexample.looked_at` finds it in a history in memory.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import NamedTuple

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
from maxq.checkers.evidence.log import MESSAGES
from maxq.checkers.judgement.piecewise.asks import Each, Plan
from maxq.checkers.judgement.runner import Results
from maxq.histories.columns.messages import Messages, messages_of
from maxq.histories.columns.outline import Outline
from maxq.histories.columns.rows import INVOKE, Rows
from maxq.histories.columns.scan import Ints, Mask
from maxq.histories.history import History
from maxq.histories.observed import ASSIGNMENTS
from maxq.histories.op import Op

NEAR_PIECES = 1  # on each side of one
Places = dict[tuple[int, int], list[int]]  # of polls, by client and queue, ascending


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
    own = frozenset[Message]().union(*map(messages_named, anomalies))
    polls, far = yield from _polls_near(outline, _cited_by(history, anomalies))
    messages = yield from _shown(outline, history, anomalies, polls)
    clients = frozenset(one.process for one in far)
    found = yield Each(partial(_search, keys, clients, own, messages), outline)
    showing: dict[Message, list[int]] = defaultdict(list)
    senders = set[int]()
    for _, shows, sends in found:
        senders.update(sends)
        for message, indices in shows.items():
            showing[message] += indices
    places = _joined_places(each for each, _, _ in found)
    more = {at for one in far for at in around(places.get((one.process, one.key), ()), one.at)}
    more.update(at for those in showing.values() for at in those[:AROUND])
    if not more <= polls:
        others = (yield from _shown(outline, history, anomalies, frozenset(more))) - messages
        again = partial(_search, keys, frozenset[int](), frozenset[Message](), others)
        for _, _, sends in (yield Each(again, outline)):
            senders.update(sends)
    return frozenset({*polls, *more, *senders})


def _shown(
    outline: Outline, history: History, anomalies: Sequence[Anomaly], polls: frozenset[int]
) -> Plan[frozenset[Message]]:
    """What anomalies and some polls show of the anomalies' queues."""
    here = _joined(history, (yield from ops_at(outline, polls)))
    return frozenset[Message]().union(*(messages_shown(here, a, polls) for a in anomalies))


class _Cited(NamedTuple):
    """An operation that an anomaly names: its index, its process, the anomaly's queue."""

    at: int
    process: int
    key: int


def _cited_by(history: History, anomalies: Sequence[Anomaly]) -> frozenset[_Cited]:
    return frozenset(
        _Cited(at, int(op.process), a.detail["key"])
        for a in anomalies for at in a.cited
        if (op := held(history, at)) and op.is_client
    )  # fmt: skip


def _polls_near(
    outline: Outline, cited: frozenset[_Cited]
) -> Plan[tuple[frozenset[int], list[_Cited]]]:
    """The polls of the same client and queue around some operations, where they are near; and the
    operations of which some are farther away, if there are any."""
    windows = {one: _window(outline, one.at) for one in cited}
    keys, clients = (frozenset(one[n] for one in cited) for n in (2, 1))
    near = sorted({*chain(*windows.values())})
    places = _joined_places((yield Each(partial(_polls_in, keys, clients), outline, near)))
    found, far = set[int](), []
    for one, window in windows.items():
        theirs = places.get((one.process, one.key), [])
        if _enough(outline, theirs, one.at, window):
            found.update(around(theirs, one.at))
        else:
            far.append(one)
    return frozenset(found), far


def _joined_places(pieces: Iterable[Places]) -> Places:
    places: Places = defaultdict(list)
    for place, indices in chain.from_iterable(piece.items() for piece in pieces):
        places[place] += indices
    return places


def _window(outline: Outline, at: int) -> range:
    """The pieces near an operation; all of them where its piece is not sure."""
    count = len(outline.bounds)
    if not outline.sound:
        return range(count)
    own = int(np.searchsorted(outline.bounds[:, 1], at))
    return range(max(0, own - NEAR_PIECES), min(count, own + NEAR_PIECES + 1))


def _enough(outline: Outline, places: Sequence[int], at: int, window: range) -> bool:
    """Whether those nearest to an operation are among the places that a window shows."""
    first, last = outline.bounds[window[0], 0], outline.bounds[window[-1], 1]
    low, below = bisect_left(places, first), bisect_left(places, at)
    above, high = bisect_right(places, at), bisect_right(places, last)
    begins, ends = window[0] == 0, window[-1] == len(outline.bounds) - 1
    return (begins or below - low >= AROUND) and (ends or high - above >= AROUND)


def _polls_in(keys: frozenset[int], clients: frozenset[int], rows: Rows) -> Places:
    """The polls of some clients that show some of a queue."""
    return _places(rows, _messages(rows, keys), clients)


def _places(rows: Rows, m: Messages, clients: frozenset[int]) -> Places:
    found: Places = defaultdict(list)
    at = np.flatnonzero(m.polled & np.isin(rows.process[m.row], list(clients)))
    each = np.unique(np.stack([m.row[at], m.key[at]]), axis=1).T
    for row, key in each.tolist():
        found[int(rows.process[row]), key].append(int(rows.index[row]))
    return found


def _search(
    keys: frozenset[int],
    clients: frozenset[int],
    own: frozenset[Message],
    messages: frozenset[Message],
    rows: Rows,
) -> tuple[Places, Mapping[Message, list[int]], list[int]]:
    """The polls of some clients, the first that show the anomalies' own messages, and who sent some
    messages."""
    m = _messages(rows, keys)
    showing: dict[Message, list[int]] = defaultdict(list)
    for place, message in _places_of(m, m.polled, own):
        if len(showing[message]) < AROUND:
            showing[message].append(int(rows.index[m.row[place]]))
    sent = _places_of(m, ~m.polled, messages)
    return _places(rows, m, clients), showing, [int(rows.index[m.row[at]]) for at, _ in sent]


def _messages(rows: Rows, keys: frozenset[int]) -> Messages:
    """The messages of some queues."""
    m = messages_of(rows, np.flatnonzero(rows.client & rows.of(MESSAGES)))
    mine = np.isin(m.key, list(keys))
    return Messages(
        m.row[mine], m.key[mine], m.offset[mine], m.value[mine], m.polled[mine], m.foreign
    )


def _places_of(
    m: Messages, among: Mask, wanted: Collection[Message]
) -> Iterator[tuple[int, Message]]:
    """Where some messages are, in order."""
    for at in np.flatnonzero(among & np.isin(m.value, [value for _, value in wanted])).tolist():
        message = int(m.key[at]), int(m.value[at])
        if message in wanted:
            yield at, message
