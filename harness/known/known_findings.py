"""What anomalies are known of runs with controllers, so that each has a class: our own mistake,
upstream's, or new.

An anomaly is known by its signature, in some releases, and where it has a cause that logs show,
only if what they show fits it (`causes`): another cause of the same harm is another anomaly. What
fits nothing here is unclassified, and must be looked at. A new class is a new row.
"""

from maxq.harness.known import detectors as d
from maxq.harness.known import marks
from maxq.harness.known.detectors import Detector, broker, controller
from maxq.harness.known.known import BY_DESIGN, TRACK, Known

SEEN = ("5.5.0",)
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

LOSS = (
    "S6/lost-tail", "S6/lost-write", "S6/unseen", "S9/missing-in-replica",
    "S9b/member-behind-confirmed", "S10/truncation", "S11/duplicate", "S11/inconsistent-offsets",
    "S12/nonmonotonic-send",  # what comes next is put where the lost one was
)  # fmt: skip
COMMITTED_AGAIN = Known(
    ("E9/committed-again",), ("4.9.7", "5.1.1", "5.3.3", "5.5.0"), (8158,),
    "each question to producers copies a half message, and each copy is committed by itself",
    "copies-of-half-messages",
)  # fmt: skip
KNOWN: tuple[Known, ...] = (
    COMMITTED_AGAIN,
    Known((*LOSS, "S8/log-diverged", "S8b/epochs-differ"), SEEN, (10666,),
          "what was cut off a log comes back after a kill", "truncation-comes-back"),
    Known((*LOSS, "S14/replica-not-in-set"), SEEN, TRACK,
          "a replica whose list of epochs is ahead of its log has what it has not",
          "list-ahead-of-log"),
    Known(("S8/log-diverged", "S8b/epochs-differ"), ("5.1.1", *SEEN), TRACK,
          "an epoch in which nothing was written: two masters write under one entry",
          "epoch-entry-refused"),
    Known(("S7/master-outside-set",), (), BY_DESIGN,
          "controllers may elect from outside of the SyncStateSet", "elects-from-outside"),
    Known(LOSS, ("5.4.0", *SEEN), TRACK, "an election takes acknowledged messages away",
          "deposed-master-shrinks"),
    Known(("S14/replica-not-in-set", "S13d/not-writable-during-fault"), SEEN, TRACK,
          "a replica stays with the deposed master", "stays-with-deposed-master"),
    Known(("L1/granted-too-soon", "L2/lease-overlap"), SEEN, TRACK,
          "a broker counts itself twice among those that grant a lock", "each-grants-alone"),
    Known(("O1/consumer-offset-regressed",), SEEN, (10284,),
          "consumer offsets are forgotten", "slave-cannot-read-offsets"),
    Known(("S13/not-writable", "S13d/not-writable-during-fault"), ("5.3.2", "5.3.3"), (9403, 9804),
          "slaves copy no topic once one has attributes: a new master does not know it",
          "attributes-not-copied", "5.4.0"),
    Known(("S14/replica-not-in-set", "S13/not-writable", "N6/living-broker-not-listed"), SEEN,
          TRACK, "an epoch file that is empty after a loss of power: its broker does not start",
          "epoch-file-empty"),
    Known(("S2/id-changed", "S2/ghost-replica"), SEEN, TRACK,
          "an identity file that is empty after a loss of power: its broker takes another id",
          "identity-empty"),
)  # fmt: skip
