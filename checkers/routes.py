"""Routes: what name servers tell clients of a broker set is possible, and the dead leave it.

Of single answers (N1): an address has one id of a set. Of answers over time (N5): a broker whose
process was seen to be gone is in nobody's routes once the bound for a silent member is over. Only
so much is certain of N5: the process was killed or stopped, so its connections ended; nothing else
had been done to the cluster until then (a cut holds the end of a connection back, and a pause keeps
it from being noticed); nobody was started since; and the answer was asked for after the bound.

An address is what the broker itself, asked at it, was last known by. Not judged: who is listed at
rest, since answers from after the bound for recovery are rare; that name servers agree with the
controllers on masters then is part of S13.

Claims: N1, N5 (container-acting-master 8.1).
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from checkers.api import Context, Verdict
from checkers.faults import HOLDS, Fault, faults
from checkers.ruling import Case, Found, rule, unreadable
from checkers.sightings import NEVER, Sighting, replica_sightings, sightings
from checkers.story import QUESTIONS
from histories.history import History
from histories.observed import OBSERVE_ROUTE, ReplicaView, RouteView
from histories.op import HistoryError

KILLS, STARTS = frozenset(("kill", "terminate")), frozenset(("start", "restart"))
HARMLESS = KILLS | STARTS | QUESTIONS

Answers = Sequence[Sighting[RouteView]]


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
    claims = ("N1", "N5")

    def check(self, history: History, context: Context) -> Verdict:
        try:
            case = _judge(history, context)
        except HistoryError as error:
            return unreadable(self, error)
        return rule(self, history, context, case)


def _judge(history: History, context: Context) -> Case:
    answers = sightings(history, OBSERVE_ROUTE, RouteView)
    deaths = _deaths(faults(history), replica_sightings(history))
    late = [(d, s) for d in deaths for s in answers if _is_late(d, s, context.shrink_ns)]
    case = Case(judged={"N1": len(answers), "N5": len(late)})
    case.found = [*_twice(answers), *_listed_dead(late)]
    case.counts = {"answers": len(answers), "deaths": len(deaths), "answers-on-the-dead": len(late)}
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


def _deaths(acts: Sequence[Fault], replicas: Sequence[Sighting[ReplicaView]]) -> list[Death]:
    """Brokers that were killed or stopped, before anything else was done to the cluster."""
    disturbed = min((a.begun for a in acts if a.f not in HARMLESS), default=NEVER)
    found = []
    for act in acts:
        if act.f not in KILLS or act.ended is None or act.ended_ns is None:
            continue
        later = [a.begun for a in acts if a.f in STARTS and a.begun > act.begun]
        until = min([disturbed, *later])
        for node, done in sorted((act.result or {}).items()):
            known = [s.view for s in replicas if s.view.node == node and s.at < act.begun]
            if known and done.get(HOLDS) is True and act.ended < until:
                last = known[-1]
                found.append(Death(node, last.set, last.address, act.ended, act.ended_ns, until))
    return found


def _is_late(death: Death, s: Sighting[RouteView], bound_ns: int) -> bool:
    asked = s.begun > death.at and s.begun_ns > death.since_ns + bound_ns
    return asked and s.at < death.until


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
