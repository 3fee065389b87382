"""Durability: what was acknowledged stays, what was seen stays, an offset keeps its message.

Judges the `queue` workload: a log of offsets per key, with sends and polls (history-format 13). The
history is sorted by key (`log`), each key is judged alone (`log_key`), each process's order is a
fold (`log_order`); here the findings are counted, told (`story`) and turned into a verdict.

Claims: S6 acknowledged is never lost, S10 what a consumer saw stays, S11 an offset never changes
its message, S12 one producer's messages keep their order (controller-ha 6.3).

Not here yet: cycles of dependencies between transactions (G0, G1c), and `order` per sharding key.
"""

from collections import Counter
from collections.abc import Sequence

from checkers.api import Anomaly, Context, Valid, Verdict
from checkers.log import MESSAGES, Log, MalformedError, read_log
from checkers.log_key import Finding, Order, judge_key
from checkers.log_order import OrderFold
from checkers.story import Storyteller
from histories.history import History

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


class Durability:
    """The checker. See the module's text."""

    name = "durability"
    claims = ("S6", "S10", "S11", "S12")

    def check(self, history: History, context: Context) -> Verdict:
        try:
            log = read_log(history)
        except MalformedError as e:
            return Verdict(checker=self.name, claims=self.claims, valid="unknown", reason=str(e))
        findings, unseen = _findings(log)
        counts = Counter(f.name for f in findings)
        reason = ""
        valid: Valid = True
        measured = LOSSES if context.profile in LOSSY_PROFILES else frozenset[str]()
        doubts = _doubts(log, context, unseen=unseen, hidden=counts["hidden-loss"])
        if set(counts) - ALLOWED - NO_PROOF - measured:
            valid = False
        elif doubts:
            valid, reason = "unknown", "; ".join(doubts)
        elif lost := sorted(set(counts) & measured):
            told = ", ".join(f"{name} {counts[name]}" for name in lost)
            reason = f"measured, and not promised under {context.profile}: {told}"
        return Verdict(
            checker=self.name,
            claims=self.claims,
            valid=valid,
            anomalies=_anomalies(history, findings),
            counts={**_totals(log), **dict(sorted(counts.items()))},
            reason=reason,
        )


def _findings(log: Log) -> tuple[list[Finding], int]:
    """Everything found, keys first, and how many acknowledged messages nobody accounts for."""
    findings: list[Finding] = []
    orders: dict[int, Order] = {}
    unseen = 0
    for key, key_log in log.keys.items():
        judged = judge_key(key_log, log.proven)
        orders[key] = judged.order
        findings += judged.findings
        unseen += judged.unseen
    fold = OrderFold(orders)
    for op in log.ops:
        findings += fold.step(op)
    return findings, unseen


def _doubts(log: Log, context: Context, *, unseen: int, hidden: int) -> list[str]:
    """Why silence would prove nothing."""
    ok = Counter(op.f for op in log.ops if op.type == "ok")
    doubts = [
        f"only {ok[f]} ok {f}, {least} needed"
        for f, least in sorted(context.ok_ops_min.items())
        if f in MESSAGES and ok[f] < least
    ]
    happened = (op for op in log.ops if op.type == "ok" or op.at in log.proven)
    if not any(op.sent for op in happened):
        doubts.append("no send that is known to have happened")
    if not ok["poll"] and not any(op.polled for op in log.ops if op.type == "ok"):
        doubts.append("no ok poll")
    if unseen:
        doubts.append(
            f"unseen: {unseen} acknowledged messages were never polled, and no reader was at the "
            "confirmed end of their log after the last fault"
        )
    if hidden:
        doubts.append(f"hidden-loss: {hidden} messages could only be delivered by a later copy")
    return doubts


def _anomalies(history: History, findings: Sequence[Finding]) -> tuple[Anomaly, ...]:
    teller = Storyteller(history)
    told: Counter[str] = Counter()
    anomalies: list[Anomaly] = []
    for f in findings:
        if f.name in ALLOWED or told[f.name] >= LISTED_MAX:
            continue
        told[f.name] += 1
        claim = CLAIMS[f.name]
        anomalies.append(
            Anomaly(
                claim=claim,
                name=f.name,
                signature=f"{claim}/{f.name}",
                ops=teller.evidence(f.ops),
                story=teller.tell(f),
                detail=f.detail,
            )
        )
    return tuple(anomalies)


def _totals(log: Log) -> dict[str, int]:
    sends = [s.type for key in log.keys.values() for s in key.sent]
    return {
        "keys": len(log.keys),
        "sent": len(sends),
        "acknowledged": sends.count("ok"),
        "proven": len(log.proven),
        "read": sum(len(key.read) for key in log.keys.values()),
        "ends-confirmed": sum(len(key.ends) for key in log.keys.values()),
    }
