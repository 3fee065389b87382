"""Routes: what name servers tell clients of a broker set is possible, the dead leave it, and the
living stay.

Of single answers (N1): an address has one id of a set. Of answers over time, only while connections
are as they seem, which is when no cut is in force and nobody half alive (`checkers.force.calms`; a
cut holds the end of a connection back), and nothing is done to the name server:

- N5: a broker whose process was killed or stopped, so that its connections ended, is in nobody's
  routes once the bound for a silent member is over, until somebody is started again.
- N6: a broker to which nothing is done, and that answers before and after, is listed once the bound
  for recovery is over, whatever happens to others.

An address is what the broker itself, asked at it, was last known by. Not judged: that name servers
agree with the controllers on masters is part of S13.

Claims: N1, N5, N6 (container-acting-master 8.1).
"""

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from checkers.api import Context, Verdict
from checkers.faults import HOLDS, Fault, faults
from checkers.force import Calm, calms
from checkers.ruling import Case, Found, rule, unreadable
from checkers.sightings import NEVER, Sighting, replica_sightings, sightings
from histories.history import History
from histories.observed import OBSERVE_ROUTE, ReplicaView, RouteView
from histories.op import HistoryError

KILLS, STARTS = frozenset(("kill", "terminate")), frozenset(("start", "restart"))

Answers = Sequence[Sighting[RouteView]]
Replicas = Sequence[Sighting[ReplicaView]]


class Death(NamedTuple):
    """A broker whose process is gone: since when (ns), in which operation, until which one."""

    node: str
    set: str
    address: str
    at: int
    since_ns: int
    until: int  # index of the first operation that may have brought anybody back


class Routes:
    """The checker. See the module's text."""

    name = "routes"
    claims = ("N1", "N5", "N6")

    def check(self, history: History, context: Context) -> Verdict:
        try:
            case = _judge(history, context)
        except HistoryError as error:
            return unreadable(self, error)
        return rule(self, history, context, case)


def _judge(history: History, context: Context) -> Case:
    answers = sightings(history, OBSERVE_ROUTE, RouteView)
    replicas, acts = replica_sightings(history), faults(history)
    deaths = _deaths(acts, replicas)
    late = [*_late(deaths, answers, acts, context)]
    living = [*_living(replicas, answers, acts, context.recovery_ns)]
    case = Case(judged={"N1": len(answers), "N5": len(late), "N6": len(living)})
    case.found = [*_twice(answers), *_listed_dead(late), *_not_listed(living)]
    case.counts = {
        "answers": len(answers),
        "deaths": len(deaths),
        "answers-on-the-dead": len(late),
        "answers-on-the-living": len(living),
    }
    if not answers:
        case.doubts.append("no name server told of routes")
    return case


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
        until = min((a.begun for a in acts if a.f in STARTS and a.begun > act.begun), default=NEVER)
        for node, done in sorted((act.result or {}).items()):
            known = [s.view for s in replicas if s.view.node == node and s.at < act.begun]
            if known and done.get(HOLDS) is True and act.ended < until:
                last = known[-1]
                found.append(Death(node, last.set, last.address, act.ended, act.ended_ns, until))
    return found


def _late(
    deaths: Sequence[Death], answers: Answers, acts: Sequence[Fault], context: Context
) -> Iterator[tuple[Death, Sighting[RouteView]]]:
    """Answers from when a death must have been noticed: the name server was in peace, and so were
    all connections, for the bound for recovery before it."""
    for namesrv, told in _by_node(answers).items():
        for calm in calms(acts, [namesrv]):
            for death in deaths:
                if calm.at <= death.at < calm.until and _settled(calm, death, context):
                    due = Calm(death.at, death.since_ns + context.shrink_ns, calm.until)
                    inside = (s for s in told if _within(s, due) and s.at < death.until)
                    yield from ((death, s) for s in inside)


def _settled(calm: Calm, death: Death, context: Context) -> bool:
    return calm.at < 0 or death.since_ns >= calm.since_ns + context.recovery_ns


def _within(s: Sighting[RouteView], due: Calm) -> bool:
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
    """A broker that answered before and after a name server did, undisturbed since `since_ns`."""

    broker: ReplicaView
    answer: Sighting[RouteView]
    before: int  # index of the broker's answer
    since_ns: int


def _living(
    replicas: Replicas, answers: Answers, acts: Sequence[Fault], bound_ns: int
) -> Iterator[Living]:
    lives: dict[str, list[Sighting[ReplicaView]]] = {}
    for s in replicas:
        lives.setdefault(s.view.node, []).append(s)
    for namesrv, told in _by_node(answers).items():
        for node, seen in sorted(lives.items()):
            for calm in calms(acts, [namesrv, node]):
                # Until something is done for the first time, who was listed once stays so.
                first = (s.at_ns for s in told if seen[0].view.address in _addresses(s, seen[0]))
                due_ns = calm.since_ns + bound_ns
                since_ns = min(next(first, NEVER), due_ns) if calm.at < 0 else due_ns
                inside = [s for s in told if _within(s, Calm(calm.at, since_ns, calm.until))]
                yield from _between(inside, seen, calm)


def _addresses(s: Sighting[RouteView], broker: Sighting[ReplicaView]) -> Collection[str]:
    return s.view.sets.get(broker.view.set, {}).values()


def _between(
    answers: Answers, seen: Sequence[Sighting[ReplicaView]], calm: Calm
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
            yield Living(before.view, s, before.at, calm.since_ns)


def _not_listed(living: Sequence[Living]) -> Iterator[Found]:
    """One finding for each broker, name server and time in peace."""
    told: set[tuple[str, str, int]] = set()
    for broker, s, before, since_ns in living:
        key = (s.view.node, broker.node, since_ns)
        if key in told or broker.address in s.view.sets.get(broker.set, {}).values():
            continue
        told.add(key)
        said = (
            f"Broker set {broker.set}: {broker.node} at {broker.address} answered in op {before} "
            f"and later, and {s.view.node} does not list it (op {s.at}). Nothing had been done to "
            f"either for {(s.begun_ns - since_ns) / 1e9:.1f} s. Clients do not find it."
        )
        detail = {"set": broker.set, "node": broker.node, "namesrv": s.view.node}
        yield Found("N6", "living-broker-not-listed", (before, s.at), said, detail)
