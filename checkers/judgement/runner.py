"""Runs checkers over a history and composes what they say.

The history must be well-formed before it is judged: with repeated indices some checkers answer
*kept* on a broken history. A checker that raises found nothing out: its claims are not judged, with
its traceback. A claim whose evidence is not whole is not judged either, unless it is broken; nor
is one that needs undisturbed time, in a history with an unknown act.

A run is invalid if a claim is broken. It is valid if nothing is left not judged and every claim
that the run is there for (`Context.purpose`) is kept, or is not promised and was measured. Else it
is unknown, and says what to change. Exit codes are Jepsen's: 0 valid, 1 invalid, 2 unknown, 255
for a harness that crashed; a real violation is never masked by a crash.
"""

import traceback
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from maxq.checkers.core.api import (
    Anomaly,
    Checker,
    ClaimVerdict,
    Context,
    Harm,
    Stretch,
    Valid,
    Verdict,
    crashed,
    of_the_run,
    unjudged,
)
from maxq.checkers.core.claims import BY_ID
from maxq.checkers.core.titles import titled
from maxq.checkers.evidence.harms import findings
from maxq.checkers.evidence.harms import plain as plain_harms
from maxq.checkers.judgement.grounds import Standing, standing_of
from maxq.checkers.judgement.lost import Lost, lost_in
from maxq.checkers.judgement.stretches import with_answers
from maxq.histories.history import Breach, History, wellformed

BREACHES_MAX = 100
# Anomalies that an operation further on may take back: what was lost is read there.
UNREAD = frozenset(
    ("lost-write", "lost-tail", "delayed-lost", "uncopied-lost", "half-lost", "commit-lost",
     "guest-message-lost")
)  # fmt: skip
EXIT_VALID, EXIT_INVALID, EXIT_UNKNOWN, EXIT_CRASH = 0, 1, 2, 255


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """All verdicts on one history. `breaches` are of well-formedness; most runs have none. `whys`
    say why the run is unknown, and `advice` what to change; both are empty where it is not."""

    valid: Valid
    verdicts: tuple[Verdict, ...]
    breaches: tuple[Breach, ...] = ()
    whys: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        return exit_code([self.valid])

    @property
    def cited(self) -> frozenset[int]:
        """The indices of all operations that anomalies name, in their stories too."""
        return frozenset().union(*(a.cited for v in self.verdicts for a in v.anomalies))

    @property
    def claims(self) -> dict[str, ClaimVerdict]:
        """What became of each claim, in the order of the list of all claims."""
        order = {claim: number for number, claim in enumerate(BY_ID)}
        found = [r for v in self.verdicts for r in v.claim_verdicts]
        return {r.claim: r for r in sorted(found, key=lambda r: order.get(r.claim, len(order)))}

    def of(self, *statuses: str) -> tuple[str, ...]:
        """The claims that came to one of these."""
        return tuple(c for c, r in self.claims.items() if r.status in statuses)

    @property
    def broken(self) -> tuple[Anomaly, ...]:
        """The anomalies of claims that are broken."""
        return self._anomalies("broken")

    @property
    def findings(self) -> tuple[Harm, ...]:
        """What was done to users, each harm once, losses first."""
        return findings(self.verdicts, {c: r.status for c, r in self.claims.items()})

    @property
    def measured(self) -> tuple[Anomaly, ...]:
        """The anomalies of claims that are not promised."""
        return self._anomalies("not promised")

    def _anomalies(self, status: str) -> tuple[Anomaly, ...]:
        claims = self.of(status)
        return tuple(a for v in self.verdicts for a in v.anomalies if a.claim in claims)

    @property
    def lost(self) -> Lost:
        """How many acknowledged messages were lost, where that was judged."""
        return lost_in(self.verdicts)

    @property
    def stretches(self) -> tuple[Stretch, ...]:
        """The times in which nothing that clients asked for succeeded."""
        return tuple(s for v in self.verdicts for s in v.stretches)

    @property
    def counts(self) -> dict[str, int]:
        """What checkers counted, by ``checker:name``."""
        return {f"{v.checker}:{name}": n for v in self.verdicts for name, n in v.counts.items()}

    def to_json(self) -> dict[str, Any]:
        """For ``results.json``: plain values, string keys."""
        plain = msgspec.to_builtins(self, str_keys=True)
        plain["findings"] = plain_harms(self.findings)
        plain["claims"] = {claim: verdict.status for claim, verdict in self.claims.items()}
        return dict(plain)


def check_all(history: History, checkers: Sequence[Checker], context: Context) -> Results:
    """Judge a history by every checker."""
    return judged_by(
        checkers,
        context,
        wellformed(history),
        standing_of(history, context),
        lambda checker: checker.check(history, context),
    )


