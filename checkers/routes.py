"""Routes: what name servers tell clients of a broker set is possible, the dead leave it, and the
living stay.

Of single answers (N1): an address has one id of a set. Of answers over time, only while nothing is
done to the name server and no cut parts it from the broker (`checkers.force.calms`; a cut holds the
end of a connection back):

- N5: a broker whose process was killed or stopped, so that its connections ended, is in nobody's
  routes once the bound for a silent member is over, until it is started again.
- N6: a broker to which nothing is done either, and that answers before and after, is listed once
  the bound for recovery is over, whatever happens to others. Who was listed before anything was
  done stays so. Not who leads, or did so within the bound: a master that does not know of its
  successor yet is listed no more.
- N10: if it leads before and after, in an epoch that controllers later still call the newest, it is
  listed as master, once it has led for the bound for recovery, or was so listed in this epoch.

An address is what the broker itself, asked at it, was last known by. Whether controllers know it as
well (S2b): see `addresses`.

Claims: N1, N5, N6, N10 (container-acting-master 8.1), S2b (controller-ha 6.3).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from checkers.addresses import MOVES, elsewhere, known
from checkers.api import Context, Verdict
from checkers.faults import HOLDS, Fault, faults
from checkers.force import Span, calms
from checkers.ruling import Case, Found, rule, unreadable
from checkers.sightings import (
    NEVER,
    SetSighting,
    Sighting,
    replica_sightings,
    set_sightings,
    sightings,
)
from histories.history import History
from histories.observed import OBSERVE_CONTROLLER, OBSERVE_ROUTE, ReplicaView, RouteView
from histories.op import HistoryError

KILLS, STARTS = frozenset(("kill", "terminate")), frozenset(("start", "restart"))

TIMED = ("S2b", "N5", "N6", "N10")
MASTER = "0"  # the role id of a master in routes

Answers = Sequence[Sighting[RouteView]]
Replicas = Sequence[Sighting[ReplicaView]]


class Death(NamedTuple):
    """A broker whose process is gone: since when (ns), in which operation, until which one."""

    node: str
    set: str
    address: str
    at: int
    since_ns: int
    until: int  # index of the first operation that may have brought it back


class Routes:
    """The checker. See the module's text."""

    name = "routes"
    claims = ("N1", "N5", "N6", "N10", "S2b")

    def check(self, history: History, context: Context) -> Verdict:
        try:
            case = _judge(history, context)
        except HistoryError as error:
            return unreadable(self, error)
        return rule(self, history, context, case, timed=TIMED)


def _judge(history: History, context: Context) -> Case:
    answers = sightings(history, OBSERVE_ROUTE, RouteView)
    replicas, acts = replica_sightings(history), faults(history)
    deaths = _deaths(acts, replicas)
    late = [*_late(deaths, answers, acts, context)]
    living = [*_living(replicas, answers, acts, context.recovery_ns)]
    due = [*_following(living, context.recovery_ns)]
    sets = set_sightings(history)
    leading = [*_leading(living, sets, context.recovery_ns)]
    found = known(acts, replicas, sets, _controllers(history), context.recovery_ns)
    case = Case(judged={"N1": len(answers), "N5": len(late), "N6": len(due), "N10": len(leading)})
    case.judged["S2b"] = len(found)
    case.found = [
        *_twice(answers),
        *_listed_dead(late),
        *_not_listed(due),
        *_not_master(leading),
        *elsewhere(found),
    ]
    case.counts = {
        "answers": len(answers),
        "deaths": len(deaths),
        "answers-on-the-dead": len(late),
        "answers-on-the-living": len(due),
        "answers-on-masters": len(leading),
        "answers-on-addresses": len(found),
    }
    if not answers:
        case.doubts.append("no name server told of routes")
    return case


def _controllers(history: History) -> list[str]:
    """All controllers that observers asked."""
    asked = (op.value for op in history.of_f(OBSERVE_CONTROLLER) if op.type == "invoke")
    return sorted({str(v["node"]) for v in asked if isinstance(v, dict) and "node" in v})


# N1.


def _twice(answers: Answers) -> Iterator[Found]:
    """One finding for each state of a set that a name server told."""
    told: set[tuple[str, str, str]] = set()
    for s in answers:
        for name, listed in sorted(s.view.sets.items()):
            ids: dict[str, str] = {}
            for broker_id, address in sorted(listed.items()):
                first = ids.setdefault(address, broker_id)
                if first == broker_id or (s.view.node, name, address) in told:
                    continue
                told.add((s.view.node, name, address))
                said = (
                    f"Broker set {name}: {s.view.node} lists {address} under the ids {first} and "
                    f"{broker_id} (op {s.at}). A broker is one of them, and clients take it for "
                    "both: where one is 0, they write to a slave."
                )
                detail = {"set": name, "node": s.view.node, "address": address}
                yield Found("N1", "address-listed-twice", (s.at,), said, detail)


