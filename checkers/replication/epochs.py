"""Epochs: they never go back, one names one master or one SyncStateSet, and masters come from it.

What a controller says of a set is a state of the registry, numbered twice: the master epoch grows
with each election, the SyncStateSet epoch with each change of the set. Two kinds of check follow.

- **Order** (S3, S4 going back): an answer that had ended before another began is older. Answers
  that overlap may come in any order; times say nothing. Apache RocketMQ lets a leader that does not
  know yet of its successor answer from old state (isProcessReadEvent=false), so there only answers
  of one and the same controller are ordered.
- **Numbers** (S4 forks, S5, S7): a number identifies a state, whenever and by whom it was seen.
  From SyncStateSet epoch s to s+1 there is exactly one change.

Numbers begin again where controllers forgot everything, so each era is judged alone
(`maxq.checkers.evidence.eras`).

Where a master was elected from (S7): see `elections`. Who leads (S5): see `masters`. Begins (S8c):
see `epoch_starts`. Confirmation (S9b): see `confirmation`. Reading (S10b): see `slave_reads`.
Learners (S17): see `learners`. Controllers as one register (S3b): see `one_register`.

Each set is judged alone (`judge_set`).

Claims: S3, S3b, S4, S5, S7, S8c, S9b, S10b, S17 (docs/spec/controller-ha.md 4.9, 6.3).
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate
from typing import NamedTuple

from maxq.checkers.core.api import Context, Verdict
from maxq.checkers.core.keyed import Event, KeyedChecker
from maxq.checkers.evidence.eras import Eras, eras_of
from maxq.checkers.evidence.observations import SetSighting, Sighting, listed, of_sets, sighting
from maxq.checkers.evidence.verdicts import Case, Found, rule
from maxq.checkers.replication.confirmation import unconfirmed
from maxq.checkers.replication.epoch_starts import moved_starts
from maxq.checkers.replication.learners import members_that_learn
from maxq.checkers.replication.masters import claimants_of, two_masters
from maxq.checkers.replication.registry.elections import granted, outsiders
from maxq.checkers.replication.registry.one_register import not_one_register
from maxq.checkers.replication.slave_reads import read_ahead
from maxq.histories.history import History
from maxq.histories.observed import OBSERVE_CONTROLLER, OBSERVE_REPLICA, ControllerView, ReplicaView

# Targets whose controllers answer only with what is committed when they answer.
LINEARIZABLE = frozenset(("reference",))

Replicas = Sequence[Sighting[ReplicaView]]
Seen = Sequence[SetSighting]


class Silent(NamedTuple):
    """A controller that leads was asked for a set, and its answer does not have it."""

    begun: int
    at: int
    node: str


class Known(NamedTuple):
    """Whether answers of different controllers are ordered, for which sets observers ask, and what
    was answered to orders to elect: those name the number of their change, which observers may miss
    where the set grows again at once."""

    linearizable: bool
    sets: frozenset[str]
    grants: Mapping[str, Seen]
    learners: frozenset[str] = frozenset()
    eras: Eras = Eras()


Row = SetSighting | Sighting[ReplicaView] | Silent


class SetJudgement(NamedTuple):
    """What was found in one set, and how much was looked at."""

    found: list[Found]
    ordered: int  # answers that some other answer is surely before
    masters: int  # master epochs of which a master was seen
    elections: int  # of which the SyncStateSet before was seen too
    changes: int  # of the master epoch, after the first one that was reported
    answers: int
    leads: int  # answers of brokers that lead
    members: int  # answers of members, after one of their master
    starts: int  # begins of epochs that had another one to be compared with
    slaves: int  # answers of slaves, before one of their master
    read: int = 0  # answers of controllers that came after another one, where those are ordered
    learned: int = 0  # answers of controllers that know a learner


class Epochs(KeyedChecker):
    """The checker. See the module's text."""

    name = "epochs"
    claims = ("S3", "S3b", "S4", "S5", "S7", "S8c", "S9b", "S10b", "S17")
    reads = frozenset((OBSERVE_CONTROLLER, OBSERVE_REPLICA))

    def prepare(self, history: History, context: Context) -> Known:
        sets = frozenset(context.broker_sets)
        linearizable, learners = context.target in LINEARIZABLE, frozenset(context.learners)
        return Known(linearizable, sets, granted(history), learners, eras_of(history))

    def rows(self, event: Event, known: Known) -> Iterator[tuple[str, Row]]:
        if event.op.type != "ok":
            return
        if event.op.f == OBSERVE_CONTROLLER:
            reported = sighting(event.op, event.begun, ControllerView)
            yield from of_sets(reported, known.eras)
            for name in known.sets - reported.view.sets.keys():
                yield name, Silent(reported.begun, reported.at, reported.view.node)
        else:
            seen = sighting(event.op, event.begun, ReplicaView)
            yield seen.view.set, seen

    def judge(
        self, key: str, rows: Sequence[Row], known: Known, more: object = None
    ) -> SetJudgement:
        apart = known.eras.apart(rows, _begun)
        grants = known.eras.apart(known.grants.get(key, ()), _begun)
        eras = [_judge_era(key, *era, known) for era in zip(apart, grants, strict=True)]
        found = [f for era in eras for f in era.found]
        return SetJudgement(found, *map(sum, zip(*(era[1:] for era in eras), strict=True)))

    def conclude(
        self,
        history: History,
        context: Context,
        known: Known,
        results: Mapping[str, SetJudgement],
    ) -> Verdict:
        return rule(self, history, context, _case(results))


