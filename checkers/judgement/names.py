"""What checkers can find: each anomaly by name, and the claim that it breaks.

A signature is ``CLAIM/name``. Headers of schedules, which list the signatures that a run is known
to show, are checked against this table, so that a misspelt name is an error and not a clean run. A
checker's new anomaly is added here and in ``docs/anomalies.md``; tests compare the table with that
page and with the sources of the checkers.
"""

from collections.abc import Mapping

from maxq.checkers.messages.excuses import ALWAYS, WHATEVER, WITHIN

ANOMALIES: Mapping[str, str] = {
    # What clients saw.
    "lost-write": "S6",
    "lost-tail": "S6",
    "truncation": "S10",
    "G1a": "S10",
    "precommitted-read": "S10",
    "G1c": "S10",
    "G1c-realtime": "S10",
    "phantom": "S11",
    "inconsistent-offsets": "S11",
    "duplicate": "S11",
    "poll-skip": "S11",
    "int-poll-skip": "S11",
    "nonmonotonic-poll": "S11",
    "int-nonmonotonic-poll": "S11",
    "nonmonotonic-send": "S12",
    "int-nonmonotonic-send": "S12",
    "order": "S12",
    "added-twice": "B1",
    "absent-removed": "B2",
    "added-in-name-only": "B3",
    "removed-in-name-only": "B4",
    "neighbour-unlisted": "B5",
    "failed-add-remains": "B6",
    "no-room-after-failure": "B6",
    "added-survives": "B7",
    "share-exceeded": "B9",
    "deleted-within-share": "B10",
    "deleted-early": "B13",
    "consumer-offset-regressed": "O1",
    "delayed-lost": "E1",
    "delayed-late": "E1",
    "delayed-early": "E2",
    "uncopied-lost": "E3",
    "delayed-again": "E5",
    "half-lost": "E4",
    "commit-lost": "E6",
    "half-unsettled": "E7",
    "half-late": "E7",
    "uncommitted-delivered": "E8",
    "committed-again": "E9",
    "granted-too-soon": "L1",
    "lease-overlap": "L2",
    "granted-again-by-broker": "L3",
    "overlap-lasts": "L4",
    "read-beside-holder": "L10",
    "lock-not-granted": "L6",
    "granted-without-quorum": "L7",
    "expired-lock-kept": "L8",
    "released-lock-kept": "L9",
    # Ids and addresses.
    "duplicate-id": "S1",
    "id-changed": "S2",
    "ghost-replica": "S2",
    "known-elsewhere": "S2b",
    # Elections.
    "epoch-went-back": "S3",
    "set-forgotten": "S3",
    "answers-not-linearizable": "S3b",
    "sync-state-set-went-back": "S4",
    "sync-state-set-forked": "S4",
    "two-masters": "S5",
    "master-outside-set": "S7",
    # Logs.
    "log-diverged": "S8",
    "epochs-differ": "S8b",
    "epoch-starts-differ": "S8c",
    "missing-in-replica": "S9",
    "member-behind-confirmed": "S9b",
    "slave-ahead-of-master": "S10b",
    "learner-in-set": "S17",
    "healthy-master-replaced": "S18",
    "acknowledged-uncopied": "A8",
    "nobody-acts": "A1",
    "second-acts": "A2",
    "acts-beside-master": "A3",
    "slave-took-message": "A4",
    "acting-not-readable": "A5",
    "acting-lacks-message": "A5",
    "acting-refuses": "A6",
    "slave-stands-still": "A11",
    "slave-behind-trim": "A11",
    "topic-not-copied": "A12",
    "typed-topic-not-copied": "A12",
    "isolated-listed": "P1",
    "stays-isolated": "P2",
    "waits-for-unreachable": "P3",
    "acting-offset-lost": "P4",
    "written-offset-lost": "P5",
    "copied-offset-lost": "P6",
    "progress-beyond-queue": "P7",
    "uncopied-listed": "P8",
    "written-by-nobody": "S11b",
    # Liveness.
    "not-writable": "S13",
    "not-readable": "S13",
    "dead-master-stays": "S13b",
    "master-not-replaced": "S13b",
    "not-writable-during-fault": "S13d",
    "replica-not-in-set": "S14",
    "silent-member-stays": "S14b",
    "node-ended": "S15",
    "node-does-not-start": "S15",
    "node-does-not-answer": "S15",
    # Routes.
    "address-listed-twice": "N1",
    "masterless-writable": "N2",
    "shown-otherwise": "N3",
    "silent-broker-listed": "N4",
    "dead-broker-listed": "N5",
    "living-broker-not-listed": "N6",
    "reset-broker-not-listed": "N7",
    "master-not-writable": "N8",
    "namesrvs-differ": "N9",
    "master-not-listed": "N10",
    "restarted-namesrv-differs": "N11",
    "other-slave-shown": "N12",
    "stale-master-listed": "N13",
}


def signatures() -> list[str]:
    """Every signature that a checker can find. Where settings do not make a claim, what no setting
    excuses is found under S16."""
    found = [f"{claim}/{name}" for name, claim in ANOMALIES.items()]
    return [*found, *(f"{WHATEVER}/{name}" for name in sorted(ALWAYS | WITHIN))]
