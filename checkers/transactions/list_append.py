"""Transactions that append to lists and read them whole: the order of versions is what was read.

Every value is appended to a key at most once. The longest read of a key is its order of versions,
and all others must begin it. What was appended and never read comes after all that was.

Source: docs/spec/checkers.md 9. Kingsbury and Alvaro, *Elle*, VLDB 2020.
"""

import numpy as np

from maxq.checkers.linearizability.calls import FAILED, OK, Ints, Mask
from maxq.checkers.transactions.columns import UNREAD, Transactions
from maxq.checkers.transactions.findings import (
    SHOWN_MAX,
    Analysis,
    Findings,
    Writers,
    final_writes,
    lost_updates,
    named,
    placed,
    word,
    writers,
)
from maxq.checkers.transactions.graph import (
    NONE,
    RW,
    WR,
    WW,
    Edges,
    Fan,
    Stations,
    edges_of,
    fanned,
    joined,
)
from maxq.checkers.transactions.list_reads import (
    Orders,
    disordered,
    elements_of,
    intermediate,
    internal,
    odd_elements,
    orders_of,
    own_future,
    unlike,
)

NOWHERE = -2  # of a read that is no beginning of its key's order: the place where it ends


def analysed(t: Transactions) -> Analysis:
    """What is wrong with reads, and what depends on what."""
    findings, owner = Findings(), t.owner()
    places, table = placed(t, owner), writers(t)
    reads = np.flatnonzero(~t.writes & (t.length != UNREAD))
    internal(t, owner, places, findings)
    orders = orders_of(t, owner, reads, table)
    own_future(t, owner, places, orders, findings)
    odd = _incompatible(t, owner, reads, orders, findings)
    disordered(t, owner, places, orders, findings)
    spoiled = np.zeros(len(t.keys), np.bool_)
    spoiled[table.twice] = True
    there = _took_effect(t, owner, orders, odd, table)
    end = _ends(t, owner, reads, orders, odd, spoiled)
    elements_of(t, owner, reads, orders, findings)
    odd_elements(t, owner, odd, table, findings)
    intermediate(t, owner, reads, orders, (end, final_writes(t, places)), findings)
    version = np.full(t.parts, -1)
    version[reads] = np.where(end >= -1, end + 1, -1)
    lost_updates(t, owner, places, version, there, findings)
    unread = _unread(t, owner, orders, there, spoiled, odd)
    edges, size = _edges(t, owner, reads, orders, (end, there, spoiled), unread)
    seen = np.full(t.parts, NONE)
    last = end >= 0
    seen[reads[last]] = orders.part[end[last]]
    return Analysis(findings, edges, size, there, table.often(t.keys, t.values), seen, unread)


def _incompatible(
    t: Transactions, owner: Ints, reads: Ints, orders: Orders, findings: Findings
) -> Ints:
    """The reads that do not begin their key's order."""
    base = orders.base[t.key[reads]]
    odd = reads[unlike(t, reads, t.length[reads], base, orders.value)]
    for read in odd[:SHOWN_MAX].tolist():
        key = int(t.key[read])
        order = orders.value[orders.base[key] : orders.base[key] + orders.size[key]]
        whole = [t.values[v] for v in order.tolist()]
        why = (f"{named(t, int(owner[read]))} read key {word(t.keys[key])} as "
               f"{word(t.list_of(read))}, and another read of it returned {word(whole)}: neither "
               "begins the other")  # fmt: skip
        longest = reads[(t.key[reads] == key) & (t.length[reads] == len(whole))]
        other = [int(owner[r]) for r in longest.tolist() if r != read and t.list_of(r) == whole]
        findings.add("incompatible-order", why, int(owner[read]), *other[:1])
    findings.more("incompatible-order", len(odd) - SHOWN_MAX)
    return odd


def _took_effect(t: Transactions, owner: Ints, orders: Orders, odd: Ints, table: Writers) -> Mask:
    """Transactions that are known to have committed: those of which something was read also."""
    there = t.outcome == OK
    seen = orders.part[orders.part >= 0]
    for read in odd.tolist():
        codes = t.elements[t.start[read] : t.start[read] + t.length[read]]
        found = table.of(np.full(len(codes), t.key[read]), codes)
        seen = np.append(seen, found[found >= 0])
    there[owner[seen]] = True
    return np.asarray(there & (t.outcome != FAILED))