def _begun(row: Row) -> int:
    return row.begun


def _judge_era(key: str, rows: Sequence[Row], grants: Seen, known: Known) -> SetJudgement:
    """Judge one set in one era."""
    seen = [row for row in rows if isinstance(row, SetSighting)]
    replicas = [row for row in rows if isinstance(row, Sighting)]
    silent = [row for row in rows if isinstance(row, Silent)]
    judged = judge_set(key, seen, replicas, grants, linearizable=known.linearizable)
    forgotten = _forgotten(key, seen, silent, linearizable=known.linearizable)
    joined, learned = members_that_learn(key, seen, replicas, known.learners)
    return judged._replace(found=[*judged.found, *forgotten, *joined], learned=learned)


def judge_set(
    name: str, seen: Seen, replicas: Replicas, grants: Seen = (), *, linearizable: bool
) -> SetJudgement:
    """Judge one broker set.

    Args:
        name: the set's.
        seen: what controllers said of it.
        replicas: what its brokers said of themselves.
        grants: what orders to elect were answered.
        linearizable: answers of different controllers are ordered too.
    """
    found: list[Found] = []
    ordered = 0
    for group in _comparable(seen, linearizable=linearizable):
        for claim, anomaly, epoch in _ORDERED:
            found += _went_back(name, group, claim, anomaly, epoch)
        first = min((s.at for s in group), default=-1)
        ordered += sum(first < s.begun for s in group)
    found += _forks(name, seen)
    claimants = claimants_of(seen, replicas, linearizable=linearizable)
    for epoch_number in sorted(claimants):
        found += two_masters(name, epoch_number, claimants[epoch_number])
    outside, elections = outsiders(name, seen, grants)
    epochs = {s.view.master_epoch for s in seen if s.view.master is not None}
    leads = sum(r.view.leads for r in replicas)
    behind, members = unconfirmed(name, seen, replicas)
    moved, starts = moved_starts(name, replicas)
    ahead, slaves = read_ahead(name, seen, replicas)
    unlike, read = not_one_register(name, seen, replicas, grants) if linearizable else ([], 0)
    unlike = [] if found else unlike  # it would be said twice
    return SetJudgement(
        [*found, *outside, *behind, *moved, *ahead, *unlike],
        ordered,
        len(claimants),
        elections,
        max(len(epochs) - 1, 0),
        len(seen),
        leads,
        members,
        starts,
        slaves,
        read,
    )


def _comparable(seen: Seen, *, linearizable: bool) -> list[list[SetSighting]]:
    """Answers that real time orders, each group sorted by completion."""
    groups: dict[str, list[SetSighting]] = defaultdict(list)
    for s in sorted(seen, key=lambda s: s.at):
        groups["" if linearizable else s.node].append(s)
    return list(groups.values())


# Order.

Epoch = Callable[[SetSighting], int]


def _master_epoch(s: SetSighting) -> int:
    return s.view.master_epoch


def _set_epoch(s: SetSighting) -> int:
    return s.view.sync_state_set_epoch


_ORDERED: tuple[tuple[str, str, Epoch], ...] = (
    ("S3", "epoch-went-back", _master_epoch),
    ("S4", "sync-state-set-went-back", _set_epoch),
)


def _went_back(name: str, group: Seen, claim: str, anomaly: str, epoch: Epoch) -> Iterator[Found]:
    """Compare each answer with the highest epoch of any that had ended before it began."""
    ends = [s.at for s in group]
    highest = list(accumulate(group, partial(_higher, epoch)))
    word = "master epoch" if claim == "S3" else "SyncStateSet epoch"
    for b in group:
        before = bisect_left(ends, b.begun)
        if not before or epoch(highest[before - 1]) <= epoch(b):
            continue
        a = highest[before - 1]
        said = (
            f"Broker set {name}: the {word} went back from {epoch(a)} to {epoch(b)}. {a.node} "
            f"reported {_state(a)} in op {a.at}. After that {b.node} reported {_state(b)} in "
            f"op {b.at}. What was decided in between is forgotten, and its number will be used "
            "again."
        )
        detail = {"set": name, "epochs": [epoch(a), epoch(b)], "nodes": [a.node, b.node]}
        yield Found(claim, anomaly, (a.at, b.at), said, detail)


