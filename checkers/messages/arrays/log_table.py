"""Durability by arrays: the elements of many keys, and the order of each log."""

from collections import Counter
from typing import Any, NamedTuple

import numpy as np

from maxq.checkers.core.columnar import Arrays
from maxq.checkers.core.groups import before, chosen, codes, order_in, starts
from maxq.checkers.evidence.log import LogFacts
from maxq.checkers.messages.arrays.log_runs import ENDED, POLLED, SENT, runs_of
from maxq.checkers.messages.circles import Links
from maxq.histories.columns.messages import NO_OFFSET
from maxq.histories.columns.rows import INFO, OK
from maxq.histories.columns.scan import Ints, Mask

_SENT = ("key", "at", "begun", "value", "offset", "type", "shared", "mixed", "open", "era")
_READ = ("key", "at", "value", "offset", "type", "mixed", "run")
_ENDS = ("key", "at", "begun", "value", "run")
_KINDS = ((SENT, _SENT), (POLLED, _READ), (ENDED, _ENDS))
_NONE = np.zeros(0, np.int64)


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


class InOrder(NamedTuple):
    """How each process read, and sent: the reads, and the sends, of which two follow one another
    and should not; and how many gaps there are within one operation's sends, which are allowed, of
    each key."""

    polls: tuple[Ints, Ints]
    sends: tuple[Ints, Ints]
    gaps: Ints


IN_ORDER = InOrder((_NONE, _NONE), (_NONE, _NONE), _NONE)


class Log:
    """The elements of keys that are `good` so far, each kind by itself, and the order of each log.
    A key that is not good is left to its rows; of a good one some values may be `doubted`.

    By value, in order of keys and values: `key`, `last_seen` (the last ok poll that returned it,
    -1: none), `offset` and `dense` (its place in its log, both -1 where it has none). Of each send
    `seen` is whether an ok poll returned it; `writer` is the value of each read. Empties the
    elements that it is given: they are most of what a large key takes.
    """

    def __init__(self, a: Arrays, good: Mask, known: LogFacts) -> None:
        self.good = good
        self.runs, a["run"], a["era"] = runs_of(a, known)
        self.sent, self.read, self.ends = _by_kind(a)
        self._number()

    def _number(self) -> None:
        sent, read = self.sent, self.read
        self.key = sent["key"]  # ascends, in whatever order its values are
        self.order = order_in(self.key, sent["value"])
        self.values = sent["value"][self.order]
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
        self.doubted = np.zeros(len(self.values), np.bool_)

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

    def doubt(self, values: Ints) -> None:
        """Something may be wrong with values of these numbers."""
        self.doubted[values] = True

    def doubted_keys(self, order: "InOrder") -> Mask:
        """The keys with which something may be wrong."""
        found = np.zeros(len(self.good), np.bool_)
        found[self.key[self.doubted]] = True
        found[self.read["key"][order.polls[1]]] = True
        found[self.sent["key"][order.sends[1]]] = True
        return found

    def see_told_once(self) -> None:
        """See that of each key every value has one sender, and every poll shows what was sent, with
        an offset. Nothing is kept of others."""
        key = self.key
        self.blame(key[1:][(self.values[1:] == self.values[:-1]) & (key[1:] == key[:-1])])
        strange = self.read["key"][(self.read["offset"] < 0) | (self.writer < 0)]
        self.blame(strange)
        if not self.good.all():
            kept = (chosen(a, self.good[a["key"]]) for a in (self.sent, self.read, self.ends))
            self.sent, self.read, self.ends = kept
            self._number()

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


def _by_kind(a: Arrays) -> tuple[Arrays, Arrays, Arrays]:
    """What was sent, what was polled, and confirmed ends. One column at a time goes there."""
    kind = a.pop("kind")
    parts = [(kind == of, names, dict[str, Any]()) for of, names in _KINDS]
    for name in list(a):
        column = a.pop(name)
        for mine, names, part in parts:
            if name in names:
                part[name] = column[mine]
    sent, read, ends = (part for *_, part in parts)
    return sent, read, ends
