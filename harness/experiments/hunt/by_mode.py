"""What a hunt looks for, by the mode of its runs: rows of decision tables, and known anomalies."""

from collections.abc import Iterable

from maxq.checkers.core.api import Anomaly
from maxq.harness.experiments.hunt import causes
from maxq.harness.experiments.hunt.causes import Traces
from maxq.harness.experiments.hunt.decisions import DECISIONS, Decision
from maxq.harness.experiments.hunt.detectors import Detector
from maxq.harness.experiments.hunt.known import Known
from maxq.harness.experiments.hunt.known_findings import EVIDENCE, KNOWN
from maxq.harness.experiments.hunt.pairs.pair_causes import PAIR_TIES
from maxq.harness.experiments.hunt.pairs.pair_decisions import PAIR_DECISIONS
from maxq.harness.experiments.hunt.pairs.pair_findings import PAIR_EVIDENCE, PAIR_KNOWN
from maxq.harness.experiments.hunt.run_artifacts import RunArtifacts
from maxq.harness.schedule.options import MODES

TIES = {**causes.TIES, **PAIR_TIES}
_DECISIONS = dict(zip(MODES, (DECISIONS, PAIR_DECISIONS), strict=True))
_KNOWN = dict(zip(MODES, (KNOWN, PAIR_KNOWN), strict=True))
_EVIDENCE = dict(zip(MODES, (EVIDENCE, PAIR_EVIDENCE), strict=True))


def decisions_in(mode: str) -> tuple[Decision, ...]:
    """The rows of decision tables that runs of a mode may reach.

    Args:
        mode: one of `maxq.harness.schedule.options.MODES`.
    """
    return _DECISIONS[mode]


def known_in(mode: str) -> tuple[Known, ...]:
    """All that is known of runs of a mode."""
    return _KNOWN[mode]


def evidence_in(mode: str) -> dict[str, Detector]:
    """What logs of runs of a mode show of known causes, by name."""
    return _EVIDENCE[mode]


def evidence(artifacts: RunArtifacts) -> tuple[str, ...]:
    """What a run's logs show of known causes, by name."""
    found = evidence_in(MODES[artifacts.pair])
    return tuple(sorted(name for name, seen in found.items() if seen(artifacts)))


def fits(run: Traces, cause: str, anomaly: Anomaly) -> bool:
    """Whether some trace of a cause explains an anomaly."""
    return any(TIES[cause](run, anomaly, harm) for harm in run.scene.harms(anomaly))


def known_as(anomaly: Anomaly, target: str, run: Traces) -> Known | None:
    """What an anomaly of a run is, if that is known.

    Args:
        anomaly: as a checker found it.
        target: of the run.
        run: its logs.
    """
    return next(
        (
            known
            for known in known_in(MODES[run.pair])
            if anomaly.signature in known.signatures
            and target in known.targets
            and (not known.shown or fits(run, known.shown, anomaly))
        ),
        None,
    )


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
        mine = signature in known.signatures and target in known.targets
        if mine and (by_profile or not known.shown):
            return known.what
    return ""


def known_by(what: str) -> Known | None:
    """The known anomaly of a label."""
    return next((known for known in (*KNOWN, *PAIR_KNOWN) if known.what == what), None)