def _ends(
    t: Transactions, owner: Ints, reads: Ints, orders: Orders, odd: Ints, spoiled: Mask
) -> Ints:
    """Of each read: where what it saw of others ends in its key's order, as a place in the orders;
    -1: it saw nothing, NOWHERE: that cannot be said."""
    key = t.key[reads]
    last = orders.base[key] + t.length[reads] - 1
    none = t.length[reads] == 0
    last[none] = -1
    if len(odd):
        for at in np.flatnonzero(np.isin(reads, odd)).tolist():
            last[at] = _place(t, int(reads[at]), orders)
    own = np.flatnonzero(last >= 0)
    own = own[orders.txn[last[own]] == owner[reads[own]]]
    before = orders.run[last[own]] - 1
    last[own] = np.where(before >= orders.base[key[own]], before, -1)
    last[spoiled[key]] = NOWHERE
    return last


def _place(t: Transactions, read: int, orders: Orders) -> int:
    """Where the last element of an odd read stands in the order of its key."""
    key, last = int(t.key[read]), int(t.elements[t.start[read] + t.length[read] - 1])
    base = int(orders.base[key])
    at = np.flatnonzero(orders.value[base : base + orders.size[key]] == last)
    return base + int(at[0]) if len(at) else NOWHERE


def _edges(
    t: Transactions,
    owner: Ints,
    reads: Ints,
    orders: Orders,
    known: tuple[Ints, Mask, Mask],
    unread: Ints,
) -> tuple[Edges, int]:
    """Dependencies by versions; and how many vertices there are."""
    end, there, spoiled = known
    count = len(orders.key)
    good = (orders.part >= 0) & ~spoiled[orders.key]
    good &= there[orders.txn]
    kept = np.flatnonzero(good)
    # The next version of somebody who committed, from each place on; and the last one before.
    after = np.full(count + 1, count)
    after[:-1] = np.minimum.accumulate(np.where(good, np.arange(count), count)[::-1])[::-1]
    same = np.flatnonzero(orders.key[kept][1:] == orders.key[kept][:-1])
    one, two = kept[same], kept[same + 1]
    found = [edges_of(orders.txn[one], orders.txn[two], WW, orders.part[one], orders.part[two])]
    usable = (end > NOWHERE) & there[owner[reads]]
    at, key = np.flatnonzero(usable), t.key[reads[usable]]
    end = end[at]
    txn = owner[reads[at]]
    from_ = np.flatnonzero(end >= 0)
    from_ = from_[good[end[from_]]]
    found.append(edges_of(orders.txn[end[from_]], txn[from_], WR, orders.part[end[from_]], NONE))
    follows = after[np.where(end >= 0, end + 1, orders.base[key])]
    here = np.flatnonzero((follows < count) & (follows < orders.base[key] + orders.size[key]))
    seen = np.append(orders.part, NONE)[end]
    nxt = follows[here]
    found.append(edges_of(txn[here], orders.txn[nxt], RW, seen[here], orders.part[nxt]))
    beyond = np.ones(len(at), np.bool_)
    beyond[here] = False
    stations = Stations(t.size)
    last = kept[np.append(np.flatnonzero(orders.key[kept][1:] != orders.key[kept][:-1]),
                          [len(kept) - 1] if len(kept) else []).astype(np.int64)]  # fmt: skip
    group = np.append(key[beyond], orders.key[last])
    has = np.zeros(len(t.keys), np.bool_)
    has[t.key[unread]] = True
    entry = np.flatnonzero(has[group])
    source = np.append(txn[beyond], orders.txn[last])[entry]
    kind = np.append(np.full(int(beyond.sum()), RW), np.full(len(last), WW))[entry]
    before = np.append(seen[beyond], orders.part[last])[entry]
    fan = Fan(source, group[entry], kind, before, owner[unread], t.key[unread], unread)
    found.append(fanned(fan, stations))
    return joined(found), stations.size


def _unread(
    t: Transactions, owner: Ints, orders: Orders, there: Mask, spoiled: Mask, odd: Ints
) -> Ints:
    """Appends that took effect, and that no read shows; where a key has one order."""
    unread = t.writes.copy()
    unread[orders.part[orders.part >= 0]] = False
    part = np.flatnonzero(unread)
    bad = spoiled.copy()
    bad[t.key[odd]] = True
    return part[there[owner[part]] & ~bad[t.key[part]]]
