"""The anomalies that can be planted, by name, and why the others of docs/anomalies.md cannot.

`allowed` are the names by which a checker may call what was planted: its own, or one that says the
same. `symptoms` may be reported beside it, of the same key or set: they follow from it.
"""

from collections.abc import Mapping

import msgspec

QUEUE, LOCK, OFFSETS = "queue", "lock", "offsets"
REPLICA_LOGS, EPOCHS, REGISTRATION = "replicas", "epochs", "registration"
WORKLOADS = (QUEUE, LOCK, OFFSETS, REPLICA_LOGS, EPOCHS, REGISTRATION)
MESSAGES = frozenset((QUEUE, REPLICA_LOGS, EPOCHS))
ANY = frozenset(WORKLOADS)
LEARNER = "learner-in-set"
SKIPS = ("poll-skip", "int-poll-skip")
BACK = ("nonmonotonic-poll", "int-nonmonotonic-poll")


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of anomaly: where it can be planted, and what may be said of it."""

    name: str
    workloads: frozenset[str] = ANY
    symptoms: tuple[str, ...] = ()
    what: str
    also: tuple[str, ...] = ()
    ends: bool = False  # it shows in the last observations only, wherever it is asked for

    @property
    def allowed(self) -> tuple[str, ...]:
        """The names by which it may be called."""
        return (self.name, *self.also)


def _messages(name: str, what: str, *symptoms: str, ends: bool = False) -> Kind:
    return Kind(name=name, workloads=MESSAGES, what=what, symptoms=symptoms, ends=ends)


def _state(name: str, what: str, *symptoms: str, ends: bool = False) -> Kind:
    return Kind(name=name, what=what, symptoms=symptoms, ends=ends)


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
    )
}

LEFT_OUT: Mapping[str, str] = {
    "int-send-skip": "allowed: it is counted, never reported",
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
