"""Ordered consumption: who holds a queue's lock reads it, and nobody else does meanwhile.

Keys are those of the workload ordered: its clients ask whom routes show, the master or the slave
that acts for it, and read a queue only while they rely on its lock.

**L10.** While a client relies on a queue's lock, no other client is given messages of the queue. A
read gives them at an instant between its sending and its answer; so one by another client that lies
as a whole in a hold, as L2 counts it (`maxq.checkers.locks.lease_key`), is a violation. A read
before whose answer the lease ran out or was given back is none. What a reader goes on to do with
messages is bounded by the workload, below the lease.

**L4.** Where brokers are not in strict mode, a master that returns knows nothing of what the slave
has granted, and clients go to one or the other until their routes agree. So holds may overlap, but
not for long: in a time in which no broker or name server is doubtful, nobody is cut off and all
name servers run, once it has lasted for as long as brokers take to return or to be dropped, routes
are read again and locks renewed, all ask one broker, and holds that were granted from then on do
not overlap.

Claims: L4, L10 (docs/spec/acting-master.md 8.2).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from maxq.checkers.core.api import Context, Verdict
from maxq.checkers.core.elements import node_of
from maxq.checkers.core.keyed import Event, KeyedChecker
from maxq.checkers.evidence.active_faults import State
from maxq.checkers.evidence.observations import begin
from maxq.checkers.evidence.quiescence import Interval, after_last_heal, lulls
from maxq.checkers.evidence.verdicts import Case, Found, rule
from maxq.checkers.locks.lease_key import Grant, Overlap, hold_ends, latest, overlaps
from maxq.checkers.locks.locks import ASKING, REQUEST_NS, Asked, asked_of, grants_of, not_strict
from maxq.histories.history import History
from maxq.histories.observed import ORDERED_KEYS, READ_ORDERED, RELEASE, RENEW_NS, ROUTE_NS
from maxq.histories.op import HistoryError


class Known(NamedTuple):
    """How long a client relies on a lock (ns), and the times in which L4 is judged."""

    client_ns: int
    settled: tuple[Interval, ...]


class Read(NamedTuple):
    """A read that gave messages: by whom, when (ns), and the index of its answer."""

    process: int
    inv_ns: int
    ret_ns: int
    at: int


class Judged(NamedTuple):
    """What was found of one queue; `reads` of messages by several clients, and in how many times
    its lock was `handed` over, of those in which L4 is judged."""

    found: list[Found]
    reads: int
    handed: int


class Ordered(KeyedChecker):
    """The checker. See the module's text."""

    name = "ordered"
    claims = ("L4", "L10")
    reads = frozenset((*ASKING, RELEASE, READ_ORDERED))

    def prepare(self, history: History, context: Context) -> Known:
        settled = tuple(_settled(history, context)) if not_strict(context) else ()
        return Known(context.client_lease_ns, settled)

    def rows(self, event: Event, known: Known) -> Iterator[tuple[int, Asked | Read]]:
        if event.op.f == READ_ORDERED:
            yield from _read_of(event)
            return
        key, asked = asked_of(event)
        if key >= ORDERED_KEYS:
            yield key, asked

    def judge(
        self, key: int, rows: Sequence[Asked | Read], known: Known, more: object = None
    ) -> Judged:
        asked = [row for row in rows if isinstance(row, Asked)]
        grants, _ = grants_of(asked)
        brokers = {row.op.index: node_of(row.op.ext or {}) for row in asked}
        reads = [row for row in rows if isinstance(row, Read)]
        found = [_beside(key, *pair) for pair in _besides(grants, reads, known.client_ns)]
        handed = 0
        for time in known.settled:
            within = [g for g in grants if _within(time, g)]
            found += (_lasting(key, each, brokers) for each in overlaps(within, known.client_ns)[0])
            handed += len({g.process for g in within}) > 1
        several = len({g.process for g in grants}) > 1
        return Judged(found, len(reads) if several else 0, handed)

    def conclude(
        self,
        history: History,
        context: Context,
        known: Known,
        results: Mapping[int, Judged],
    ) -> Verdict:
        case = Case(found=[f for judged in results.values() for f in judged.found])
        reads = sum(judged.reads for judged in results.values())
        case.judged = {"L4": sum(j.handed for j in results.values()), "L10": reads}
        case.counts = {"ordered-queues": len(results), "ordered-reads": reads}
        return rule(self, history, context, case)


