"""What the oracle knows of a whole run: stores, terms, registered masters, what was promised.

Views of single processes (`maxq.harness.simulation.oracle.broker`,
`maxq.harness.simulation.oracle.controller`) put facts here and ask whether they fit what is there
already. Facts outlive processes: a promise is not forgotten by a crash.

Offsets are bytes of the commit log, ends exclusive.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from maxq.harness.simulation.oracle.log import LogDigest, Prefix
from maxq.reference.broker.store.commit_log import CommitLog
from maxq.reference.wire.ha import EpochStart

LOG_AGREEMENT = "log-agreement"
PROMISE_LOST, PROMISED_BEYOND = "promise-lost", "promised-beyond-replicas"
Report = Callable[[str, Sequence[str], str], None]  # (invariant, nodes, detail)


class View(Protocol):
    """One process of a broker, as far as facts need it
    (`maxq.harness.simulation.oracle.broker`)."""

    name: str
    digest: LogDigest
    set: "SetFacts"
    facts: "Facts"
    following: dict[EpochStart, int | None]  # entry -> where the next one starts

    @property
    def alive(self) -> bool:
        """Whether its process lives."""

    @property
    def now_ns(self) -> Callable[[], int]:
        """The clock."""

    def end_of(self, entry: EpochStart) -> int:
        """Where what its log has of an epoch ends."""


@dataclass(slots=True)
class StoreFacts:
    """A broker's store, over restarts of its process."""

    machine: str
    root: str
    broker_set: str
    broker_id: int = 0  # 0: none won yet
    seen: int = 0  # the end of its log, as last seen
    log: CommitLog | None = None  # of the process that had it last, unless that lost its power

    @property
    def end(self) -> int:
        """The end of its log. What a process wrote in the step in which it was killed is there, and
        was not seen."""
        return self.seen if self.log is None else max(self.seen, self.log.end)


@dataclass(slots=True)
class Registered:
    """What the controllers have decided of a broker set, as far as anyone has applied it."""

    index: int  # of Raft
    master: int | None
    master_epoch: int
    members: tuple[int, ...]
    set_epoch: int
    unclean: bool  # whether any election of the set allowed any candidate

    @property
    def decision(self) -> tuple[int | None, int, tuple[int, ...], int]:
        """What a command may have changed."""
        return self.master, self.master_epoch, self.members, self.set_epoch


@dataclass(slots=True)
class SetFacts:
    """One broker set."""

    name: str
    masters: dict[int, str] = field(default_factory=dict)  # master epoch -> process that led
    elected: dict[int, int] = field(default_factory=dict)  # master epoch -> id
    stores: dict[int, StoreFacts] = field(default_factory=dict)  # by id
    views: list["View"] = field(default_factory=list)
    registered: Registered | None = None
    newest: "View | None" = None  # who led in the newest epoch so far
    newest_epoch: int = 0
    kept: Prefix | None = None  # what was confirmed or acknowledged: no later master may lack it
    kept_by: str = ""
    kept_epoch: int = 0
    # What was promised may be gone: nothing was synced before a power loss, or it was in a
    # transient store pool, in a process that died.
    lossy: bool = False

    def live(self) -> list["View"]:
        """The views of processes that live; the others are forgotten."""
        self.views = [v for v in self.views if v.alive]
        return self.views