def _forgotten(
    name: str, seen: Seen, silent: Sequence[Silent], *, linearizable: bool
) -> Iterator[Found]:
    """S3: an answer without the set, after one that had it; the first."""
    for b in sorted(silent, key=lambda s: s.at):
        before = [s for s in seen if s.at < b.begun and (linearizable or s.node == b.node)]
        if not before:
            continue
        a = max(before, key=_master_epoch)
        said = (
            f"Broker set {name}: {a.node} reported {_state(a)} in op {a.at}. After that "
            f"{b.node} leads and knows of no such set (op {b.at}). Its epochs and ids start over."
        )
        detail = {"set": name, "epochs": [_master_epoch(a), None], "nodes": [a.node, b.node]}
        yield Found("S3", "set-forgotten", (a.at, b.at), said, detail)
        return


def _higher(epoch: Epoch, a: SetSighting, b: SetSighting) -> SetSighting:
    return b if epoch(b) > epoch(a) else a


def _state(s: SetSighting) -> str:
    v = s.view
    master = "no master" if v.master is None else f"master {v.master}"
    members = listed(v.sync_state_set) or "no member"
    return (
        f"{master} of epoch {v.master_epoch} with the SyncStateSet {members} "
        f"(epoch {v.sync_state_set_epoch})"
    )


# Numbers.


def _forks(name: str, seen: Seen) -> Iterator[Found]:
    """S4: a SyncStateSet epoch that names two sets, or two masters."""
    first: dict[int, dict[tuple[int, ...], SetSighting]] = defaultdict(dict)
    masters: dict[int, dict[int, SetSighting]] = defaultdict(dict)
    for s in seen:
        number = s.view.sync_state_set_epoch
        members = first[number]
        if members and s.view.sync_state_set not in members:
            yield _fork(name, next(iter(members.values())), s)
        elif s.view.master is not None:
            led = masters[number]
            if led and s.view.master not in led:
                yield _fork(name, next(iter(led.values())), s)
            led.setdefault(s.view.master, s)
        members.setdefault(s.view.sync_state_set, s)


def _fork(name: str, a: SetSighting, b: SetSighting) -> Found:
    number = a.view.sync_state_set_epoch
    said = (
        f"Broker set {name}: two states under one SyncStateSet epoch {number}. {a.node} reported "
        f"{_state(a)} in op {a.at}. {b.node} reported {_state(b)} in op {b.at}. Each change "
        "has a number of its own, so two histories were decided."
    )
    detail = {
        "set": name,
        "sync-state-set-epoch": number,
        "master-epochs": [a.view.master_epoch, b.view.master_epoch],
        "sync-state-sets": [list(a.view.sync_state_set), list(b.view.sync_state_set)],
        "masters": [a.view.master, b.view.master],
    }
    return Found("S4", "sync-state-set-forked", (a.at, b.at), said, detail)


def _case(judged: Mapping[str, SetJudgement]) -> Case:
    ordered = sum(j.ordered for j in judged.values())
    masters = sum(j.masters for j in judged.values())
    elections = sum(j.elections for j in judged.values())
    members = sum(j.members for j in judged.values())
    starts = sum(j.starts for j in judged.values())
    slaves = sum(j.slaves for j in judged.values())
    case = Case(
        found=[f for j in judged.values() for f in j.found],
        judged={
            "S3": ordered,
            "S3b": sum(j.read for j in judged.values()),
            "S4": ordered,
            "S5": masters,
            "S7": elections,
            "S8c": starts,
            "S9b": members,
            "S10b": slaves,
            "S17": sum(j.learned for j in judged.values()),
        },
        counts={
            "sets": len(judged),
            "answers": sum(j.answers for j in judged.values()),
            "answers-ordered": ordered,
            "master-epochs": masters,
            "elections-judged": elections,
            "members-judged": members,
            "begins-compared": starts,
            "slaves-judged": slaves,
            "leads-by-own-word": sum(j.leads for j in judged.values()),
        },
    )
    if not ordered:
        for claim in ("S3", "S4"):
            case.doubt(claim, "no two answers of controllers about one set, one after the other")
    if not masters:
        case.doubt("S5", "no broker was seen leading")
    changes = sum(j.changes for j in judged.values())
    if changes and not elections:
        why = f"of {changes} elections, none was seen together with the SyncStateSet before it"
        case.doubt("S7", why, "--time-limit: a longer run")
    return case
