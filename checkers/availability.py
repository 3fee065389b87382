"""Availability: writes are served, also during faults, all rejoin, the silent are dropped.

Liveness has bounds, of the context: `recovery_ns` from the last disturbance on, `shrink_ns` for a
silent member. A bound is broken only by an answer that was asked for after it. Whatever cannot be
told for sure (a heal without proof, a node that crashed by itself, nobody asked late enough) makes
the verdict unknown, never false: the harness itself may have been slow.

- S13: what `await-recovery` found out.
- S13d: see `during`. Where no lull was long enough it is left out of the verdict.
- S14: by what controllers said after the last disturbance. An answer after the bound that names
  every broker proves it; none of them doing so breaks it.
- S13b, S14b: see `silence`. Where nobody was silent for long enough it is left out of the verdict.

How long each strike took to recover from (RTO) and what it cost (RPO) is counted: ``rto-ms@12`` and
``rpo@12`` belong to the strike that completed at op 12; an RTO of -1 means that no send succeeded
any more.

Claims: S13, S13b, S13d, S14, S14b (controller-ha 6.3). S14b is promised where all members must
acknowledge.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import median_low
from typing import Any

import msgspec

from checkers.api import Context, Verdict
from checkers.calm import Calm, calm_after, ending
from checkers.during import Served, served, told_of
from checkers.recovery import Recovery, losses, recoveries
from checkers.ruling import Case, Found, rule, unreadable
from checkers.sightings import (
    SetSighting,
    Sighting,
    listed,
    replica_sightings,
    set_sightings,
    shaped,
)
from checkers.silence import Quiet, Stayed, Watch, silences
from histories.history import History
from histories.observed import AWAIT_RECOVERY, ReplicaView
from histories.op import HistoryError, Op

NOT_ALL_ACK = frozenset(("P-NUM", "P-DEFAULT"))
GRACE_NS = 1_000_000_000  # between two looks of who waits for the recovery


class _Recovered(msgspec.Struct):
    holds: bool
    after_ms: float = 0
    crashed: dict[str, Any] = {}


class _Awaited(msgspec.Struct):
    cluster: _Recovered


class Availability:
    """The checker. See the module's text."""

    name = "availability"
    claims = ("S13", "S13b", "S13d", "S14", "S14b")
    by_ids = ("S13b", "S13d", "S14", "S14b")

    def check(self, history: History, context: Context) -> Verdict:
        found = recoveries(history)
        try:
            sends = served(history, context)
        except HistoryError as error:
            return unreadable(self, error)
        cost = losses(history) if found else None
        return self.check_measured(history, context, found, cost, sends)

    def check_measured(
        self,
        history: History,
        context: Context,
        found: Sequence[Recovery],
        cost: Mapping[int, int] | None,
        sends: Sequence[Served],
    ) -> Verdict:
        """Judge by what does not grow with the load, where sends were looked at already.

        Args:
            history: may lack the operations of `checkers.keyed.BULK`.
            context: how the run was set up.
            found: the recoveries from each strike.
            cost: what each strike cost, if anybody can say.
            sends: what they came to while the cluster should have taken them.
        """
        try:
            case = _judge(history, context)
        except HistoryError as error:
            return unreadable(self, error)
        if context.has_ids:
            _taken(context, case, sends)
        case.counts |= _measured(found, cost)
        unpromised: tuple[str, ...] = ("S14b",) if context.profile in NOT_ALL_ACK else ()
        if not context.has_ids:
            unpromised = self.by_ids
        return rule(self, history, context, case, unpromised=unpromised, timed=self.claims)


def _judge(history: History, context: Context) -> Case:
    case = Case(judged={"S13": 0, "S13b": 0, "S13d": 0, "S14": 0, "S14b": 0})
    answers = set_sightings(history)
    replicas = replica_sightings(history)
    crashed = _writable(history, context, case)
    if not context.has_ids:
        return case
    _rejoined(history, context, case, answers, replicas, crashed)
    _dropped(history, context, case, answers, replicas)
    return case


# S13.