class Facts:
    """All facts of a run, and what is done when two do not fit."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self.sets: dict[str, SetFacts] = {}
        self.stores: dict[tuple[str, str], StoreFacts] = {}  # by machine and root
        self.foreign: set[str] = set()  # machines whose stores were written by another hand
        self.synced: dict[str, bool] = {}  # machine -> whether its broker syncs before it answers
        self.leaders: dict[int, str] = {}  # Raft term -> controller
        self.committed: dict[int, tuple[int, bytes]] = {}  # Raft index -> term, digest
        self.commit_max = 0
        self.decided_index = 0  # the newest Raft index whose command was judged
        self.states: dict[int, tuple[int, str]] = {}  # Raft index -> digest of the state, of whom
        self.grants: dict[tuple[str, str, object], Grant] = {}  # set, group, queue -> who holds it

    def set_of(self, name: str) -> SetFacts:
        """A broker set's facts."""
        if name not in self.sets:
            self.sets[name] = SetFacts(name)
        return self.sets[name]

    def store_of(self, machine: str, root: str, broker_set: str) -> StoreFacts:
        """A store's facts."""
        key = machine, root
        if key not in self.stores:
            self.stores[key] = StoreFacts(machine, root, broker_set)
        return self.stores[key]

    def wiped(self, machine: str, path: str) -> None:
        """Forget the stores below a path that was removed."""
        self.foreign.discard(machine)
        for key, store in list(self.stores.items()):
            if key[0] == machine and f"{store.root}/".startswith(path.rstrip("/") + "/"):
                del self.stores[key]
                ids = self.set_of(store.broker_set).stores
                if ids.get(store.broker_id) is store:
                    del ids[store.broker_id]

    def lost_power(self, machine: str) -> None:
        """Whoever answers before it syncs promised nothing that outlasts this."""
        for (name, _), store in self.stores.items():
            if name == machine:
                store.log = None
                if not self.synced.get(machine, False):
                    self.set_of(store.broker_set).lossy = True

    # Masters and what they promise.

    def decided(self, name: str, now: Registered) -> None:
        """The controllers have decided on a broker set; called once for each Raft index."""
        known = self.set_of(name)
        was, known.registered = known.registered, now
        if was is not None:
            self._judge_step(known, was, now)
        if now.master is not None:
            first = known.elected.setdefault(now.master_epoch, now.master)
            if first != now.master:
                self.report(
                    "one-master-per-epoch", self._names(known, (first, now.master)),
                    f"{name}: in epoch {now.master_epoch} id {first} was elected, then id "
                    f"{now.master} (Raft index {now.index})",
                )  # fmt: skip
            if now.master not in now.members:
                self.report("master-in-set", self._names(known, (now.master,)),
                            f"{name}: master {now.master} is not in {now.members}")  # fmt: skip
        self.judge_members(known)

    def _judge_step(self, known: SetFacts, was: Registered, now: Registered) -> None:
        if now.master_epoch < was.master_epoch or now.set_epoch < was.set_epoch:
            self.report("registry-epochs-ascend", (), f"{known.name}: from {was} to {now}")
        new = now.master_epoch > was.master_epoch > 0 and now.master is not None
        if new and not now.unclean and now.master not in was.members:
            why = f"{known.name}: {now.master} elected, the set was {was.members}"
            self.report("master-from-set", self._names(known, (now.master or 0,)), why)

    def _names(self, known: SetFacts, ids: Sequence[int]) -> list[str]:
        return [known.stores[i].machine for i in ids if i in known.stores]

    def judge_members(self, known: SetFacts) -> None:
        """S9: each member of the registered set holds what its epoch's master has promised."""
        now, kept = known.registered, known.kept
        if now is None or kept is None or known.lossy or now.unclean:
            return
        if now.master_epoch == known.kept_epoch:
            for member in now.members:
                store = known.stores.get(member)
                if store is not None and store.end < kept.end:
                    self.report(
                        PROMISED_BEYOND, [known.kept_by, store.machine],
                        f"{known.name}: {known.kept_by} promised up to {kept.end} in epoch "
                        f"{known.kept_epoch}; member {member} of {now.members} ends at {store.end}",
                    )  # fmt: skip

    def promised(self, view: "View", epoch: int, end: int) -> None:
        """A master has confirmed or acknowledged everything before `end`, the end of a record."""
        known = view.set
        if known.lossy or (known.registered is not None and known.registered.unclean):
            return
        if known.kept is not None and end <= known.kept.end:
            return
        known.kept = view.digest.prefix(end)
        known.kept_by, known.kept_epoch = view.name, epoch
        self.judge_members(known)
        if known.newest is not None and known.newest_epoch > epoch:
            self.judge_kept(known, known.newest)

    def judge_kept(self, known: SetFacts, master: "View") -> None:
        """S6: a master has everything that was ever promised, and the same bytes."""
        kept = known.kept
        if kept is None or known.lossy or (known.registered and known.registered.unclean):
            return
        log = master.digest
        if log.end < kept.end or (log.start == kept.start and log.prefix(kept.end) != kept):
            self.report(
                PROMISE_LOST, [known.kept_by, master.name],
                f"{known.name}: {known.kept_by} promised up to {kept.end} in epoch "
                f"{known.kept_epoch}; {master.name}, master in epoch {known.newest_epoch}, ends at "
                f"{log.end}" + ("" if log.end < kept.end else " and has other bytes"),
            )  # fmt: skip


@dataclass(slots=True)
class Grant:
    """A queue's lock as a client knows it."""

    client: str
    until_ns: int
    by: str  # machine
