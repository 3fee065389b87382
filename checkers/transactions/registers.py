"""Transactions that write and read registers: versions have only the order that can be known.

Every value is written to a key at most once, and each key begins with nil. A version comes after
the one that its transaction had read, and after nil; what else is known must be assumed: that every
key alone is linearizable, or sequential.

A read of a version contradicts every order of versions in which its writer, or what follows it,
comes before; that two orders of versions contradict each other is an anomaly of its own
(``cyclic-versions``), and such a key gives no order.

Source: docs/spec/checkers.md 9. Kingsbury and Alvaro, *Elle*, VLDB 2020.
"""

from typing import NamedTuple

import numpy as np

from maxq.checkers.linearizability.calls import FAILED, NEVER, NOTHING, OK, Ints, Mask
from maxq.checkers.transactions.columns import UNREAD, Transactions
from maxq.checkers.transactions.components import components, cyclic
from maxq.checkers.transactions.findings import (
    SHOWN_MAX,
    Analysis,
    Findings,
    Places,
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

UNSEEN = -2  # of a part: it is no read of what others wrote


class _Known(NamedTuple):
    """`first` are the reads of what others wrote, of each transaction and key the first, `version`
    the parts that wrote what they returned (NONE: nil); `final` the last writes of each
    transaction and key; `there` which transactions took effect; `reads` are the first and all
    others that return something else, `source` of each part the one that wrote what it returned."""

    first: Ints
    version: Ints
    final: Ints
    there: Mask
    reads: Ints
    source: Ints


def analysed(t: Transactions, keys: str = "") -> Analysis:
    """What is wrong with reads, and what depends on what.

    Args:
        t: the transactions.
        keys: what may be assumed of each key alone: "", "linearizable" or "sequential".
    """
    findings, owner = Findings(), t.owner()
    places, table = placed(t, owner), writers(t)
    spoiled = np.zeros(len(t.keys), np.bool_)
    spoiled[table.twice] = True
    outer, opens, odd = _outer_reads(t, owner, places, findings)
    inner = odd[~np.isin(odd, outer)]
    read = t.value[outer]
    version = np.where(read == NOTHING, NONE, table.of(t.key[outer], read))
    known = table.sole(t.key[outer], read)
    _sources(t, owner, outer, np.where(known, version, UNSEEN), final_writes(t, places), findings)
    shown = _inner_reads(t, owner, inner, table, final_writes(t, places), findings)
    good = ~spoiled[t.key[outer]] & ((version >= 0) | (read == NOTHING))
    source = np.full(t.parts, UNSEEN)
    source[outer[good]] = version[good]
    source[inner[shown >= 0]] = shown[shown >= 0]
    good &= opens
    first, version = outer[good], version[good]
    there = t.outcome == OK
    there[owner[source[source >= 0]]] = True  # also what only a later read of a key shows
    there &= t.outcome != FAILED
    seen = np.full(t.parts, -1)
    seen[first] = version + 1
    lost_updates(t, owner, places, seen, there, findings)
    final = np.flatnonzero(final_writes(t, places))
    final = final[there[owner[final]] & ~spoiled[t.key[final]]]
    wrong = odd[source[odd] >= 0]
    reads = np.append(first[version >= 0], wrong[owner[source[wrong]] != owner[wrong]])
    all_known = _Known(first, version, final, there, reads, source)
    edges, size = _edges(t, owner, all_known, keys, findings)
    return Analysis(findings, edges, size, there, table.often(t.keys, t.values), source, final)


def _outer_reads(
    t: Transactions, owner: Ints, places: Places, findings: Findings
) -> tuple[Ints, Mask, Ints]:
    """The reads of what others wrote: those before the transaction wrote the key itself; which of
    them are its first of the key; and all reads that do not show what the transaction itself read
    or wrote last, as they must.
    """
    order, head = places
    known = ~t.writes[order] & (t.length[order] != UNREAD)
    opens = head == np.arange(len(order))
    wrote = np.append(0, np.cumsum(t.writes[order]))
    outer = known & (wrote[:-1] == wrote[head])
    later = np.flatnonzero(known & ~opens)
    # A read without an answer says nothing; there are none among others of one transaction.
    bad = later[t.value[order[later]] != t.value[order[later - 1]]]
    for at in bad[:SHOWN_MAX].tolist():
        part, before = int(order[at]), int(order[at - 1])
        had = "written" if t.writes[before] else "read"
        why = (f"{named(t, int(owner[part]))} read {word(t.value_of(part))} in key "
               f"{word(t.key_of(part))}, where it had {had} "
               f"{word(t.value_of(before))} itself")  # fmt: skip
        findings.add("internal", why, int(owner[part]))
    findings.more("internal", len(bad) - SHOWN_MAX)
    findings.own_writes = bool(np.any(~outer[bad]))
    parts = order[outer]
    by = np.argsort(parts, kind="stable")
    return parts[by], opens[outer][by], order[bad]


def _inner_reads(
    t: Transactions, owner: Ints, inner: Ints, table: Writers, final: Mask, findings: Findings
) -> Ints:
    """Of reads that should show a write of one's own and do not: the part of another transaction
    that wrote what they returned; UNSEEN: none. What nobody wrote, only a transaction that failed,
    or one that wrote over it itself, is wrong at every level."""
    read = t.value[inner]
    sole = table.sole(t.key[inner], read) & (read != NOTHING)
    version = np.where(sole, table.of(t.key[inner], read), UNSEEN)
    writer = np.where(version >= 0, owner[version], NONE)
    version[writer == owner[inner]] = UNSEEN
    failed = (version >= 0) & (t.outcome[writer] == FAILED)
    amid = (version >= 0) & ~failed & ~final[version]
    for n in np.flatnonzero((version == NONE) | failed | amid).tolist():
        part, reader, by = int(inner[n]), int(owner[inner[n]]), int(writer[n])
        what = f"{named(t, reader)} read {word(t.value_of(part))} in key {word(t.key_of(part))}"
        if version[n] == NONE:
            findings.add("phantom", f"{what}, which nobody wrote", reader)
        elif failed[n]:
            findings.add("G1a", f"{what}, written by {named(t, by)}, which failed", reader, by)
        else:
            why = f"{what}, written by {named(t, by)}, which wrote another value of it afterwards"
            findings.add("G1b", why, reader, by)
    return version


def _sources(
    t: Transactions, owner: Ints, first: Ints, version: Ints, final: Mask, findings: Findings
) -> None:
    """Values that nobody wrote, that only a failed transaction did, or that were overwritten in
    their own transaction."""
    for part in first[(version == NONE) & (t.value[first] != NOTHING)].tolist():
        why = (f"{named(t, int(owner[part]))} read {word(t.value_of(part))} in key "
               f"{word(t.key_of(part))}, which nobody wrote")  # fmt: skip
        findings.add("phantom", why, int(owner[part]))
    at = np.flatnonzero(version >= 0)
    writer = owner[version[at]]
    failed = t.outcome[writer] == FAILED
    own = writer == owner[first[at]]
    findings.own_writes |= bool(np.any(own))
    amid = ~final[version[at]] & ~own
    for name, which, how in (
        ("internal", own, "which is itself, and wrote it only later"),
        ("G1a", failed, "which failed"),
        ("G1b", amid & ~failed, "which wrote another value of it afterwards"),
    ):
        for n in np.flatnonzero(which).tolist():
            reader, by = int(owner[first[at[n]]]), int(writer[n])
            why = (f"{named(t, reader)} read {word(t.value_of(int(version[at[n]])))} in key "
                   f"{word(t.key_of(int(first[at[n]])))}, written by {named(t, by)}, "
                   f"{how}")  # fmt: skip
            findings.add(name, why, reader, by)


def _edges(
    t: Transactions, owner: Ints, known: _Known, keys: str, findings: Findings
) -> tuple[Edges, int]:
    """Dependencies; and how many vertices there are."""
    first, version, final, there, reads, source = known
    usable = there[owner[first]]
    first, version = first[usable], version[usable]
    from_ = version >= 0
    wrote = source[reads]
    good = there[owner[reads]] & there[owner[wrote]]
    found = [edges_of(owner[wrote[good]], owner[reads[good]], WR, wrote[good], NONE)]
    stations = Stations(t.size)
    # nil comes before every version.
    nil = np.flatnonzero(~from_)
    key = t.key[first[nil]]
    found.append(fanned(Fan(owner[first[nil]], key, np.full(len(nil), RW), np.full(len(nil), NONE),
                            owner[final], t.key[final], final), stations))  # fmt: skip
    before, after = _order(t, owner, known, keys)
    before, after = _acyclic(t, owner, before, after, findings)
    # From who wrote or read a version to who wrote one that comes after it.
    wrote = np.unique(before)
    read = np.flatnonzero(from_)
    source = np.append(owner[wrote], owner[first[read]])
    group = np.append(wrote, version[read])
    kind = np.append(np.full(len(wrote), WW), np.full(len(read), RW))
    asked = np.zeros(t.parts, np.bool_)
    asked[wrote] = True
    entry = np.flatnonzero(asked[group] & there[source])
    group = group[entry]
    found.append(fanned(Fan(source[entry], group, kind[entry], group, owner[after], before, after),
                        stations))  # fmt: skip
    return joined(found), stations.size


def _order(t: Transactions, owner: Ints, known: _Known, keys: str) -> tuple[Ints, Ints]:
    """Pairs of versions, as the parts that wrote them, of which one comes before the other."""
    span = max(len(t.keys), 1)
    pack = owner[known.final] * span + t.key[known.final]
    order = np.argsort(pack, kind="stable")
    pack, made = pack[order], known.final[order]
    read = np.flatnonzero(known.version >= 0)
    sought = owner[known.first[read]] * span + t.key[known.first[read]]
    at = np.minimum(np.searchsorted(pack, sought), max(len(pack) - 1, 0))
    hit = np.flatnonzero(pack[at] == sought) if len(pack) else at[:0]
    before, after = known.version[read[hit]], made[at[hit]]
    if keys:
        more = _assumed(t, owner, known, sessions=keys == "sequential")
        before, after = np.append(before, more[0]), np.append(after, more[1])
    different = before != after
    return before[different], after[different]


def _assumed(t: Transactions, owner: Ints, known: _Known, *, sessions: bool) -> tuple[Ints, Ints]:
    """What follows if each key alone is sequential (in the order of each process) or linearizable:
    what a transaction shows of a key last comes before what a later one shows of it first.

    Of real time only neighbours are taken, of those that are over by the time that another begins:
    those whose end is not before the begin of one that is over itself.
    """
    part = np.append(known.first, known.final)
    part = part[known.there[owner[part]]]
    shows = np.where(t.writes[part], part, NONE)
    version = np.full(t.parts, NONE)
    version[known.first] = known.version
    shows = np.where(t.writes[part], part, version[part])
    kept = shows >= 0
    part, shows = part[kept], shows[kept]
    txn, key = owner[part], t.key[part]
    if sessions:
        by = np.lexsort((part, txn, t.process[txn], key))
        part, shows, txn, key = part[by], shows[by], txn[by], key[by]
        same = np.flatnonzero((key[1:] == key[:-1]) & (t.process[txn[1:]] == t.process[txn[:-1]]))
        return shows[same], shows[same + 1]
    return _by_time(t, key, txn, shows)


def _by_time(t: Transactions, key: Ints, txn: Ints, shows: Ints) -> tuple[Ints, Ints]:
    begun, ended = t.begun[txn], t.ended[txn]
    before, after = [], []
    open_: dict[int, list[int]] = {}  # by key: those over, that nothing over follows
    events = sorted(
        [(int(b), 0, n) for n, b in enumerate(begun.tolist())]
        + [(int(e), 1, n) for n, e in enumerate(ended.tolist()) if e < NEVER]
    )
    came: dict[int, list[int]] = {}
    for _, over, n in events:
        own = open_.setdefault(int(key[n]), [])
        if not over:
            came[n] = list(own)
            before += [int(shows[m]) for m in own]
            after += [int(shows[n])] * len(own)
        else:
            gone = set(came[n])
            own[:] = [*(m for m in own if m not in gone), n]
    return np.array(before, np.int64), np.array(after, np.int64)


def _acyclic(
    t: Transactions, owner: Ints, before: Ints, after: Ints, findings: Findings
) -> tuple[Ints, Ints]:
    """The pairs on keys whose versions have an order; on others that is an anomaly."""
    if not len(before):
        return before, after
    used, packed = np.unique(np.append(before, after), return_inverse=True)
    one, two = packed[: len(before)], packed[len(before) :]
    labels = components(len(used), one, two)
    bad = cyclic(labels)
    if not np.any(bad):
        return before, after
    keys = np.unique(t.key[used[bad]])
    for key in keys[:SHOWN_MAX].tolist():
        ring = used[bad & (t.key[used] == key)]
        values = ", ".join(word(t.value_of(part)) for part in ring[:6].tolist())
        why = f"the versions {values} of key {word(t.keys[key])} each come before the others"
        findings.add("cyclic-versions", why, *owner[ring[:6]].tolist())
    findings.more("cyclic-versions", len(keys) - SHOWN_MAX)
    kept = ~np.isin(t.key[before], keys)
    return before[kept], after[kept]
