"""Delayed messages: they come, and not before their time.

A message was *early* if some read that had it was over before as much time had passed since its
send began as it was to wait (E2). It is *lost* if its send was acknowledged, and at the end, when
it had been due for a while in a cluster that was whole, every queue of every broker set was read to
its end and nobody had ever read it (E1).

A master that is gone delays none of its messages beyond the bound (E1): the slave that acts sends
them on to another broker set. Looked at are quiet periods in which nobody is doubtful or cut off,
all name servers run, the master of a set of two is gone, its slave is not, and another set runs as
a whole. A message of that set that was acknowledged before, on both logs, is *late* if it was due,
the quiet period had lasted for the bound, and afterwards, in the quiet period, every queue was read
to its end without it.

A delivered message is delivered *again* (E5) if somebody stored it once more although master and
slaves had written down that it was delivered: after it had been read, nothing was done to any of
them, nor to a name server, for as long as slaves take to copy how far their master is. That it was
stored after that time shows in a read of its queue to the end without it. By another set only if
that was undisturbed since then: a broker that was paused may store what was sent to it before.

What a master of a pair had acknowledged and nobody copied before it went away waits for it to come
back; such a message is lost as any other, under E3 instead of E1 (`uncopied` says which they are).

Nothing is early or late from where a clock is first set wrong; by a clock that was set back, and
forth again, a message is at most a delay late, so that nothing is lost by it. Nothing is lost where
a store was tampered with, or a broker deleted messages before they were read. Claims: E1, E2,
E3, E5 (docs/spec/acting-master.md 8.3), and B12 of what a slave in a container stores elsewhere
(`escapes`).
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from maxq.checkers.core.api import Context, Verdict, unreadable
from maxq.checkers.core.promises import copies
from maxq.checkers.evidence.faults import faults
from maxq.checkers.evidence.observations import NEVER
from maxq.checkers.evidence.quiescence import Interval, Lull, Undisturbed, lulls
from maxq.checkers.evidence.verdicts import Case, Found, rule
from maxq.checkers.messages.awaited import (
    GRACE_NS,
    PAIR_OF,
    Read,
    acted_for,
    all_are_read,
    all_read,
    escapes,
    number,
    read_of,
)
from maxq.checkers.messages.uncopied import Absence, absences, uncopied
from maxq.histories.fault_facts import TAMPERS
from maxq.histories.history import History
from maxq.histories.observed import COPIED_NS, READ_DELAYED, SEND_DELAYED
from maxq.histories.op import HistoryError, Op

NS_PER_MS = 1_000_000
REFERENCE = "reference"  # as a target, whose slaves copy as fast as `COPIED_NS` says
COPIED_SLOWLY_NS = 75_000_000_000  # RocketMQ's begin a minute late, and write after 10 s


class Sent(NamedTuple):
    """A message: value, when its send began (ns) and how long it is to wait; the index at which it
    was acknowledged, and by which set; the byte of the log at which it is. `at` is -1 where it was
    not acknowledged, `byte` where that is not known."""

    value: int
    begun: int
    begun_ns: int
    delay_ns: int
    at: int = -1
    set: str = ""
    byte: int = -1

    @property
    def due_ns(self) -> int:
        """When it may come at the earliest."""
        return self.begun_ns + self.delay_ns


class Told(NamedTuple):
    """What clients did, and the reads of each message: the first, and all in order."""

    sent: Mapping[int, Sent]
    reads: Sequence[Read]
    first: Mapping[int, Read]
    reads_of: Mapping[int, Sequence[Read]]


class Delayed:
    """The checker. See the module's text."""

    name = "delayed"
    claims = ("E1", "E2", "E3", "E5", "B12")

    def check(self, history: History, context: Context) -> Verdict:
        try:
            return rule(self, history, context, _case(history, context))
        except HistoryError as error:
            return unreadable(self, error)


def _case(history: History, context: Context) -> Case:
    case = Case(judged=dict.fromkeys(Delayed.claims, 0))
    until = _until(history)
    told = _told(history)
    for value, read in sorted(told.first.items()):
        sent = told.sent.get(value)
        if sent is not None and read.op.index < until:
            case.judged["E2"] += 1
            if read.op.time < sent.due_ns:
                case.found.append(_early(sent, read))
    case.counts = {"delayed-sent": len(told.sent), "delayed-read": len(told.first)}
    case.found.extend(_again(history, context, told, case, until))
    late = dict(_late(history, context, told, case, until))
    _lost(history, told, case, late, absences(history, context))
    case.found.extend(late.values())
    case.found.extend(_elsewhere(history, context, told, case))
    return case


def _until(history: History) -> int:
    """The first act after which times prove nothing, or what a slave has."""
    for op in history.nemesis:
        kind = history.kinds.of(op.f)
        if op.f in TAMPERS or (kind is not None and kind.effect == "clock"):
            return op.index
    return NEVER


