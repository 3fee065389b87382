"""Times without success in words, and beside the findings that they explain.

One place, so that terminal, page and tables say the same. Times are ns of the history.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from maxq.checkers.core.api import Anomaly, Answer, Stretch, Verdict
from maxq.histories.observed import (
    ACQUIRE,
    APPLY_ID,
    COMMIT_OFFSET,
    END_TRANSACTION,
    FETCH_OFFSET,
    READ_DELAYED,
    READ_ORDERED,
    READ_TRANSACTIONS,
    SEND_DELAYED,
    SEND_DELAYED_ALONE,
    SEND_HALF,
    SEND_ORDERED,
)

LONG_NS = 5_000_000_000  # a longer one is said at once
SHOWN_MAX = 3  # of them, each of another kind of client
OVERLAP_MAX = 0.2  # of a stretch, in which two answers came that are said to follow each other
# What was asked for, and what would have been a success.
NONE: Mapping[str, tuple[str, str]] = {
    "send": ("send", "SEND_OK"),
    "poll": ("read", "answered"),
    ACQUIRE: ("request for a lock", "answered"),
    APPLY_ID: ("request for a broker id", "granted"),
    COMMIT_OFFSET: ("consumer offset", "committed"),
    FETCH_OFFSET: ("question for a consumer offset", "answered"),
    SEND_DELAYED: ("send of a delayed message", "SEND_OK"),
    SEND_DELAYED_ALONE: ("send of a delayed message to the topic of one broker set", "SEND_OK"),
    READ_DELAYED: ("read of delayed messages", "answered"),
    SEND_ORDERED: ("send of an ordered message", "SEND_OK"),
    READ_ORDERED: ("read of a locked queue", "answered"),
    SEND_HALF: ("half message", "SEND_OK"),
    END_TRANSACTION: ("end of a transaction", "taken"),
    READ_TRANSACTIONS: ("read of committed messages", "answered"),
}
# Findings that clients were not served, and what they had asked for.
UNSERVED: Mapping[str, str] = {
    "not-writable": "send",
    "not-writable-during-fault": "send",
    "master-not-replaced": "send",
    "dead-master-stays": "send",
    "silent-member-stays": "send",
    "slave-behind-trim": "send",
    "healthy-master-replaced": "send",
    "acting-not-readable": "poll",
    "lock-not-granted": ACQUIRE,
}
ANSWERS = "answers"  # of an anomaly's detail


def said(stretch: Stretch) -> str:
    """``for 45 s no send was SEND_OK: 20 FLUSH_SLAVE_TIMEOUT, then 1,661 'in-sync …'``."""
    what, success = NONE.get(stretch.f, (stretch.f, "ok"))
    at = f" of broker set {stretch.set}" if stretch.set else ""
    return f"for {_s(stretch.length_ns)} no {what}{at} was {success}: {named(stretch)}"


def named(stretch: Stretch) -> str:
    """The answers that came in it, by name and count."""
    answers, others = stretch.answers, stretch.failed - sum(a.count for a in stretch.answers)
    word = ", then " if len(answers) > 1 and _in_turn(stretch, *answers[:2]) else " and "
    text = word.join(f"{a.count:,} {a.name}" for a in answers)
    return f"{text}; {others:,} other{'' if others == 1 else 's'}" if others else text


def _in_turn(stretch: Stretch, one: Answer, other: Answer) -> bool:
    """Whether one answer came where the other one had ended, or nearly."""
    both_ns = one.last_ns - other.first_ns
    return both_ns <= OVERLAP_MAX * stretch.length_ns and one.last_ns < other.last_ns


def long_ones(stretches: Iterable[Stretch]) -> list[str]:
    """What is said at once: of each kind of client the longest time, with its begin, if it is
    long; and how many more there were."""
    long = sorted((s for s in stretches if s.length_ns > LONG_NS), key=lambda s: -s.length_ns)
    of_kind = {s.f: [each for each in long if each.f == s.f] for s in long}
    return [_first_of(of_kind[f]) for f in NONE if f in of_kind][:SHOWN_MAX]


def _first_of(long: Sequence[Stretch]) -> str:
    more = f"; {len(long) - 1} more of over 5 s" if len(long) > 1 else ""
    return f"{said(long[0])} (from {long[0].from_ns / 1e9:.2f} s on{more})"


def with_answers(verdicts: Sequence[Verdict]) -> tuple[Verdict, ...]:
    """The same verdicts; what was found of clients that were not served says what they were
    answered."""
    stretches = [s for v in verdicts for s in v.stretches]
    if not stretches:
        return tuple(verdicts)
    return tuple(
        msgspec.structs.replace(v, anomalies=tuple(_answered(a, stretches) for a in v.anomalies))
        if any(a.name in UNSERVED for a in v.anomalies)
        else v
        for v in verdicts
    )


def _answered(anomaly: Anomaly, stretches: Sequence[Stretch]) -> Anomaly:
    asked = UNSERVED.get(anomaly.name)
    name, first, last = anomaly.detail.get("set"), min(anomaly.ops), max(anomaly.ops)
    near = [s for s in stretches if s.f == asked and s.set in ("", name)
            and s.first <= last and first <= s.last]  # fmt: skip
    if not near:
        return anomaly
    worst = max(near, key=lambda s: s.failed)
    text = said(worst)
    return msgspec.structs.replace(
        anomaly,
        story=f"{anomaly.story} {text[:1].upper()}{text[1:]}.",
        detail={**anomaly.detail, ANSWERS: named(worst)},
    )


def _s(ns: int) -> str:
    return f"{ns / 1e9:.0f} s" if ns >= 10_000_000_000 else f"{ns / 1e9:.1f} s"
