"""Durability by arrays: whether the messages of keys show nothing that is wrong.

The conditions are those of `log_key`, `log_order` and `log`, each turned round: no offset holds two
values, no value has two offsets, each reader went forward one by one, whatever was acknowledged
was read later or nobody had passed it. Small keys are judged together: each condition is one look
at the elements of all.

Where every value has one place in its log, a condition that does not hold is one of few messages:
`log_suspects` says what is wrong with them. Where one has none, or is not cheap to decide, the key
is left to its rows.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial

import numpy as np

from maxq.checkers.core.columnar import UNSURE, Groups, Unsure
from maxq.checkers.core.groups import before, chosen, codes, order_in, running_max
from maxq.checkers.evidence.log import LogFacts
from maxq.checkers.messages.arrays.log_suspects import suspected
from maxq.checkers.messages.arrays.log_table import IN_ORDER, Clean, InOrder, Log
from maxq.checkers.messages.circles import NONE, Links, links
from maxq.histories.columns.rows import FAIL, OK
from maxq.histories.columns.scan import Ints, Mask, distinct, order_of

TOGETHER = 1 << 18  # elements of keys that are judged together, if there are several


def clean(groups: Groups, known: LogFacts, *, orders: bool) -> list[Clean | Unsure]:
    """The counts of each key of which nothing is wrong; or `Unsure`, with a `Suspect` where few
    rows are enough.

    Args:
        groups: the elements of each key.
        known: of the whole history.
        orders: whether each process's order is judged.
    """
    return [answer for part in _parts(groups) for answer in _clean(part, known, orders=orders)]


def _parts(groups: Groups) -> Iterator[Groups]:
    """Several small keys, or a large one. Spends the groups' arrays."""
    first, count = 0, len(groups.keys)
    while first < count:
        full = np.searchsorted(groups.bounds, groups.bounds[first] + TOGETHER, "right") - 1
        last = max(first + 1, int(full))
        begin, end = groups.bounds[[first, last]]
        arrays = {name: column[begin:end] for name, column in groups.arrays.items()}
        if last == count:
            groups.arrays.clear()
        yield Groups(groups.keys[first:last], groups.bounds[first : last + 1] - begin, arrays)
        first = last


def _clean(groups: Groups, known: LogFacts, *, orders: bool) -> list[Clean | Unsure]:
    good = np.array([not known.expired.get(key) for key in groups.keys], np.bool_)
    log = _log(groups, good, known)
    log.settle()
    if not good.any():
        return [UNSURE] * len(good)
    _read_well(log)
    _not_passed(log)
    _still_there(log, known)
    order = _in_order(log) if orders else IN_ORDER
    counted = _counted(log, order.gaps)
    for at in np.flatnonzero(log.doubted_keys(order)).tolist():
        own = counted[at]
        if isinstance(own, Clean):
            counted[at] = suspected(log, order, (at, groups.keys[at]), known, own)
    return counted


def _log(groups: Groups, good: Mask, known: LogFacts) -> Log:
    """The elements of the keys that are good, after a look at them. Spends the groups' arrays."""
    a = {"key": groups.number}
    order = None
    if (never := groups.arrays["open"]).any():  # what never completed comes last
        order = order_of(2 * a["key"] + never)
        a["key"] = a["key"][order]
    for name in list(groups.arrays):  # one at a time: they are most of what a large key takes
        column = groups.arrays.pop(name)
        a[name] = column if order is None else column[order]
    if not good.all():
        a = chosen(a, good[a["key"]])
    log = Log(a, good, known)
    log.see_told_once()
    return log


def _read_well(log: Log) -> None:
    """Nobody read what was sent by itself, had failed, or was sent later."""
    sent, read = log.sent, log.read
    by = log.order[log.writer]
    bad = (sent["type"][by] == FAIL) | (read["at"] < sent["begun"][by])
    log.doubt(log.writer[(bad & log.ok) | (sent["at"][by] == read["at"])])


