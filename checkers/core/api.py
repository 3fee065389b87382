"""What a checker is: a pure function from a history to a verdict.

A checker sees the history and its context and nothing else; it cannot ask a cluster anything. Of
each claim that it decides it says one of five things (`Status`), and *kept* only with evidence. A
crash of a checker leaves its claims not judged, with its traceback.
"""

import re
from typing import Any, Literal, Protocol

import msgspec

from maxq.histories.grounds import Ground
from maxq.histories.history import History
from maxq.histories.op import HistoryError

CITED = re.compile(r"\b([Oo]p )(\d{1,12})\b")  # an operation in a story, by index
Valid = bool | Literal["unknown"]
Status = Literal["kept", "broken", "not promised", "no occasion", "not judged"]


class Anomaly(msgspec.Struct, frozen=True, kw_only=True):
    """One broken promise, provable from the history alone.

    `name` is the field's term (`lost-write`). `signature` is equal for equal findings across runs
    of one bug, so it holds no index, time or value of one run. `ops` are the indices of the
    operations that prove it; `acts` are the indices at which the faults began that it is blamed
    on, where one can be named; `story` is one paragraph that a person understands; `detail` holds
    the fields listed for `name` in ``docs/anomalies.md``.
    """

    claim: str
    name: str
    signature: str
    ops: tuple[int, ...]
    story: str
    detail: dict[str, Any] = msgspec.field(default_factory=dict)
    acts: tuple[int, ...] = ()

    @property
    def cited(self) -> set[int]:
        """The indices of all operations that it names, in its story too."""
        in_story = (int(match[2]) for match in CITED.finditer(self.story))
        return {*self.ops, *self.acts, *in_story}


class ClaimVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one claim in a run.

    `why` says which need is not fulfilled, what could not be seen, or which ground is missing;
    `advice` what to change so that the claim can be judged. `occasions` is how often it could have
    been broken and was looked at; `found` counts its anomalies by name, also of a claim that is
    not promised. `forfeited`: it was promised until an accident with a store, which `why` names.
    `doubt` says, of a claim that is broken or not promised, why there may be more than was found;
    `why` says it of one that is not judged.
    """

    claim: str
    status: Status
    why: str = ""
    advice: str = ""
    forfeited: bool = False
    occasions: int = 0
    found: dict[str, int] = {}
    doubt: str = ""

    @property
    def measured(self) -> bool:
        """Whether something was found of a claim that is not promised."""
        return self.status == "not promised" and bool(self.found)

    @property
    def unmeasured(self) -> bool:
        """Whether nothing was found of a claim that is not promised, and that says nothing."""
        return self.status == "not promised" and not self.found and bool(self.doubt)


class Harm(msgspec.Struct, frozen=True, kw_only=True):
    """One finding: anomalies that are the same harm, counted once.

    `kind` is ``loss``, or the name of its anomalies. A loss says how many acknowledged messages are
    `lost`, which `node` of which `set` had acknowledged them in which `epoch`, and in which epoch
    the broker that was `elected` lacked them; `acts` are the indices at which the blamed faults
    began, the one that made the loss certain last. `ops` are operations that prove it, a loss's
    sends, and `values` the messages that these sent.
    `symptoms` counts its anomalies by claim and name, `at_least` names those of which more may be
    its, as not all were reported; `claims` are those that it breaks, or, where
    it is not `broken`, that are not promised. Times are ns of the history, of the first and last
    message.
    """

    kind: str
    title: str
    story: str
    claims: tuple[str, ...] = ()
    broken: bool = False
    symptoms: dict[str, int] = {}
    at_least: tuple[str, ...] = ()
    set: str = ""
    node: str = ""
    epoch: int | None = None
    elected: int | None = None
    lost: int = 0
    acts: tuple[int, ...] = ()
    ops: tuple[int, ...] = ()
    values: tuple[Any, ...] = ()
    first_ns: int = -1
    last_ns: int = -1

    @property
    def seen_as(self) -> tuple[tuple[str, str], ...]:
        """Its symptoms, each with how many, in words."""
        return tuple(
            (name, f"at least {n:,}" if name in self.at_least else f"{n:,}")
            for name, n in self.symptoms.items()
        )


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What clients were answered so many times in a stretch; the first and last time in ns."""

    name: str
    count: int
    first_ns: int
    last_ns: int


