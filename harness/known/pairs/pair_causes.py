"""What nodes' logs show of known causes without controllers, and whether it fits an anomaly.

As `causes`: the same broker or set, and a time at which it could bring the harm about. The ways in
which a master that returns loses offsets (R1 to R6) are told apart by what it wrote when it came
online last before the loss was seen: which members it asked, and of which it took the offsets.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from maxq.checkers.core.api import Anomaly
from maxq.checkers.core.promises import NO_DEGRADING, STRICT
from maxq.checkers.evidence.acts import acts_of
from maxq.harness.known.causes import SLACK_NS, Tie, Timed, Traces, of_sets
from maxq.harness.known.harm import Harm
from maxq.harness.known.pair_marks import (
    ACTS_NO_MORE,
    ALONE,
    BLOCKED,
    BOOTED,
    CHECKED,
    LONGER,
    OFFSETS,
    ONLINE,
    PUT_FAILED,
    REVERSE_FAILED,
    SEND_FAILED,
    SKIPPED,
    STILL,
    UNQUOTED,
    UNREAD,
    reversals,
)

# A shorter slave writes such a line as well.
_ENDS = re.compile(rf"{LONGER}, SLAVE: (\d+) MASTER: (\d+)")


class Return(NamedTuple):
    """How a broker came online: from the begin of its process until it was. `members` had said
    whether the offsets of each were taken; `alone`: nobody was listed."""

    begun_ns: int
    at_ns: int
    members: tuple[bool, ...]
    alone: bool


def returns(log: Timed) -> Iterator[Return]:
    """Each of a broker's, the first one among them."""
    begun_ns, texts = -1, list[str]()
    for at_ns, text in log:
        if BOOTED in text:
            begun_ns, texts = at_ns, []
        texts.append(text)
        if begun_ns >= 0 and (ONLINE in text or ALONE in text):
            took = tuple(any(OFFSETS in line for line in said) for said in reversals(texts))
            yield Return(begun_ns, at_ns, took, ALONE in text)
            begun_ns = -1


def _returned(run: Traces, anomaly: Anomaly, harm: Harm) -> Return | None:
    """How the master of a lost offset came online last, between its commit and its loss."""
    committed_ns, lost_ns = run.scene.span_ns(anomaly)
    found = [
        back
        for _, log in run.each(harm)
        for back in returns(log)
        if committed_ns - SLACK_NS <= back.at_ns <= lost_ns
    ]
    return found[-1] if found else None


def _version_kept(run: Traces, anomaly: Anomaly, harm: Harm) -> bool:
    back = _returned(run, anomaly, harm)
    return back is not None and bool(back.members) and not any(back.members)


def _second_taken(run: Traces, anomaly: Anomaly, harm: Harm) -> bool:
    back = _returned(run, anomaly, harm)
    return back is not None and sum(back.members) > 1


def _one_taken(run: Traces, anomaly: Anomaly, harm: Harm) -> bool:
    back = _returned(run, anomaly, harm)
    return back is not None and sum(back.members) == 1


def _empty_group(run: Traces, anomaly: Anomaly, harm: Harm) -> bool:
    back = _returned(run, anomaly, harm)
    return back is not None and back.alone


def _not_restarted(run: Traces, anomaly: Anomaly, harm: Harm) -> bool:
    """Its slave acted and ended to act, while the master's process was one and the same."""
    committed_ns, lost_ns = run.scene.span_ns(anomaly)
    masters = [log for node, log in run.each(harm) if node in harm.nodes]
    if any(committed_ns <= at_ns <= lost_ns and BOOTED in t for log in masters for at_ns, t in log):
        return False
    of_set = harm._replace(nodes=frozenset())
    return any(
        committed_ns - SLACK_NS <= at_ns <= lost_ns and ACTS_NO_MORE in text
        for _, log in run.each(of_set)
        for at_ns, text in log
    )


