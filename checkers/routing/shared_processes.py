"""Containers: what their brokers share takes no broker along, and each comes back for itself.

- B8: a container has ended, with brokers of several sets. Of a set whose master was in it, the
  slave elsewhere acts (the answers that A1 judges). Once the container has been started, name
  servers list each of its brokers again, those of pairs in the role of their files: under the
  conditions of N6, which ask nothing of its neighbours.
- B14: a broker of a container ended by itself, as the disk failed it alone. A neighbour to which
  nothing was done answers after that, and was not found ended.

Claims: B8, B14 (docs/spec/acting-master.md 2.7).
"""

from collections.abc import Iterator, Mapping, Sequence

from maxq.checkers.core.api import Context, Verdict, unreadable
from maxq.checkers.core.promises import MODE, PAIR
from maxq.checkers.evidence.faults import Fault, faults
from maxq.checkers.evidence.nodes import acting
from maxq.checkers.evidence.nodes.looks import ended_by_themselves
from maxq.checkers.evidence.observations import replica_sightings, sightings
from maxq.checkers.evidence.quiescence import Undisturbed
from maxq.checkers.evidence.verdicts import Case, Found, rule
from maxq.checkers.routing.route_completeness import (
    Living,
    Welcome,
    by_broker,
    following,
    undisturbed_replicas,
    unordered,
)
from maxq.checkers.routing.routes import controllers_of
from maxq.histories.fault_facts import FAIL_STORE
from maxq.histories.history import History
from maxq.histories.observed import OBSERVE_ROUTE, RouteView
from maxq.histories.op import HistoryError

SHARED = 2  # brokers of a container, at least, for one to be a neighbour

Judged = tuple[str, tuple[object, ...], Found | None]  # claim, what is found once, what is wrong


class SharedProcesses:
    """The checker. See the module's text."""

    name = "shared-processes"
    claims = ("B8", "B14")

    def check(self, history: History, context: Context) -> Verdict:
        try:
            return rule(self, history, context, _case(history, context))
        except HistoryError as error:
            return unreadable(self, error)


def _case(history: History, context: Context) -> Case:
    case, reported = Case(judged={"B8": 0, "B14": 0}), set[tuple[object, ...]]()
    beside = {
        node: tuple(other for other in nodes if other != node)
        for nodes in context.containers.values()
        for node in nodes
        if len(nodes) >= SHARED
    }
    judged = (
        *_acted_for(history, context, beside),
        *_returned(history, context, beside),
        *_went_on(history, beside),
    )
    for claim, key, found in judged:
        case.judged[claim] += 1
        if found is not None and (claim, key) not in reported:
            reported.add((claim, key))
            case.found.append(found)
    case.counts = {f"answers-{claim}": n for claim, n in case.judged.items()}
    return case


Beside = Mapping[str, Sequence[str]]  # broker -> its neighbours


def _acted_for(history: History, context: Context, beside: Beside) -> Iterator[Judged]:
    """Slaves of a master that ended together with neighbours."""
    if not _pairs(context):
        return
    for lull, name, claim, found in acting.answers(history, context):
        master = context.broker_sets[name][0]
        if claim == "A1" and lull.state.gone.intersection(beside.get(master, ())):
            why = found and _nobody(found, name, master, beside[master])
            yield "B8", (lull.time.at, name), why


def _returned(history: History, context: Context, beside: Beside) -> Iterator[Judged]:
    """Answers of name servers about brokers whose container was started."""
    acts, pairs = faults(history), _pairs(context)
    starts = {act.ended: act for act in acts if act.may_start and act.ended is not None}
    answers = unordered(history, sightings(history, OBSERVE_ROUTE, RouteView))
    controllers = None if pairs else controllers_of(history)
    welcome = Welcome(answers, acts, controllers, context.recovery_ns)
    living = undisturbed_replicas(replica_sightings(history), answers, welcome)
    # Who leads, or did so until a while ago, may not be the master any more (N6).
    due = living if pairs else following([*living], acts, context.recovery_ns)
    for one in due:
        node, act = one.broker.view.node, starts.get(one.span.at)
        together = act is not None and {node, *beside.get(node, ())} <= {*act.nodes}
        if act is None or not (one.due and together and node in beside):
            continue
        role = str(context.broker_sets[one.broker.view.set].index(node)) if pairs else ""
        why = None if one.lists(role) else _otherwise(one, act, role)
        yield "B8", (node, one.answer.view.node, one.span), why


def _went_on(history: History, beside: Beside) -> Iterator[Judged]:
    """Neighbours of brokers that ended by themselves."""
    acts = [act for act in faults(history) if act.kind != "question"]
    failed = [a for a in acts if a.f == FAIL_STORE and a.holds and a.ended is not None]
    if not failed:
        return
    undisturbed, lives = Undisturbed(acts), by_broker(replica_sightings(history))
    ended = [*ended_by_themselves(history)]
    for act in failed:
        over = act.begun if act.ended is None else act.ended
        for node in sorted({n for struck in act.nodes for n in beside.get(struck, ())}):
            span = undisturbed.of([node]).at(act.begun)
            if node in act.nodes or span is None or not span.holds(act.begun, over):
                continue
            gone = [e for e in ended if e.node == node and over < e.begun <= span.until]
            later = [s for s in lives.get(node, ()) if span.holds(s.begun, s.at) and s.begun > over]
            if gone:
                yield "B14", (node, act.begun), _taken_along(node, act, gone[0].at)
            elif later:
                yield "B14", (node, act.begun), None


def _pairs(context: Context) -> bool:
    return (context.settings or {}).get(MODE) == PAIR


def _nobody(found: Found, name: str, master: str, neighbours: Sequence[str]) -> Found:
    said = (
        f"{found.said} The container of {master} had ended, with {', '.join(neighbours)} in it "
        "as well; each of its sets has a slave elsewhere."
    )
    return Found("B8", "set-of-container-without-master", found.ops, said, {"set": name})


def _otherwise(one: Living, act: Fault, role: str) -> Found:
    view, s = one.broker.view, one.answer
    listed = s.view.sets.get(view.set, {})
    place = next((r for r, address in sorted(listed.items()) if address == view.address), None)
    what = "does not list it" if place is None else f"lists it with id {place}, not {role}"
    said = (
        f"{view.node} of broker set {view.set} came back with its container ({act.f}, op "
        f"{act.begun}). Nothing was done to it since, and {s.view.node} {what} (op {s.at})."
    )
    detail = {"set": view.set, "node": view.node, "namesrv": s.view.node, "id": place}
    return Found("B8", "returned-otherwise", (act.begun, s.at), said, detail)


def _taken_along(node: str, act: Fault, at: int) -> Found:
    struck = ", ".join(act.nodes)
    said = (
        f"The disk failed {struck} alone (op {act.begun}), which ended by itself. Nothing was done "
        f"to {node} in the same container, and it was found ended as well (op {at})."
    )
    detail = {"node": node, "beside": list(act.nodes)}
    return Found("B14", "neighbour-ended", (act.begun, at), said, detail)
