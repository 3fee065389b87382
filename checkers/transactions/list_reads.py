"""Lists as they were read: the order of their versions, and what is wrong with single reads.

Source: docs/spec/checkers.md 9. Kingsbury and Alvaro, *Elle*, VLDB 2020.
"""

from typing import NamedTuple

import numpy as np

from maxq.checkers.linearizability.calls import FAILED, OK, Ints, Mask
from maxq.checkers.transactions.columns import UNREAD, Transactions
from maxq.checkers.transactions.findings import SHOWN_MAX, Findings, Places, Writers, named, word
from maxq.checkers.transactions.graph import NONE

BLOCK = 1 << 17  # elements that are compared at a time


class Orders(NamedTuple):
    """The elements of the longest reads, key by key. `base` is where each key's begin, `size` how
    many there are; of each element the part that wrote it (`part`, -1: nobody) and that one's
    transaction (`txn`); `run` is where those of one transaction that stand together begin. Who
    wrote it is known where nobody else did (`sole`), and its place where of no value of its key two
    did (`sure`)."""

    base: Ints
    size: Ints
    key: Ints
    value: Ints
    part: Ints
    txn: Ints
    run: Ints
    sole: Mask
    sure: Mask


def orders_of(t: Transactions, owner: Ints, reads: Ints, table: Writers) -> Orders:
    """The longest read of each key, and who wrote what it shows.

    Args:
        t: the transactions.
        owner: of each part.
        reads: the parts that read, and whose answer is known.
        table: who wrote what.
    """
    size = np.zeros(len(t.keys), np.int64)
    np.maximum.at(size, t.key[reads], t.length[reads])
    longest = reads[t.length[reads] == size[t.key[reads]]]
    chosen = np.full(len(t.keys), NONE)
    chosen[t.key[longest][::-1]] = longest[::-1]
    base = np.cumsum(size) - size
    key = np.repeat(np.arange(len(t.keys)), size)
    at = np.arange(len(key)) - base[key]
    value = t.elements[t.start[chosen[key]] + at]
    part = table.of(key, value)
    txn = np.where(part >= 0, owner[part], NONE)
    new = np.ones(len(key), np.bool_)
    new[1:] = (txn[1:] != txn[:-1]) | (key[1:] != key[:-1]) | (txn[1:] < 0)
    run = np.maximum.accumulate(np.where(new, np.arange(len(key)), 0))
    sure = ~np.isin(key, table.twice)
    return Orders(base, size, key, value, part, txn, run, table.sole(key, value), sure)


def unlike(t: Transactions, reads: Ints, length: Ints, base: Ints, value: Ints) -> Ints:
    """The places, in `reads`, of those of which an element is another than it must be. Some reads
    at a time: as many as a processor's cache holds.

    Args:
        t: the transactions.
        reads: the parts.
        length: how many elements of each are compared.
        base: where what they must be begins, in `value`.
        value: codes of values.
    """
    ends = np.cumsum(length)
    found, first = [], 0
    while first < len(reads):
        last = int(np.searchsorted(ends, ends[first] - length[first] + BLOCK, side="right"))
        last = max(last, first + 1)
        some = length[first:last]
        heads = np.cumsum(some) - some
        nth = np.arange(int(some.sum()))
        elements = t.elements[nth + np.repeat(t.start[reads[first:last]] - heads, some)]
        wrong = elements != value[nth + np.repeat(base[first:last] - heads, some)]
        if np.any(wrong):
            at = np.searchsorted(heads, np.flatnonzero(wrong), side="right") - 1
            found.append(first + np.unique(at))
        first = last
    return np.concatenate(found) if found else np.zeros(0, np.int64)


def _spread(starts: Ints, lengths: Ints) -> Ints:
    """The places of runs, one after the other."""
    nth = np.arange(int(lengths.sum()))
    return np.asarray(nth + np.repeat(starts - (np.cumsum(lengths) - lengths), lengths))


