"""Silent brokers: a name server forgets who says nothing, and shows who is left.

Judged in quiet periods, times between two acts of the nemesis in which the state is known, from
when a silent broker must have been evicted: its time-out and a scan after the last act, with a
margin, by the run's own keys (`maxq.checkers.core.api.Context.eviction_ns`). In such a quiet period
nobody is cut off or impaired. After a cut the kernels of both sides deliver what they could not, at
the latest as long after its end as it lasted, and heartbeats of a broker that is silent by then
among it; so for so long nothing is judged.

- N4: a broker that is killed or held is listed no more, whichever others of its set go on.
- N12: of a pair without its master the route shows the smallest slave that runs, where nothing has
  been done to any of its slaves nor to the name server for the recovery bound, and no operator has
  opened the set meanwhile (327). With controllers no broker is the master by its name, and another
  one is elected.

Claims: N4, N12 (docs/spec/acting-master.md 8.1).
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from maxq.checkers.core.api import Context, Verdict, unreadable
from maxq.checkers.core.promises import MODE, PAIR
from maxq.checkers.evidence.faults import Fault, faults
from maxq.checkers.evidence.observations import Sighting, replica_sightings, sightings
from maxq.checkers.evidence.orders import Orders
from maxq.checkers.evidence.quiescence import Interval, Lull, lulls, slice_between
from maxq.checkers.evidence.verdicts import Case, Found, rule
from maxq.checkers.routing.acting_routes import shown_in
from maxq.histories.history import History
from maxq.histories.observed import MASTER_ROLE, OBSERVE_ROUTE, RouteView
from maxq.histories.op import HistoryError

Said = Sighting[RouteView]
CLAIMS = ("N4", "N12")


class Calm(NamedTuple):
    """A lull, and from when (ns) a broker that is silent in it must have been evicted."""

    lull: Lull
    since_ns: int


class SilentBrokers:
    """The checker. See the module's text."""

    name = "silent-brokers"
    claims = CLAIMS

    def check(self, history: History, context: Context) -> Verdict:
        try:
            return rule(self, history, context, _case(history, context))
        except HistoryError as error:
            return unreadable(self, error)


def _case(history: History, context: Context) -> Case:
    case = Case(judged=dict.fromkeys(CLAIMS, 0))
    addresses, acts, orders = _addresses(history), faults(history), Orders(history)
    elected = (context.settings or {}).get(MODE) != PAIR
    said = sightings(history, OBSERVE_ROUTE, RouteView)
    ends = [s.at for s in said]
    reported: set[tuple[str, str, str, Interval]] = set()
    for calm in _calm(history, context.eviction_ns):
        time, gone = calm.lull.time, calm.lull.state.gone
        for s in said[slice_between(ends, time)]:
            if s.begun_ns < calm.since_ns or not time.holds(s.begun, s.at):
                continue
            for name, nodes in sorted(context.broker_sets.items()):
                known = {n: addresses[n] for n in nodes if n in addresses}
                since_ns = time.at_ns - context.recovery_ns
                still = elected or orders.opened_without(name, nodes[0], s.begun, s.at)
                still = still or _recently(acts, [s.view.node, *nodes[1:]], since_ns)
                for claim, found in (
                    *_silent(name, s, known, gone, calm),
                    *(() if still else _acting(name, s, nodes, known, gone)),
                ):
                    case.judged[claim] += 1
                    key = (claim, s.view.node, name, time)
                    if found is not None and key not in reported:
                        reported.add(key)
                        case.found.append(found)
    case.counts = {f"answers-{claim}": n for claim, n in case.judged.items()}
    return case


def _addresses(history: History) -> Mapping[str, str]:
    """Where brokers are; not those that were at several addresses."""
    found: dict[str, set[str]] = defaultdict(set)
    for s in replica_sightings(history):
        found[s.view.node].add(s.view.address)
    return {node: min(of) for node, of in found.items() if len(of) == 1}


def _calm(history: History, bound_ns: int) -> Iterator[Calm]:
    """Lulls in which nobody is impaired, and no packet of a former cut is under way any more."""
    before_ns = next((act.begun_ns for act in faults(history)), 0)  # when the last lull ended
    troubled_ns = grace_ns = 0  # since when; until when
    troubled = False
    for lull in lulls(history):
        state, time = lull.state, lull.time
        if state.cuts or state.doubtful or time.doubt:
            troubled_ns = troubled_ns if troubled else before_ns
            troubled = True
        else:
            if troubled:
                grace_ns = 2 * time.at_ns - troubled_ns
                troubled = False
            yield Calm(lull, max(time.at_ns, grace_ns) + bound_ns)
        before_ns = time.until_ns


def _recently(acts: Sequence[Fault], nodes: Sequence[str], since_ns: int) -> bool:
    """Whether an act on any of some nodes was under way after a time."""
    return any(
        (act.ended_ns or act.begun_ns) > since_ns and not set(nodes).isdisjoint(act.nodes)
        for act in acts
        if act.kind != "question" and not act.harmless
    )


def _silent(
    name: str, s: Said, known: Mapping[str, str], gone: frozenset[str], calm: Calm
) -> Iterator[tuple[str, Found | None]]:
    listed = s.view.sets.get(name, {}).values()
    for node, address in known.items():
        if node in gone:
            yield "N4", _stays(name, s, node, address, calm) if address in listed else None


def _acting(
    name: str, s: Said, nodes: Sequence[str], known: Mapping[str, str], gone: frozenset[str]
) -> Iterator[tuple[str, Found | None]]:
    running = [n for n in nodes[1:] if n not in gone]
    if nodes[0] not in gone or not running or running[0] not in known:
        return
    for shown in shown_in(s):
        if shown.set == name:
            wrong = next(
                (
                    (topic, addresses.get(MASTER_ROLE))
                    for topic, (addresses, _) in shown.routes.items()
                    if addresses.get(MASTER_ROLE) != known[running[0]]
                ),
                None,
            )
            yield "N12", None if wrong is None else _other(name, s, running[0], *wrong)


def _stays(name: str, s: Said, node: str, address: str, calm: Calm) -> Found:
    for_ns = s.begun_ns - calm.lull.time.at_ns
    said = (
        f"Broker set {name}: {node} at {address} says nothing, {for_ns / 1e9:.1f} s after the last "
        f"act, and {s.view.node} still lists it (op {s.at}). It must be evicted "
        f"{(calm.since_ns - calm.lull.time.at_ns) / 1e9:g} s after that."
    )
    detail = {"set": name, "node": node, "namesrv": s.view.node, "for-ms": for_ns // 1_000_000}
    return Found("N4", "silent-broker-listed", (s.at,), said, detail)


def _other(name: str, s: Said, node: str, topic: str, shown: str | None) -> Found:
    said = (
        f"Broker set {name}: its master is gone, and {node} is the smallest slave that runs. The "
        f"route of {topic} by {s.view.node} shows {shown or 'nobody'} as master (op {s.at})."
    )
    detail = {"set": name, "node": node, "namesrv": s.view.node, "listed": shown}
    return Found("N12", "other-slave-shown", (s.at,), said, detail)
