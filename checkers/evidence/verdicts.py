"""From what a checker found to its verdict: the same rules for every claim.

Of each claim, in this order: settings that do not make it leave it *not promised*, with what was
found as a measurement; an anomaly makes it *broken*; a doubt leaves it *not judged*; without an
coverage nothing could have broken it; else it was *kept*. Whether the evidence is whole on which a
kept claim rests is looked at by ``maxq.checkers.judgement.runner``, once for all checkers.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from maxq.checkers.core.api import Anomaly, Checker, ClaimVerdict, Context, Status, Verdict
from maxq.checkers.core.claims import BY_ID, unmade
from maxq.checkers.core.listing import reported
from maxq.checkers.core.promises import DEFAULTS
from maxq.checkers.evidence.blame import Blamer
from maxq.checkers.evidence.stores.lost_stores import (
    begun_anew,
    elected_empty,
    forfeited,
    replaced_by_none,
)
from maxq.checkers.evidence.story import Storyteller
from maxq.histories.fault_facts import AWAIT_RECOVERY
from maxq.histories.history import History
from maxq.histories.observed import LATE_MS

LATE_MS_MAX = 250
EVERY = ""  # as a claim: all of a checker


class Found(NamedTuple):
    """An anomaly, complete but for the faults around it."""

    claim: str
    name: str
    ops: tuple[int, ...]
    said: str
    detail: dict[str, Any]


class Doubt(NamedTuple):
    """Why silence would prove nothing of a claim, and what to change so that it would."""

    why: str
    advice: str = ""


class Conditions(NamedTuple):
    """What a run's faults have to do with its promises."""

    power_lost: bool
    forfeited: str  # why none about messages is left; empty: they are
    reduced: str  # why a set has a replica fewer for good; empty: it has not
    anew: str = ""  # why controllers know nothing of before; empty: they do

    def unpromised(self, claim: str, settings: Mapping[str, str] | None) -> str:
        """Why a run with these effective settings does not promise a claim; empty if it does."""
        missing = unmade(claim, settings, power_lost=self.power_lost)
        if missing:
            known = settings or {}
            return "it needs " + ", ".join(
                f"{n} (it is {known.get(n.key, DEFAULTS.get(n.key, 'unset'))})" for n in missing
            )
        return self.accident(claim)

    def accident(self, claim: str) -> str:
        """Why accidents with stores have left nothing of a promise; empty if they have not."""
        known = BY_ID.get(claim)
        if known is None:
            return ""
        reduced = self.reduced if known.of_replicas else ""
        anew = self.anew if known.of_controllers else ""
        return reduced or anew or (self.forfeited if known.of_stores else "")


class Case(msgspec.Struct, kw_only=True):
    """What a checker found out about a history.

    `judged` counts, by claim, how often the claim could have been broken and was looked at; 0 or
    none is no occasion. A claim with `doubts` had an occasion, and there is a reason why silence
    would prove nothing. `names` counts anomalies by claim and name where `found` holds only those
    that are reported.
    """

    found: list[Found] = []
    names: Counter[tuple[str, str]] | None = None
    counts: dict[str, int] = {}
    judged: dict[str, int] = {}
    doubts: dict[str, list[Doubt]] = {}

    def doubt(self, claim: str, why: str, advice: str = "") -> None:
        """Note a doubt about a claim, or about `EVERY` one."""
        self.doubts.setdefault(claim, []).append(Doubt(why, advice))


def rule(checker: Checker, history: History, context: Context, case: Case) -> Verdict:
    """Compose the verdict. Of claims that are timed a late harness judges nothing but facts.

    Args:
        checker: who judges.
        history: what was judged.
        context: how the run was set up.
        case: what was found out.
    """
    names = case.names
    if names is None:
        names = Counter((f.claim, f.name) for f in case.found)
    late = late_harness(history)
    met = conditions(history, context.settings)
    claim_verdicts = []
    for claim in (c for c in checker.claims if c not in context.absent):
        found = {name: n for (of, name), n in sorted(names.items()) if of == claim and n}
        known = BY_ID.get(claim)
        if late and known is not None and known.timed:
            if case.judged.get(claim) or found:
                case.doubt(claim, late, "run on a machine with less other load")
            found = {name: n for name, n in found.items() if name in known.facts}
        claim_verdicts.append(_claim_verdict(claim, context, case, found, met))
    return Verdict(
        checker=checker.name,
        claim_verdicts=tuple(claim_verdicts),
        anomalies=_anomalies(history, case.found),
        counts={**case.counts, **_by_name(names)},
    )


def _by_name(names: Counter[tuple[str, str]]) -> dict[str, int]:
    # One anomaly may break several claims; it is counted once.
    counts: dict[str, int] = {}
    for (_, name), count in sorted(names.items()):
        counts[name] = max(count, counts.get(name, 0))
    return counts


def _claim_verdict(
    claim: str, context: Context, case: Case, found: dict[str, int], met: Conditions
) -> ClaimVerdict:
    occasions = case.judged.get(claim, 0)
    doubts = [*case.doubts.get(EVERY, ()), *case.doubts.get(claim, ())]
    doubt = "; ".join(dict.fromkeys(d.why for d in doubts))
    if why := met.unpromised(claim, context.settings):
        forfeited = why == met.accident(claim)
        return ClaimVerdict(claim=claim, status="not promised", why=why, forfeited=forfeited,
                      occasions=occasions, found=found, doubt=doubt)  # fmt: skip
    if found:
        return ClaimVerdict(
            claim=claim, status="broken", occasions=occasions, found=found, doubt=doubt
        )
    if doubts:
        return ClaimVerdict(
            claim=claim,
            status="not judged",
            why=doubt,
            advice="; ".join(dict.fromkeys(d.advice for d in doubts if d.advice)),
            occasions=occasions,
        )
    status: Status = "kept" if occasions else "no occasion"
    return ClaimVerdict(claim=claim, status=status, occasions=occasions)


def conditions(history: History, settings: Mapping[str, str] | None) -> Conditions:
    """Find them out; `settings` are the run's effective ones."""
    gone = forfeited(history) or elected_empty(history, settings)
    reduced, anew = replaced_by_none(history), begun_anew(history)
    return Conditions(power_lost(history), gone, reduced, anew)


def power_lost(history: History) -> bool:
    """Whether a machine of the run lost its power."""
    return any(history.kinds.loses_unsynced(op.f) for op in history.nemesis)


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


def _anomalies(history: History, found: Sequence[Found]) -> tuple[Anomaly, ...]:
    if not found:
        return ()
    teller, blamer = Storyteller(history), Blamer(history)
    anomalies: list[Anomaly] = []
    for f in reported(found, lambda f: (f.claim, f.name)):
        ops = tuple(sorted(set(f.ops)))
        of = str(f.detail.get("set") or "")
        anomalies.append(
            Anomaly(
                claim=f.claim,
                name=f.name,
                signature=f"{f.claim}/{f.name}",
                ops=teller.evidence(f.claim, ops, of),
                story=f"{f.said} {teller.around(min(ops, default=0), f.claim, of)}",
                detail=f.detail,
                acts=blamer.of(f.claim, ops, f.detail, kind=f.name),
            )
        )
    return tuple(anomalies)
