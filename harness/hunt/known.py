"""What anomalies are known, so that each has a class: our own mistake, upstream's, or new.

An anomaly is known by its signature, in some releases, and if there is evidence of a cause then
only in runs that show it: another cause of the same harm is another anomaly. What fits nothing here
is unclassified: somebody has to look. Whoever classifies one adds a row.
"""

from collections.abc import Collection
from typing import NamedTuple

from harness.hunt import detectors as d
from harness.hunt.detectors import Detector, broker, controller
from harness.hunt.remains import Remains

OURS, BY_DESIGN, UNCLASSIFIED = "ours", "by design", "unclassified"
TRACK = "new: docs/track-record.md"
FROM_5 = ("rocketmq:5.5.0", "rocketmq:5.5.0:jraft")
# Names of what a run's logs show beside what is judged.
EVIDENCE: dict[str, Detector] = {
    "deposed-master-shrinks": controller(
        "alter syncStateSet request because the current leader is:"
    ),
    "stays-with-deposed-master": d.per_broker(d.stays_with_deposed),
    "epoch-entry-refused": d.append_refused(by_epoch=False),
    "list-ahead-of-log": broker("local epoch entries is", r"endOffset=9223372036854775807\}\]"),
    "elects-from-outside": lambda remains: int(remains.profile == "P-UNCLEAN"),
    "epoch-file-empty": broker("Cannot parse null string", r"CheckpointFile\.read"),
    "identity-empty": broker("Read metadata file failed"),
}


class Known(NamedTuple):
    """An anomaly that somebody has looked at. `is_` is ``ours``, ``by design`` (of what the profile
    asks for), ``upstream #n``, or where it is told; `shown` the evidence of its cause, empty: none
    is needed."""

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
          "a broker counts itself twice among those that grant a lock"),
    Known(("O1/place-forgotten",), FROM_5, "upstream #10284", "consumers' places are forgotten"),
    Known(("S14/replica-not-in-set", "S13/not-writable", "N6/living-broker-not-listed"), FROM_5,
          TRACK, "an epoch file that is empty after a loss of power: its broker does not start",
          "epoch-file-empty"),
    Known(("S2/id-changed", "S2/ghost-replica"), FROM_5, TRACK,
          "an identity file that is empty after a loss of power: its broker takes another id",
          "identity-empty"),
)  # fmt: skip


def evidence(remains: Remains) -> tuple[str, ...]:
    """What a run's logs show of known causes, by name."""
    return tuple(sorted(name for name, seen in EVIDENCE.items() if seen(remains)))


def known_as(signature: str, target: str, shown: Collection[str]) -> Known | None:
    """What an anomaly of a run is, if somebody knows.

    Args:
        signature: of the anomaly, as ``S6/lost-tail``.
        target: of the run.
        shown: the evidence that the run's logs have.
    """
    return next(
        (
            known
            for known in KNOWN
            if signature in known.signatures
            and target in known.targets
            and (not known.shown or known.shown in shown)
        ),
        None,
    )
