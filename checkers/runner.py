"""Runs checkers over a history and composes what they say.

The history must be well-formed before anybody judges it: with repeated indices some checkers answer
*valid* on a broken history. A checker that raises found nothing out: `unknown`, with its traceback.

Composition is by the worst: false, then unknown, then true. Exit codes are Jepsen's: 0 valid, 1
invalid, 2 unknown, 255 for a harness that crashed; a real violation is never masked by a crash.
"""

import traceback
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from checkers.api import Checker, Context, Valid, Verdict, worst
from histories.history import Breach, History, wellformed

BREACHES_MAX = 100
EXIT_VALID, EXIT_INVALID, EXIT_UNKNOWN, EXIT_CRASH = 0, 1, 2, 255


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """All verdicts on one history. `breaches` are of well-formedness; most runs have none."""

    valid: Valid
    verdicts: tuple[Verdict, ...]
    breaches: tuple[Breach, ...] = ()

    @property
    def exit_code(self) -> int:
        return exit_code([self.valid])

    def to_json(self) -> dict[str, Any]:
        """For ``results.json``: plain values, string keys."""
        plain = msgspec.to_builtins(self, str_keys=True)
        plain["claims"] = dict(sorted(claim_verdicts(self).items()))
        return dict(plain)


def check_all(history: History, checkers: Sequence[Checker], context: Context) -> Results:
    """Judge a history by every checker."""
    return judged_by(checkers, wellformed(history), lambda checker: checker.check(history, context))


def judged_by(
    checkers: Sequence[Checker], breaches: Sequence[Breach], judge: Callable[[Checker], Verdict]
) -> Results:
    """What every checker says of a history with these breaches.

    Args:
        checkers: who judges.
        breaches: of the rules of well-formedness; where one is broken nobody judges.
        judge: asks one of them.
    """
    broken = [b for b in breaches if not b.warning]
    if broken:
        first = broken[0]
        reason = f"{first.rule} at op {first.index}: {first.text} ({len(broken)} breaches)"
        verdicts = tuple(
            Verdict(checker=c.name, claims=c.claims, valid="unknown", reason=reason)
            for c in checkers
        )
    else:
        verdicts = tuple(_asked(checker, judge) for checker in checkers)
    kept = (*broken, *(b for b in breaches if b.warning))[:BREACHES_MAX]
    valid: Valid = "unknown" if broken else worst(verdicts)
    if valid is True and not any(verdict.claims for verdict in verdicts):
        valid = "unknown"  # nobody had anything to judge: silence is no evidence
    return Results(valid=valid, verdicts=verdicts, breaches=kept)


def _asked(checker: Checker, judge: Callable[[Checker], Verdict]) -> Verdict:
    try:
        return judge(checker)
    except Exception:
        reason = f"the checker crashed:\n{traceback.format_exc()}"
        return Verdict(checker=checker.name, claims=checker.claims, valid="unknown", reason=reason)


def claim_verdicts(results: Results) -> dict[str, Valid]:
    """The verdict on each claim: one checker may break one of its claims and not the others.

    A claim that a false verdict does not accuse is `unknown`: a checker stops being evidence for
    the rest once the log it reads is wrong.
    """
    claims: dict[str, list[Verdict]] = {}
    for verdict in results.verdicts:
        accused = {a.claim for a in verdict.anomalies}
        for claim in verdict.claims:
            spared = verdict.valid is False and claim not in accused
            kept = msgspec.structs.replace(verdict, valid="unknown") if spared else verdict
            claims.setdefault(claim, []).append(kept)
    return {claim: worst(verdicts) for claim, verdicts in claims.items()}


def exit_code(verdicts: Sequence[Valid], *, crashed: bool = False) -> int:
    """The exit code of a command that judged these runs; `crashed` if one of them died."""
    if any(valid is False for valid in verdicts):
        return EXIT_INVALID
    if crashed:
        return EXIT_CRASH
    return EXIT_VALID if verdicts and all(v is True for v in verdicts) else EXIT_UNKNOWN
