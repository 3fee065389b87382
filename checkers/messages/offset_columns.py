"""Consumer offsets by arrays: whether no group was sent back to what it had read.

Where commits are copied in the order in which they were made, those that count for a fetch are the
first ones of a key, so that running maxima say how far it was. Any other key is left to its rows.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from maxq.checkers.core.columnar import UNSURE, Arrays, Dealing, Unsure, keys_of
from maxq.checkers.core.keyed import Event
from maxq.checkers.evidence.observations import NEVER
from maxq.checkers.messages.copied_offsets import Circumstances, Latest, Moves, Quiet
from maxq.histories.columns.beside import beside
from maxq.histories.columns.rows import OK, Rows
from maxq.histories.columns.scan import BEGIN, END, Grammar, Ints, Mask, scan
from maxq.histories.observed import COMMIT_OFFSET, COPIED_NS

_KEY, _OFFSET = 1, 2
_GRAMMAR = Grammar({"[": {BEGIN: _KEY}, ",": {_KEY: _OFFSET}, "]": {_OFFSET: END}})
_FAR_NS = 1 << 60  # beyond it sums of times might not fit


def elements(
    rows: Rows, chosen: Ints, until: int, said: Callable[[Event], Iterable[tuple[int, Any]]]
) -> Dealing:
    """The commits and fetches of a batch that were ok, an element a row.

    Args:
        rows: a batch.
        chosen: operations on offsets, by row.
        until: the index from which on nothing is judged.
        said: what an event says of which keys, if only the decoder can read it.

    Raises:
        HistoryError: a value is not [key, offset].
    """
    chosen = chosen[(rows.type[chosen] == OK) & (rows.index[chosen] < until)]
    found = scan(rows.values(chosen), _GRAMMAR)
    broker, named = _brokers(rows, chosen)
    plain = found.plain & named & (rows.begun[chosen] >= 0)
    foreign = chosen[~plain]
    unsure = set[int]()
    for at, op, begun in rows.events(foreign):
        unsure |= keys_of(said(Event(op, begun, bool(rows.open[at]))))
    row = chosen[plain]
    numbers = found.value[plain[found.row]].reshape(-1, 2)
    arrays = {
        "at": rows.index[row],
        "begun": rows.begun[row],
        "begun_ns": rows.begun_ns[row],
        "time": rows.time[row],
        "offset": numbers[:, 1],
        "commits": rows.is_of(row, COMMIT_OFFSET),
        "broker": broker[plain],
    }
    return Dealing(numbers[:, 0], row, arrays, foreign, frozenset(unsure))


def _brokers(rows: Rows, chosen: Ints) -> tuple[Any, Mask]:
    """Who answered, an array of texts and None; and of which rows that is sure."""
    said, code = beside(rows, chosen)
    brokers = [ext.get("broker") for ext in said]
    sure = np.array([broker is None or isinstance(broker, str) for broker in brokers])
    table = np.empty(len(brokers), object)
    table[:] = brokers
    return table[code], sure[code]


class Clean(NamedTuple):
    """What is counted of a key of which nothing is wrong, as `Kept` has it."""

    judged: int
    elsewhere: int


def clean(a: Arrays, known: Circumstances) -> Clean | Unsure:
    """The counts of a key of which nothing is wrong; or `UNSURE`."""
    if (a["at"][1:] <= a["at"][:-1]).any() or int(a["time"].max(initial=0)) > _FAR_NS:
        return UNSURE
    commits = _of(a, a["commits"])
    fetches = _of(a, ~a["commits"])
    copies = _copies(commits, Quiet(known))
    if copies is None:
        return UNSURE
    moves = Moves(known)
    brokers = dict.fromkeys(commits["broker"].tolist())
    home = {broker: moves.home(broker) for broker in brokers}
    # What counts for each fetch are the first of those that were copied.
    count = np.minimum(
        np.searchsorted(commits["at"][copies.place], fetches["begun"]),
        np.searchsorted(copies.at_ns, fetches["begun_ns"]),
    )
    some = np.flatnonzero(count)
    last = count[some] - 1
    furthest = np.maximum.accumulate(commits["offset"][copies.place])
    if (fetches["offset"][some] < furthest[last]).any():
        return UNSURE
    moved = np.full(len(copies.place), NEVER, np.int64)
    names = _names(commits["broker"], home)
    for name in set(home.values()):
        mine = names[copies.place] == name
        spans = moves.earliest[name]
        ends = np.array([*spans.until, NEVER], np.int64)
        moved[mine] = ends[np.searchsorted(np.array(spans.at, np.int64), copies.until[mine])]
    moved = np.minimum.accumulate(moved)
    judged = int((moved[last] < fetches["begun"][some]).sum())
    return Clean(judged, _elsewhere(commits, fetches, names, moves.latest))


def _of(a: Arrays, chosen: Mask) -> Arrays:
    return {name: column[chosen] for name, column in a.items()}


def _names(broker: Any, home: dict[Any, str | None]) -> Any:
    """The broker set of each, an array of texts and None."""
    names = np.empty(len(broker), object)
    names[:] = [home[b] for b in broker.tolist()]
    return names


class _Copies(NamedTuple):
    """Of the commits that were copied: their place among all, since when (ns), and until which
    index nothing happened."""

    place: Ints
    at_ns: Ints
    until: Ints


def _copies(commits: Arrays, quiet: Quiet) -> _Copies | None:
    """What was copied, in order; None where that is not the order of the commits."""
    at_ns, until_ns, until, since = (
        np.array(column, np.int64)
        for column in (quiet.at_ns, quiet.until_ns, quiet.until, quiet.since)
    )
    if not len(at_ns):
        none = np.zeros(0, np.int64)
        return _Copies(none, none, none)
    if (np.diff(until_ns) < 0).any() or (np.diff(since) < 0).any():
        return None
    span = np.searchsorted(until_ns, commits["time"] + COPIED_NS, "right")
    there = np.minimum(span, len(at_ns) - 1)
    place = np.flatnonzero((span < len(at_ns)) & (since[there] <= commits["begun"]))
    there = there[place]
    copied_ns = np.maximum(at_ns[there], commits["time"][place]) + COPIED_NS
    if (np.diff(copied_ns) < 0).any():
        return None
    return _Copies(place, copied_ns, until[there])


def _elsewhere(
    commits: Arrays, fetches: Arrays, names: Any, latest: dict[str | None, Latest]
) -> int:
    """How many fetches may have been answered by another master than took the last note."""
    before = np.asarray(np.searchsorted(commits["at"], fetches["begun"]), np.int64)
    some = np.flatnonzero(before)
    last = before[some] - 1
    another = np.asarray(commits["broker"][last] != fetches["broker"][some], np.bool_)
    for name, spans in latest.items():
        if spans.at:
            mine = np.flatnonzero(np.asarray(names[last] == name, np.bool_))
            ends = np.array([-NEVER, *spans.until], np.int64)
            met = np.searchsorted(np.array(spans.at, np.int64), fetches["at"][some[mine]])
            another[mine] |= ends[met] > commits["begun"][last[mine]]
    return int(another.sum())
