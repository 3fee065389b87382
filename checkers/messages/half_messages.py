"""Transactions of RocketMQ: what is committed comes, and nothing else does.

Producers decide before they send a half message, and any of them gives the same answer. So of
every acknowledged half message it is known what should happen to it: one whose transaction was
committed is delivered, at its own broker set or at another one, by its end or by a question; any
other one never is.

At the end, when all was whole for as long as brokers may wait before they ask, every queue of every
broker set was read to its end. What was committed and nobody has ever read is *lost*: with an end
that was answered well (E6), or at a master that something was done to while the transaction was
open, so that a slave may have had it to move (E4), or without either (E7). While the master of a
set of two is gone, and another set runs, all that was open is settled there within the bound (E7):
quiet periods are looked at as in `maxq.checkers.messages.delayed`.

*Uncommitted* is what was rolled back, left open or refused, and delivered all the same (E8), at any
time and under any settings. Delivered *too often* (E9) is a message that one reader read more often
than once, and once more for each process of a broker that was ended, and for each answer to a
client about it that never came. Cuts and silences can leave a slave without answers of the broker
to which it moves a message, any number of them, so nothing of what lived through one is judged. An
act counts for as long after its heal as a slave may go on acting beside its master (A3).

Nothing is lost, or late, where a store was tampered with, or a broker deleted messages before they
were read. Claims: E4, E6, E7, E8, E9 (docs/spec/acting-master.md 8.3).
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from maxq.checkers.core.api import Context, Verdict, unreadable
from maxq.checkers.core.promises import copies
from maxq.checkers.evidence.acts import Act, paired
from maxq.checkers.evidence.faults import faults
from maxq.checkers.evidence.observations import NEVER
from maxq.checkers.evidence.quiescence import lulls
from maxq.checkers.evidence.verdicts import Case, Found, rule
from maxq.checkers.messages.awaited import (
    GRACE_NS,
    PAIR_OF,
    Read,
    acted_for,
    all_are_read,
    all_read,
    number,
    read_of,
)
from maxq.histories.fault_facts import TAMPERS
from maxq.histories.history import History
from maxq.histories.observed import (
    COMMIT,
    END_TRANSACTION,
    LATE,
    LATE_NS,
    READ_TRANSACTIONS,
    SEND_HALF,
)
from maxq.histories.op import HistoryError, Op

# From when a half message may be asked about until its end is read, twice: it may move in between.
ASKED_SOON_NS, ASKED_NS = 10_000_000_000, 100_000_000_000
WORDS = {"roll-back": "rolled back", "none": "never decided", COMMIT: "committed"}
SETTLED = ("E4", "E6", "E7")  # the claims of what has to come


class Half(NamedTuple):
    """A half message: its value, what was decided, the index and time (ns) at which its send began
    and from when on the decision is known; the index at which it was acknowledged, -1 if it was
    not, and by which set; whether it was refused."""

    value: int
    decision: str
    begun: int
    begun_ns: int
    known_ns: int
    at: int
    set: str
    refused: bool

    @property
    def promised(self) -> bool:
        """Whether it has to come."""
        return self.at >= 0 and self.decision == COMMIT


class Told(NamedTuple):
    """What clients did: half messages, the ends that were answered well, how many answers about a
    message never came, reads, the first read of each message, and how often each was read by one
    process at the most."""

    halves: Mapping[int, Half]
    ended: Mapping[int, int]
    unsure: Mapping[int, int]
    reads: Sequence[Read]
    first: Mapping[int, Read]
    last: Mapping[int, Read]
    times: Mapping[int, int]


class HalfMessages:
    """The checker. See the module's text."""

    name = "half-messages"
    claims = ("E4", "E6", "E7", "E8", "E9")

    def check(self, history: History, context: Context) -> Verdict:
        try:
            return rule(self, history, context, _case(history, context))
        except HistoryError as error:
            return unreadable(self, error)