# N5.


def _deaths(acts: Sequence[Fault], replicas: Replicas) -> list[Death]:
    """Brokers that were killed or stopped."""
    found = []
    for act in acts:
        if act.f not in KILLS or act.ended is None or act.ended_ns is None:
            continue
        for node, done in sorted((act.result or {}).items()):
            starts = (a.begun for a in acts if a.begun > act.begun and _may_start(a, node))
            until = min(starts, default=NEVER)
            known = [s.view for s in replicas if s.view.node == node and s.at < act.begun]
            if known and done.get(HOLDS) is True and act.ended < until:
                last = known[-1]
                found.append(Death(node, last.set, last.address, act.ended, act.ended_ns, until))
    return found


def _may_start(act: Fault, node: str) -> bool:
    """Whether an act may have started a node. To change an address may be to start anew."""
    named = act.ended is None or not isinstance(act.result, dict) or node in act.result
    return named and act.f in (*STARTS, *MOVES)


def _late(
    deaths: Sequence[Death], answers: Answers, acts: Sequence[Fault], context: Context
) -> Iterator[tuple[Death, Sighting[RouteView]]]:
    """Answers from when a death must have been noticed: the name server was in peace, and so were
    its connections, for the bound for recovery before it."""
    for namesrv, told in _by_node(answers).items():
        for death in deaths:
            for calm in calms(acts, [namesrv], [death.node]):
                if calm.at <= death.at < calm.until and _settled(calm, death, context):
                    due = Span(death.at, death.since_ns + context.shrink_ns, calm.until)
                    inside = (s for s in told if _within(s, due) and s.at < death.until)
                    yield from ((death, s) for s in inside)


def _settled(calm: Span, death: Death, context: Context) -> bool:
    return calm.at < 0 or death.since_ns >= calm.since_ns + context.recovery_ns


def _within(s: Sighting[RouteView], due: Span) -> bool:
    return s.begun > due.at and s.begun_ns > due.since_ns and s.at < due.until


def _by_node(answers: Answers) -> dict[str, list[Sighting[RouteView]]]:
    told: dict[str, list[Sighting[RouteView]]] = {}
    for s in answers:
        told.setdefault(s.view.node, []).append(s)
    return told


