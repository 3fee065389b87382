"""What anomalies are known of runs without controllers, as `known_findings` of those with them.

The ways in which committed offsets are lost have the numbers of docs/track-record.md.
"""

from maxq.harness.known import pair_marks as marks
from maxq.harness.known.detectors import Detector, broker, per_broker
from maxq.harness.known.known import BY_DESIGN, TRACK, Known
from maxq.harness.known.known_findings import COMMITTED_AGAIN
from maxq.harness.known.pairs.pair_detectors import blocked, returned_alone

READS_NO_NUMBERS = ("5.5.0",)  # as keys of JSON, without quotes
ALL = ("5.1.1", "5.3.3", *READS_NO_NUMBERS)
PAIR_EVIDENCE: dict[str, Detector] = {
    "cannot-read-offsets": broker(marks.REVERSE_FAILED, marks.UNQUOTED),
    "slave-cannot-read-offsets": broker(marks.NOT_COPIED, marks.UNQUOTED),
    "online-with-nobody": per_broker(returned_alone),
    "half-message-skipped": broker(marks.SKIPPED),
    "level-blocked": per_broker(blocked),
    "slave-longer-than-master": broker(marks.LONGER),
}
PAIR_KNOWN: tuple[Known, ...] = (
    Known(("S13/not-writable", "S13d/not-writable-during-fault", "P2/stays-isolated",
           "P3/waits-for-unreachable", "A11/slave-stands-still",
           # Two of two must grant a lock, and one of them is not in the group.
           "L6/lock-not-granted", "L8/expired-lock-kept", "L9/released-lock-kept"),
          READS_NO_NUMBERS, (10284,),
          "a master whose slave was read from never comes back", "cannot-read-offsets"),
    Known(("P6/copied-offset-lost",), READS_NO_NUMBERS, (10284,),
          "a slave cannot read its master's offsets once it was read from",
          "slave-cannot-read-offsets"),
    Known(("P4/acting-offset-lost", "O1/consumer-offset-regressed"), ALL, TRACK,
          "R3: a master comes online with nobody there, and has what it had",
          "online-with-nobody"),
    Known(("P4/acting-offset-lost", "P5/written-offset-lost"), ALL, TRACK,
          "R2: of two slaves with one version the second one's offsets are taken as well",
          "second-member-taken"),
    Known(("P4/acting-offset-lost",), ALL, TRACK,
          "R1: a master whose version is newer keeps its own offsets", "older-version-kept"),
    Known(("P5/written-offset-lost",), ALL, TRACK,
          "R6: a slave's older offsets take the place of its master's", "whole-table-taken"),
    Known(("P4/acting-offset-lost",), ALL, TRACK,
          "R5: a slave was left out when its group changed meanwhile", "whole-table-taken"),
    Known(("P4/acting-offset-lost", "P6/copied-offset-lost", "O1/consumer-offset-regressed"), ALL,
          TRACK, "R4: a master that was only cut off takes nothing from who acted for it",
          "cut-off-and-back"),
    Known(("E4/half-lost", "E6/commit-lost", "E7/half-unsettled", "E7/half-late"), ALL, TRACK,
          "a half message that cannot be moved is left behind after ten tries",
          "half-message-skipped"),
    Known(("E1/delayed-late", "E1/delayed-lost"), ALL, TRACK,
          "a delayed message that cannot be moved holds up those behind it", "level-blocked"),
    Known(("A5/acting-not-readable",), (), BY_DESIGN,
          "consumers may not read from slaves", "slaves-not-read-from"),
    Known(("A1/nobody-acts",), (), BY_DESIGN, "no slave may act", "slaves-do-not-act"),
    Known(("L1/granted-too-soon", "L2/lease-overlap", "L7/granted-without-quorum"), (), BY_DESIGN,
          "locks are not strict: each broker grants by itself", "locks-not-strict"),
    COMMITTED_AGAIN,
    Known(("S8/log-diverged", "A8/acknowledged-uncopied"), ALL, (3015,),
          "a slave that has more than its master counts as a copy", "slave-longer-than-master"),
    Known(("A12/typed-topic-not-copied", "A12/topic-not-copied", "A5/acting-not-readable",
           "A6/acting-refuses"), ("5.3.2", "5.3.3"), (9403, 9879, 9984),
          "slaves copy no topic once one has attributes",
          "attributes-not-copied", "5.4.0"),
    Known(("A11/slave-behind-trim",), ("4.3.0", "4.4.0", "5.5.0"), (3388,),
          "a slave that comes back behind its master's first byte is never sent one"),
    Known(("send/FLUSH_SLAVE_TIMEOUT",), ("4.9.1", "5.5.0"), (3484, 1244),
          "sends stall while a slave that is connected takes nothing", "slave-takes-nothing"),
    Known(("A8/acknowledged-uncopied",), (), BY_DESIGN,
          "without its slave a master acknowledges alone", "copies-not-waited-for"),
)  # fmt: skip
