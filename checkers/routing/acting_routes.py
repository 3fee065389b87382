"""Acting routes: what a name server shows of a broker set whose master is gone, and once it is
back.

- N2: a group without a master, of brokers that know acting masters, may not be written to.
- N3: where a route differs from the group as it is, it shows the smallest id of a masterless group
  as the master, and the others as they are; such a group knows acting masters and may not be
  written to.
- N8: once the master of such a group is registered again, the group may be written to at once.

A master that comes back under another id takes its entry along, and the write permission is taken
when the smallest id registers again (RocketMQ strips it there, and where a broker leaves). So N2 is
not judged of such a group before that is due (`Context.relisting_ns`).

An operator's orders count as well: once write permission was given by hand (327), N2 is not judged
of that set before its master is seen again, and N8 not while it is taken by hand (205).

One operation asks for the raw table, then for the routes, then for the raw group. Where the two are
alike the routes are of the same group, unless it changed twice in between; so what is wrong counts
where two answers in succession show it of one group, which then had to change four times.

Claims: N2, N3, N8 (docs/spec/acting-master.md 8.1).
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from maxq.checkers.core.api import Context, Verdict, unreadable
from maxq.checkers.evidence.observations import NEVER, Sighting, sightings
from maxq.checkers.evidence.orders import Orders
from maxq.checkers.evidence.verdicts import Case, Found, rule
from maxq.histories.history import History
from maxq.histories.observed import MASTER_ROLE, OBSERVE_ROUTE, WRITE, RouteView
from maxq.histories.op import HistoryError

Said = Sighting[RouteView]
Addresses = Mapping[str, str]  # by role id
LASTING = ("N2", "N8")  # judged until an act of unknown effect, which may change permissions


class Shown(NamedTuple):
    """A broker set in one answer: as it is, and how each topic's route shows it.

    `steady`: it was asked for again after the routes, and had not changed. `flagged`: its brokers
    know acting masters.
    """

    set: str
    raw: Addresses
    routes: Mapping[str, tuple[Addresses, int]]  # by topic: addresses, permission
    steady: bool
    flagged: bool

    @property
    def masterless(self) -> bool:
        return MASTER_ROLE not in self.raw


class ActingRoutes:
    """The checker. See the module's text."""

    name = "acting-routes"
    claims = ("N2", "N3", "N8")

    def check(self, history: History, context: Context) -> Verdict:
        try:
            return rule(self, history, context, _case(history, context))
        except HistoryError as error:
            return unreadable(self, error)


def shown_in(s: Said) -> Iterator[Shown]:
    """What an answer says of each broker set of which it shows a topic."""
    view = s.view
    for name, raw in sorted(view.sets.items()):
        routes = {
            topic: (view.shown.get(topic, {}).get(name, raw), perms[name])
            for topic, perms in sorted((view.perms or {}).items())
            if name in perms
        }
        steady = view.groups.get(name) == raw
        if routes:
            yield Shown(name, raw, routes, steady, name in view.acting)


def _case(history: History, context: Context) -> Case:
    case = Case(judged=dict.fromkeys(ActingRoutes.claims, 0))
    before: dict[tuple[str, str, str], tuple[Said, Shown]] = {}  # of claim, name server and set
    masterless: set[tuple[str, str]] = set()
    mastered: dict[tuple[str, str], int] = {}  # the last question whose answer showed a master
    demoted = _Demoted(context.relisting_ns)
    orders = Orders(history)
    reported: set[tuple[str, str, str]] = set()
    strange = (op.index for op in history.nemesis if not history.kinds.knows(op.f))
    until = min(strange, default=NEVER)
    for s in sightings(history, OBSERVE_ROUTE, RouteView):
        for shown in shown_in(s):
            place = s.view.node, shown.set
            back = place in masterless and not shown.masterless
            if shown.masterless and shown.steady:
                masterless.add(place)
            if not shown.masterless:
                mastered[place] = s.begun
            moved = demoted.lately(place, s, shown)
            for claim, wrong in _judged(shown, back=back):
                if claim in LASTING and s.at > until:
                    continue
                if claim == "N2" and moved:
                    continue
                if claim == "N2" and orders.opened(shown.set, s.at, mastered.get(place, -1)):
                    continue
                if claim == "N8" and orders.closed(shown.set, s.begun, s.at):
                    continue
                case.judged[claim] += 1
                key = (claim, *place)
                first = before.pop(key, None)
                if not wrong:
                    reported.discard(key)
                elif first is None or first[0].at >= s.begun or first[1] != shown:
                    before[key] = s, shown
                elif key not in reported:
                    reported.add(key)
                    case.found.append(_found(claim, wrong, (first[0], s), shown))
    case.counts = {f"answers-{claim}": n for claim, n in case.judged.items()}
    return case