class Stretch(msgspec.Struct, frozen=True, kw_only=True):
    """A time in which operations of one kind, `f`, failed and none was ok.

    `set` is the broker set that was asked; empty where a run has one, or it is unknown. Times are
    ns of the history; `first` and `last` are the indices of the completions between which it lies,
    of which `failed` are its own. `answers` are the most frequent ones, the earliest first.
    """

    f: str
    set: str = ""
    from_ns: int
    until_ns: int
    first: int
    last: int
    failed: int
    answers: tuple[Answer, ...]

    @property
    def length_ns(self) -> int:
        return self.until_ns - self.from_ns


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What a checker found. `counts` are plain numbers. `gate`: why the run proves nothing whatever
    its claims came to; empty where it does. `harms` are the losses that it reports as one each,
    `stretches` the times without success that it saw."""

    checker: str
    claim_verdicts: tuple[ClaimVerdict, ...] = ()
    anomalies: tuple[Anomaly, ...] = ()
    harms: tuple[Harm, ...] = ()
    stretches: tuple[Stretch, ...] = ()
    counts: dict[str, int] = msgspec.field(default_factory=dict)
    gate: str = ""

    def of(self, *statuses: Status) -> tuple[str, ...]:
        """The claims that came to one of these."""
        return tuple(r.claim for r in self.claim_verdicts if r.status in statuses)

    @property
    def claims(self) -> tuple[str, ...]:
        """The claims that were judged."""
        return self.of("kept", "broken")

    @property
    def valid(self) -> Valid:
        """This checker's word by itself: false if a claim is broken, else unknown if one is not
        judged or none was kept, else true."""
        if self.of("broken"):
            return False
        if self.gate or self.of("not judged"):
            return "unknown"
        return True if self.of("kept") or not self.claim_verdicts else "unknown"

    @property
    def reason(self) -> str:
        """Why claims are not judged; else what was measured of those that are not promised."""
        whys = dict.fromkeys(r.why for r in self.claim_verdicts if r.status == "not judged")
        if self.gate or whys:
            return "; ".join(w for w in (self.gate, *whys) if w)
        return ", ".join(
            f"{name} {n}" for r in self.claim_verdicts if r.measured for name, n in r.found.items()
        )


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """What a checker may know beside the history: how the run was set up.

    `settings` are the run's effective ones, by the keys of ``maxq.checkers.core.promises``; None
    where unknown, and then every claim counts as promised. `profile` is what the settings are
    called, for people; `by_hand` are the keys that were set one by one, `ignored` those of them
    that the target does not use, `files` what became of settings files, in sentences.
    `ok_ops_min` is how many `ok` operations a kind (`send`) needs before its silence means
    anything; it follows from the load that the run's own schedule asked for.
    `broker_sets` maps each broker set that the run's faults struck to the names of its replicas, of
    which `learners` belong to no SyncStateSet. `containers` maps each container to the brokers with
    which its process starts. `lock_lease_ns` is how long a broker keeps a lock
    for a client that is silent, `client_lease_ns` how long the client relies on it. `recovery_ns`
    bounds what liveness claims promise, from the last heal on; `shrink_ns` how long a silent
    replica may stay in a SyncStateSet; `eviction_ns` how long a silent broker may stay in a name
    server's table, `relisting_ns` how long one that runs may be missing there. Where brokers have
    no ids (`has_ids`) they are distinguished
    by their addresses; `absent` are the claims that the target cannot show. `purpose` are the
    claims that the run is there for. `part` says how much of its time a run lasted that was asked
    to end early, for people; empty: all. `grounds` are those of a history that declares none
    itself, and `ended` whether it is whole: None where that is unknown. `damage` says why only what
    precedes it is judged; empty: the history is sound.
    """

    settings: dict[str, str] | None = None
    profile: str = ""
    by_hand: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    timing: str = "fast"
    target: str = "reference"
    ok_ops_min: dict[str, int] = msgspec.field(default_factory=dict)
    broker_sets: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    learners: tuple[str, ...] = ()
    containers: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    lock_lease_ns: int = 10_000_000_000
    client_lease_ns: int = 5_000_000_000
    recovery_ns: int = 20_000_000_000
    shrink_ns: int = 8_000_000_000
    eviction_ns: int = 127_000_000_000
    relisting_ns: int = 35_000_000_000
    has_ids: bool = True
    absent: tuple[str, ...] = ()
    purpose: tuple[str, ...] = ()
    part: str = ""
    grounds: tuple[Ground, ...] = ()
    ended: bool | None = None
    damage: str = ""

    def members(self, broker_set: str) -> tuple[str, ...]:
        """The replicas of a set that can be in its SyncStateSet."""
        return tuple(n for n in self.broker_sets[broker_set] if n not in self.learners)


class Checker(Protocol):
    """Judges one history."""

    @property
    def name(self) -> str: ...

    @property
    def claims(self) -> tuple[str, ...]: ...

    def check(self, history: History, context: Context) -> Verdict:
        """Judge. Pure; may raise, which the runner turns into claims that are not judged."""
        ...


CRASHED = "the checker crashed:"


def unjudged(checker: Checker, why: str) -> Verdict:
    """The verdict of a checker that could not judge at all; one without claims spoils the run."""
    if not checker.claims:
        return Verdict(checker=checker.name, gate=why)
    claim_verdicts = (ClaimVerdict(claim=c, status="not judged", why=why) for c in checker.claims)
    return Verdict(checker=checker.name, claim_verdicts=tuple(claim_verdicts))


class MalformedError(HistoryError):
    """A value that breaks a rule of well-formedness, which its text names: W9 or W10."""


class TooLargeError(HistoryError):
    """A key takes more memory to judge than there is."""


def unreadable(checker: Checker, error: ValueError) -> Verdict:
    """The verdict on a history with a value of another shape than the documented one, or with more
    than fits into memory."""
    named = isinstance(error, MalformedError | TooLargeError)
    return unjudged(checker, str(error) if named else f"W9: {error}")


def crashed(checker: Checker, traceback: str) -> Verdict:
    """The verdict of a checker that raised something else."""
    return unjudged(checker, f"{CRASHED}\n{traceback}")


def of_the_run(why: str) -> bool:
    """Whether another run could be judged: a reason that lies neither in the shape of a value nor
    in the checker."""
    return not why.startswith((CRASHED, "W9", "W10"))
