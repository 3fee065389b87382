"""Routes: what name servers answer about a broker set is possible, dead brokers leave it, and the
living stay.

Of single answers (N1): an address has one id of a set. Of answers over time, only while nothing is
done to the name server and no cut parts it from the broker
(`maxq.checkers.evidence.quiescence.Undisturbed`; a cut holds the end of a connection back):

- N5: a broker whose process was killed or stopped, so that its connections ended, is in no name
  server's routes once the bound for a silent member is over, until it is started again. Not who had
  not registered since it was started: it may be listed from before, by a connection that ended
  unseen when it lost its power.
- N6: a broker to which nothing is done either, and that answers before and after, is listed once
  the recovery bound is over, whatever happens to others. Who was listed before anything was
  done stays so. Not who leads, or did so within the bound, or was made master in its turn at the
  end: a master that does not know of its successor yet is listed no more. Nor who was started and
  has not been listed since: it registers once it has its id and its role from the controllers, so
  they must have been undisturbed as well. Without controllers any broker counts that says it is in
  its group, or was listed since it was started.
- N10: if it leads before and after, in an epoch that controllers later still call the newest, it is
  listed as master, once it has led for the recovery bound, or was so listed in this epoch.
- N13: once it has been listed as master of its epoch, nobody of an older one takes its place
  (`stale_masters`).

An address is what the broker itself, asked at it, was last known by. Whether controllers know it as
well (S2b): see `addresses`.

Claims: N1, N5, N6, N10, N13 (docs/spec/acting-master.md 8.1), S2b (docs/spec/controller-ha.md 6.3).
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from maxq.checkers.core.api import Context, Verdict, unreadable
from maxq.checkers.core.promises import MODE, PAIR
from maxq.checkers.evidence.faults import HOLDS, Fault, faults, may_start
from maxq.checkers.evidence.observations import (
    NEVER,
    Sighting,
    replica_sightings,
    set_sightings,
    sightings,
)
from maxq.checkers.evidence.quiescence import Interval, slice_between
from maxq.checkers.evidence.verdicts import Case, Found, rule
from maxq.checkers.routing.master_addresses import elsewhere, known, stays
from maxq.checkers.routing.route_completeness import (
    Answers,
    Replicas,
    Welcome,
    by_broker,
    by_node,
    following,
    not_listed,
    not_master,
    undisturbed_masters,
    undisturbed_replicas,
    unordered,
    within,
)
from maxq.checkers.routing.stale_masters import displaced, taken_masters
from maxq.histories.history import History
from maxq.histories.observed import OBSERVE_CONTROLLER, OBSERVE_ROUTE, RouteView
from maxq.histories.op import HistoryError


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
    claims = ("N1", "N5", "N6", "N10", "N13", "S2b")

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
    controllers = controllers_of(history)
    pairs = (context.settings or {}).get(MODE) == PAIR
    before = unordered(history, answers)
    welcome = Welcome(before, acts, None if pairs else controllers, context.recovery_ns)
    late = [*_late(deaths, before, welcome, context)]
    living = [*undisturbed_replicas(replicas, before, welcome)]
    due = [one for one in living if one.due]
    if not pairs:
        due = [*following(living, acts, context.recovery_ns)]
    sets = set_sightings(history)
    leading = [*undisturbed_masters(living, sets, context.recovery_ns)]
    taken = [*taken_masters(living, sets, context.recovery_ns)]
    found = known(acts, replicas, sets, controllers, context.recovery_ns, stays(history))
    case = Case(judged={"N1": len(answers), "N5": len(late), "N6": len(due), "N10": len(leading)})
    case.judged |= {"N13": len(taken), "S2b": len(found)}
    case.found = [
        *_twice(answers),
        *_listed_dead(late),
        *not_listed(due),
        *not_master(leading),
        *displaced(taken),
        *elsewhere(found),
    ]
    case.counts = {
        "answers": len(answers),
        "deaths": len(deaths),
        "answers-on-the-dead": len(late),
        "answers-on-the-living": len(due),
        "answers-on-masters": len(leading),
        "answers-on-taken-masters": len(taken),
        "answers-on-addresses": len(found),
    }
    if not answers:
        case.doubt("N1", "no name server answered with routes")
    return case


def controllers_of(history: History) -> list[str]:
    """All controllers that observers asked."""
    asked = (op.value for op in history.of_f(OBSERVE_CONTROLLER) if op.type == "invoke")
    return sorted({str(v["node"]) for v in asked if isinstance(v, dict) and "node" in v})


# N1.


def _twice(answers: Answers) -> Iterator[Found]:
    """One finding for each state of a set that a name server reported."""
    reported: set[tuple[str, str, str]] = set()
    for s in answers:
        for name, listed in sorted(s.view.sets.items()):
            ids: dict[str, str] = {}
            for broker_id, address in sorted(listed.items()):
                first = ids.setdefault(address, broker_id)
                if first == broker_id or (s.view.node, name, address) in reported:
                    continue
                reported.add((s.view.node, name, address))
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
    lives = by_broker(replicas)
    starts: dict[str, list[int]] = {}
    for act in acts:
        proofs = act.result if isinstance(act.result, dict) else {}  # it may have failed
        if not act.ends_connections or act.ended is None or act.ended_ns is None:
            continue
        for node, done in sorted(proofs.items()):
            if node not in starts:
                starts[node] = [a.begun for a in acts if may_start(a, node)]
            until = _next(starts[node], act.begun)
            seen = lives.get(node, [])
            before = bisect_left(seen, act.begun, key=_end)
            if before and done.get(HOLDS) is True and act.ended < until:
                last = seen[before - 1].view
                found.append(Death(node, last.set, last.address, act.ended, act.ended_ns, until))
    return found


def _next(ascending: Sequence[int], index: int) -> int:
    """The first one after an index; NEVER if there is none."""
    at = bisect_right(ascending, index)
    return ascending[at] if at < len(ascending) else NEVER


def _end(s: Sighting[Any]) -> int:
    return s.at


def _late(
    deaths: Sequence[Death], answers: Answers, welcome: Welcome, context: Context
) -> Iterator[tuple[Death, Sighting[RouteView]]]:
    """Answers from when a death must have been noticed: the name server was undisturbed, and so
    were its connections, for the recovery bound before it."""
    for namesrv, reported in by_node(answers).items():
        ends = [s.at for s in reported]
        for death in deaths:
            before = bisect_left(ends, death.at) - 1
            if before < 0 or not welcome.has(death.node, death.address, death.at, reported[before]):
                continue
            span = welcome.undisturbed.of([namesrv], [death.node]).at(death.at + 1)
            if span is not None and _was_undisturbed(span, death, context):
                until = min(span.until, death.until)
                due = Interval(death.at, death.since_ns + context.shrink_ns, until)
                inside = reported[slice_between(ends, due)]
                yield from ((death, s) for s in inside if within(s, due))


def _was_undisturbed(span: Interval, death: Death, context: Context) -> bool:
    return span.at < 0 or death.since_ns >= span.at_ns + context.recovery_ns


def _listed_dead(late: Sequence[tuple[Death, Sighting[RouteView]]]) -> Iterator[Found]:
    """One finding for each name server and death."""
    reported: set[tuple[str, int, str]] = set()
    for death, s in late:
        key = (s.view.node, death.at, death.node)
        if key in reported or death.address not in s.view.sets.get(death.set, {}).values():
            continue
        reported.add(key)
        for_ns = s.begun_ns - death.since_ns
        said = (
            f"Broker set {death.set}: {death.node} at {death.address} is gone since op {death.at}, "
            f"and {for_ns / 1e9:.1f} s later {s.view.node} still lists it (op {s.at}). Its "
            "connection has ended; clients go on dialling it until the entry expires."
        )
        detail = {"set": death.set, "node": death.node, "namesrv": s.view.node,
                  "for-ms": for_ns // 1_000_000}  # fmt: skip
        yield Found("N5", "dead-broker-listed", (death.at, s.at), said, detail)