def _writable(history: History, context: Context, case: Case) -> frozenset[str]:
    """Judge the last wait for recovery; returns which nodes had crashed by themselves."""
    done = _awaited(history)
    if done is None:
        case.doubts.append("S13: nobody waited for the recovery, or not to the end")
        return frozenset()
    begun = history.invocation(done)
    found = shaped(done.value, _Awaited, done.index).cluster
    before = history.filter(lambda op: begun is not None and op.index < begun.index)
    calm = calm_after(before)
    after_ns = round(found.after_ms * 1_000_000)
    case.counts["recovery-ms"] = round(found.after_ms)
    case.judged["S13"] = 1
    late = after_ns > context.recovery_ns + GRACE_NS
    if found.holds and not late:
        return frozenset()
    if found.crashed:
        case.doubts.append(f"S13: crashed by themselves: {listed(sorted(found.crashed))}")
    elif calm.doubt:
        case.doubts.append(f"S13: {calm.doubt}")
    elif after_ns < context.recovery_ns:
        case.doubts.append(f"S13: waited for {_s(after_ns)} only, {_s(context.recovery_ns)} needed")
    else:
        case.found.append(_not_writable(done, calm, context, found))
    return frozenset(found.crashed)


def _awaited(history: History) -> Op | None:
    """The completion of the last wait for recovery; None if it is open."""
    last: Op | None = None
    for op in history.nemesis:
        if op.f == AWAIT_RECOVERY:
            last = op
    if last is None:
        return None
    begun = history.invocation(last)
    return last if begun is not None and begun.index < last.index else None


def _not_writable(done: Op, calm: Calm, context: Context, found: _Recovered) -> Found:
    known = "a master of each broker set that answers"
    how = f"only then did all agree on {known}" if found.holds else f"there was not yet {known}"
    said = (
        f"Everything was healed at {_s(calm.ns)}, and all nodes run, but {_s(context.recovery_ns)} "
        f"were not enough: after {found.after_ms / 1000:.1f} s of waiting (op {done.index}) {how}."
    )
    detail = {"after-ms": found.after_ms, "bound-ms": context.recovery_ns // 1_000_000}
    ops = (done.index,) if calm.at < 0 else (calm.at, done.index)
    return Found("S13", "not-writable", ops, said, detail)


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
    calm, until = calm_after(history), ending(history)
    alive: dict[str, Sighting[ReplicaView]] = {}
    for s in replicas:
        if s.begun > calm.at and s.view.id is not None:
            alive.setdefault(s.view.node, s)
    if not context.broker_sets:
        case.doubts.append("S14: which replicas there are is not known")
    elif calm.doubt:
        case.doubts.append(f"S14: {calm.doubt}")
        return
    for name, nodes in sorted(context.broker_sets.items()):
        after = [s for s in answers.get(name, ()) if s.begun > calm.at and s.at < until]
        if not after:
            case.doubts.append(f"S14: no controller told of {name} after the last disturbance")
            continue
        late = [s for s in after if s.begun_ns > calm.ns + context.recovery_ns]
        for node in nodes:
            if node in crashed or node not in alive:
                case.doubts.append(f"S14: {node} was not seen alive after the last disturbance")
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
        case.doubts.append(
            f"S14: {who.node} was not in the SyncStateSet, and nobody asked again "
            f"{_s(context.recovery_ns)} after the last disturbance"
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


# Measured, not judged.


def _measured(found: Sequence[Recovery], cost: Mapping[int, int] | None) -> dict[str, int]:
    """RTO of each strike, and RPO where it is known."""
    counts: dict[str, int] = {}
    if found:
        times = [r.after_ns // 1_000_000 for r in found if r.after_ns is not None]
        counts["strikes"] = len(found)
        counts["strikes-recovered-from"] = len(times)
        counts["fail-overs"] = sum(r.failed_over for r in found)
        if times:
            counts["rto-ms-median"] = median_low(times)
            counts["rto-ms-max"] = max(times)
        for r in found:  # of several nodes that were struck at once the slowest counts
            name, before = f"rto-ms@{r.op}", counts.get(f"rto-ms@{r.op}", 0)
            ms = -1 if r.after_ns is None else r.after_ns // 1_000_000
            counts[name] = -1 if -1 in (ms, before) else max(ms, before)
        if cost is not None:
            counts["rpo-messages"] = sum(cost.values())
            counts |= {f"rpo@{op}": n for op, n in sorted(cost.items()) if op >= 0}
    return counts


def _s(ns: int) -> str:
    return f"{ns / 1e9:.1f} s"
