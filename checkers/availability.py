"""Availability: writes are served during faults, replicas rejoin, silent ones are dropped.

Liveness has bounds, of the context: `recovery_ns` from the last disturbance on, `shrink_ns` for a
silent member. A bound is broken only by an answer that was asked for after it. Whatever cannot be
told for sure (a heal without proof, nobody asked late enough) leaves a claim not judged, never
broken: the harness itself may have been slow.

- S13d: see `during`. Without a lull that was long enough there was no occasion.
- S14: by what controllers said after the last disturbance. An answer after the bound that names
  every broker proves it; none of them doing so breaks it. A broker that ended by itself is S15's.
- S13b, S14b: see `silence`. Where nobody was silent for long enough there was no occasion.

Whether writes are served once everything is healed is probed: S13, see `service`.

Claims: S13b, S13d, S14, S14b (controller-ha 6.3).
"""

from collections import defaultdict
from collections.abc import Sequence

from checkers.api import Context, Verdict
from checkers.calm import Calm, at_rest, calm_after
from checkers.during import Served, served, told_of
from checkers.ruling import Case, Found, rule, unreadable
from checkers.service import awaited
from checkers.sightings import (
    SetSighting,
    Sighting,
    listed,
    replica_sightings,
    set_sightings,
)
from checkers.silence import Quiet, Stayed, Watch, silences
from histories.history import History
from histories.observed import ReplicaView
from histories.op import HistoryError


class Availability:
    """The checker. See the module's text."""

    name = "availability"
    claims = ("S13b", "S13d", "S14", "S14b")
    by_ids = ("S14", "S14b")

    def check(self, history: History, context: Context) -> Verdict:
        try:
            sends = served(history, context)
        except HistoryError as error:
            return unreadable(self, error)
        return self.check_measured(history, context, sends)

    def check_measured(
        self, history: History, context: Context, sends: Sequence[Served]
    ) -> Verdict:
        """Judge by what does not grow with the load, where sends were looked at already.

        Args:
            history: may lack the operations of `checkers.keyed.BULK`.
            context: how the run was set up.
            sends: what they came to while the cluster should have taken them.
        """
        try:
            case = _judge(history, context)
        except HistoryError as error:
            return unreadable(self, error)
        _taken(context, case, sends)
        return rule(self, history, context, case, timed=self.claims)


def _judge(history: History, context: Context) -> Case:
    case = Case(judged={"S13b": 0, "S13d": 0, "S14": 0, "S14b": 0})
    answers = set_sightings(history)
    replicas = replica_sightings(history)
    if context.has_ids:
        crashed = frozenset(done.crashed) if (done := awaited(history)) is not None else frozenset()
        _rejoined(history, context, case, answers, replicas, crashed)
        _dropped(history, context, case, answers, replicas)
    return case


# S13d.


def _taken(context: Context, case: Case, sends: Sequence[Served]) -> None:
    """Judge the lulls in which sends should have succeeded."""
    case.counts["lulls"] = len(sends)
    for each in sends:
        case.judged["S13d"] += each.judged
        if each.judged and not each.tried.ok:
            said, detail, ops = told_of(each, context)
            case.found.append(Found("S13d", "not-writable-during-fault", ops, said, detail))
    case.counts["lulls-judged"] = case.judged["S13d"]


# S14.


def _rejoined(
    history: History,
    context: Context,
    case: Case,
    answers: dict[str, list[SetSighting]],
    replicas: Sequence[Sighting[ReplicaView]],
    crashed: frozenset[str],
) -> None:
    calm, until = at_rest(history, calm_after(history))
    alive: dict[str, Sighting[ReplicaView]] = {}
    for s in replicas:
        if s.begun > calm.at and s.view.id is not None:
            alive.setdefault(s.view.node, s)
    if not context.broker_sets:
        case.doubt("S14", "which replicas there are is not known")
    elif calm.doubt:
        case.doubt("S14", calm.doubt)
        return
    for name, nodes in sorted(context.broker_sets.items()):
        after = [s for s in answers.get(name, ()) if s.begun > calm.at and s.at < until]
        if not after:
            case.doubt("S14", f"no controller told of {name} after the last disturbance")
            continue
        late = [s for s in after if s.begun_ns > calm.ns + context.recovery_ns]
        for node in nodes:
            if node in crashed:
                continue
            if node not in alive:
                case.doubt("S14", f"{node} was not seen alive after the last disturbance")
            else:
                _is_member(case, context, calm, name, alive[node], after, late)


