"""Which requests for locks can say anything of L6 to L9, by arrays: most are of no quiet period in
which members are silent, and of no time after the last heal."""

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import numpy as np

from maxq.checkers.core.keyed import Event
from maxq.checkers.evidence.observations import NEVER
from maxq.checkers.locks.lease_columns import keys_in
from maxq.checkers.locks.locks import ASKING, asked_of
from maxq.histories.columns.rows import INVOKE, OK, Rows
from maxq.histories.columns.scan import Ints, Mask
from maxq.histories.op import HistoryError


class Spans:
    """Times that do not overlap, by the indices between which they lie, each with a number."""

    def __init__(self, spans: Iterable[tuple[int, int, int]]) -> None:
        found = np.array(sorted({*spans}), np.int64).reshape(-1, 3)
        self._at, self._until, self._number = found.T

    def number(self, index: Ints, other: int) -> Ints:
        """The number of the time in which each index lies; `other` of those that lie in none."""
        if not len(self._at):
            return np.full(len(index), other, np.int64)
        place = np.searchsorted(self._at, index) - 1
        inside = (place >= 0) & (index < self._until[place])
        return np.where(inside, self._number[place], other)


def requests(rows: Rows, chosen: Ints, known: Any, margin_ns: int) -> Ints:
    """Of some rows those at which `maxq.checkers.locks.lock_service` looks.

    Args:
        rows: a batch.
        chosen: operations of locks, by row.
        known: `maxq.checkers.locks.lock_service.Known`.
        margin_ns: how long after a missing answer a request may still take effect.
    """
    kind, index, begun = rows.type[chosen], rows.index[chosen], rows.begun[chosen]
    asks = rows.is_of(chosen, *ASKING)
    found = np.zeros(len(chosen), np.bool_)
    if few := [(q.time.at, q.time.until, 1) for q in known.quorate if not q.enough]:
        lull = Spans(few)
        found |= (lull.number(index, 0) | lull.number(begun, 0)) > 0
    if many := [(q.time.at, q.time.until, q.time.at_ns) for q in known.quorate if q.enough]:
        since_ns = Spans(many).number(index, NEVER - known.wait_ns)
        late = rows.begun_ns[chosen] > since_ns + known.wait_ns
        found |= (
            asks & (since_ns < NEVER - known.wait_ns) & ((kind == OK) | (kind != INVOKE) & late)
        )
    if known.rest.at_ns < NEVER:
        found |= _after(rows, chosen, known, margin_ns)
    return chosen[found | _malformed(rows, chosen)]


def _malformed(rows: Rows, chosen: Ints) -> Mask:
    """What names no key: whoever reads it says so."""
    _, plain = keys_in(rows, chosen)
    found = ~plain
    for at, op, begun in rows.events(chosen[~plain]):
        with suppress(HistoryError):
            asked_of(Event(op, begun, bool(rows.open[at])))
            found[np.searchsorted(chosen, at)] = False
    return found


def _after(rows: Rows, chosen: Ints, known: Any, margin_ns: int) -> Mask:
    """What a request after the last heal may be beside: what ended less than a lease before, or
    never did."""
    since_ns = known.rest.at_ns - known.lease_ns - margin_ns
    never = rows.open[chosen]
    found: Mask = np.where(rows.type[chosen] == INVOKE, never, rows.time[chosen] >= since_ns)
    return found