def _told(history: History) -> Told:
    begun: dict[Any, Op] = {}
    sent: dict[int, Sent] = {}
    reads: list[Read] = []
    reads_of: dict[int, list[Read]] = {}
    for op in history.ops:
        if op.f not in (SEND_DELAYED, READ_DELAYED):
            continue
        if op.type == "invoke":
            begun[op.process] = op
        start = begun.get(op.process)
        if start is None or start.f != op.f:
            continue
        if op.f == SEND_DELAYED:
            one = _sent(start, op)
            sent[one.value] = one
        elif op.type == "ok":
            read = read_of(start, op)
            reads.append(read)
            for value in read.values:
                reads_of.setdefault(value, []).append(read)
    first = {value: found[0] for value, found in reads_of.items()}
    return Told(sent, reads, first, reads_of)


def _sent(start: Op, op: Op) -> Sent:
    if not isinstance(start.value, list) or len(start.value) != PAIR_OF:
        raise HistoryError(f"op {start.index}: not a message and its delay: {start.value!r:.80}")
    value, delay_ms = map(number, start.value)
    ext = op.ext or {}
    of_set, byte = str(ext.get("node", "")), ext.get("byte")
    at = op.index if op.type == "ok" else -1
    place = byte if type(byte) is int else -1
    return Sent(value, start.index, start.time, delay_ms * NS_PER_MS, at, of_set, place)


def _early(sent: Sent, read: Read) -> Found:
    waited = (read.op.time - sent.begun_ns) / 1e9
    said = (
        f"Message {sent.value} was to wait for {sent.delay_ns / 1e9:g} s, and was read "
        f"{waited:.3f} s after its send had begun (op {read.op.index})."
    )
    detail = {"value": sent.value, "waited": waited, "delay": sent.delay_ns / 1e9}
    return Found("E2", "delayed-early", (sent.begun, read.op.index), said, detail)


# --- again ----------------------------------------------------------------------------------------


def _again(
    history: History, context: Context, told: Told, case: Case, until: int
) -> Iterator[Found]:
    """What is delivered once more although all brokers of its set knew better."""
    copied_ns = COPIED_NS if context.target == REFERENCE else COPIED_SLOWLY_NS
    calm = _calm(history, context)
    ends = _ends(told.reads)
    for m in told.sent.values():
        for reads in _by_process(told.reads_of.get(m.value, ())):
            first = reads[0]
            span = _remembered(calm.get(m.set, ()), first, copied_ns)
            if span is None or span.until >= until:
                continue
            case.judged["E5"] += 1
            known_ns = max(span.at_ns, first.op.time) + copied_ns
            for read in reads[1:]:
                before = _last(ends[read.op.process, read.queue], read.begun)
                late = before is not None and before.begun_ns >= known_ns
                if late and read.op.index < until and not _waited(calm, m.set, span, read):
                    yield _once_more(m, first, read)
                    break


def _calm(history: History, context: Context) -> dict[str, Sequence[Interval]]:
    """By broker set, when nothing was done to its brokers and the name servers."""
    acts = [act for act in faults(history) if act.kind != "question"]
    times = Undisturbed(acts)
    namesrvs = {node for node in times.named if node.startswith("n")}
    sets = context.broker_sets
    return {name: tuple(times.of({*nodes, *namesrvs})) for name, nodes in sets.items()}


def _waited(calm: Mapping[str, Sequence[Interval]], own: str, span: Interval, read: Read) -> bool:
    """Whether another set may have stored only now what a message's own sent to it before a calm
    time of that one."""
    place = str((read.op.ext or {}).get("node", own))
    times = calm.get(place, ())
    return place != own and not any(s.at <= span.at and read.op.index < s.until for s in times)


def _remembered(calm: Sequence[Interval], first: Read, copied_ns: int) -> Interval | None:
    """The first calm time in which it was written down everywhere that a message was delivered."""
    for span in calm:
        if max(span.at_ns, first.op.time) + copied_ns <= span.until_ns:
            return span
    return None


def _ends(reads: Sequence[Read]) -> dict[tuple[Any, int], list[Read]]:
    """By process and queue, the reads that reached the end."""
    found = defaultdict[tuple[Any, int], list[Read]](list)
    for read in reads:
        if read.ended:
            found[read.op.process, read.queue].append(read)
    return found


def _last(reads: Sequence[Read], index: int) -> Read | None:
    """The last of some reads, in order, that was over before an index."""
    before = bisect_left(reads, index, key=lambda read: read.op.index)
    return reads[before - 1] if before else None


def _by_process(reads: Sequence[Read]) -> Iterator[list[Read]]:
    """The reads of a message by process: a new one begins anew, and reads all again."""
    of: dict[Any, list[Read]] = {}
    for read in reads:
        of.setdefault(read.op.process, []).append(read)
    return iter(of.values())


def _once_more(m: Sent, first: Read, read: Read) -> Found:
    said = (
        f"Message {m.value} was delivered (op {first.op.index}), and again (op {read.op.index}) by "
        f"a broker of set {m.set}. All of them had long written down that it was."
    )
    ops = (m.begun, first.op.index, read.op.index)
    return Found("E5", "delayed-again", ops, said, {"value": m.value, "set": m.set})