def _is_member(
    case: Case,
    context: Context,
    calm: Calm,
    name: str,
    alive: Sighting[ReplicaView],
    after: Sequence[SetSighting],
    late: Sequence[SetSighting],
) -> None:
    """Judge one broker by the answers after the bound, or else by the last one."""
    who = alive.view
    if any(who.id in s.view.sync_state_set for s in late or after[-1:]):
        case.judged["S14"] += 1
        return
    known = [s for s in late if alive.at < s.begun]
    if not known:
        case.doubt(
            "S14",
            f"{who.node} was not in the SyncStateSet, and nobody asked again "
            f"{_s(context.recovery_ns)} after the last disturbance",
        )
        return
    case.judged["S14"] += 1
    v = known[-1]
    members = listed(v.view.sync_state_set) or "nobody"
    said = (
        f"Broker set {name}: {who.node} (broker {who.id}) runs (op {alive.at}), but "
        f"{_s(v.begun_ns - calm.ns)} after everything was healed the SyncStateSet is {members} "
        f"({v.node}, op {v.at}; epoch {v.view.sync_state_set_epoch} of master {v.view.master}). It "
        "takes no part in what is acknowledged, and cannot be elected."
    )
    detail = {
        "set": name,
        "node": who.node,
        "id": who.id,
        "sync-state-set": list(v.view.sync_state_set),
        "after-ms": (v.begun_ns - calm.ns) // 1_000_000,
    }
    case.found.append(Found("S14", "replica-not-in-set", (alive.at, v.at), said, detail))


# S14b.


def _dropped(
    history: History,
    context: Context,
    case: Case,
    answers: dict[str, list[SetSighting]],
    replicas: Sequence[Sighting[ReplicaView]],
) -> None:
    by_set: dict[str, list[Sighting[ReplicaView]]] = defaultdict(list)
    for s in replicas:
        by_set[s.view.set].append(s)
    watches = {name: Watch(seen, by_set[name]) for name, seen in answers.items()}
    quiet = Quiet(history)
    found = silences(history, replicas)
    for silence in found:
        watch = watches.get(silence.set)
        if watch is not None:
            stayed, judged = watch.judge(silence, quiet, context.shrink_ns)
            case.judged["S14b"] += judged
            case.found += [] if stayed is None else [_stayed(stayed)]
            leads, judged = watch.judge_master(silence, quiet, context.recovery_ns)
            case.judged["S13b"] += judged
            case.found += [] if leads is None else [_not_replaced(leads)]
    case.counts["silences"] = len(found)
    case.counts["answers-on-silence-judged"] = case.judged["S14b"]


def _stayed(stayed: Stayed) -> Found:
    silence, v = stayed.silence, stayed.answer
    said = (
        f"Broker set {silence.set}: {silence.node} (broker {silence.id}) was silent since the "
        f"{silence.fault.f} of op {silence.since}, and {_s(stayed.for_ns)} after anything last "
        f"happened it is still in the SyncStateSet {listed(v.view.sync_state_set)} ({v.node}, op "
        f"{v.at}), although master {stayed.alive.view.node} ran (op {stayed.alive.at}) and "
        "controllers answered. Meanwhile nothing can be acknowledged by all members."
    )
    detail = {
        "set": silence.set,
        "node": silence.node,
        "id": silence.id,
        "fault": silence.fault.f,
        "sync-state-set": list(v.view.sync_state_set),
        "for-ms": stayed.for_ns // 1_000_000,
    }
    ops = (silence.since, stayed.alive.at, v.at)
    return Found("S14b", "silent-member-stays", ops, said, detail)


def _not_replaced(stayed: Stayed) -> Found:
    silence, v = stayed.silence, stayed.answer
    said = (
        f"Broker set {silence.set}: {silence.node} (broker {silence.id}) led, and was silent since "
        f"the {silence.fault.f} of op {silence.since}; {_s(stayed.for_ns)} after anything last "
        f"happened it is still the master of epoch {v.view.master_epoch} ({v.node}, op {v.at}), "
        f"although {stayed.alive.view.node} of the SyncStateSet ran (op {stayed.alive.at}) and "
        "controllers answered. Nothing can be written meanwhile."
    )
    detail = {
        "set": silence.set,
        "node": silence.node,
        "id": silence.id,
        "fault": silence.fault.f,
        "epoch": v.view.master_epoch,
        "for-ms": stayed.for_ns // 1_000_000,
    }
    ops = (silence.since, stayed.alive.at, v.at)
    return Found("S13b", "dead-master-stays", ops, said, detail)


def _s(ns: int) -> str:
    return f"{ns / 1e9:.1f} s"
