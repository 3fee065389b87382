"""What anomalies are known, so that each has a class: our own mistake, upstream's, or new.

An anomaly is known by its signature, in some releases, and where it has a cause that logs show,
only if what they show fits it (`causes`): another cause of the same harm is another anomaly. What
fits nothing here is unclassified, and must be looked at. A new class is a new row.
"""

from collections.abc import Iterable
from typing import NamedTuple

from maxq.checkers.core.api import Anomaly
from maxq.harness.experiments.hunt import detectors as d
from maxq.harness.experiments.hunt import marks
from maxq.harness.experiments.hunt.causes import Traces
from maxq.harness.experiments.hunt.detectors import Detector, broker, controller
from maxq.harness.experiments.hunt.run_artifacts import RunArtifacts

OURS, BY_DESIGN, UNCLASSIFIED = "ours", "by design", "unclassified"
TRACK = "new: docs/track-record.md"
FROM_5 = ("rocketmq:5.5.0", "rocketmq:5.5.0:jraft")
# Names of what a run's logs show beside what is judged, whether it did any harm or not.
EVIDENCE: dict[str, Detector] = {
    "truncation-comes-back": d.per_broker(marks.cut_off_and_back),
    "deposed-master-shrinks": controller(
        "alter syncStateSet request because the current leader is:"
    ),
    "stays-with-deposed-master": d.per_broker(marks.stays_with_deposed),
    "epoch-entry-refused": d.append_refused(by_epoch=False),
    "list-ahead-of-log": broker("local epoch entries is", r"endOffset=9223372036854775807\}\]"),
    "elects-from-outside": lambda artifacts: int(artifacts.profile == "P-UNCLEAN"),
    "epoch-file-empty": marks.EMPTY_EPOCHS,
    "identity-empty": marks.EMPTY_IDENTITY,
}


class Known(NamedTuple):
    """An anomaly that was looked into. `is_` is ``ours``, ``by design`` (of what the profile
    asks for), ``upstream #n``, or where it is described; `what` no other one has; `shown` is the
    cause that must fit (`causes.TIES`), empty: none is needed."""

    signatures: tuple[str, ...]
    targets: tuple[str, ...]
    is_: str
    what: str
    shown: str = ""


LOSS = (
    "S6/lost-tail", "S6/lost-write", "S6/unseen", "S9/missing-in-replica",
    "S9b/member-behind-confirmed", "S10/truncation", "S11/duplicate", "S11/inconsistent-offsets",
    "S12/nonmonotonic-send",  # what comes next is put where the lost one was
)  # fmt: skip
KNOWN: tuple[Known, ...] = (
    Known((*LOSS, "S8/log-diverged", "S8b/epochs-differ"), FROM_5, "upstream #10666",
          "what was cut off a log comes back after a kill", "truncation-comes-back"),
    Known((*LOSS, "S14/replica-not-in-set"), FROM_5, TRACK,
          "a replica whose list of epochs is ahead of its log has what it has not",
          "list-ahead-of-log"),
    Known(("S8/log-diverged", "S8b/epochs-differ"), FROM_5, TRACK,
          "an epoch in which nothing was written: two masters write under one entry",
          "epoch-entry-refused"),
    Known(("S7/master-outside-set",), FROM_5, BY_DESIGN,
          "P-UNCLEAN elects from outside of the SyncStateSet", "elects-from-outside"),
    Known(LOSS, FROM_5, TRACK, "an election takes acknowledged messages away",
          "deposed-master-shrinks"),
    Known(("S14/replica-not-in-set", "S13d/not-writable-during-fault"), FROM_5, TRACK,
          "a replica stays with the deposed master", "stays-with-deposed-master"),
    Known(("L1/granted-too-soon", "L2/lease-overlap"), FROM_5, TRACK,
          "a broker counts itself twice among those that grant a lock", "each-grants-alone"),
    Known(("O1/consumer-offset-regressed",), FROM_5, "upstream #10284",
          "consumer offsets are forgotten"),
    Known(("S14/replica-not-in-set", "S13/not-writable", "N6/living-broker-not-listed"), FROM_5,
          TRACK, "an epoch file that is empty after a loss of power: its broker does not start",
          "epoch-file-empty"),
    Known(("S2/id-changed", "S2/ghost-replica"), FROM_5, TRACK,
          "an identity file that is empty after a loss of power: its broker takes another id",
          "identity-empty"),
)  # fmt: skip


def evidence(artifacts: RunArtifacts) -> tuple[str, ...]:
    """What a run's logs show of known causes, by name."""
    return tuple(sorted(name for name, seen in EVIDENCE.items() if seen(artifacts)))


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
            for known in KNOWN
            if anomaly.signature in known.signatures
            and target in known.targets
            and (not known.shown or run.fits(known.shown, anomaly))
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
    return next((known for known in KNOWN if known.what == what), None)