def _case(history: History, context: Context) -> Case:
    told, acts = _told(history), paired(faults(history))
    case = Case(judged=dict.fromkeys(HalfMessages.claims, 0))
    case.counts = {"half-messages": len(told.halves), "transactions-read": len(told.first)}
    case.judged["E8"] = sum(not half.promised for half in told.halves.values())
    case.found.extend(_uncommitted(told))
    if any(op.f in TAMPERS for op in history.ops):
        return case
    late = dict(_late(history, context, told, case))
    case.found.extend(late.values())
    _lost(history, context, told, acts, case, late)
    _too_often(told, acts, context.shrink_ns, case)
    return case


# --- what clients did -----------------------------------------------------------------------------


def _told(history: History) -> Told:
    begun: dict[Any, Op] = {}
    halves, ended, unsure = dict[int, Half](), dict[int, int](), Counter[int]()
    reads: list[Read] = []
    for op in history.ops:
        if op.f not in (SEND_HALF, END_TRANSACTION, READ_TRANSACTIONS):
            continue
        if op.type == "invoke":
            begun[op.process] = op
        start = begun.get(op.process)
        if start is None or start.f != op.f:
            continue
        if op.f == READ_TRANSACTIONS:
            reads += [read_of(start, op)] if op.type == "ok" else []
            continue
        value = _value(start)
        if op.f == SEND_HALF:
            halves[value] = _half(start, op)
        elif op.type == "ok":
            ended.setdefault(value, op.index)
        unsure[value] += op.type == "info"
    return _with_reads(halves, ended, unsure, reads)


def _with_reads(
    halves: Mapping[int, Half],
    ended: Mapping[int, int],
    unsure: Mapping[int, int],
    reads: Sequence[Read],
) -> Told:
    first, last, most = dict[int, Read](), dict[int, Read](), dict[int, int]()
    times = Counter[tuple[Any, int]]()  # a new process reads all from the begin
    for read in reads:
        for value in read.values:
            first.setdefault(value, read)
            last[value] = read
            times[read.op.process, value] += 1
            most[value] = max(times[read.op.process, value], most.get(value, 0))
    return Told(halves, ended, unsure, reads, first, last, most)


def _value(start: Op) -> int:
    if not isinstance(start.value, list) or len(start.value) < PAIR_OF:
        raise HistoryError(f"op {start.index}: no message of a transaction: {start.value!r:.80}")
    return number(start.value[0])


def _half(start: Op, op: Op) -> Half:
    value, decision, *when = start.value
    if decision not in WORDS:
        raise HistoryError(f"op {start.index}: no decision: {decision!r:.80}")
    known_ns = start.time + (LATE_NS if LATE in when else 0)
    at = op.index if op.type == "ok" else -1
    of_set = str((op.ext or {}).get("node", ""))
    refused = op.type == "fail"
    return Half(value, decision, start.index, start.time, known_ns, at, of_set, refused)


def _asked_ns(context: Context) -> int:
    """How long brokers may take to ask about all that is open."""
    return ASKED_SOON_NS if context.timing == "fast" else ASKED_NS


# --- what must not come ---------------------------------------------------------------------------


def _uncommitted(told: Told) -> Iterator[Found]:
    for value, read in sorted(told.first.items()):
        half = told.halves.get(value)
        if half is not None and (half.decision != COMMIT or half.refused):
            what = "refused" if half.refused else WORDS[half.decision]
            said = (
                f"Message {value} was delivered (op {read.op.index}), and its transaction was "
                f"{what} (op {half.begun})."
            )
            detail = {"value": value, "set": half.set, "decision": what}
            yield Found("E8", "uncommitted-delivered", (half.begun, read.op.index), said, detail)


def _too_often(told: Told, acts: Sequence[Act], acting_ns: int, case: Case) -> None:
    begins = [act.begun for act in acts]
    for value, times in sorted(told.times.items()):
        half = told.halves.get(value)
        if half is None or half.decision != COMMIT:
            continue
        last = told.last[value].op.index
        # What was in force before its send may still part brokers, or keep one silent.
        at_ns = half.begun_ns - acting_ns
        before = [act for act in acts[: bisect_left(begins, last)] if not _over(act, at_ns)]
        if any(act.effect != "down" for act in before):
            continue
        case.judged["E9"] += 1
        ended = sum(max(1, len(act.nodes)) for act in before)
        allowed = 1 + ended + told.unsure.get(value, 0)
        if times > allowed:
            said = (
                f"Message {value}, whose transaction was committed once, was delivered {times} "
                f"times (op {last} the last). No more than {allowed} can follow from what "
                "brokers and clients could not know."
            )
            detail = {"value": value, "times": times, "allowed": allowed, "set": half.set}
            ops = (half.begun, told.first[value].op.index, last)
            case.found.append(Found("E9", "committed-again", ops, said, detail))


