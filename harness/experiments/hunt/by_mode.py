"""What a hunt looks for, by the mode of its runs: rows of decision tables, and known anomalies."""

from collections.abc import Iterable

from maxq.checkers.core.api import Anomaly
from maxq.harness.experiments.hunt.decisions import DECISIONS, Decision
from maxq.harness.experiments.hunt.pair_decisions import PAIR_DECISIONS
from maxq.harness.known.causes import Traces
from maxq.harness.known.detectors import Detector
from maxq.harness.known.known_findings import EVIDENCE, KNOWN
from maxq.harness.known.naming import known_as
from maxq.harness.known.pairs.pair_findings import PAIR_EVIDENCE
from maxq.harness.known.run_artifacts import RunArtifacts
from maxq.harness.schedule.options import MODES
from maxq.harness.targets.rocketmq.releases import release_of

_DECISIONS = dict(zip(MODES, (DECISIONS, PAIR_DECISIONS), strict=True))
_EVIDENCE = dict(zip(MODES, (EVIDENCE, PAIR_EVIDENCE), strict=True))


def decisions_in(mode: str) -> tuple[Decision, ...]:
    """The rows of decision tables that runs of a mode may reach.

    Args:
        mode: one of `maxq.harness.schedule.options.MODES`.
    """
    return _DECISIONS[mode]


def evidence_in(mode: str) -> dict[str, Detector]:
    """What logs of runs of a mode show of known causes, by name."""
    return _EVIDENCE[mode]


def evidence(artifacts: RunArtifacts) -> tuple[str, ...]:
    """What a run's logs show of known causes, by name."""
    found = evidence_in(MODES[artifacts.pair])
    return tuple(sorted(name for name, seen in found.items() if seen(artifacts)))


def labels(anomalies: Iterable[Anomaly], target: str, run: Traces) -> dict[str, dict[str, int]]:
    """How many anomalies of each signature are which known one, by `Known.what`; empty: no row
    knows."""
    found: dict[str, dict[str, int]] = {}
    for anomaly in anomalies:
        known = known_as(anomaly, target, run)
        of = found.setdefault(anomaly.signature, {})
        what = "" if known is None else known.what
        of[what] = of.get(what, 0) + 1
    return {signature: dict(sorted(of.items())) for signature, of in sorted(found.items())}


def without_logs(signature: str, target: str, profile: str) -> str:
    """What an anomaly is of which nothing is left but its signature, by `Known.what`: what needs no
    log and no history. Of the rest it is unknown which cause fitted; empty."""
    for known in KNOWN:
        by_profile = known.shown == "elects-from-outside" and profile == "P-UNCLEAN"
        mine = signature in known.signatures and known.covers(release_of(target) or "0")
        if mine and (by_profile or not known.shown):
            return known.what
    return ""
