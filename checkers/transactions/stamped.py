"""Snapshot isolation where the database says when it took each snapshot and when it committed.

Then nothing has to be sought: in the order of timestamps each transaction must read what was
committed last when its snapshot was taken, and of two that write one key one must have committed
before the other's snapshot. Every rule is one sort and one search. What is found contradicts the
timestamps, whether or not some other order would have been legal.

Source: docs/spec/checkers.md 9. Li and others, *Online timestamp-based
transactional isolation checking* (Chronos), 2025.
"""

from typing import NamedTuple

import numpy as np

from maxq.checkers.linearizability.calls import NEVER, OK, Ints
from maxq.checkers.transactions.columns import UNREAD, Transactions
from maxq.checkers.transactions.findings import (
    SHOWN_MAX,
    Analysis,
    Findings,
    final_writes,
    named,
    placed,
    word,
)
from maxq.checkers.transactions.graph import NONE
from maxq.checkers.transactions.list_reads import unlike

INVERTED, STALE, CONFLICT = "inverted-timestamps", "stale-snapshot", "write-conflict"
SESSION, REALTIME = "stale-snapshot-process", "stale-snapshot-realtime"


class _Stamps(NamedTuple):
    """Transactions with timestamps, and those as ranks; of the others the ranks are NONE."""

    start: Ints
    commit: Ints
    span: int


def sweep(t: Transactions, analysis: Analysis, *, lists: bool) -> Findings:
    """What contradicts the timestamps.

    Args:
        t: the transactions; every one that is ok has timestamps.
        analysis: of them; single reads are judged there.
        lists: whether they append to lists.
    """
    findings = Findings()
    stamps = _ranks(t)
    ok = np.flatnonzero(t.outcome == OK)
    for txn in ok[stamps.start[ok] > stamps.commit[ok]].tolist():
        why = f"{named(t, txn)} took its snapshot after it had committed"
        findings.add(INVERTED, why, txn)
    _conflicts(t, stamps, findings)
    (_list_reads if lists else _register_reads)(t, analysis, stamps, findings)
    _orders(t, stamps, findings)
    return findings


def _ranks(t: Transactions) -> _Stamps:
    if t.stamps is None:
        raise ValueError("the transactions have no timestamps")
    ranks = np.unique(np.concatenate(t.stamps), return_inverse=True)[1].astype(np.int64)
    ok = t.outcome == OK
    start, commit = ranks[: t.size], ranks[t.size :]
    return _Stamps(np.where(ok, start, NONE), np.where(ok, commit, NONE), 2 * t.size + 1)


def _conflicts(t: Transactions, stamps: _Stamps, findings: Findings) -> None:
    """Two that wrote one key, of which neither committed before the other's snapshot."""
    owner = t.owner()
    part = np.flatnonzero(final_writes(t, placed(t, owner)))
    part = part[stamps.commit[owner[part]] >= 0]
    part = part[np.lexsort((stamps.commit[owner[part]], t.key[part]))]
    txn, key = owner[part], t.key[part]
    early = stamps.start[txn[1:]] < stamps.commit[txn[:-1]]
    bad = np.flatnonzero((key[1:] == key[:-1]) & early)
    for at in bad[:SHOWN_MAX].tolist():
        one, two = int(txn[at]), int(txn[at + 1])
        why = (f"{named(t, two)} took its snapshot before {named(t, one)} committed, and both "
               f"wrote key {word(t.key_of(int(part[at])))}")  # fmt: skip
        findings.add(CONFLICT, why, one, two)
    findings.more(CONFLICT, len(bad) - SHOWN_MAX)