def internal(t: Transactions, owner: Ints, places: Places, findings: Findings) -> None:
    """A read that does not show what its own transaction read and appended before."""
    order, head = places
    known = ~t.writes[order] & (t.length[order] != UNREAD)
    later = np.flatnonzero(known & (head != np.arange(len(order))))
    if not len(later):
        return
    place = np.arange(len(order))
    last = np.maximum.accumulate(np.where(known, place, NONE))
    before = np.append(NONE, last[:-1])[later]
    fresh = before < head[later]  # no read of the key before in the transaction
    appended = np.append(0, np.cumsum(t.writes[order]))
    count = appended[later] - appended[np.where(fresh, head[later], before + 1)]
    read = order[later]
    size = t.length[read]
    had = np.where(fresh, np.maximum(size - count, 0), t.length[order[before]])
    wrong = size != had + count
    good = np.flatnonzero(~wrong)
    rows = np.repeat(good, count[good])  # each append of one's own, against where it must stand
    mine = np.flatnonzero(t.writes[order])
    nth = _spread(np.zeros(len(good), np.int64), count[good])
    own = order[mine[appended[later[rows]] - count[rows] + nth]]
    here = t.elements[t.start[read[rows]] + had[rows] + nth]
    wrong[rows[here != t.value[own]]] = True
    again = good[~fresh[good]]
    rows = np.repeat(again, had[again])
    nth = _spread(np.zeros(len(again), np.int64), had[again])
    here = t.elements[t.start[read[rows]] + nth]
    wrong[rows[here != t.elements[t.start[order[before[rows]]] + nth]]] = True
    bad = read[wrong]
    for part in bad[:SHOWN_MAX].tolist():
        why = (f"{named(t, int(owner[part]))} read key {word(t.key_of(part))} as "
               f"{word(t.list_of(part))}, which is not what it had read and appended itself "
               "before")  # fmt: skip
        findings.add("internal", why, int(owner[part]))
    findings.more("internal", len(bad) - SHOWN_MAX)


def own_future(
    t: Transactions, owner: Ints, places: Places, orders: Orders, findings: Findings
) -> None:
    """A read that shows what its own transaction appends only afterwards."""
    order, head = places
    known = np.flatnonzero(~t.writes[order] & (t.length[order] != UNREAD))
    appended = np.append(0, np.cumsum(t.writes[order]))
    before = appended[known] - appended[head[known]]
    read = order[known]
    span = max(len(t.keys), 1)
    own = np.flatnonzero((orders.txn >= 0) & orders.sure)
    pack = orders.txn[own] * span + orders.key[own]
    by = np.argsort(pack, kind="stable")  # of each pair the first place comes first
    pack, own = pack[by], own[by]
    sought = owner[read] * span + t.key[read]
    at = np.searchsorted(pack, sought)
    hit = np.flatnonzero(np.append(pack, -1)[np.minimum(at, len(pack))] == sought)
    read, first = read[hit], own[at[hit]]
    bad = read[first < orders.base[t.key[read]] + t.length[read] - before[hit]]
    for part in bad[:SHOWN_MAX].tolist():
        why = (f"{named(t, int(owner[part]))} read key {word(t.key_of(part))} as "
               f"{word(t.list_of(part))}, which shows what it appended only "
               "afterwards")  # fmt: skip
        findings.add("internal", why, int(owner[part]))
    findings.more("internal", len(bad) - SHOWN_MAX)


def disordered(
    t: Transactions, owner: Ints, places: Places, orders: Orders, findings: Findings
) -> None:
    """What one transaction appended to a key, shown in another order, or without its first."""
    order, head = places
    appended = np.append(0, np.cumsum(t.writes[order]))
    nth = np.full(t.parts, NONE)  # which of its transaction's appends to its key a part is
    nth[order] = appended[:-1] - appended[head]
    own = np.flatnonzero((orders.txn >= 0) & orders.sure)
    pack = orders.txn[own] * max(len(t.keys), 1) + orders.key[own]
    by = np.argsort(pack, kind="stable")
    pack, own = pack[by], own[by]
    new = np.ones(len(own), np.bool_)
    new[1:] = pack[1:] != pack[:-1]
    heads = np.flatnonzero(new)
    rank = np.arange(len(own)) - np.repeat(heads, np.diff(np.append(heads, len(own))))
    bad = own[rank != nth[orders.part[own]]]
    for place in bad[:SHOWN_MAX].tolist():
        txn, key = int(orders.txn[place]), int(orders.key[place])
        why = (f"{named(t, txn)} appended several values to key {word(t.keys[key])}, of which "
               f"{word(t.values[orders.value[place]])} is not shown in its place")  # fmt: skip
        findings.add("incompatible-order", why, txn)
    findings.more("incompatible-order", len(bad) - SHOWN_MAX)