def judged_by(
    checkers: Sequence[Checker],
    context: Context,
    breaches: Sequence[Breach],
    standing: Standing,
    judge: Callable[[Checker], Verdict],
) -> Results:
    """What every checker says of a history with these breaches and grounds.

    Args:
        checkers: who judges.
        context: how the run was set up.
        breaches: of the rules of well-formedness; where one is broken nothing is judged.
        standing: which grounds are whole.
        judge: asks one of them.
    """
    broken = [b for b in breaches if not b.warning]
    if broken:
        first = broken[0]
        count = f"{len(broken):,} breach{'' if len(broken) == 1 else 'es'}"
        why = f"{first.rule} at op {first.index}: {first.text} ({count})"
        verdicts = tuple(unjudged(c, why) for c in checkers)
    else:
        verdicts = with_answers([_grounded(_asked(c, judge), standing) for c in checkers])
    kept = (*broken, *(b for b in breaches if b.warning))[:BREACHES_MAX]
    results = Results(valid=True, verdicts=verdicts, breaches=kept)
    if broken:
        words = f"the history is not well-formed: {why}, so no claim is judged"
        return msgspec.structs.replace(results, valid="unknown", whys=(words,))
    valid, whys, advice = _composed(results, context)
    return msgspec.structs.replace(results, valid=valid, whys=whys, advice=advice)


def _asked(checker: Checker, judge: Callable[[Checker], Verdict]) -> Verdict:
    try:
        return judge(checker)
    except Exception:
        return crashed(checker, traceback.format_exc())


def _grounded(verdict: Verdict, standing: Standing) -> Verdict:
    """The same; what rests on grounds that are not whole is not judged. Nothing is lost for certain
    if operations are missing that may show it."""
    claim_verdicts = tuple(_resting(each, standing) for each in verdict.claim_verdicts)
    verdict = msgspec.structs.replace(verdict, claim_verdicts=claim_verdicts)
    if not standing.damaged:
        return verdict
    left = tuple(a for a in verdict.anomalies if a.name not in UNREAD)
    counts = {name: count for name, count in verdict.counts.items() if name != "lost"}
    return msgspec.structs.replace(verdict, anomalies=left, harms=(), counts=counts)


def _resting(verdict: ClaimVerdict, standing: Standing) -> ClaimVerdict:
    known = BY_ID.get(verdict.claim)
    grounds = known.grounds if known is not None else ()
    undisturbed = known is not None and known.undisturbed
    missing = standing.missing(grounds, undisturbed=undisturbed)
    if not missing:
        return verdict
    unread = ""
    if standing.damaged and not UNREAD.isdisjoint(verdict.found):
        listed = ", ".join(f"{n:,} {name}" for name, n in verdict.found.items() if name in UNREAD)
        unread = f"what was not read until there may be read behind it ({listed})"
        left = {name: n for name, n in verdict.found.items() if name not in UNREAD}
        status = verdict.status if left else "not judged"
        verdict = msgspec.structs.replace(verdict, found=left, status=status)
    if verdict.status in ("broken", "not promised"):
        doubt = _joined([verdict.doubt, *(m.why for m in missing)])
        return msgspec.structs.replace(verdict, doubt=doubt)
    # A history that is cut short lacks what comes last: what else it lacks for that goes unsaid.
    own = verdict.status == "not judged" and not (standing.cut and of_the_run(verdict.why))
    whys = [*([verdict.why] if own else []), *(m.why for m in missing), unread]
    advice = [*([verdict.advice] if own else []), *(m.advice for m in missing)]
    return msgspec.structs.replace(
        verdict, status="not judged", why=_joined(whys), advice=_joined(advice)
    )


def _joined(texts: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(text for text in texts if text))


def _composed(results: Results, context: Context) -> tuple[Valid, tuple[str, ...], tuple[str, ...]]:
    """The verdict on a run, why it is unknown, and what to change."""
    claims = results.claims
    if any(verdict.status == "broken" for verdict in claims.values()):
        return False, (), ()
    whys = [v.gate for v in results.verdicts if v.gate]
    advice: list[str] = []
    unjudged_claims: dict[tuple[str, str], list[str]] = {}
    for claim, verdict in claims.items():
        if verdict.status == "not judged":
            unjudged_claims.setdefault((verdict.why, verdict.advice), []).append(claim)
        elif claim in context.purpose and verdict.status == "no occasion":
            why = "the run is for it, and nothing happened that could have broken it"
            unjudged_claims.setdefault((why, "--time-limit: a longer run"), []).append(claim)
        elif claim in context.purpose and verdict.unmeasured:
            unjudged_claims.setdefault((verdict.doubt, ""), []).append(claim)
    for (why, how), of in unjudged_claims.items():
        whys.append(f"not judged: {titled(of)}, since {why}")
        advice += [how] if how else []
    missing = [c for c in context.purpose if c not in claims and c not in context.absent]
    whys += [f"not judged: {titled([claim])}, since no checker looked at it" for claim in missing]
    if not whys and not any(r.status in ("kept", "not promised") for r in claims.values()):
        whys.append("nothing that could be judged")
    return ("unknown" if whys else True), tuple(whys), tuple(dict.fromkeys(advice))


def exit_code(verdicts: Sequence[Valid], *, crashed: bool = False) -> int:
    """The exit code of a command that judged these runs; `crashed` if one of them died."""
    if any(valid is False for valid in verdicts):
        return EXIT_INVALID
    if crashed:
        return EXIT_CRASH
    return EXIT_VALID if verdicts and all(v is True for v in verdicts) else EXIT_UNKNOWN
