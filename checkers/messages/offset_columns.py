"""Consumer offsets by arrays: whether no group was sent back to what it had read.

Where commits are copied in the order in which they were made, those that count for a fetch are the
first ones of a key, so that running maxima say how far it was. Any other key is left to its rows.
A key is a group of one process, and there may be many with few offsets: they are judged together.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from maxq.checkers.core.columnar import UNSURE, Arrays, Dealing, Groups, Unsure, keys_of
from maxq.checkers.core.groups import before, chosen, running_max
from maxq.checkers.core.keyed import Event
from maxq.checkers.evidence.observations import NEVER
from maxq.checkers.messages.copied_offsets import Circumstances, Moves, Quiet
from maxq.histories.columns.beside import beside
from maxq.histories.columns.rows import OK, Rows
from maxq.histories.columns.scan import BEGIN, END, Grammar, Ints, Mask, scan
from maxq.histories.observed import COMMIT_OFFSET, COPIED_NS, SLAVE

_KEY, _OFFSET = 1, 2
_GRAMMAR = Grammar({"[": {BEGIN: _KEY}, ",": {_KEY: _OFFSET}, "]": {_OFFSET: END}})
_FAR_NS = 1 << 60  # beyond it sums of times might not fit


def elements(
    rows: Rows, wanted: Ints, until: int, said: Callable[[Event], Iterable[tuple[int, Any]]]
) -> Dealing:
    """The commits and fetches of a batch that were ok, an element a row.

    Args:
        rows: a batch.
        wanted: operations on offsets, by row.
        until: the index from which on nothing is judged.
        said: what an event says of which keys, if only the decoder can read it.

    Raises:
        HistoryError: a value is not [key, offset].
    """
    wanted = wanted[(rows.type[wanted] == OK) & (rows.index[wanted] < until)]
    wanted = wanted[~rows.ext_has(wanted, SLAVE)]
    found = scan(rows.values(wanted), _GRAMMAR)
    broker, named = _brokers(rows, wanted)
    plain = found.plain & named & (rows.begun[wanted] >= 0)
    foreign = wanted[~plain]
    unsure = set[int]()
    for at, op, begun in rows.events(foreign):
        unsure |= keys_of(said(Event(op, begun, bool(rows.open[at]))))
    row = wanted[plain]
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


def _brokers(rows: Rows, wanted: Ints) -> tuple[Any, Mask]:
    """Who answered, an array of texts and None; and of which rows that is sure."""
    said, code = beside(rows, wanted)
    brokers = [ext.get("broker") for ext in said]
    sure = np.array([broker is None or isinstance(broker, str) for broker in brokers])
    table = np.empty(len(brokers), object)
    table[:] = brokers
    return table[code], sure[code]


class Clean(NamedTuple):
    """What is counted of a key of which nothing is wrong, as `Kept` has it."""

    judged: int
    elsewhere: int


def clean(groups: Groups, known: Circumstances) -> list[Clean | Unsure]:
    """The counts of each key of which nothing is wrong; or `UNSURE`."""
    count = len(groups.keys)
    quiet = _Spans.of(Quiet(known))
    if quiet is None:
        return [UNSURE] * count
    a = {"key": groups.number, **groups.arrays}
    good = np.ones(count, np.bool_)
    good[a["key"][1:][(a["key"][1:] == a["key"][:-1]) & (a["at"][1:] <= a["at"][:-1])]] = False
    good[a["key"][a["time"] > _FAR_NS]] = False
    # Who answered, and the broker set of that, as numbers.
    moves = Moves(known)
    codes = {broker: number for number, broker in enumerate(dict.fromkeys(a["broker"].tolist()))}
    a["broker"] = np.fromiter(map(codes.__getitem__, a["broker"].tolist()), np.int64, len(a["key"]))
    a = chosen(a, good[a["key"]] & _by_masters(a, [*codes], moves))
    commits = chosen(a, a["commits"])
    copies = _copies(commits, quiet)
    group = copies.key
    good[group[1:][(group[1:] == group[:-1]) & (np.diff(copies.at_ns) < 0)]] = False
    commits = chosen(commits, good[commits["key"]])
    fetches = chosen(a, ~a["commits"] & good[a["key"]])
    copies = _copies(commits, quiet)

    homes = [moves.home(broker) for broker in codes]
    moved = _moved(commits["broker"][copies.place], copies.until, homes, moves)
    last, some = _counting(commits, copies, fetches)
    furthest = running_max(copies.key, commits["offset"][copies.place])
    behind = fetches["offset"][some] < furthest[last]
    good[fetches["key"][some[behind]]] = False
    earliest = -running_max(copies.key, -moved)
    judged = some[earliest[last] < fetches["begun"][some]]
    another = _elsewhere(commits, fetches, homes, moves)
    return _counted(good, fetches["key"][judged], fetches["key"][another])


def _by_masters(a: Arrays, brokers: Sequence[object], moves: Moves) -> Mask:
    """Which rows are no commits that no master can have taken (`Masters.may_be`)."""
    found = np.ones(len(a["at"]), np.bool_)
    for number, broker in enumerate(brokers):
        masters = moves.masters_of(broker)
        if masters is None:
            continue
        mine = np.flatnonzero((a["broker"] == number) & a["commits"])
        named = np.cumsum([0, *(address == broker for address in masters.address)])
        first = np.searchsorted(np.array(masters.at, np.int64), a["begun"][mine]) - 1
        end = np.searchsorted(np.array(masters.begun, np.int64), a["at"][mine], "right") + 1
        found[mine] = named[np.minimum(end, len(named) - 1)] > named[np.maximum(first, 0)]
    return found


def _counted(good: Mask, judged: Ints, another: Ints) -> list[Clean | Unsure]:
    """What is counted, of each key that is one by one to be counted in these."""
    each = (np.bincount(keys, minlength=len(good)).tolist() for keys in (judged, another))
    numbers = zip(good.tolist(), *each, strict=True)
    return [Clean(j, e) if sure else UNSURE for sure, j, e in numbers]


class _Spans(NamedTuple):
    """The times in which offsets are copied, as `Quiet` has them."""

    at_ns: Ints
    until_ns: Ints
    until: Ints
    since: Ints

    @classmethod
    def of(cls, quiet: Quiet) -> "_Spans | None":
        """None where an order is missing."""
        columns = (quiet.at_ns, quiet.until_ns, quiet.until, quiet.since)
        found = cls(*(np.array(column, np.int64) for column in columns))
        ordered = not (np.diff(found.until_ns) < 0).any() and not (np.diff(found.since) < 0).any()
        return found if ordered else None


class _Copies(NamedTuple):
    """Of the commits that were copied: their place among all, their key, since when (ns), and until
    which index nothing happened."""

    place: Ints
    key: Ints
    at_ns: Ints
    until: Ints


def _copies(commits: Arrays, quiet: _Spans) -> _Copies:
    """What was copied, in order of the commits."""
    if not len(quiet.at_ns):
        none = np.zeros(0, np.int64)
        return _Copies(none, none, none, none)
    span = np.searchsorted(quiet.until_ns, commits["time"] + COPIED_NS, "right")
    there = np.minimum(span, len(quiet.at_ns) - 1)
    place = np.flatnonzero((span < len(quiet.at_ns)) & (quiet.since[there] <= commits["begun"]))
    there = there[place]
    copied_ns = np.maximum(quiet.at_ns[there], commits["time"][place]) + COPIED_NS
    return _Copies(place, commits["key"][place], copied_ns, quiet.until[there])


def _counting(commits: Arrays, copies: _Copies, fetches: Arrays) -> tuple[Ints, Ints]:
    """Of each fetch for which a commit counts the last one that does, by its place among those that
    were copied; and these fetches. What counts are the first ones of its key that were copied."""
    key, at = copies.key, commits["at"][copies.place]
    ended, first = before(key, at, fetches["key"], fetches["begun"])
    copied, _ = before(key, copies.at_ns, fetches["key"], fetches["begun_ns"])
    count = np.minimum(ended, copied)
    some = np.flatnonzero(count)
    return first[some] + count[some] - 1, some


def _moved(broker: Ints, until: Ints, homes: Sequence[str | None], moves: Moves) -> Ints:
    """At which index a fail-over after each copy was over."""
    moved = np.full(len(until), NEVER, np.int64)
    for name in set(homes):
        mine = np.array([home == name for home in homes], np.bool_)[broker]
        spans = moves.earliest[name]
        ends = np.array([*spans.until, NEVER], np.int64)
        moved[mine] = ends[np.searchsorted(np.array(spans.at, np.int64), until[mine])]
    return moved


def _elsewhere(commits: Arrays, fetches: Arrays, homes: Sequence[str | None], moves: Moves) -> Ints:
    """The fetches that may have been answered by another master than took the last note."""
    count, first = before(commits["key"], commits["at"], fetches["key"], fetches["begun"])
    some = np.flatnonzero(count)
    last = first[some] + count[some] - 1
    took = commits["broker"][last]
    another = took != fetches["broker"][some]
    for name, spans in moves.latest.items():
        if spans.at:
            mine = np.flatnonzero(np.array([home == name for home in homes], np.bool_)[took])
            ends = np.array([-NEVER, *spans.until], np.int64)
            met = np.searchsorted(np.array(spans.at, np.int64), fetches["at"][some[mine]])
            another[mine] |= ends[met] > commits["begun"][last[mine]]
    found: Ints = some[another]
    return found