def _over(act: Act, at_ns: int) -> bool:
    """Whether an act leaves nothing behind at a time."""
    healed_ns = act.end_ns()
    return act.fault.harmless or not act.nodes or (healed_ns is not None and healed_ns < at_ns)


# --- what must come -------------------------------------------------------------------------------


def _lost(
    history: History,
    context: Context,
    told: Told,
    acts: Sequence[Act],
    case: Case,
    late: Mapping[int, Found],
) -> None:
    """What was committed, and nobody has ever read."""
    promised = [half for half in told.halves.values() if half.promised]
    if not promised:
        return
    due_ns = max(half.known_ns for half in promised)
    whole = all_are_read(history, told.reads, due_ns, GRACE_NS + _asked_ns(context))
    for half in promised:
        met = _met(half, told, acts, context)
        claim = "E6" if half.value in told.ended else "E7" if met is None else "E4"
        case.judged[claim] += 1
        if whole and half.value not in told.first and half.value not in late:
            case.found.append(_never(half, told.ended.get(half.value), met))
    if not whole:
        for claim in SETTLED:
            if case.judged[claim]:
                why = "not every queue was read to its end once all transactions were asked about"
                advice = "let the run end by itself, so that its readers come to the end"
                case.doubt(claim, why, advice)


def _met(half: Half, told: Told, acts: Sequence[Act], context: Context) -> int | None:
    """The first act on a broker of its set while a half message was open, or may have been."""
    read = told.first.get(half.value)
    until = NEVER if read is None else read.begun
    nodes = set(context.broker_sets.get(half.set, ()))
    begins = (act.begun for act in acts if nodes & set(act.nodes))
    return next((begun for begun in begins if half.begun < begun < until), None)


def _never(half: Half, ended: int | None, met: int | None) -> Found:
    asked = "that its producers commit when asked"
    how = asked if ended is None else "whose commit was acknowledged"
    said = (
        f"Message {half.value}, of a transaction that broker set {half.set} has (op {half.at}) and "
        f"{how}, was never delivered. No queue of any set has it at the end."
    )
    detail = {"value": half.value, "set": half.set}
    if ended is not None:
        return Found("E6", "commit-lost", (half.begun, half.at, ended), said, detail)
    if met is not None:
        return Found("E4", "half-lost", (half.begun, half.at, met), said, detail)
    return Found("E7", "half-unsettled", (half.begun, half.at), said, detail)


def _late(
    history: History, context: Context, told: Told, case: Case
) -> Iterator[tuple[int, Found]]:
    """By message, what should have been settled at another set while its master was gone."""
    if copies(context.settings or {}) < PAIR_OF:
        return
    bound_ns = max(context.shrink_ns, context.recovery_ns) + 2 * _asked_ns(context)
    for lull in lulls(history):
        for name in acted_for(lull, context):
            for half in told.halves.values():
                if half.set != name or not half.promised or half.at >= lull.time.at:
                    continue
                read = told.first.get(half.value)
                if read is not None and read.op.index < lull.time.at:
                    continue
                by_ns = max(half.known_ns, lull.time.at_ns + bound_ns)
                last = all_read(told.reads, lull, by_ns)
                # What the master had ended already, it delivers itself when it is back.
                if last is None or half.value in told.ended:
                    continue
                case.judged["E7"] += 1
                if read is None or read.op.index > last.op.index:
                    yield half.value, _overdue(half, last)


def _overdue(half: Half, last: Read) -> Found:
    said = (
        f"The master of broker set {half.set} was gone, and message {half.value} of a committed "
        f"transaction (op {half.at}) was in no queue of any set when all were read (op "
        f"{last.op.index}). The slave that acted did not move it, or nobody was asked."
    )
    detail = {"value": half.value, "set": half.set}
    return Found("E7", "half-late", (half.begun, half.at, last.op.index), said, detail)