def _stays_isolated(run: Traces, anomaly: Anomaly, harm: Harm) -> bool:
    """A master whose last try to come online before the harm was certain failed for what it could
    not read."""
    for _, log in of_sets(run, anomaly, harm):
        failed = False
        for at_ns, text in log:
            if at_ns <= harm.until_ns:
                begins = any(t in text for t in (BOOTED, ONLINE, ALONE))
                failed = not begins and (failed or (REVERSE_FAILED in text and UNQUOTED in text))
        if failed:
            return True
    return False


def _skipped(run: Traces, anomaly: Anomaly, harm: Harm) -> bool:
    """A copy of this half message was left behind, whenever it was missed."""
    return any(SKIPPED in text and _names(text, anomaly) for _, text in run.every_line())


def _names(text: str, anomaly: Anomaly) -> bool:
    """Whether a line is about the message of an anomaly: its number is the transaction's id."""
    value = anomaly.detail.get("value")
    return isinstance(value, int) and f"={value:032X}" in text


def _blocked(run: Traces, anomaly: Anomaly, harm: Harm) -> bool:
    since_ns, until_ns = run.scene.span_ns(anomaly)
    return any(
        sum(
            since_ns <= at_ns <= until_ns and (PUT_FAILED in text or SEND_FAILED in text)
            for at_ns, text in log
        )
        >= BLOCKED
        for _, log in run.each(harm)
    )


def _copied(run: Traces, anomaly: Anomaly, harm: Harm) -> bool:
    """Its producers were asked about it before it came again: each time it was written anew."""
    _, until_ns = run.scene.span_ns(anomaly)
    return any(
        at_ns <= until_ns and CHECKED in text and _names(text, anomaly)
        for at_ns, text in run.every_line()
    )


def _longer(run: Traces, anomaly: Anomaly, harm: Harm) -> bool:
    return any(
        at_ns <= harm.until_ns and (ends := _ENDS.search(text)) and int(ends[1]) > int(ends[2])
        for _, log in run.each(harm._replace(nodes=frozenset()))
        for at_ns, text in log
    )


def _stands_still(run: Traces, anomaly: Anomaly, harm: Harm) -> bool:
    """A slave was suspended while sends failed, which needs no log."""
    since_ns, until_ns = anomaly.detail.get("from_ns", 0), anomaly.detail.get("until_ns", 0)
    return any(
        act.effect == "held"
        and act.fault.begun_ns <= until_ns
        and (act.end_ns(node) or until_ns) >= since_ns
        and run.scene.follows(node, act.fault.begun_ns)
        for act in acts_of(run.artifacts.history)
        for node in act.nodes
    )


def _unread(run: Traces, anomaly: Anomaly, harm: Harm) -> bool:
    return any(UNREAD in text for _, log in run.each(harm) for _, text in log)


def _still(run: Traces, anomaly: Anomaly, harm: Harm) -> bool:
    return any(STILL in text for _, log in run.each(harm) for _, text in log)


def _not_strict(run: Traces, anomaly: Anomaly, harm: Harm) -> bool:
    return run.settings.get(STRICT.key) == "false"


def _degrades(run: Traces, anomaly: Anomaly, harm: Harm) -> bool:
    return run.settings.get(NO_DEGRADING.key) == "true"


PAIR_TIES: dict[str, Tie] = {
    "older-version-kept": _version_kept,
    "second-member-taken": _second_taken,
    "whole-table-taken": _one_taken,
    "online-with-nobody": _empty_group,
    "cut-off-and-back": _not_restarted,
    "cannot-read-offsets": _stays_isolated,
    "half-message-skipped": _skipped,
    "level-blocked": _blocked,
    "copies-of-half-messages": _copied,
    "slave-longer-than-master": _longer,
    "slave-takes-nothing": _stands_still,
    "slaves-not-read-from": _unread,
    "slaves-do-not-act": _still,
    "locks-not-strict": _not_strict,
    "copies-not-waited-for": _degrades,
}