def elements_of(
    t: Transactions, owner: Ints, reads: Ints, orders: Orders, findings: Findings
) -> None:
    """Elements that nobody appended, that a failed transaction did, or that are there twice."""
    outcome = np.where((orders.part >= 0) & orders.sole, t.outcome[orders.txn], NONE)
    for place in np.flatnonzero(orders.part < 0)[: SHOWN_MAX + 1].tolist():
        reader = _reader(t, owner, reads, orders, place)
        why = (f"{named(t, reader)} read {word(t.values[orders.value[place]])} in key "
               f"{word(t.keys[orders.key[place]])}, which nobody appended")  # fmt: skip
        findings.add("phantom", why, reader)
    for place in np.flatnonzero(outcome == FAILED).tolist():
        reader, writer = _reader(t, owner, reads, orders, place), int(orders.txn[place])
        if reader == writer:
            continue
        what = f"{word(t.values[orders.value[place]])} to key {word(t.keys[orders.key[place]])}"
        why = f"{named(t, reader)} read what {named(t, writer)} appended, which failed: {what}"
        findings.add("G1a", why, reader, writer)
        after = place + 1
        while after < len(orders.key) and orders.key[after] == orders.key[place]:
            if outcome[after] == OK and orders.txn[after] != reader:
                later = int(orders.txn[after])
                why = (
                    f"{named(t, later)} appended after {what}, of {named(t, writer)}, which failed"
                )
                findings.add("dirty-update", why, writer, later)
                break
            after += 1
    pack = np.sort((orders.key * max(len(t.values), 1) + orders.value)[orders.sole])
    for twice in np.unique(pack[1:][pack[1:] == pack[:-1]]).tolist():
        key, value = divmod(twice, max(len(t.values), 1))
        place = int(np.flatnonzero((orders.key == key) & (orders.value == value))[1])
        reader = _reader(t, owner, reads, orders, place)
        why = f"{named(t, reader)} read {word(t.values[value])} twice in key {word(t.keys[key])}"
        findings.add("duplicate-elements", why, reader)


def _reader(t: Transactions, owner: Ints, reads: Ints, orders: Orders, place: int) -> int:
    """A transaction that read an element."""
    key = orders.key[place]
    long = (t.key[reads] == key) & (t.length[reads] > place - orders.base[key])
    return int(owner[reads[np.flatnonzero(long)[0]]])


def odd_elements(
    t: Transactions, owner: Ints, odd: Ints, table: Writers, findings: Findings
) -> None:
    """The same of reads that do not begin their key's order."""
    for read in odd.tolist():
        codes = t.elements[t.start[read] : t.start[read] + t.length[read]]
        reader, key = int(owner[read]), word(t.key_of(read))
        on = np.full(len(codes), t.key[read])
        codes = codes[table.sole(on, codes)]
        part = table.of(on[: len(codes)], codes)
        for code, by in zip(codes.tolist(), part.tolist(), strict=True):
            value = word(t.values[code])
            if by < 0:
                findings.add("phantom", f"{named(t, reader)} read {value} in key {key}, which "
                             "nobody appended", reader)  # fmt: skip
            elif t.outcome[owner[by]] == FAILED and owner[by] != reader:
                findings.add("G1a", f"{named(t, reader)} read what {named(t, int(owner[by]))} "
                             f"appended, which failed: {value} to key {key}",
                             reader, int(owner[by]))  # fmt: skip
        if len(np.unique(codes)) < len(codes):
            findings.add("duplicate-elements", f"{named(t, reader)} read an element of key {key} "
                         f"twice: {word(t.list_of(read))}", reader)  # fmt: skip


def intermediate(
    t: Transactions,
    owner: Ints,
    reads: Ints,
    orders: Orders,
    known: tuple[Ints, Mask],
    findings: Findings,
) -> None:
    """A read that ends amid the appends of another transaction."""
    end, final = known
    at = np.flatnonzero(end >= 0)
    part = orders.part[end[at]]
    at, part = at[part >= 0], part[part >= 0]
    bad = np.flatnonzero(~final[part] & (owner[part] != owner[reads[at]]))
    for n in bad[:SHOWN_MAX].tolist():
        read, by = int(reads[at[n]]), int(part[n])
        why = (f"{named(t, int(owner[read]))} read key {word(t.key_of(read))} up to "
               f"{word(t.value_of(by))}, after which {named(t, int(owner[by]))} appended "
               "more")  # fmt: skip
        findings.add("G1b", why, int(owner[read]), int(owner[by]))
    findings.more("G1b", len(bad) - SHOWN_MAX)
