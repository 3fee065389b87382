"""Durability: what was acknowledged stays, what was seen stays, an offset keeps its message.

Judges the `queue` workload: a log of offsets per key, with sends and polls (history-format 13). The
history is sorted by key (`log`), each key is judged alone (`log_key`), and each process's order on
it by a fold (`log_order`); here findings are counted, told (`story`) and turned into a verdict.

Claims: S6 acknowledged is never lost, S10 what a consumer saw stays, S11 an offset never changes
its message, S12 one producer's messages keep their order (controller-ha 6.3).

Not here yet: cycles of dependencies between transactions (G0, G1c), and `order` per sharding key.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

from checkers.api import Anomaly, Context, Valid, Verdict
from checkers.keyed import Event, check_keyed
from checkers.log import (
    MESSAGES,
    LogFacts,
    LogOp,
    log_facts,
    log_ops,
    proven_by,
    read_key,
    steps_of,
)
from checkers.log_key import Finding, judge_key
from checkers.log_order import OrderFold, Placed
from checkers.ruling import settings_of, unreadable
from checkers.story import Storyteller
from histories.history import History
from histories.op import HistoryError

LISTED_MAX = 100  # anomalies of one name that are told; all are counted

CLAIMS: dict[str, str] = {
    "lost-write": "S6",
    "lost-tail": "S6",
    "hidden-loss": "S6",
    "unseen": "S6",
    "truncation": "S10",
    "G1a": "S10",
    "precommitted-read": "S10",
    "inconsistent-offsets": "S11",
    "duplicate": "S11",
    "phantom": "S11",
    "poll-skip": "S11",
    "nonmonotonic-poll": "S11",
    "int-poll-skip": "S11",
    "int-nonmonotonic-poll": "S11",
    "nonmonotonic-send": "S12",
    "int-nonmonotonic-send": "S12",
}
ALLOWED = frozenset(("int-send-skip",))  # counted, never told
LOST = frozenset(("lost-write", "lost-tail"))
NO_PROOF = frozenset(("unseen", "hidden-loss"))  # alone they make a verdict unknown

# Profiles whose settings may lose the end of the log in a fail-over: there a loss, and the change
# of what was readable that comes with it, is a measurement and no broken promise. A message that
# nobody sent, or that is there twice, is wrong under any settings.
LOSSY_PROFILES = frozenset(("P-NUM", "P-DEFAULT", "P-UNCLEAN"))
LOSSES = frozenset(
    (
        *("lost-write", "lost-tail", "truncation", "inconsistent-offsets"),
        *("poll-skip", "int-poll-skip", "nonmonotonic-poll", "nonmonotonic-send"),
    )
)


def lossy(context: Context) -> bool:
    """Whether a run's settings, or its faults, may lose the end of the log."""
    return context.profile in LOSSY_PROFILES or "S6" in context.suspended


class KeyVerdict(NamedTuple):
    """What one key's rows prove, small enough to travel: of each name only what can be told.

    `unproven` are `info` operations with messages for several keys that no reader of this key has
    seen; should another key's reader have, this key is judged again.
    """

    findings: list[Finding]
    order: list[Placed]
    names: Counter[str]
    lost: list[int]  # the writers of lost messages
    unseen: int
    sent: int
    acknowledged: int
    read: int
    ok_read: bool
    ends: int
    proven: frozenset[int]
    unproven: frozenset[int]


