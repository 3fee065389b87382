"""What slaves say of acting in calm times, and what is wrong with it.

Judged by `maxq.checkers.replication.pairs.acting`, whose text says when, and of containers by
`maxq.checkers.routing.shared_processes`.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from maxq.checkers.core.api import Context
from maxq.checkers.core.promises import nobody_is_to_act
from maxq.checkers.evidence.observations import Sighting, replica_sightings, sightings
from maxq.checkers.evidence.quiescence import Lull, calm
from maxq.checkers.evidence.verdicts import Found
from maxq.histories.history import History
from maxq.histories.observed import MASTER_ROLE, OBSERVE_ROUTE, ReplicaView, RouteView

Said = Sighting[ReplicaView]


def answers(history: History, context: Context) -> Iterator[tuple[Lull, str, str, Found | None]]:
    """Each answer of a slave in a quiet period: of which set, under which claim, what is wrong."""
    said: dict[str, list[Said]] = defaultdict(list)
    for s in replica_sightings(history):
        if isinstance(s.view.acting, bool):
            said[s.view.node].append(s)
    out_ns = _isolated(history, context, said)
    nobody = nobody_is_to_act(context.settings)
    for lull in calm(history):
        for name, nodes in sorted(context.broker_sets.items()):
            for claim, found in _judged(name, nodes, lull, said, out_ns[name], context):
                if not (claim == "A1" and nobody):
                    yield lull, name, claim, found


def _isolated(
    history: History, context: Context, said: Mapping[str, Sequence[Said]]
) -> dict[str, list[int]]:
    """When each set's master was isolated, by the begins (ns) of the questions that showed it."""
    routes = sightings(history, OBSERVE_ROUTE, RouteView)
    found = {}
    for name, nodes in context.broker_sets.items():
        own = said.get(nodes[0], ())
        if any(isinstance(s.view.isolated, bool) for s in own):
            found[name] = [s.begun_ns for s in own if s.view.isolated is True]
        else:
            missing = (r for r in routes if MASTER_ROLE not in r.view.sets.get(name, {}))
            found[name] = [r.begun_ns for r in missing]
    return found


def _judged(
    name: str,
    nodes: Sequence[str],
    lull: Lull,
    said: Mapping[str, Sequence[Said]],
    out_ns: Sequence[int],
    context: Context,
) -> Iterator[tuple[str, Found | None]]:
    """What each answer of a set's slaves in a lull comes to: of which claim, and what is wrong."""
    time, gone, bound_ns = lull.time, lull.state.gone, context.shrink_ns
    running = [n for n in nodes[1:] if n not in gone]
    for node in running:
        own_ns = [s.begun_ns for s in said.get(node, ()) if s.view.isolated is True]
        for s in said.get(node, ()):
            late = s.begun_ns >= time.at_ns + bound_ns
            if not late or not time.holds(s.begun, s.at):
                continue
            acts = s.view.acting is True
            if nodes[0] not in gone:
                if _lately(out_ns, s, bound_ns):
                    continue
                yield "A3", _beside(name, s, nodes[0], bound_ns) if acts else None
            elif node == running[0]:
                joins = s.begun_ns < time.at_ns + context.recovery_ns
                if not acts and joins and _lately(own_ns, s, bound_ns):
                    continue
                yield "A1", None if acts else _nobody(name, s, nodes[0], bound_ns)
            else:
                yield "A2", _second(name, s, nodes[0], bound_ns) if acts else None


def _lately(times_ns: Sequence[int], s: Said, bound_ns: int) -> bool:
    """Whether one of some times is so shortly before an answer."""
    return any(s.begun_ns - bound_ns <= ns <= s.begun_ns for ns in times_ns)


def _nobody(name: str, s: Said, master: str, bound_ns: int) -> Found:
    said = (
        f"Broker set {name}: {master}, its master, is gone for longer than {bound_ns / 1e9:g} s. "
        f"{s.view.node}, the smallest slave that runs, does not act for it (op {s.at})."
    )
    return Found("A1", "nobody-acts", (s.at,), said, _detail(name, s, master))


def _second(name: str, s: Said, master: str, bound_ns: int) -> Found:
    said = (
        f"Broker set {name}: {master}, its master, is gone for longer than {bound_ns / 1e9:g} s. "
        f"{s.view.node} acts for it beside a smaller slave that runs (op {s.at})."
    )
    return Found("A2", "second-acts", (s.at,), said, _detail(name, s, master))


def _beside(name: str, s: Said, master: str, bound_ns: int) -> Found:
    said = (
        f"Broker set {name}: {master}, its master, runs, undisturbed for longer than "
        f"{bound_ns / 1e9:g} s, and {s.view.node} acts beside it (op {s.at})."
    )
    return Found("A3", "acts-beside-master", (s.at,), said, _detail(name, s, master))


def _detail(name: str, s: Said, master: str) -> dict[str, Any]:
    return {"set": name, "node": s.view.node, "master": master}
