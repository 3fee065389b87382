"""Retention: a broker deletes what is old, and nothing that is younger.

After a fault *trim* it is known up to which offset the messages of a queue are old enough to be
deleted. Where observers look at disks it is known what a broker that came beyond its share has
deleted, and of a quiet one beside it that it has deleted nothing. A reader that begins again at the
queue's first offset, and reads to the end that the broker confirms, must be given every
acknowledged message from there on. Judged are the complete re-reads after the last fault, of each
replica that was made master in turn. Claim: B13.

What is missing behind the first message that such a reader was given is a loss like any other
(`maxq.checkers.messages.durability`), which reports these too.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from maxq.checkers.core.api import Context, Verdict
from maxq.checkers.core.elements import node_of
from maxq.checkers.core.keyed import Event, KeyedChecker
from maxq.checkers.evidence.log import (
    KINDS,
    KeyLog,
    LogFacts,
    Sent,
    Step,
    log_facts,
    read_key,
    steps_of,
    steps_said,
)
from maxq.checkers.evidence.log_key import LISTED_MAX, Reread, rereads
from maxq.checkers.evidence.stores.trims import Trim, first_young, trims_of
from maxq.checkers.evidence.story import when
from maxq.checkers.evidence.verdicts import Case, Found, rule
from maxq.histories.fault_facts import TRIM
from maxq.histories.history import History

if TYPE_CHECKING:
    from maxq.histories.columns.rows import Rows
    from maxq.histories.columns.scan import Ints

NO_FACTS = LogFacts(0, True)  # of a history in which no log got old


class Missing(NamedTuple):
    """Acknowledged messages of a key that are gone, although too young: they lie between `young`,
    the first offset that must be there, and `first`, the first that a re-read was given."""

    key: int
    young: int
    first: int
    sent: tuple[Sent, ...]
    reread: Reread


class Kept(NamedTuple):
    """Of one key: what is gone, and how many messages had to be there."""

    missing: list[Missing]
    promised: int


class Retention(KeyedChecker):
    """The checker. See the module's text."""

    name = "retention"
    claims = ("B13",)
    reads = KINDS

    def prepare(self, history: History, context: Context) -> LogFacts:
        return log_facts(history) if trims_of(history) else NO_FACTS

    def sift(self, rows: "Rows", chosen: "Ints", known: LogFacts) -> "Ints":
        return chosen if known.expired else chosen[:0]

    def rows(self, event: Event, known: LogFacts) -> Iterable[tuple[int, Step]]:
        if not known.expired:
            return ()
        return [(key, op) for key, op in steps_said(event, known.healed) if key in known.expired]

    def judge(self, key: int, rows: Sequence[Step], known: LogFacts, more: object = None) -> Kept:
        log = read_key(key, steps_of(rows, known), known)
        missing, promised = [], 0
        for reread in rereads(log):
            young = first_young(log.expired, reread.end.op)
            there = [s for s in log.sent if s.type == "ok" and s.op < reread.seek
                     and s.offset is not None and s.offset >= young]  # fmt: skip
            first = first_given(log, reread)
            gone = tuple(s for s in there if s.offset is not None and s.offset < first)
            promised = max(promised, len(there))
            if gone:
                missing.append(Missing(key, young, first, gone, reread))
        return Kept(missing, promised)

    def conclude(
        self,
        history: History,
        context: Context,
        known: LogFacts,
        results: Mapping[int, Kept],
    ) -> Verdict:
        trims = trims_of(history)
        promised = sum(kept.promised for kept in results.values())
        found = [_found(history, trims, m) for kept in results.values() for m in kept.missing]
        case = Case(found=found, judged={"B13": promised})
        case.counts = {"logs-aged": len(trims), "young-messages": promised}
        if trims and not promised:
            case.doubt("B13", "no queue was read from its first offset after its log got old")
        return rule(self, history, context, case)


def first_given(log: KeyLog, reread: Reread) -> int:
    """The first offset that a re-read was given; the log's end where it was given none."""
    given = (r.offset for r in log.read if r.ok and r.run == reread.end.run)
    return min((offset for offset in given if offset is not None), default=reread.end.end)


def _found(history: History, trims: Sequence[Trim], m: Missing) -> Found:
    old = next(_aged(trims, m), None)
    first, last = m.sent[0], m.sent[-1]
    node = node_of(history[first.op].ext or {})
    by = "" if old is None else f" (the log of {old.node} got old at op {old.begun}, or too large)"
    said = (
        f"Queue {m.key}: {len(m.sent):,} acknowledged messages at offsets {first.offset} to "
        f"{last.offset} are gone. {node or 'A broker'} acknowledged the first of them "
        f"{when(history[first.op])} (op {first.op}). A reader that began at the queue's first "
        f"offset was given {m.first} first (op {m.reread.end.op}). Only what lies before "
        f"offset {m.young} could be deleted{by}."
    )
    detail = {
        "key": m.key,
        "set": node or "",
        "young": m.young,
        "first": m.first,
        TRIM: None if old is None else old.begun,
        "missing": len(m.sent),
        "values": [s.value for s in m.sent[:LISTED_MAX]],
    }
    return Found("B13", "deleted-early", (first.op, m.reread.end.op), said, detail)


def _aged(trims: Sequence[Trim], m: Missing) -> Iterator[Trim]:
    """The trims by which a key's messages before its first young one got old."""
    return (t for t in trims if t.young.get(m.key) == m.young and t.begun <= m.reread.end.op)
