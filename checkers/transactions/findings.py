"""What is wrong with single reads and writes, whatever depends on what."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from maxq.checkers.linearizability.calls import FAILED, OK, Ints, Mask, shortened
from maxq.checkers.transactions.columns import UNREAD, Transactions
from maxq.checkers.transactions.graph import Edges

SHOWN_MAX = 8  # anomalies of one name; others are counted


class Shown(NamedTuple):
    """One anomaly: its name in the field's terms, why, and the transactions that show it."""

    name: str
    why: str
    txns: tuple[int, ...]


class Findings:
    """Collects anomalies: all are counted, the first of each name are shown. `own_writes` is
    whether one of the internal ones is a read that does not show what was written before."""

    def __init__(self) -> None:
        self.own_writes = False
        self.shown: list[Shown] = []
        self.counts: dict[str, int] = {}

    def add(self, name: str, why: str, *txns: int) -> None:
        """Take one."""
        self.counts[name] = self.counts.get(name, 0) + 1
        if self.counts[name] <= SHOWN_MAX:
            self.shown.append(Shown(name, why, tuple(dict.fromkeys(txns))))

    def more(self, name: str, count: int) -> None:
        """So many others that are not shown."""
        if count > 0:
            self.counts[name] = self.counts.get(name, 0) + count


class Analysis(NamedTuple):
    """`edges` are what depends on what by keys, `size` the vertices with way stations, `there` the
    transactions that took effect; `repeated` the values that were written twice, in words; `loose`
    the parts that wrote versions whose order among each other is not known."""

    findings: Findings
    edges: Edges
    size: int
    there: Mask
    repeated: Sequence[str]
    version: Ints  # of each read: the part that wrote what it returned; NONE: nothing, or own
    loose: Ints


class Places(NamedTuple):
    """Parts by transaction and key, in order: `order` are the parts, `head` where each group of
    them begins in it (for each place)."""

    order: Ints
    head: Ints


def placed(t: Transactions, owner: Ints) -> Places:
    """The parts of each transaction on each key together."""
    pack = owner * max(len(t.keys), 1) + t.key
    order = np.argsort(pack, kind="stable")
    pack = pack[order]
    new = np.ones(len(order), np.bool_)
    new[1:] = pack[1:] != pack[:-1]
    heads = np.flatnonzero(new)
    head = np.repeat(heads, np.diff(np.append(heads, len(order))))
    return Places(order, head)


def final_writes(t: Transactions, places: Places) -> Mask:
    """Of each part: whether it is its transaction's last write of its key."""
    found = np.zeros(t.parts, np.bool_)
    at = np.flatnonzero(t.writes[places.order])
    last = np.ones(len(at), np.bool_)
    last[:-1] = places.head[at][1:] != places.head[at][:-1]
    found[places.order[at[last]]] = True
    return found


class Writers(NamedTuple):
    """Who wrote each value of each key. `twice` are keys on which one was written twice, `many` the
    values of keys that were: who wrote such a one that was read is not known."""

    pack: Ints
    part: Ints
    span: int
    twice: Ints
    many: Ints

    def of(self, key: Ints, value: Ints) -> Ints:
        """The part that wrote each; -1: none."""
        if not len(self.pack):
            return np.full(len(key), -1, np.int64)
        sought = key * self.span + value
        at = np.minimum(np.searchsorted(self.pack, sought), len(self.pack) - 1)
        return np.where(self.pack[at] == sought, self.part[at], -1)

    def sole(self, key: Ints, value: Ints) -> Mask:
        """Whether at most one part wrote each."""
        return ~np.isin(key * self.span + value, self.many)

    def often(self, keys: Sequence[Any], values: Sequence[Any]) -> list[str]:
        """The first values that were written twice, in words."""
        pairs = [divmod(pack, self.span) for pack in self.many[:3].tolist()]
        return [f"{word(values[value])} to key {word(keys[key])}" for key, value in pairs]


def writers(t: Transactions) -> Writers:
    """The table of all writes, also of those that failed."""
    part = np.flatnonzero(t.writes)
    span = max(len(t.values), 1)
    pack = t.key[part] * span + t.value[part]
    order = np.argsort(pack, kind="stable")
    pack, part = pack[order], part[order]
    many = np.unique(pack[1:][pack[1:] == pack[:-1]])
    return Writers(pack, part, span, np.unique(many // span), many)


def lost_updates(
    t: Transactions, owner: Ints, places: Places, version: Ints, there: Mask, findings: Findings
) -> None:
    """Two transactions that read one version of a key and replaced it.

    Args:
        t: the transactions.
        owner: of each part.
        places: of the parts.
        version: of each part that is a first read: a number of what it saw, the same for two
            that saw the same on the same key; -1: it cannot be said.
        there: which transactions took effect.
        findings: gets them.
    """
    order, head = places
    writes = np.zeros(len(order) + 1, np.int64)
    writes[1:] = np.cumsum(t.writes[order])
    heads = np.flatnonzero(head == np.arange(len(order)))
    ends = np.append(heads[1:], len(order))
    first = order[heads]
    good = (~t.writes[first]) & (version[first] >= 0) & there[owner[first]]
    good &= (t.length[first] != UNREAD) & (writes[ends] > writes[heads])
    first = first[good]
    by = np.lexsort((version[first], t.key[first]))
    first = first[by]
    same = np.zeros(len(first), np.bool_)
    same[1:] = (t.key[first][1:] == t.key[first][:-1]) & (version[first][1:] == version[first][:-1])
    for at in np.flatnonzero(same)[: SHOWN_MAX + 1].tolist():
        one, two = int(owner[first[at - 1]]), int(owner[first[at]])
        why = (f"{named(t, one)} and {named(t, two)} both read the same version of key "
               f"{word(t.key_of(int(first[at])))}, and both replaced it")  # fmt: skip
        findings.add("lost-update", why, one, two)
    findings.more("lost-update", int(same.sum()) - SHOWN_MAX - 1)


def word(value: object) -> str:
    """A value, in a story."""
    if value is None:
        return "nil"
    return shortened(msgspec.json.encode(value, enc_hook=str).decode())


def named(t: Transactions, txn: int) -> str:
    """A transaction, by the index of its invocation; one after all others is the initial state."""
    return "the initial state" if txn >= t.size else f"op {int(t.begun[txn])}"


def said(t: Transactions, txn: int, lists: bool = True) -> str:
    """A transaction in words: its process, and what it read and wrote."""
    if txn >= t.size:
        return "the initial state: every key nil"
    parts = []
    for part in range(int(t.first[txn]), int(t.first[txn + 1])):
        key = word(t.key_of(part))
        if t.writes[part]:
            parts.append(f"{'append' if lists else 'w'} {key} {word(t.value_of(part))}")
        elif t.length[part] == UNREAD:
            parts.append(f"r {key} ?")
        else:
            got = word(t.list_of(part)) if lists else word(t.value_of(part))
            parts.append(f"r {key} {got}")
    how = {OK: "", FAILED: ", failed"}.get(int(t.outcome[txn]), ", without an answer")
    return f"{named(t, txn)} (process {int(t.process[txn])}{how}): [{'; '.join(parts)}]"