# --- at the end -----------------------------------------------------------------------------------


def _lost(
    history: History,
    told: Told,
    case: Case,
    late: Mapping[int, Found],
    gone: Mapping[str, Sequence[Absence]],
) -> None:
    """What nobody has ever read."""
    acked = [m for m in told.sent.values() if m.at >= 0]
    claims = {m: "E3" if uncopied(gone.get(m.set, ()), m.at, m.byte) else "E1" for m in acked}
    if not acked or any(op.f in TAMPERS for op in history.ops):
        return
    due_ns = max(m.due_ns for m in acked)
    if not all_are_read(history, told.reads, due_ns, GRACE_NS):
        why = "not every queue was read to its end once all delayed messages were due"
        for claim in sorted(set(claims.values())):
            case.judged[claim] += len(acked)
            case.doubt(claim, why, "let the run end by itself, so that its readers come to the end")
        return
    for m, claim in claims.items():
        case.judged[claim] += 1
        if m.value not in told.first and m.value not in late:
            case.found.append(_never(m) if claim == "E1" else _never_after_return(m))


def _never_after_return(m: Sent) -> Found:
    said = (
        f"Message {m.value}, acknowledged by broker set {m.set} (op {m.at}) and to wait for "
        f"{m.delay_ns / 1e9:g} s, was on its master's disk alone when that left. The master "
        "came back, and the message was never delivered: no queue of any set has it at the end."
    )
    detail = {"value": m.value, "set": m.set, "byte": m.byte}
    return Found("E3", "uncopied-lost", (m.begun, m.at), said, detail)


def _never(m: Sent) -> Found:
    said = (
        f"Message {m.value}, acknowledged by broker set {m.set} (op {m.at}) and to wait for "
        f"{m.delay_ns / 1e9:g} s, was never delivered. No queue of any set has it at the end."
    )
    return Found("E1", "delayed-lost", (m.begun, m.at), said, {"value": m.value, "set": m.set})


# --- while a master is gone -----------------------------------------------------------------------


def _late(
    history: History, context: Context, told: Told, case: Case, until: int
) -> Iterator[tuple[int, Found]]:
    """By message, what an acting slave should have sent on."""
    if copies(context.settings or {}) < PAIR_OF:
        return
    bound_ns = max(context.shrink_ns, context.recovery_ns)
    for lull in lulls(history):
        for name in acted_for(lull, context):
            if lull.time.until >= until:
                return
            for m in told.sent.values():
                if m.set == name and 0 <= m.at < lull.time.at:
                    by_ns = max(m.due_ns, lull.time.at_ns + bound_ns) + GRACE_NS
                    last = all_read(told.reads, lull, by_ns)
                    if last is None or _was_read_before(told, m, lull):
                        continue
                    case.judged["E1"] += 1
                    read = told.first.get(m.value)
                    if read is None or read.op.index > last.op.index:
                        yield m.value, _overdue(m, last, (last.op.time - m.due_ns) / 1e9)


def _elsewhere(history: History, context: Context, told: Told, case: Case) -> Iterator[Found]:
    """What a slave stored at another set's master, though one was beside it."""
    for escape in escapes(history, context):
        for value, read in sorted(told.first.items()):
            m, place = told.sent.get(value), str((read.op.ext or {}).get("node", ""))
            if m is None or m.set != escape.set or not escape.since < m.begun:
                continue
            inside = escape.lull.time.holds(read.begun, read.op.index)
            if not inside or not 0 <= m.at < escape.lull.time.at or place in ("", m.set):
                continue
            case.judged["B12"] += 1
            if place not in escape.local:
                yield _past_local(m, read, place, escape.local)


def _past_local(m: Sent, read: Read, place: str, local: Collection[str]) -> Found:
    said = (
        f"Message {m.value} of broker set {m.set} (op {m.at}) came from set {place} (op "
        f"{read.op.index}). The slave that acts shares its process with the master of "
        f"{', '.join(sorted(local))}, which ran and should have taken it."
    )
    detail = {"value": m.value, "set": m.set, "stored-by": place, "beside": sorted(local)}
    return Found("B12", "escaped-past-local", (m.begun, m.at, read.op.index), said, detail)


def _was_read_before(told: Told, m: Sent, lull: Lull) -> bool:
    read = told.first.get(m.value)
    return read is not None and read.op.index < lull.time.at


def _overdue(m: Sent, last: Read, seconds: float) -> Found:
    said = (
        f"Message {m.value} of broker set {m.set} (op {m.at}), whose master was gone, was due for "
        f"{seconds:.1f} s. No queue of any set had it when all were read (op {last.op.index}). The "
        "slave that acted did not send it on."
    )
    detail = {"value": m.value, "set": m.set, "late": seconds}
    return Found("E1", "delayed-late", (m.begun, m.at, last.op.index), said, detail)