class Durability:
    """The checker. See the module's text."""

    name = "durability"
    claims = ("S6", "S10", "S11", "S12")
    reads = MESSAGES
    orders = True  # whether each process's order is judged too

    def check(self, history: History, context: Context) -> Verdict:
        return check_keyed(self, history, context)

    def prepare(self, history: History, context: Context) -> LogFacts:
        return log_facts(history)

    def rows(self, event: Event, known: LogFacts) -> Iterable[tuple[int, LogOp]]:
        return log_ops(event, known.healed)

    def judge(
        self, key: int, rows: Sequence[LogOp], known: LogFacts, more: frozenset[int] | None = None
    ) -> KeyVerdict:
        steps = steps_of(rows, known)
        log = read_key(key, steps, known)
        mine = proven_by(log)
        proven = mine | (more or frozenset())
        judged = judge_key(log, proven)
        fold = OrderFold(key, judged.order)
        placed = [found for step in steps for found in fold.step(step)] if self.orders else []
        shared = {row.at for row in rows if row.shared and row.sent and row.type == "info"}
        return KeyVerdict(
            findings=_tellable(judged.findings, lambda f: f),
            order=_tellable(placed, lambda p: p.finding),
            names=Counter(f.name for f in [*judged.findings, *(p.finding for p in placed)]),
            lost=[f.detail["writer"] for f in judged.findings if f.name in LOST],
            unseen=judged.unseen,
            sent=len(log.sent),
            acknowledged=sum(s.type == "ok" for s in log.sent),
            read=len(log.read),
            ok_read=any(r.ok for r in log.read),
            ends=len(log.ends),
            proven=mine,
            unproven=frozenset(shared) - proven,
        )

    def again(self, results: Mapping[int, KeyVerdict]) -> Mapping[int, frozenset[int]]:
        proven = _proven(results)
        return {key: proven for key, v in results.items() if v.unproven & proven}

    def evidence(self, results: Mapping[int, KeyVerdict]) -> Iterator[int]:
        for finding in _told(results):
            yield from finding.ops
            yield from (finding.detail[k] for k in ("writer",) if finding.detail.get(k) is not None)

    def conclude(
        self,
        history: History,
        context: Context,
        known: LogFacts,
        results: Mapping[int, KeyVerdict],
    ) -> Verdict:
        counts = sum((v.names for v in results.values()), Counter[str]())
        reason = ""
        valid: Valid = True
        measured = LOSSES if lossy(context) else frozenset[str]()
        doubts = _doubts(history, results, context, hidden=counts["hidden-loss"])
        if set(+counts) - ALLOWED - NO_PROOF - measured:
            valid = False
        elif doubts:
            valid, reason = "unknown", "; ".join(doubts)
        elif lost := sorted(set(+counts) & measured):
            told = ", ".join(f"{name} {counts[name]}" for name in lost)
            reason = f"measured, and not promised under {settings_of(context)}: {told}"
        return Verdict(
            checker=self.name,
            claims=self.claims,
            valid=valid,
            anomalies=_anomalies(history, _told(results)),
            counts={**_totals(results, known), **dict(sorted((+counts).items()))},
            reason=reason,
        )

    def unreadable(self, error: HistoryError) -> Verdict:
        return unreadable(self, error)


FoundT = TypeVar("FoundT")


def _tellable(found: Iterable[FoundT], finding: Callable[[FoundT], Finding]) -> list[FoundT]:
    """The first of each name: more are never told."""
    told: Counter[str] = Counter()
    kept = []
    for f in found:
        name = finding(f).name
        told[name] += 1
        if name not in ALLOWED and told[name] <= LISTED_MAX:
            kept.append(f)
    return kept


def _told(results: Mapping[int, KeyVerdict]) -> list[Finding]:
    """Everything that is told: keys first, then each process's order along the history."""
    findings = [f for v in results.values() for f in v.findings]
    placed = sorted((p for v in results.values() for p in v.order), key=lambda p: p.place)
    return _tellable([*findings, *(p.finding for p in placed)], lambda f: f)


def _proven(results: Mapping[int, KeyVerdict]) -> frozenset[int]:
    return frozenset[int]().union(*(v.proven for v in results.values()))


def _doubts(
    history: History, results: Mapping[int, KeyVerdict], context: Context, *, hidden: int
) -> list[str]:
    """Why silence would prove nothing."""
    ok = history.totals
    keys = results.values()
    doubts = [
        f"only {ok[f, 'ok']} ok {f}, {least} needed"
        for f, least in sorted(context.ok_ops_min.items())
        if f in MESSAGES and ok[f, "ok"] < least
    ]
    if not any(v.acknowledged or v.proven for v in keys):
        doubts.append("no send that is known to have happened")
    if not ok["poll", "ok"] and not any(v.ok_read for v in keys):
        doubts.append("no ok poll")
    if unseen := sum(v.unseen for v in keys):
        doubts.append(
            f"unseen: {unseen} acknowledged messages were never polled, and no reader was at the "
            "confirmed end of their log after the last fault"
        )
    if hidden:
        doubts.append(f"hidden-loss: {hidden} messages could only be delivered by a later copy")
    return doubts


def _anomalies(history: History, findings: Sequence[Finding]) -> tuple[Anomaly, ...]:
    teller = Storyteller(history)
    return tuple(
        Anomaly(
            claim=CLAIMS[f.name],
            name=f.name,
            signature=f"{CLAIMS[f.name]}/{f.name}",
            ops=teller.evidence(f.ops),
            story=teller.tell(f),
            detail=f.detail,
        )
        for f in findings
    )


def _totals(results: Mapping[int, KeyVerdict], known: LogFacts) -> dict[str, int]:
    keys = results.values()
    return {
        "keys": len(known.assigned | set(results)),
        "sent": sum(v.sent for v in keys),
        "acknowledged": sum(v.acknowledged for v in keys),
        "proven": len(_proven(results)),
        "read": sum(v.read for v in keys),
        "ends-confirmed": sum(v.ends for v in keys),
    }