class _Demoted:
    """Groups whose master is listed under another id: since when."""

    def __init__(self, bound_ns: int) -> None:
        self._bound_ns = bound_ns
        self._master: dict[tuple[str, str], str] = {}  # the last address of a master
        self._since_ns: dict[tuple[str, str], int] = {}

    def lately(self, place: tuple[str, str], s: Said, shown: Shown) -> bool:
        """Whether an answer shows such a group, and the smallest id need not have registered."""
        if not shown.masterless:
            self._master[place] = shown.raw[MASTER_ROLE]
            self._since_ns.pop(place, None)
            return False
        if self._master.get(place) not in shown.raw.values():
            return False
        since_ns = self._since_ns.setdefault(place, s.at_ns)
        return s.begun_ns <= since_ns + self._bound_ns


def _judged(shown: Shown, *, back: bool) -> Iterator[tuple[str, str]]:
    """The claims that an answer could break, each with what is wrong, in words; empty: nothing."""
    if shown.steady and shown.masterless and shown.flagged:
        open_ = [t for t, (_, perm) in shown.routes.items() if perm & WRITE]
        yield "N2", f"topic {open_[0]} of it may be written to" if open_ else ""
    if shown.steady:
        yield "N3", next(filter(None, (_otherwise(shown, t) for t in shown.routes)), "")
    if back and (shown.steady or all(perm & WRITE for _, perm in shown.routes.values())):
        closed = [t for t, (_, perm) in shown.routes.items() if not perm & WRITE]
        yield "N8", f"topic {closed[0]} of it may not be written to" if closed else ""


def _otherwise(shown: Shown, topic: str) -> str:
    """What is wrong with how a route shows a group that it may only show with an acting master."""
    addresses, perm = shown.routes[topic]
    if addresses == shown.raw:
        return ""
    if not shown.masterless or not shown.raw:
        return f"the route of {topic} shows {_plain(addresses)}"
    smallest = min(shown.raw, key=lambda role: (len(role), role))
    others = {i: a for i, a in shown.raw.items() if i != smallest}
    if addresses != {MASTER_ROLE: shown.raw[smallest], **others}:
        return f"the route of {topic} shows {_plain(addresses)}, and the smallest id is {smallest}"
    if not shown.flagged:
        return f"the route of {topic} shows broker {smallest} as master, and it does not know that"
    if perm & WRITE:
        return f"the route of {topic} shows broker {smallest} as master, and it may be written to"
    return ""


def _found(claim: str, wrong: str, both: tuple[Said, Said], shown: Shown) -> Found:
    node, ops = both[0].view.node, tuple(s.at for s in both)
    said = (
        f"Broker set {shown.set}: before and after {node} answered with routes it knew "
        f"{_plain(shown.raw)} of it. In between {wrong} (ops {ops[0]} and {ops[1]})."
    )
    detail: dict[str, Any] = {
        "set": shown.set,
        "namesrv": node,
        "group": dict(shown.raw),
        "routes": {t: [dict(a), perm] for t, (a, perm) in shown.routes.items()},
    }
    match claim:
        case "N2":
            said += " Clients send to it, and a slave takes nothing."
            return Found("N2", "masterless-writable", ops, said, detail)
        case "N3":
            said += " Clients go to whom a route names as master."
            return Found("N3", "shown-otherwise", ops, said, detail)
        case _:
            said += " Its master is back, and clients do not send to it."
            return Found("N8", "master-not-writable", ops, said, detail)


def _plain(addresses: Addresses) -> str:
    if not addresses:
        return "nobody"
    return ", ".join(f"{i} at {address}" for i, address in sorted(addresses.items()))