def _listed_dead(late: Sequence[tuple[Death, Sighting[RouteView]]]) -> Iterator[Found]:
    """One finding for each name server and death."""
    told: set[tuple[str, int, str]] = set()
    for death, s in late:
        key = (s.view.node, death.at, death.node)
        if key in told or death.address not in s.view.sets.get(death.set, {}).values():
            continue
        told.add(key)
        for_ns = s.begun_ns - death.since_ns
        said = (
            f"Broker set {death.set}: {death.node} at {death.address} is gone since op {death.at}, "
            f"and {for_ns / 1e9:.1f} s later {s.view.node} still lists it (op {s.at}). Its "
            "connection has ended; clients go on dialling it until the entry expires."
        )
        detail = {"set": death.set, "node": death.node, "namesrv": s.view.node,
                  "for-ms": for_ns // 1_000_000}  # fmt: skip
        yield Found("N5", "dead-broker-listed", (death.at, s.at), said, detail)


# N6.


class Living(NamedTuple):
    """A broker that answered before and after a name server did; the time in which nothing was done
    to either; whether the broker must be listed."""

    broker: Sighting[ReplicaView]
    after: Sighting[ReplicaView]
    answer: Sighting[RouteView]
    calm: Span
    due: bool = False

    def lists(self, role: str = "") -> bool:
        """Whether it is listed, or listed as this."""
        view = self.broker.view
        listed = self.answer.view.sets.get(view.set, {})
        return view.address in ([listed.get(role)] if role else listed.values())


def _living(
    replicas: Replicas, answers: Answers, acts: Sequence[Fault], bound_ns: int
) -> Iterator[Living]:
    lives: dict[str, list[Sighting[ReplicaView]]] = {}
    for s in replicas:
        lives.setdefault(s.view.node, []).append(s)
    for namesrv, told in _by_node(answers).items():
        for node, seen in sorted(lives.items()):
            for calm in calms(acts, [namesrv, node]):
                yield from _due(_between(told, seen, calm), bound_ns)


def _between(
    answers: Answers, seen: Sequence[Sighting[ReplicaView]], calm: Span
) -> Iterator[Living]:
    """The answers with an answer of the broker before and after, at one address."""
    at = 0
    for s in answers:
        while at + 1 < len(seen) and seen[at + 1].at < s.begun:
            at += 1
        after = next((b for b in seen[at:] if b.begun > s.at and b.at < calm.until), None)
        before = seen[at]
        if after is None or not calm.at < before.at < s.begun:
            continue
        if (before.view.set, before.view.address) == (after.view.set, after.view.address):
            yield Living(before, after, s, calm)


def _due(living: Iterator[Living], bound_ns: int) -> Iterator[Living]:
    """The same; it must be listed once the bound is over, or if it was before, and nothing was done
    to either yet."""
    listed = False
    for one in living:
        over = one.answer.begun_ns > one.calm.since_ns + bound_ns
        yield one._replace(due=over or (listed and one.calm.at < 0))
        listed = listed or one.lists()


def _following(living: Sequence[Living], bound_ns: int) -> Iterator[Living]:
    """Those whose broker must be listed and has been no master for long."""
    led: dict[tuple[str, str], int] = {}
    for one in living:
        key = one.answer.view.node, one.broker.view.node
        if one.broker.view.leads or one.after.view.leads:
            led[key] = one.after.at_ns
        elif one.due and (key not in led or one.answer.begun_ns > led[key] + bound_ns):
            yield one


def _not_listed(living: Sequence[Living]) -> Iterator[Found]:
    """One finding for each broker, name server and time in peace."""
    told: set[tuple[str, str, Span]] = set()
    for one in living:
        broker, s = one.broker.view, one.answer
        key = (s.view.node, broker.node, one.calm)
        if key in told or one.lists():
            continue
        told.add(key)
        said = (
            f"Broker set {broker.set}: {broker.node} at {broker.address} answered in op "
            f"{one.broker.at} and in op {one.after.at}, and {s.view.node} does not list it (op "
            f"{s.at}). Nothing had been done to either for "
            f"{(s.begun_ns - one.calm.since_ns) / 1e9:.1f} s. Clients do not find it."
        )
        detail = {"set": broker.set, "node": broker.node, "namesrv": s.view.node}
        yield Found("N6", "living-broker-not-listed", (one.broker.at, s.at), said, detail)


# N10.

Term = tuple[str, str, int]  # name server, broker, its master epoch


def _leading(
    living: Sequence[Living], sets: Mapping[str, Sequence[SetSighting]], bound_ns: int
) -> Iterator[tuple[Living, int]]:
    """Those whose broker must be listed as master, and the epoch in which it leads."""
    begun: dict[Term, int] = {}  # when it was first seen leading
    listed: set[Term] = set()
    for one in living:
        view, epoch = one.broker.view, _led(one.broker.view)
        if epoch is None or epoch != _led(one.after.view):
            continue
        term = (one.answer.view.node, view.node, epoch)
        since_ns = begun.setdefault(term, one.broker.at_ns)
        ripe = term in listed or one.answer.begun_ns > since_ns + bound_ns
        if one.due and ripe and _newest(epoch, one, sets.get(view.set, ())):
            yield one, epoch
        if one.lists(MASTER):
            listed.add(term)


def _led(view: ReplicaView) -> int | None:
    """The epoch in which a broker leads by its own word."""
    return view.epochs[-1].epoch if view.leads and view.epochs else None


def _newest(epoch: int, one: Living, told: Sequence[SetSighting]) -> bool:
    """Whether controllers, asked later, knew of no newer epoch."""
    later = (s for s in told if s.begun > one.answer.at)
    return next((s.view.master_epoch == epoch for s in later), False)


def _not_master(leading: Sequence[tuple[Living, int]]) -> Iterator[Found]:
    """One finding for each term."""
    told: set[Term] = set()
    for one, epoch in leading:
        broker, s = one.broker.view, one.answer
        term = (s.view.node, broker.node, epoch)
        if term in told or one.lists(MASTER):
            continue
        told.add(term)
        listed = s.view.sets.get(broker.set, {}).get(MASTER)
        said = (
            f"Broker set {broker.set}: {broker.node} leads in epoch {epoch} (ops {one.broker.at} "
            f"and {one.after.at}, and controllers know no newer one), and {s.view.node} lists "
            f"{listed or 'nobody'} as master (op {s.at}). Clients write to whom it names."
        )
        detail = {
            "set": broker.set,
            "node": broker.node,
            "namesrv": s.view.node,
            "epoch": epoch,
            "listed": listed,
        }
        yield Found("N10", "master-not-listed", (one.broker.at, s.at), said, detail)
