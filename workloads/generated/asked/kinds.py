"""The anomalies that can be planted, by name, and why the others of docs/anomalies.md cannot.

`allowed` are the names by which a checker may call what was planted: its own, or one that says the
same. `symptoms` may be reported beside it, of the same key or set: they follow from it.
"""

from collections.abc import Mapping
from typing import Literal

import msgspec

QUEUE, LOCK, OFFSETS = "queue", "lock", "offsets"
REPLICA_LOGS, EPOCHS, REGISTRATION = "replicas", "epochs", "registration"
WORKLOADS = (QUEUE, LOCK, OFFSETS, REPLICA_LOGS, EPOCHS, REGISTRATION)
MESSAGES = frozenset((QUEUE, REPLICA_LOGS, EPOCHS))
ANY = frozenset(WORKLOADS)
LEARNER = "learner-in-set"
SKIPS = ("poll-skip", "int-poll-skip")
BACK = ("nonmonotonic-poll", "int-nonmonotonic-poll")


Where = Literal["rounds", "fail-over", "begin", "end"]


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of anomaly: where it can be planted, and what may be said of it. What shows at the
    begin or at the end only is planted there, wherever it is asked for; what shows at a fail-over
    only, at one."""

    name: str
    workloads: frozenset[str] = ANY
    symptoms: tuple[str, ...] = ()
    what: str
    also: tuple[str, ...] = ()
    where: Where = "rounds"

    @property
    def allowed(self) -> tuple[str, ...]:
        """The names by which it may be called."""
        return (self.name, *self.also)


def _messages(name: str, what: str, *symptoms: str, where: Where = "rounds") -> Kind:
    return Kind(name=name, workloads=MESSAGES, what=what, symptoms=symptoms, where=where)


def _state(name: str, what: str, *symptoms: str, where: Where = "rounds") -> Kind:
    return Kind(name=name, what=what, symptoms=symptoms, where=where)


KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        # Of the log.
        _messages("lost-write", "an acknowledged message is left out of every poll", *SKIPS),
        _messages(
            "lost-tail",
            "a message that was acknowledged and read is left out of the last re-read",
            "truncation",
            *SKIPS,
        ),
        _messages(
            "truncation",
            "a message of an unanswered send was read, and is left out of the last re-read",
            *SKIPS,
        ),
        _messages("G1a", "a send that took effect is said to have failed"),
        _messages("precommitted-read", "a transaction polls what it sends"),
        _messages("phantom", "a message is read that no operation sent"),
        _messages(
            "inconsistent-offsets", "one poll shows another message at an offset", "truncation"
        ),
        _messages(
            "duplicate",
            "a message is appended twice",
            *SKIPS,
            *BACK,
            "nonmonotonic-send",
            "int-nonmonotonic-send",
        ),
        _messages("poll-skip", "a reader's poll begins behind a message that it never saw"),
        _messages("int-poll-skip", "a poll leaves out a message in its middle"),
        _messages("nonmonotonic-poll", "a reader's poll begins with the message that it had last"),
        _messages("int-nonmonotonic-poll", "a poll shows one message twice"),
        _messages("nonmonotonic-send", "a message is appended behind its producer's next one"),
        _messages("int-nonmonotonic-send", "a transaction's messages are appended in reverse"),
        # Of locks.
        Kind(
            name="granted-too-soon",
            workloads=frozenset((LOCK,)),
            what="a lock is granted while the brokers' lease of a silent holder still runs",
        ),
        Kind(
            name="lease-overlap",
            workloads=frozenset((LOCK,)),
            symptoms=("granted-too-soon",),
            what="a lock is granted while a silent holder still relies on it",
        ),
        Kind(
            name="consumer-offset-regressed",
            workloads=frozenset((OFFSETS,)),
            what="a group gets less than it had committed long before",
        ),
        # Of the cluster's state.
        _state("epoch-went-back", "a controller reports the master epoch before"),
        _state("set-forgotten", "a leading controller leaves a broker set out"),
        _state("sync-state-set-went-back", "a controller reports an older SyncStateSet"),
        _state("sync-state-set-forked", "a controller reports another SyncStateSet of one number"),
        _state("two-masters", "a slave says that it leads"),
        _state("epoch-starts-differ", "a slave has another begin of its last epoch"),
        _state("member-behind-confirmed", "a member has less than its master had confirmed"),
        _state(
            "slave-ahead-of-master",
            "a slave lets read what its master has not confirmed",
            "written-by-nobody",
        ),
        _state(LEARNER, "a controller reports a learner as a member"),
        _state("duplicate-id", "an applicant is given the id of a broker"),
        _state("id-changed", "a broker says another id"),
        _state("address-listed-twice", "a name server lists a slave under two ids"),
        _state(
            "written-by-nobody", "a slave's epoch is longer before anything is sent", where="begin"
        ),
        _state("master-outside-set", "who is elected was outside of the set", where="fail-over"),
        _state("dead-broker-listed", "a name server lists a killed master", where="fail-over"),
        _state(
            "node-does-not-start", "a killed node ends again when it is started", where="fail-over"
        ),
        _state("living-broker-not-listed", "a name server leaves a slave out", where="end"),
        _state("master-not-listed", "a name server leaves a master out", where="end"),
        _state("known-elsewhere", "a controller has another address of a slave", where="end"),
        _state("ghost-replica", "a controller has an id that nobody had", where="end"),
        _state("replica-not-in-set", "a replica stays outside of the set", where="end"),
        _state("not-writable", "a queue of a set takes no message of a probe", where="end"),
        _state("node-ended", "a node is found ended in the last look", where="end"),
        _state("node-does-not-answer", "a node does not answer in the last look", where="end"),
        # Of replicas' stores.
        _state("log-diverged", "a replica has another block in an epoch", where="end"),
        _state("epochs-differ", "a replica has another begin of an epoch", where="end"),
        _messages("missing-in-replica", "a replica lacks an acknowledged message"),
        _messages(
            "deleted-early",
            "a queue begins behind messages that are young",
            "lost-write",
            "lost-tail",
            "truncation",
            where="end",
        ),
    )
}

LEFT_OUT: Mapping[str, str] = {
    **dict.fromkeys(
        (
            "added-twice",
            "absent-removed",
            "added-in-name-only",
            "removed-in-name-only",
            "neighbour-unlisted",
            "failed-add-remains",
            "no-room-after-failure",
            "added-survives",
            "set-of-container-without-master",
            "returned-otherwise",
            "neighbours-message",
            "guest-message-lost",
            "escaped-past-local",
            "neighbour-ended",
            "share-exceeded",
            "deleted-within-share",
        ),
        "answers about brokers in a container, and none is generated",
    ),
    "int-send-skip": "allowed: it is counted, never reported",
    "G0": "allowed: it is counted, never reported",
    "order": "messages of which an offset is not known, and every generated one has its own",
    "answers-not-linearizable": "S3 and S4, as long as its brokers are as late as controllers",
    "G1c": "operations that send to one queue and poll another, and none is generated",
    "G1c-realtime": "a poll of what is sent later, and a generated poll shows what its log holds",
    "master-not-replaced": "of releases whose controllers report no members, and none of theirs is "
    "generated",
    "dead-master-stays": "an outage as long as the recovery bound, and none is generated",
    "not-writable-during-fault": "an outage as long as the recovery bound, and none is generated",
    "healthy-master-replaced": "an election that nothing led to, and each one here is asked for",
    "silent-member-stays": "a silence as long as its bound while clients are acknowledged without "
    "the silent member, and none is generated",
    **dict.fromkeys(
        (
            "acknowledged-uncopied",
            "acting-lacks-message",
            "acting-not-readable",
            "acting-refuses",
            "acting-offset-lost",
            "acts-beside-master",
            "copied-offset-lost",
            "isolated-listed",
            "master-not-writable",
            "masterless-writable",
            "nobody-acts",
            "other-slave-shown",
            "progress-beyond-queue",
            "second-acts",
            "slave-behind-trim",
            "slave-stands-still",
            "slave-took-message",
            "topic-not-copied",
            "typed-topic-not-copied",
            "stays-isolated",
            "uncopied-listed",
            "waits-for-unreachable",
            "written-offset-lost",
        ),
        "of brokers without controllers, and none is generated",
    ),
    "not-readable": "messages that are taken at the end and given to nobody, and a generated queue "
    "gives what it took",
    "shown-otherwise": "of answers with a set's raw group, and none is generated",
    "silent-broker-listed": "a silence as long as an eviction, and none is generated",
    "reset-broker-not-listed": "connections that were reset, and none is generated",
    "namesrvs-differ": "several name servers, and one is generated",
    "restarted-namesrv-differs": "a name server that was started, and none is generated",
    "stale-master-listed": "a master of an older epoch that still registers, and none is generated",
    **dict.fromkeys(
        ("delayed-again", "delayed-early", "delayed-late", "delayed-lost", "uncopied-lost"),
        "of delayed messages, and none is generated",
    ),
    **dict.fromkeys(
        (
            "commit-lost",
            "committed-again",
            "half-late",
            "half-lost",
            "half-unsettled",
            "uncommitted-delivered",
        ),
        "of half messages, and none is generated",
    ),
    **dict.fromkeys(
        ("granted-again-by-broker", "overlap-lasts"),
        "of brokers that are not in strict mode, and none is generated",
    ),
    "read-beside-holder": "of ordered consumers, and none is generated",
    **dict.fromkeys(
        ("expired-lock-kept", "granted-without-quorum", "lock-not-granted", "released-lock-kept"),
        "of brokers that are gone or silent for as long as a lease, and none is generated",
    ),
}


def help_lines() -> list[str]:
    """What can be planted and what cannot, a line each."""
    wide = max(map(len, (*KINDS, *LEFT_OUT)))
    lines = ["Can be planted:"]
    for kind in KINDS.values():
        where = "any workload" if kind.workloads == ANY else ", ".join(sorted(kind.workloads))
        lines.append(f"  {kind.name:{wide}}  {kind.what} ({where})")
    lines.append("Cannot be planted:")
    lines += [f"  {name:{wide}}  {why}" for name, why in LEFT_OUT.items()]
    return lines
