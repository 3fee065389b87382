"""Durability by arrays: whether the messages of keys show nothing that is wrong.

The conditions are those of `log_key`, `log_order` and `log`, each turned round: no offset holds two
values, no value has two offsets, each reader went forward one by one, whatever was acknowledged
was read later or nobody had passed it. Where one does not hold, or is not cheap to decide, the key
is left to its rows. Small keys are judged together: each condition is one look at the elements of
all, and says of which keys it does not hold.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from maxq.checkers.core.columnar import UNSURE, Arrays, Groups, Unsure
from maxq.checkers.core.groups import before, chosen, codes, order_in, running_max, starts
from maxq.checkers.evidence.log import LogFacts
from maxq.checkers.messages.arrays.log_runs import ENDED, POLLED, SENT, Runs, runs_of
from maxq.checkers.messages.circles import NONE, Links, links
from maxq.histories.columns.messages import NO_OFFSET
from maxq.histories.columns.rows import FAIL, INFO, OK
from maxq.histories.columns.scan import Ints, Mask, distinct, order_of

TOGETHER = 1 << 18  # elements of keys that are judged together, if there are several
_SENT = ("key", "at", "begun", "value", "offset", "type", "shared", "mixed")
_READ = ("key", "at", "value", "offset", "type", "mixed")
_ENDS = ("key", "at", "begun", "value")


class Clean(NamedTuple):
    """What is counted of a key of which nothing is wrong, as `KeyVerdict` has it."""

    names: Counter[tuple[str, bool]]
    unseen: int
    sent: int
    acknowledged: int
    read: int
    ok_read: bool
    ends: int
    proven_alone: int
    proven: frozenset[int]
    unproven: frozenset[int]
    links: Links


def clean(groups: Groups, known: LogFacts, *, orders: bool) -> list[Clean | Unsure]:
    """The counts of each key of which nothing is wrong; or `UNSURE`.

    Args:
        groups: the elements of each key.
        known: of the whole history.
        orders: whether each process's order is judged.
    """
    return [answer for part in _parts(groups) for answer in _clean(part, known, orders=orders)]


def _parts(groups: Groups) -> Iterator[Groups]:
    """Several small keys, or a large one."""
    first = 0
    while first < len(groups.keys):
        full = np.searchsorted(groups.bounds, groups.bounds[first] + TOGETHER, "right") - 1
        last = max(first + 1, int(full))
        begin, end = groups.bounds[[first, last]]
        arrays = {name: column[begin:end] for name, column in groups.arrays.items()}
        yield Groups(groups.keys[first:last], groups.bounds[first : last + 1] - begin, arrays)
        first = last


def _clean(groups: Groups, known: LogFacts, *, orders: bool) -> list[Clean | Unsure]:
    good = np.array([not known.expired.get(key) for key in groups.keys], np.bool_)
    a = {"key": groups.number, **groups.arrays}
    if a["open"].any():  # what never completed comes last
        a = chosen(a, order_of(2 * a["key"] + a["open"]))
    log = _Log(a, good)
    if not log.told_once():
        log = _Log(a, good)
    log.settle()
    if good.any():
        _read_well(log)
        runs = runs_of(log.elements, known)
        _not_passed(log, runs)
        _still_there(log, runs, known)
    skips = _in_order(log, runs) if orders and good.any() else np.zeros(0, np.int64)
    return _counted(log, skips)


class _Log:
    """The elements of keys that are `good` so far, each kind by itself, and the order of each log.

    By value, in order of keys and values: `key`, `last_seen` (the last ok poll that returned it,
    -1: none), `offset` and `dense` (its place in its log, both -1 where it has none). Of each send
    `seen` is whether an ok poll returned it; `writer` is the value of each read.
    """

    def __init__(self, a: Arrays, good: Mask) -> None:
        self.good = good
        self.elements = a = a if good.all() else chosen(a, good[a["key"]])
        self.is_sent, self.is_read, self.is_end = (
            a["kind"] == kind for kind in (SENT, POLLED, ENDED)
        )
        sent = self.sent = {name: a[name][self.is_sent] for name in _SENT}
        read = self.read = {name: a[name][self.is_read] for name in _READ}
        self.ends = {name: a[name][self.is_end] for name in _ENDS}
        self.order = order_in(sent["key"], sent["value"])
        self.key, self.values = sent["key"][self.order], sent["value"][self.order]
        self.number = np.empty(len(self.order), np.int64)  # of each send's value
        self.number[self.order] = np.arange(len(self.order))
        self.writer = self._writers()
        self.last_seen = np.full(len(self.values), -1, np.int64)
        self.ok = read["type"] == OK
        shown = self.ok & (self.writer >= 0)
        np.maximum.at(self.last_seen, self.writer[shown], read["at"][shown])
        self.seen = self.last_seen[self.number] >= 0
        self.unsure = np.flatnonzero(sent["type"] == INFO)
        op = codes(sent["key"][self.unsure], sent["at"][self.unsure])
        happened = np.isin(op, op[self.seen[self.unsure]])
        self.committed = sent["type"] == OK
        self.committed[self.unsure[happened]] = True

    def _writers(self) -> Ints:
        """Which value each read has, of those that were sent; -1: it was not."""
        key, value = self.read["key"], self.read["value"]
        if not len(self.values):
            return np.full(len(value), -1, np.int64)
        count, first = before(self.key, self.values, key, value)
        at = np.minimum(first + count, len(self.values) - 1)
        return np.where((self.values[at] == value) & (self.key[at] == key), at, -1)

    def blame(self, keys: Ints) -> None:
        """These keys are not good."""
        self.good[keys] = False

    def told_once(self) -> bool:
        """Whether every value has one sender, and every poll shows what was sent, with an offset;
        of each key."""
        key = self.key
        self.blame(key[1:][(self.values[1:] == self.values[:-1]) & (key[1:] == key[:-1])])
        strange = self.read["key"][(self.read["offset"] < 0) | (self.writer < 0)]
        self.blame(strange)
        return bool(self.good[self.elements["key"]].all())

    def settle(self) -> None:
        """Put each log in order: every value must have one offset, and every offset one value."""
        sent, read = self.sent, self.read
        # An offset of each value, by the reads; then by the sends that know it.
        self.offset = np.full(len(self.values), NO_OFFSET, np.int64)
        self.offset[self.writer] = read["offset"]
        self.blame(read["key"][self.offset[self.writer] != read["offset"]])
        knows = np.flatnonzero(self.committed & (sent["offset"] >= 0))
        mine, told = self.number[knows], sent["offset"][knows]
        differs = (self.offset[mine] >= 0) & (self.offset[mine] != told)
        self.blame(sent["key"][knows[differs]])
        self.offset[mine] = told
        held = np.flatnonzero(self.offset >= 0)
        held = held[order_in(self.key[held], self.offset[held])]
        key, offset = self.key[held], self.offset[held]
        self.blame(key[1:][(offset[1:] == offset[:-1]) & (key[1:] == key[:-1])])
        self.dense = np.full(len(self.values), -1, np.int64)
        self.dense[held] = np.arange(len(held)) - starts(key)
        self.sent_place = self.dense[self.number]
        self.read_place = self.dense[self.writer]


def _read_well(log: _Log) -> None:
    """Nobody read what was sent by itself, had failed, or was sent later."""
    sent, read = log.sent, log.read
    by = log.order[log.writer]
    bad = (sent["type"][by] == FAIL) | (read["at"] < sent["begun"][by])
    log.blame(read["key"][(bad & log.ok) | (sent["at"][by] == read["at"])])


def _not_passed(log: _Log, runs: Runs) -> None:
    """No run of reading went past a message that no poll returned."""
    lacking = np.flatnonzero(log.committed & ~log.seen & (log.sent_place >= 0))
    if not len(lacking):
        return
    of_read = runs.run[log.is_read][log.ok]
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
    log.blame(key[(count > 0) & (furthest[first + count - 1] >= place)])


def _still_there(log: _Log, runs: Runs, known: LogFacts) -> None:
    """No confirmed end of the log shows that a message is not in it."""
    ends = log.ends
    if not len(ends["at"]):
        return
    of_end = runs.run[log.is_end]
    # What was shown, and then again after the log may have been shorter.
    order = np.lexsort((of_end, ends["begun"], ends["at"], ends["value"], ends["key"]))
    latest = running_max(ends["key"][order], ends["begun"][order])
    shown = np.flatnonzero(log.last_seen >= 0)
    key, seen = log.key[shown], log.last_seen[shown]
    count, first = before(ends["key"][order], ends["value"][order], key, log.offset[shown], "right")
    log.blame(key[(count > 0) & (seen < latest[first + count - 1])])
    # What was acknowledged before a re-read from the start, and is not in it.
    sought = distinct(of_end[runs.seek[of_end] >= 0])
    last_seek = np.full(len(log.good), -1, np.int64)
    np.maximum.at(last_seek, runs.key[sought], runs.seek[sought])
    log.blame(key[seen < last_seek[key]])
    left = _acknowledged_since(log, runs, sought, known)
    left = left[~log.seen[left]]
    last_end = np.full(len(log.good), -1, np.int64)
    np.maximum.at(last_end, ends["key"], ends["begun"])
    key = log.sent["key"][left]
    log.blame(key[log.sent["at"][left] < last_end[key]])


def _acknowledged_since(log: _Log, runs: Runs, sought: Ints, known: LogFacts) -> Ints:
    """The acknowledged sends behind the last complete re-read of each replica that was made master;
    all others must be in it."""
    elected = np.array(known.elected, np.int64)
    reigns = np.searchsorted(elected, runs.seek[sought], "right")
    read_reign = np.searchsorted(elected, log.read["at"], "right") if len(elected) else 0
    left = np.flatnonzero(log.sent["type"] == OK)
    key, at = log.sent["key"][left], log.sent["at"][left]
    covered = np.zeros(len(left), np.bool_)
    for reign in distinct(reigns).tolist():
        since = np.full(len(log.good), -1, np.int64)
        mine = sought[reigns == reign]
        np.maximum.at(since, runs.key[mine], runs.seek[mine])
        begun = since[log.read["key"]]
        inside = log.ok & (begun >= 0) & (log.read["at"] >= begun) & (read_reign == reign)
        read = np.zeros(len(log.values), np.bool_)
        read[log.writer[inside]] = True
        before_it = at < since[key]
        log.blame(key[before_it & ~read[log.number[left]]])
        covered |= before_it
    found: Ints = left[~covered]
    return found


def _in_order(log: _Log, runs: Runs) -> Ints:
    """Each process read, and sent, in order. How many gaps there are within one operation's sends,
    which are allowed, of each key."""
    log.blame(log.read["key"][~log.ok])
    place = log.read_place
    first, second = _following(runs.run[log.is_read], np.arange(len(place)))
    log.blame(log.read["key"][second[place[second] - place[first] != 1]])
    key, at, place = log.sent["key"], log.sent["at"], log.sent_place
    era, some = runs.era[log.is_sent], np.flatnonzero(log.sent["type"] != FAIL)
    skips = np.zeros(0, np.int64)
    for which in (some, some[place[some] >= 0]):  # and as if one without a place were not there
        first, second = _following(era, which)
        by = place[second] - place[first]
        known = (place[first] >= 0) & (place[second] >= 0)
        log.blame(key[second[known & (by < 1)]])
        if which is some:
            skips = key[second[known & (by > 1) & (at[first] == at[second])]]
    return np.bincount(skips, minlength=len(log.good))


def _following(number: Ints, which: Ints) -> tuple[Ints, Ints]:
    """Of some elements each two that follow one another under the same number."""
    number = number[which]
    order = order_of(number)
    number, which = number[order], which[order]
    second = np.flatnonzero(number[1:] == number[:-1]) + 1
    return which[second - 1], which[second]


def _counts(log: _Log) -> Iterator[list[int]]:
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


def _counted(log: _Log, skips: Ints) -> list[Clean | Unsure]:
    good, sent = log.good, log.sent
    shared = log.unsure[sent["shared"][log.unsure]]
    by_key = partial(_by_key, sent["key"], sent["at"])
    proven, apart = by_key(shared[log.seen[shared]]), by_key(shared)
    linked = _links(log) if good.any() else {}
    gaps = dict(enumerate(skips.tolist()))
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


def _links(log: _Log) -> dict[int, Links]:
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