def _register_reads(
    t: Transactions, analysis: Analysis, stamps: _Stamps, findings: Findings
) -> None:
    owner = t.owner()
    final = np.flatnonzero(final_writes(t, placed(t, owner)))
    final = final[stamps.commit[owner[final]] >= 0]
    pack = t.key[final] * stamps.span + stamps.commit[owner[final]]
    order = np.argsort(pack, kind="stable")
    pack, final = pack[order], final[order]
    read = np.flatnonzero((analysis.version >= NONE) & (t.outcome[owner] == OK))
    at = np.searchsorted(pack, t.key[read] * stamps.span + stamps.start[owner[read]], "right") - 1
    wanted = np.append(final, NONE)[at]
    wanted[(at >= 0) & (t.key[wanted] != t.key[read])] = NONE
    bad = np.flatnonzero(wanted != analysis.version[read])
    for n in bad[:SHOWN_MAX].tolist():
        part, reader = int(read[n]), int(owner[read[n]])
        last = "nothing was"
        if wanted[n] >= 0:
            value = word(t.value_of(int(wanted[n])))
            last = f"{value} of {named(t, int(owner[wanted[n]]))} was"
        why = (f"{named(t, reader)} read {word(t.value_of(part))} in key {word(t.key_of(part))}, "
               f"where {last} committed last when its snapshot was taken")  # fmt: skip
        findings.add(STALE, why, reader, *([int(owner[wanted[n]])] if wanted[n] >= 0 else []))
    findings.more(STALE, len(bad) - SHOWN_MAX)


def _list_reads(t: Transactions, analysis: Analysis, stamps: _Stamps, findings: Findings) -> None:
    owner = t.owner()
    order, head = placed(t, owner)
    count = np.append(0, np.cumsum(t.writes[order]))
    own = np.zeros(t.parts, np.int64)  # appends of the same transaction before
    own[order] = count[:-1] - count[head]
    write = np.flatnonzero(t.writes)
    write = write[stamps.commit[owner[write]] >= 0]
    write = write[np.lexsort((write, stamps.commit[owner[write]], t.key[write]))]
    pack = t.key[write] * stamps.span + stamps.commit[owner[write]]
    read = np.flatnonzero(~t.writes & (t.length != UNREAD))
    base = np.searchsorted(t.key[write], t.key[read])
    sought = t.key[read] * stamps.span + stamps.start[owner[read]]
    there = np.searchsorted(pack, sought, "right") - base
    size = t.length[read] - own[read]
    bad = size != there
    same = np.flatnonzero(~bad)
    bad[same[unlike(t, read[same], there[same], base[same], t.value[write])]] = True
    wrong = np.flatnonzero(bad)
    for n in wrong[:SHOWN_MAX].tolist():
        part, reader = int(read[n]), int(owner[read[n]])
        last = write[base[n] : base[n] + there[n]].tolist()
        whole = word([t.value_of(each) for each in last])
        why = (f"{named(t, reader)} read key {word(t.key_of(part))} as {word(t.list_of(part))}, "
               f"and what was committed when its snapshot was taken is {whole}")  # fmt: skip
        findings.add(STALE, why, reader)
    findings.more(STALE, len(wrong) - SHOWN_MAX)


def _orders(t: Transactions, stamps: _Stamps, findings: Findings) -> None:
    """Snapshots that lack what the same process, or anybody, had committed before they began."""
    ok = np.flatnonzero(stamps.commit >= 0)
    by = ok[np.lexsort((t.begun[ok], t.process[ok]))]
    one, two = by[:-1], by[1:]
    bad = (t.process[one] == t.process[two]) & (stamps.start[two] < stamps.commit[one])
    _old(t, SESSION, one[bad], two[bad], findings)
    if not t.timed or not len(ok):
        return
    ends = ok[np.argsort(t.ended[ok], kind="stable")]
    latest = np.maximum.accumulate(stamps.commit[ends])
    before = np.searchsorted(t.ended[ends], t.begun[ok]) - 1
    late = (before >= 0) & (stamps.start[ok] < latest[before]) & (t.ended[ok] < NEVER)
    two = ok[late]
    first = np.searchsorted(latest, latest[before[late]])  # where the greatest one stands
    _old(t, REALTIME, ends[first], two, findings)


def _old(t: Transactions, name: str, one: Ints, two: Ints, findings: Findings) -> None:
    for a, b in zip(one[:SHOWN_MAX].tolist(), two[:SHOWN_MAX].tolist(), strict=True):
        why = (f"{named(t, b)} began after {named(t, a)} was over, and took its snapshot before "
               "that one committed")  # fmt: skip
        findings.add(name, why, a, b)
    findings.more(name, len(one) - SHOWN_MAX)