def _not_passed(log: Log) -> None:
    """No run of reading went past a message that no poll returned."""
    runs = log.runs
    lacking = np.flatnonzero(log.committed & ~log.seen & (log.sent_place >= 0))
    if not len(lacking):
        return
    of_read = log.read["run"][log.ok]
    low = np.full(len(runs.key), np.iinfo(np.int64).max)
    high = np.full(len(runs.key), -1, np.int64)
    np.minimum.at(low, of_read, log.read_place[log.ok])
    np.maximum.at(high, of_read, log.read_place[log.ok])
    low[runs.from_start] = -1
    # Sorted by where they begin: the furthest of those that began before a place.
    went = np.flatnonzero(high >= 0)
    went = went[np.lexsort((low[went], runs.key[went]))]
    if not len(went):
        return
    furthest = running_max(runs.key[went], high[went])
    key, place = log.sent["key"][lacking], log.sent_place[lacking]
    count, first = before(runs.key[went], low[went], key, place, "right")
    log.doubt(log.number[lacking[(count > 0) & (furthest[first + count - 1] >= place)]])


def _still_there(log: Log, known: LogFacts) -> None:
    """No confirmed end of the log shows that a message is not in it."""
    ends, runs = log.ends, log.runs
    if not len(ends["at"]):
        return
    of_end = ends["run"]
    # What was shown, and then again after the log may have been shorter.
    order = np.lexsort((of_end, ends["begun"], ends["at"], ends["value"], ends["key"]))
    latest = running_max(ends["key"][order], ends["begun"][order])
    shown = np.flatnonzero(log.last_seen >= 0)
    key, seen = log.key[shown], log.last_seen[shown]
    count, first = before(ends["key"][order], ends["value"][order], key, log.offset[shown], "right")
    log.doubt(shown[(count > 0) & (seen < latest[first + count - 1])])
    # What was acknowledged before a re-read from the start, and is not in it.
    sought = distinct(of_end[runs.seek[of_end] >= 0])
    last_seek = np.full(len(log.good), -1, np.int64)
    np.maximum.at(last_seek, runs.key[sought], runs.seek[sought])
    log.doubt(shown[seen < last_seek[key]])
    left = _acknowledged_since(log, sought, known)
    left = left[~log.seen[left]]
    last_end = np.full(len(log.good), -1, np.int64)
    np.maximum.at(last_end, ends["key"], ends["begun"])
    key = log.sent["key"][left]
    log.doubt(log.number[left[log.sent["at"][left] < last_end[key]]])


def _acknowledged_since(log: Log, sought: Ints, known: LogFacts) -> Ints:
    """The acknowledged sends behind the last complete re-read of each replica that was made master;
    all others must be in it."""
    runs, elected = log.runs, np.array(known.elected, np.int64)
    reigns = np.searchsorted(elected, runs.seek[sought], "right")
    left = np.flatnonzero(log.sent["type"] == OK)
    key, at = log.sent["key"][left], log.sent["at"][left]
    covered = np.zeros(len(left), np.bool_)
    for reign in distinct(reigns).tolist():
        since = np.full(len(log.good), -1, np.int64)
        mine = sought[reigns == reign]
        np.maximum.at(since, runs.key[mine], runs.seek[mine])
        first, end = _bounds(elected, reign)
        inside = np.flatnonzero(log.ok & (log.read["at"] >= first) & (log.read["at"] < end))
        begun = since[log.read["key"][inside]]
        inside = inside[(begun >= 0) & (log.read["at"][inside] >= begun)]
        read = np.zeros(len(log.values), np.bool_)
        read[log.writer[inside]] = True
        before_it = at < since[key]
        log.doubt(log.number[left[before_it & ~read[log.number[left]]]])
        covered |= before_it
    found: Ints = left[~covered]
    return found


def _bounds(elected: Ints, reign: int) -> tuple[int, int]:
    """When a reign begins, and when the next one does."""
    first = int(elected[reign - 1]) if reign else -1
    return first, int(elected[reign]) if reign < len(elected) else np.iinfo(np.int64).max


