"""From what a checker found to its verdict: the same rules for every claim of the cluster's state.

Any broken promise makes the verdict false. Otherwise a doubt makes it unknown, and so does a
history in which no claim was judged. A claim whose occasion never came, or was not seen (nobody
was elected, nobody was silent for long enough), or that the profile does not make, is left out of
the verdict's claims: it was neither kept nor broken. What breaks such a claim is counted.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import msgspec

from checkers.api import Anomaly, Checker, Context, Valid, Verdict
from checkers.log import MalformedError
from checkers.sightings import listed
from checkers.story import Storyteller
from histories.history import History
from histories.observed import AWAIT_RECOVERY, LATE_MS

LATE_MS_MAX = 250
LISTED_MAX = 100  # anomalies of one name that are told; all are counted


class Found(NamedTuple):
    """A broken promise, told but for the faults around it."""

    claim: str
    name: str
    ops: tuple[int, ...]
    said: str
    detail: dict[str, Any]


class Case(msgspec.Struct, kw_only=True):
    """What a checker found out about a history.

    `judged` counts, by claim, how often the claim could have been broken; 0 or none is no occasion.
    A claim in `doubts` had an occasion, and there is a reason why silence would prove nothing.
    """

    found: list[Found] = []
    counts: dict[str, int] = {}
    judged: dict[str, int] = {}
    doubts: list[str] = []


def rule(
    checker: Checker,
    history: History,
    context: Context,
    case: Case,
    *,
    unpromised: Collection[str] = (),
    timed: Collection[str] = (),
) -> Verdict:
    """Compose the verdict.

    Args:
        checker: who judges.
        history: what was judged.
        context: how the run was set up.
        case: what was found out.
        unpromised: claims that the profile does not make.
        timed: claims that count time: a harness that was late itself cannot judge them.
    """
    unpromised = (*unpromised, *context.suspended)
    broken = [f for f in case.found if f.claim not in unpromised]
    late = late_harness(history) if timed else ""
    if late and (case.judged or broken):
        case.doubts.append(f"{listed(sorted(timed))}: {late}")
        broken = [f for f in broken if f.claim not in timed]
    accused = {f.claim for f in broken}
    promised = tuple(c for c in checker.claims if c not in unpromised)
    claims = tuple(c for c in promised if case.judged.get(c) or c in accused)
    names = Counter(f.name for f in case.found)
    reason = ""
    valid: Valid = True
    if broken:
        valid = False
    elif case.doubts or not claims:
        valid = "unknown"
        reason = "; ".join(case.doubts) or "nothing that could be judged"
    elif names:
        told = ", ".join(f"{name} {n}" for name, n in sorted(names.items()))
        reason = f"measured, and not promised under {settings_of(context)}: {told}"
    return Verdict(
        checker=checker.name,
        # A verdict without evidence still says for which claims it has none.
        claims=promised if valid == "unknown" else claims,
        valid=valid,
        anomalies=_anomalies(history, broken),
        counts={**case.counts, **dict(sorted(names.items()))},
        reason=reason,
    )


def late_harness(history: History) -> str:
    """Why this history's times say little; empty where they do."""
    for op in reversed(history.of_f(AWAIT_RECOVERY)):
        found = (op.ext or {}).get(LATE_MS)
        if not isinstance(found, dict):
            continue
        p99 = found.get("p99")
        if isinstance(p99, int | float) and p99 > LATE_MS_MAX:
            return (
                f"the harness itself was woken more than {LATE_MS_MAX} ms late in one of a hundred "
                f"times ({p99:g} ms)"
            )
        return ""
    return ""


def settings_of(context: Context) -> str:
    """Under what something is promised or not, in words."""
    return f"{context.profile} and these faults" if context.suspended else context.profile


def unreadable(checker: Checker, error: ValueError) -> Verdict:
    """The verdict on a history with a value of another shape than the documented one."""
    reason = str(error) if isinstance(error, MalformedError) else f"W9: {error}"
    return Verdict(checker=checker.name, claims=checker.claims, valid="unknown", reason=reason)


def _anomalies(history: History, found: Sequence[Found]) -> tuple[Anomaly, ...]:
    teller = Storyteller(history)
    told: Counter[str] = Counter()
    anomalies: list[Anomaly] = []
    for f in found:
        if told[f.name] >= LISTED_MAX:
            continue
        told[f.name] += 1
        ops = tuple(sorted(set(f.ops)))
        anomalies.append(
            Anomaly(
                claim=f.claim,
                name=f.name,
                signature=f"{f.claim}/{f.name}",
                ops=teller.evidence(ops),
                story=f"{f.said} {teller.around(min(ops, default=0))}",
                detail=f.detail,
            )
        )
    return tuple(anomalies)
