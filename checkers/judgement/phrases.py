"""What each anomaly is in plain words, for who has never seen a claim: one, and several of them.

The first sentence of a verdict is made of these. A test holds them against the table of anomalies.
"""

from collections.abc import Iterable, Mapping

# Of one; of several, with their number.
PHRASES: Mapping[str, tuple[str, str]] = {
    "lost-write": ("an acknowledged message was lost", "{n} acknowledged messages were lost"),
    "lost-tail": ("an acknowledged message was lost", "{n} acknowledged messages were lost"),
    "truncation": (
        "a message that was read disappeared",
        "{n} messages that were read disappeared",
    ),
    "G1a": (
        "a message was read whose send had failed",
        "{n} messages were read whose send had failed",
    ),
    "precommitted-read": (
        "a producer read its own message before it was acknowledged",
        "{n} messages were read by their producer before they were acknowledged",
    ),
    "G1c": (
        "operations read each other's messages in a circle",
        "{n} times operations read each other's messages in a circle",
    ),
    "G1c-realtime": (
        "a message was read before its send had begun",
        "{n} messages were read before their send had begun",
    ),
    "phantom": ("a message was read that nobody sent", "{n} messages were read that nobody sent"),
    "inconsistent-offsets": (
        "a queue offset changed its message",
        "{n} queue offsets changed their message",
    ),
    "duplicate": ("a message is in a queue twice", "{n} messages are in a queue twice"),
    "poll-skip": ("a consumer skipped messages", "{n} times a consumer skipped messages"),
    "int-poll-skip": ("a consumer skipped messages", "{n} times a consumer skipped messages"),
    "nonmonotonic-poll": ("a consumer read backwards", "{n} times a consumer read backwards"),
    "int-nonmonotonic-poll": ("a consumer read backwards", "{n} times a consumer read backwards"),
    "nonmonotonic-send": (
        "two messages of one producer changed places",
        "{n} times two messages of one producer changed places",
    ),
    "int-nonmonotonic-send": (
        "two messages of one producer changed places",
        "{n} times two messages of one producer changed places",
    ),
    "order": (
        "a consumer got one producer's messages in another order",
        "{n} times a consumer got one producer's messages in another order",
    ),
    "added-twice": (
        "a container added a broker that was there, or harmed it",
        "{n} times a container added a broker that was there, or harmed it",
    ),
    "absent-removed": (
        "a container did not say that a broker to be removed was not there",
        "{n} times a container did not say that a broker to be removed was not there",
    ),
    "added-in-name-only": (
        "a broker that was added did not serve, or could not be added",
        "{n} times a broker that was added did not serve, or could not be added",
    ),
    "removed-in-name-only": (
        "a broker that was removed was still there, or could not be removed",
        "{n} times a broker that was removed was still there, or could not be removed",
    ),
    "neighbour-unlisted": (
        "a name server dropped a broker when another one of its container was added or removed",
        "{n} times a name server dropped a broker when another one of its container changed",
    ),
    "failed-add-remains": (
        "a broker that could not be added left a port taken, or an entry",
        "{n} brokers that could not be added left a port taken, or an entry",
    ),
    "no-room-after-failure": (
        "a broker could not be added after an addition that failed",
        "{n} times a broker could not be added after an addition that failed",
    ),
    "added-survives": (
        "a container that was ended came back with a broker that is not of its file",
        "{n} times a container that was ended came back with a broker that is not of its file",
    ),
    "set-of-container-without-master": (
        "nobody acted for a master whose container had ended",
        "{n} times nobody acted for a master whose container had ended",
    ),
    "returned-otherwise": (
        "a broker came back with its container, and was not listed in its role",
        "{n} brokers came back with their containers, and were not listed in their roles",
    ),
    "neighbours-message": (
        "a broker had a message that was sent to another one of its container",
        "{n} times a broker had a message that was sent to another one of its container",
    ),
    "guest-message-lost": (
        "a broker was added on its store and missed a message",
        "{n} times a broker was added on its store and missed a message",
    ),
    "escaped-past-local": (
        "a slave sent a message to another machine, beside a master in its own process",
        "slaves sent {n} messages to other machines, beside masters in their own process",
    ),
    "neighbour-ended": (
        "the failure of one broker ended another one of its container",
        "the failures of brokers ended {n} others of their containers",
    ),
    "share-exceeded": (
        "a broker had more than its share of the disk",
        "{n} times a broker had more than its share of the disk",
    ),
    "deleted-within-share": (
        "a broker deleted young files although it was within its share of the disk",
        "{n} times a broker deleted young files although it was within its share of the disk",
    ),
    "deleted-early": (
        "a broker deleted messages that were younger than their retention",
        "in {n} queues messages were deleted that were younger than their retention",
    ),
    "delayed-lost": (
        "a delayed message was never delivered",
        "{n} delayed messages were never delivered",
    ),
    "delayed-late": (
        "a delayed message of a lost master was not delivered elsewhere",
        "{n} delayed messages of a lost master were not delivered elsewhere",
    ),
    "delayed-early": (
        "a delayed message was delivered before its time",
        "{n} delayed messages were delivered before their time",
    ),
    "uncopied-lost": (
        "a delayed message was not delivered after its master's return",
        "{n} delayed messages were not delivered after their master's return",
    ),
    "delayed-again": (
        "a delayed message was delivered again",
        "{n} delayed messages were delivered again",
    ),
    "half-lost": (
        "a half message of a master that had gone was never delivered",
        "{n} half messages of a master that had gone were never delivered",
    ),
    "commit-lost": (
        "a committed message was never delivered",
        "{n} committed messages were never delivered",
    ),
    "half-unsettled": (
        "a half message was never settled",
        "{n} half messages were never settled",
    ),
    "half-late": (
        "a half message of a lost master was not settled elsewhere",
        "{n} half messages of a lost master were not settled elsewhere",
    ),
    "uncommitted-delivered": (
        "a message was delivered whose transaction was not committed",
        "{n} messages were delivered whose transactions were not committed",
    ),
    "committed-again": (
        "a committed message was delivered too often",
        "{n} committed messages were delivered too often",
    ),
    "consumer-offset-regressed": (
        "a consumer group's committed offset went back",
        "{n} times a consumer group's committed offset went back",
    ),
    "granted-too-soon": (
        "a queue's lock was granted again within its lease",
        "{n} times a queue's lock was granted again within its lease",
    ),
    "lease-overlap": (
        "two clients held one queue's lock at a time",
        "{n} times two clients held one queue's lock at a time",
    ),
    "granted-again-by-broker": (
        "one broker granted a queue's lock again within its lease",
        "{n} times one broker granted a queue's lock again within its lease",
    ),
    "overlap-lasts": (
        "two clients went on to hold one queue's lock at two brokers",
        "{n} times two clients went on to hold one queue's lock at two brokers",
    ),
    "read-beside-holder": (
        "a queue was read by another client than its lock's holder",
        "{n} times a queue was read by another client than its lock's holder",
    ),
    "lock-not-granted": (
        "nobody was granted a queue's lock",
        "{n} times nobody was granted a queue's lock",
    ),
    "granted-without-quorum": (
        "a queue's lock was granted without a majority of its brokers",
        "{n} times a queue's lock was granted without a majority of its brokers",
    ),
    "expired-lock-kept": (
        "a queue's lock was refused after it had run out",
        "{n} times a queue's lock was refused after it had run out",
    ),
    "released-lock-kept": (
        "a queue's lock was refused after it had been given back",
        "{n} times a queue's lock was refused after it had been given back",
    ),
    "duplicate-id": ("a broker id was given twice", "{n} broker ids were given twice"),
    "id-changed": ("a broker got another id", "{n} brokers got another id"),
    "ghost-replica": (
        "a controller knows a broker id that no broker has",
        "controllers know {n} broker ids that no broker has",
    ),
    "known-elsewhere": (
        "a controller knows a broker at a wrong address",
        "{n} brokers are known at a wrong address",
    ),
    "epoch-went-back": ("a master epoch went back", "{n} times a master epoch went back"),
    "set-forgotten": (
        "a controller forgot a broker set",
        "{n} times a controller forgot a broker set",
    ),
    "answers-not-linearizable": (
        "controllers answered from before what had been decided",
        "{n} times controllers answered from before what had been decided",
    ),
    "sync-state-set-went-back": (
        "a SyncStateSet epoch went back",
        "{n} times a SyncStateSet epoch went back",
    ),
    "sync-state-set-forked": (
        "one SyncStateSet epoch had two SyncStateSets",
        "{n} SyncStateSet epochs had two SyncStateSets",
    ),
    "two-masters": (
        "one master epoch had two masters",
        "{n} master epochs had two masters",
    ),
    "master-outside-set": (
        "a broker outside the SyncStateSet was elected",
        "{n} times a broker outside the SyncStateSet was elected",
    ),
    "isolated-listed": (
        "a master was listed before it had what its slaves had",
        "{n} times a master was listed before it had what its slaves had",
    ),
    "stays-isolated": (
        "a master that was back stayed isolated",
        "{n} times a master that was back stayed isolated",
    ),
    "waits-for-unreachable": (
        "a master that was back waited for a slave that it could not reach",
        "{n} times a master that was back waited for a slave that it could not reach",
    ),
    "copied-offset-lost": (
        "a slave lacked an offset that it had had the time to copy",
        "{n} times a slave lacked an offset that it had had the time to copy",
    ),
    "acting-not-readable": (
        "nobody could read from a slave that acted",
        "{n} times nobody could read from a slave that acted",
    ),
    "acting-lacks-message": (
        "a slave that acted did not show a message that it had",
        "{n} times a slave that acted did not show a message that it had",
    ),
    "acting-refuses": (
        "a slave that acted refused what a slave can do",
        "{n} times a slave that acted refused what a slave can do",
    ),
    "slave-stands-still": (
        "a slave copied nothing of its master's log",
        "{n} times a slave copied nothing of its master's log",
    ),
    "healthy-master-replaced": (
        "a master was replaced although it ran and could be reached",
        "{n} times a master was replaced although it ran and could be reached",
    ),
    "slave-behind-trim": (
        "a slave copied nothing, since its log ends before its master's begins",
        "{n} times a slave copied nothing, since its log ends before its master's begins",
    ),
    "topic-not-copied": (
        "a slave does not keep topics of its master",
        "{n} slaves do not keep topics of their master",
    ),
    "typed-topic-not-copied": (
        "a slave does not keep topics with attributes",
        "{n} slaves do not keep topics with attributes",
    ),
    "uncopied-listed": (
        "a slave was listed before it copied its master's log",
        "{n} times a slave was listed before it copied its master's log",
    ),
    "progress-beyond-queue": (
        "a master's delay progress was beyond its queue",
        "{n} times a master's delay progress was beyond its queue",
    ),
    "acting-offset-lost": (
        "a master lost an offset that its slave had taken for it",
        "{n} times a master lost an offset that its slave had taken for it",
    ),
    "written-offset-lost": (
        "a master lost an offset that it had written",
        "{n} times a master lost an offset that it had written",
    ),
    "nobody-acts": ("nobody acted for a lost master", "{n} times nobody acted for a lost master"),
    "second-acts": ("two slaves acted at a time", "{n} times two slaves acted at a time"),
    "acts-beside-master": (
        "a slave acted beside its master",
        "{n} times a slave acted beside its master",
    ),
    "slave-took-message": ("a slave took a message", "{n} messages were taken by a slave"),
    "acknowledged-uncopied": (
        "a message was acknowledged before it was copied",
        "{n} messages were acknowledged before they were copied",
    ),
    "log-diverged": ("two replicas' logs differ", "{n} pairs of replicas' logs differ"),
    "epochs-differ": (
        "two replicas in sync disagree on the epochs of their log",
        "{n} pairs of replicas in sync disagree on the epochs of their log",
    ),
    "epoch-starts-differ": (
        "an epoch begins at different bytes on two replicas",
        "{n} epochs begin at different bytes on two replicas",
    ),
    "missing-in-replica": (
        "an acknowledged message is missing on a replica in sync",
        "{n} acknowledged messages are missing on a replica in sync",
    ),
    "member-behind-confirmed": (
        "a replica in sync lacked what its master had confirmed",
        "{n} times a replica in sync lacked what its master had confirmed",
    ),
    "slave-ahead-of-master": (
        "a slave served bytes that its master had not confirmed",
        "{n} times a slave served bytes that its master had not confirmed",
    ),
    "learner-in-set": (
        "a learner was in a SyncStateSet",
        "{n} times a learner was in a SyncStateSet",
    ),
    "written-by-nobody": ("a log grew although nobody sent", "{n} logs grew although nobody sent"),
    "not-writable": (
        "a broker set took no messages although everything was healed",
        "{n} broker sets took no messages although everything was healed",
    ),
    "not-readable": (
        "no consumer could read from a broker set although everything was healed",
        "no consumer could read from {n} broker sets although everything was healed",
    ),
    "dead-master-stays": (
        "a silent master was not replaced",
        "{n} times a silent master was not replaced",
    ),
    "master-not-replaced": (
        "a silent master was not replaced",
        "{n} times a silent master was not replaced",
    ),
    "not-writable-during-fault": (
        "a broker set took no messages during a fault that it should survive",
        "{n} times a broker set took no messages during a fault that it should survive",
    ),
    "replica-not-in-set": (
        "a healed replica never came back into the SyncStateSet",
        "{n} healed replicas never came back into the SyncStateSet",
    ),
    "silent-member-stays": (
        "a silent replica stayed in the SyncStateSet",
        "{n} times a silent replica stayed in the SyncStateSet",
    ),
    "node-ended": ("a node ended by itself", "{n} nodes ended by themselves"),
    "node-does-not-start": ("a node did not start again", "{n} nodes did not start again"),
    "node-does-not-answer": ("a node runs and does not answer", "{n} nodes run and do not answer"),
    "address-listed-twice": (
        "a name server listed one address under two ids",
        "{n} times a name server listed one address under two ids",
    ),
    "masterless-writable": (
        "a name server let clients write to a broker set without a master",
        "{n} times a name server let clients write to a broker set without a master",
    ),
    "shown-otherwise": (
        "a name server showed a broker set otherwise than it is",
        "{n} times a name server showed a broker set otherwise than it is",
    ),
    "silent-broker-listed": (
        "a name server kept listing a silent broker",
        "{n} times a name server kept listing a silent broker",
    ),
    "dead-broker-listed": (
        "a name server kept listing a dead broker",
        "{n} times a name server kept listing a dead broker",
    ),
    "living-broker-not-listed": (
        "a name server did not list a broker that runs",
        "{n} times a name server did not list a broker that runs",
    ),
    "reset-broker-not-listed": (
        "a name server did not list a broker again whose connections were reset",
        "{n} times a name server did not list a broker again whose connections were reset",
    ),
    "namesrvs-differ": (
        "two name servers had different tables with all faults healed",
        "{n} times two name servers had different tables with all faults healed",
    ),
    "restarted-namesrv-differs": (
        "a name server that was started did not list who runs, or listed who had gone",
        "{n} times a name server that was started did not list who runs, or listed who had gone",
    ),
    "master-not-writable": (
        "a name server let nobody write to a master that was back",
        "{n} times a name server let nobody write to a master that was back",
    ),
    "master-not-listed": (
        "a name server did not list the master",
        "{n} times a name server did not list the master",
    ),
    "other-slave-shown": (
        "a name server did not show the slave that must act for a lost master",
        "{n} times a name server did not show the slave that must act for a lost master",
    ),
    "stale-master-listed": (
        "a name server put a deposed master in its successor's place",
        "{n} times a name server put a deposed master in its successor's place",
    ),
}


def said(name: str, count: int) -> str:
    """So many anomalies of a name in plain words; one of another name by the name itself."""
    if name not in PHRASES:
        return f"{count:,} {name}"
    one, many = PHRASES[name]
    return one if count == 1 else many.format(n=f"{count:,}")


def in_words(signatures: Iterable[str]) -> str:
    """What was found, with the signatures that say it: ``a message was lost (S6/lost-tail)``."""
    told: dict[str, list[str]] = {}
    for signature in sorted(signatures):
        told.setdefault(said(signature.partition("/")[2], 1), []).append(signature)
    return "; ".join(f"{text} ({', '.join(of)})" for text, of in told.items())