def _in_order(log: Log) -> InOrder:
    log.blame(log.read["key"][~log.ok])
    place = log.read_place
    first, second = _following(log.read["run"], np.arange(len(place)))
    wrong = place[second] - place[first] != 1
    polls = first[wrong], second[wrong]
    key, at, place = log.sent["key"], log.sent["at"], log.sent_place
    era, some = log.sent["era"], np.flatnonzero(log.sent["type"] != FAIL)
    first, second = _following(era, some)
    by = place[second] - place[first]
    known = (place[first] >= 0) & (place[second] >= 0)
    gaps = key[second[known & (by > 1) & (at[first] == at[second])]]
    wrong = known & (by < 1)
    sends = first[wrong], second[wrong]
    # And as if one without a place were not there: readers may show another order.
    first, second = _following(era, some[place[some] >= 0])
    wrong = place[second] - place[first] < 1
    log.blame(key[second[wrong & ~np.isin(second, sends[1])]])
    return InOrder(polls, sends, np.bincount(gaps, minlength=len(log.good)))


def _following(number: Ints, which: Ints) -> tuple[Ints, Ints]:
    """Of some elements each two that follow one another under the same number."""
    number = number[which]
    order = order_of(number)
    number, which = number[order], which[order]
    second = np.flatnonzero(number[1:] == number[:-1]) + 1
    return which[second - 1], which[second]


def _counts(log: Log) -> Iterator[list[int]]:
    """The numbers of `Clean`, each of every key."""
    sent, read, unsure = log.sent, log.read, log.unsure
    acknowledged = sent["type"] == OK
    alone = unsure[log.seen[unsure] & ~sent["shared"][unsure]]
    each = np.diff(codes(sent["key"][alone], sent["at"][alone]), prepend=-1) != 0  # operation
    for keys in (
        sent["key"][acknowledged & ~log.seen], sent["key"], sent["key"][acknowledged],
        read["key"], read["key"][log.ok], log.ends["key"], sent["key"][alone[each]],
    ):  # fmt: skip
        yield np.bincount(keys, minlength=len(log.good)).tolist()


def _counted(log: Log, skips: Ints) -> list[Clean | Unsure]:
    good, sent = log.good, log.sent
    shared = log.unsure[sent["shared"][log.unsure]]
    by_key = partial(_by_key, sent["key"], sent["at"])
    proven, apart = by_key(shared[log.seen[shared]]), by_key(shared)
    linked, gaps = _links(log), dict(enumerate(skips.tolist()))
    found: list[Clean | Unsure] = []
    for key, (sure, *numbers) in enumerate(zip(good.tolist(), *_counts(log), strict=True)):
        if not sure:
            found.append(UNSURE)
            continue
        lacking, of_sends, answered, reads, ok_reads, ends, alone_here = numbers
        names = Counter({("unseen", False): 1} if lacking else {})
        if gaps.get(key):
            names["int-send-skip", False] = gaps[key]
        mine = frozenset(proven.get(key, ()))
        found.append(Clean(
            names, lacking, of_sends, answered, reads, ok_reads > 0, ends, alone_here, mine,
            frozenset(apart.get(key, ())) - mine, linked.get(key, NONE),
        ))  # fmt: skip
    return found


def _by_key(keys: Ints, values: Ints, which: Ints) -> dict[int, list[int]]:
    """Of some elements the values of each key that has some; keys ascend."""
    if not len(which):
        return {}
    key = keys[which]
    heads = np.flatnonzero(np.diff(key, prepend=-1))
    ends = [*heads[1:].tolist(), len(key)]
    every = values[which].tolist()
    return {
        k: every[begin:end]
        for k, begin, end in zip(key[heads].tolist(), heads.tolist(), ends, strict=True)
    }


def _links(log: Log) -> dict[int, Links]:
    """As `links_of` has them, of each key that has some."""
    sent, read = log.sent, log.read
    chain = np.flatnonzero(sent["shared"] & log.committed & (log.sent_place >= 0))
    chain = chain[order_in(sent["key"][chain], log.sent_place[chain])]
    by = log.order[log.writer]
    both = np.flatnonzero(read["mixed"] & sent["mixed"][by] & log.ok & (sent["type"][by] == OK))
    chains = _by_key(sent["key"], sent["at"], chain)
    one, two = (_by_key(read["key"], at, both) for at in (sent["at"][by], read["at"]))
    return {key: links(chains.get(key, ()), _pairs(one, two, key)) for key in {*chains, *one}}


def _pairs(
    one: dict[int, list[int]], two: dict[int, list[int]], key: int
) -> Iterable[tuple[int, int]]:
    return zip(one.get(key, ()), two.get(key, ()), strict=True)