def _read_of(event: Event) -> Iterator[tuple[int, Read]]:
    """The key and the read of an answer that has messages and whose sending is known."""
    op = event.op
    if op.type != "ok" or event.begun is None:
        return
    key = event.begun.value
    if type(key) is not int or not isinstance(op.value, list):
        raise HistoryError(f"value of {op.index} is no read of a queue: {op.value!r:.80}")
    _, inv_ns = begin(op, event.begun)
    if op.value and 0 <= inv_ns <= op.time:
        yield key, Read(int(op.process), inv_ns, op.time, op.index)


# L10.


def _besides(
    grants: Sequence[Grant], reads: Sequence[Read], client_ns: int
) -> Iterator[tuple[Grant, Read]]:
    """The reads that lie in another client's hold, each with the one that ends last."""
    holds = sorted((g for g in grants if hold_ends(g, client_ns) > g.ret_ns), key=_answered)
    begun: list[Grant] = []  # of two clients at most, as in `overlaps`
    at = 0
    for read in sorted(reads, key=lambda read: (read.inv_ns, read.at)):
        while at < len(holds) and holds[at].ret_ns <= read.inv_ns:
            begun = latest([*begun, holds[at]], client_ns)
            at += 1
        other = next((g for g in begun if g.process != read.process), None)
        if other is not None and read.ret_ns <= hold_ends(other, client_ns):
            yield other, read


def _answered(grant: Grant) -> tuple[int, int]:
    return grant.ret_ns, grant.at


# L4.


def settling_ns(context: Context) -> int:
    """How long after the last act all clients ask one broker of each set, where brokers are not in
    strict mode; 0 where they are, and nothing depends on it."""
    if not not_strict(context):
        return 0
    return max(context.recovery_ns, context.eviction_ns) + ROUTE_NS + RENEW_NS + REQUEST_NS


def _settled(history: History, context: Context) -> Iterator[Interval]:
    """The times in which all clients are shown one and the same broker of each set."""
    wait_ns = settling_ns(context)
    whole = [lull.time for lull in lulls(history) if not _disturbed(lull.state)]
    for time in (*whole, after_last_heal(history)):
        if not time.doubt and time.at_ns + wait_ns < time.until_ns:
            yield time._replace(at_ns=time.at_ns + wait_ns)


def _disturbed(state: State) -> bool:
    """Whether clients may be shown different brokers for as long as this lasts."""
    return bool(state.doubtful or state.cuts) or any(node.startswith("n") for node in state.gone)


def _within(time: Interval, grant: Grant) -> bool:
    return time.at_ns <= grant.inv_ns and grant.ret_ns <= time.until_ns and grant.at < time.until


# In words.


def _beside(key: int, holder: Grant, read: Read) -> Found:
    said = (
        f"Process {read.process} was given messages of queue {key} (op {read.at}). Process "
        f"{holder.process} relied on its lock, granted {(read.inv_ns - holder.ret_ns) / 1e9:.3f} s "
        f"before (op {holder.at}), neither given back nor run out. Two clients consume the queue, "
        "and its order is gone."
    )
    detail = {"key": key, "processes": [holder.process, read.process]}
    return Found("L10", "read-beside-holder", (holder.at, read.at), said, detail)


def _lasting(key: int, found: Overlap, brokers: Mapping[int, str | None]) -> Found:
    a, b = found.a, found.b
    said = (
        f"Process {a.process} (op {a.at}, by {brokers[a.at]}) and process {b.process} (op {b.at}, "
        f"by {brokers[b.at]}) held the lock of queue {key} both for {found.for_ns / 1e9:.3f} s. "
        "Nothing had been done to brokers and name servers for longer than a master takes "
        "to return and clients to follow it."
    )
    detail = {"key": key, "processes": [a.process, b.process], "for-ns": found.for_ns}
    return Found("L4", "overlap-lasts", (a.at, b.at), said, detail)
