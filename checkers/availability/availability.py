"""Availability: writes are served during faults, replicas rejoin, silent ones are dropped.

Liveness has bounds, of the context: `recovery_ns` from the last disturbance on, `shrink_ns` for a
silent member. A bound is broken only by an answer that was asked for after it. Whatever cannot be
known for sure (a heal without proof, no answer late enough) leaves a claim not judged, never
broken: the harness itself may have been slow.

- S13d: see `during`. Without a quiet period that was long enough there was no coverage.
- S14: by what controllers said after the last disturbance. An answer after the bound that names
  every broker proves it; none of them doing so breaks it. A broker that ended by itself is S15's.
- S13b, S14b: see `silence`. Where no node was silent for long enough there was no coverage.
- S18: see `needless_elections`.

Of releases without ids all four go by addresses (`known_by`); what is judged where controllers
report nothing of members: see `during`.

Whether writes are served once everything is healed is probed: S13, see `service`.

Claims: S13b, S13d, S14, S14b, S18 (docs/spec/controller-ha.md 6.3).
"""

from collections import defaultdict
from collections.abc import Sequence

from maxq.checkers.availability import needless_elections
from maxq.checkers.availability.attempts import Served, finding_of, lost_of, served
from maxq.checkers.availability.failure_detection import Stayed, Watch, silences
from maxq.checkers.availability.known_by import KnownBy
from maxq.checkers.core.api import Context, Verdict, unreadable
from maxq.checkers.evidence.nodes.looks import awaited
from maxq.checkers.evidence.observations import SetSighting, Sighting
from maxq.checkers.evidence.quiescence import Interval, Standstills, at_rest
from maxq.checkers.evidence.verdicts import Case, Found, rule
from maxq.histories.history import History
from maxq.histories.observed import ReplicaView
from maxq.histories.op import HistoryError


class Availability:
    """The checker. See the module's text."""

    name = "availability"
    claims = ("S13b", "S13d", "S14", "S14b", "S18")

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
            history: may lack the operations of `maxq.checkers.core.keyed.BULK`.
            context: how the run was set up.
            sends: what they came to while the cluster should have taken them.
        """
        try:
            case = _judge(history, context)
        except HistoryError as error:
            return unreadable(self, error)
        _taken(context, case, sends)
        return rule(self, history, context, case)


def _judge(history: History, context: Context) -> Case:
    case = Case(judged={"S13b": 0, "S13d": 0, "S14": 0, "S14b": 0, "S18": 0})
    known = KnownBy(history, context)
    crashed = frozenset(done.crashed) if (done := awaited(history)) is not None else frozenset()
    _rejoined(history, context, case, known, crashed)
    _dropped(history, context, case, known)
    needless_elections.judge(history, context, case, known)
    return case


# S13d.


def _taken(context: Context, case: Case, sends: Sequence[Served]) -> None:
    """Judge the lulls in which sends should have succeeded."""
    case.counts["lulls"] = len(sends)
    for each in sends:
        case.judged[each.claim] += each.judged
        if not each.judged or each.kept:
            continue
        if each.window.lost is None:
            said, detail, ops = finding_of(each, context)
            case.found.append(Found("S13d", "not-writable-during-fault", ops, said, detail))
        else:
            said, detail, ops = lost_of(each, each.window.lost, context)
            case.found.append(Found("S13b", "master-not-replaced", ops, said, detail))
    case.counts["lulls-judged"] = sum(each.judged for each in sends)


# S14.


def _rejoined(
    history: History,
    context: Context,
    case: Case,
    known: KnownBy,
    crashed: frozenset[str],
) -> None:
    rest = at_rest(history)
    alive: dict[str, Sighting[ReplicaView]] = {}
    for s in known.replicas:
        if s.begun > rest.at and s.view.id is not None:
            alive.setdefault(s.view.node, s)
    if not context.broker_sets:
        case.doubt("S14", "which replicas there are is not known")
    elif rest.doubt:
        case.doubt("S14", rest.doubt)
        return
    for name in sorted(context.broker_sets):
        after = [s for s in known.answers.get(name, ()) if s.begun > rest.at and s.at < rest.until]
        if not after:
            case.doubt("S14", f"no controller reported {name} after the last disturbance")
            continue
        late = [s for s in after if s.begun_ns > rest.at_ns + context.recovery_ns]
        for node in context.members(name):
            if node in crashed:
                continue
            if node not in alive:
                case.doubt("S14", f"{node} was not seen alive after the last disturbance")
            else:
                _is_member(case, context, rest, name, known, alive[node], after, late)


def _is_member(
    case: Case,
    context: Context,
    rest: Interval,
    name: str,
    known: KnownBy,
    alive: Sighting[ReplicaView],
    after: Sequence[SetSighting],
    late: Sequence[SetSighting],
) -> None:
    """Judge one broker by the answers after the bound, or else by the last one."""
    who = alive.view
    if any(who.id in s.view.sync_state_set for s in late or after[-1:]):
        case.judged["S14"] += 1
        return
    asked = [s for s in late if alive.at < s.begun]
    if not asked:
        case.doubt(
            "S14",
            f"{who.node} was not in the SyncStateSet, and no later answer came "
            f"{_s(context.recovery_ns)} after the last disturbance",
        )
        return
    case.judged["S14"] += 1
    v = asked[-1]
    members = known.listed(name, v.view.sync_state_set)
    called, master = known.called(name, who.id), known.one(name, v.view.master)
    said = (
        f"Broker set {name}: {who.node} ({called}) runs (op {alive.at}). But "
        f"{_s(v.begun_ns - rest.at_ns)} after everything was healed the SyncStateSet is {members} "
        f"({v.node}, op {v.at}; epoch {v.view.sync_state_set_epoch} of master {master}). It "
        "takes no part in what is acknowledged, and cannot be elected."
    )
    detail = {
        "set": name,
        "node": who.node,
        "id": known.one(name, who.id),
        "sync-state-set": known.each(name, v.view.sync_state_set),
        "after-ms": (v.begun_ns - rest.at_ns) // 1_000_000,
    }
    case.found.append(Found("S14", "replica-not-in-set", (alive.at, v.at), said, detail))


# S14b.


def _dropped(
    history: History,
    context: Context,
    case: Case,
    known: KnownBy,
) -> None:
    by_set: dict[str, list[Sighting[ReplicaView]]] = defaultdict(list)
    for s in known.replicas:
        by_set[s.view.set].append(s)
    watches = {name: Watch(seen, by_set[name]) for name, seen in known.answers.items()}
    still = Standstills(history)
    found = silences(history, known.replicas)
    for silence in found:
        watch = watches.get(silence.set)
        if watch is not None:
            stayed, judged = watch.judge(silence, still, context.shrink_ns)
            case.judged["S14b"] += judged
            case.found += [] if stayed is None else [_stayed(stayed, known)]
            leads, judged = watch.judge_master(silence, still, context.recovery_ns)
            case.judged["S13b"] += judged
            case.found += [] if leads is None else [_not_replaced(leads, known)]
    case.counts["silences"] = len(found)
    case.counts["answers-on-silence-judged"] = case.judged["S14b"]


def _stayed(stayed: Stayed, known: KnownBy) -> Found:
    silence, v = stayed.silence, stayed.answer
    called = known.called(silence.set, silence.id)
    members = known.listed(silence.set, v.view.sync_state_set)
    said = (
        f"Broker set {silence.set}: {silence.node} ({called}) was silent since the "
        f"{silence.fault.f} of op {silence.since}. {_s(stayed.for_ns)} after anything last "
        f"happened it is still in the SyncStateSet {members} ({v.node}, op "
        f"{v.at}). Master {stayed.alive.view.node} ran (op {stayed.alive.at}) and "
        "controllers answered. Meanwhile nothing can be acknowledged by all members."
    )
    detail = {
        "set": silence.set,
        "node": silence.node,
        "id": known.one(silence.set, silence.id),
        "fault": silence.fault.f,
        "sync-state-set": known.each(silence.set, v.view.sync_state_set),
        "for-ms": stayed.for_ns // 1_000_000,
    }
    ops = (silence.since, stayed.alive.at, v.at)
    return Found("S14b", "silent-member-stays", ops, said, detail)


def _not_replaced(stayed: Stayed, known: KnownBy) -> Found:
    silence, v = stayed.silence, stayed.answer
    called = known.called(silence.set, silence.id)
    said = (
        f"Broker set {silence.set}: {silence.node} ({called}) led, and was silent since "
        f"the {silence.fault.f} of op {silence.since}. {_s(stayed.for_ns)} after anything last "
        f"happened it is still the master of epoch {v.view.master_epoch} ({v.node}, op {v.at}). "
        f"{stayed.alive.view.node} of the SyncStateSet ran (op {stayed.alive.at}) and "
        "controllers answered. Nothing can be written meanwhile."
    )
    detail = {
        "set": silence.set,
        "node": silence.node,
        "id": known.one(silence.set, silence.id),
        "fault": silence.fault.f,
        "epoch": v.view.master_epoch,
        "for-ms": stayed.for_ns // 1_000_000,
    }
    ops = (silence.since, stayed.alive.at, v.at)
    return Found("S13b", "dead-master-stays", ops, said, detail)


def _s(ns: int) -> str:
    return f"{ns / 1e9:.1f} s"
