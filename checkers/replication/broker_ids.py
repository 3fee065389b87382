"""Broker ids: one owner each, kept as long as its store, and none known that no broker ever held.

Owners of an id are **incarnations** (a node between two removals of its store) and applicants (a
register code of its own). A node says its id itself (`observe-replica`, `join`); an applicant is
given one (`apply-id`). An id that was given out stays given out, also after its owner's store is
gone, so two owners of one id break S1 whenever they held it. A sighting that overlaps a removal
could be of either incarnation, and one after a removal with an unknown outcome too: those break
S1 only against other nodes, and S2 never.

An id that controllers know and no broker ever held is a ghost, where there are more of them than
owners who were never asked.

Not judged: two ids at one address. A wiped broker comes back under a new id at its old address, and
its old id stays registered there; the same is seen while a broker has not yet registered its
new address. Counted as ``addresses-shared``. That an id survives a change of address is S2.

Each set is judged alone (`judge_set`), from rows that say who held which id. Sets of applicants
alone, of which there are many, are judged by arrays (`applicants`).

Claims: S1, S2 (docs/spec/controller-ha.md 6.3). Hazards: docs/spec/controller-ha.md 6.4 (H10, H11),
and a torn identity file.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from maxq.checkers.core.api import Context, Verdict
from maxq.checkers.core.keyed import Event, KeyedChecker
from maxq.checkers.evidence.eras import Eras, eras_of
from maxq.checkers.evidence.observations import (
    SetSighting,
    begin,
    listed,
    of_sets,
    registered,
    replica_sightings,
    set_sightings,
    shaped,
    sighting,
)
from maxq.checkers.evidence.quiescence import after_acts
from maxq.checkers.evidence.verdicts import Case, Found, power_lost, rule
from maxq.checkers.replication.wipes import Held, OfNode, Wipes
from maxq.histories.history import History
from maxq.histories.observed import (
    APPLY_ID,
    JOIN,
    OBSERVE_CONTROLLER,
    OBSERVE_REPLICA,
    ControllerView,
    ReplicaView,
    decoded,
)

if TYPE_CHECKING:  # a short run needs no arrays
    from maxq.checkers.core.columnar import Dealing, Groups, Unsure
    from maxq.histories.columns.rows import Rows
    from maxq.histories.columns.scan import Ints


class _Applied(msgspec.Struct):
    set: str
    code: str | int
    id: int


class _Applying(msgspec.Struct):
    set: str


class _Joined(msgspec.Struct):
    node: str
    set: str
    id: int


class Known(NamedTuple):
    """What is not of one set: removals of stores, the last operation of the nemesis, the sets of
    the cluster, and those of which anything but an applicant says something."""

    wipes: Wipes
    healed: int
    sets: frozenset[str]
    named: frozenset[str]
    eras: Eras


class Row(NamedTuple):
    """A node of a set, an id that was held in it, what a controller said of it, or an applicant
    that may have an id of it unseen."""

    node: str | None = None
    held: Held | None = None
    view: SetSighting | None = None
    applying: bool = False


class SetIds(NamedTuple):
    """What was found in one set. `last` is the last answer of a controller, `healed` the last one
    that was asked for after everything was healed. Ids are those of a set of the cluster."""

    found: list[Found]
    owners: int
    sightings: int
    again: int  # sightings of owners that had been seen before
    incarnations: frozenset[tuple[str, int]] = frozenset()  # of nodes, that surely had an id
    ids: frozenset[int] = frozenset()
    nodes: frozenset[str] = frozenset()
    applying: int = 0
    last: SetSighting | None = None
    healed: SetSighting | None = None


class BrokerIds(KeyedChecker):
    """The checker. See the module's text."""

    name = "broker-ids"
    claims = ("S1", "S2")
    reads = frozenset((OBSERVE_REPLICA, OBSERVE_CONTROLLER, APPLY_ID, JOIN))

    def prepare(self, history: History, context: Context) -> Known:
        sets = frozenset(context.broker_sets)
        acts, named = after_acts(history).at, frozenset(_named(history))
        return Known(Wipes(history), acts, sets, named, eras_of(history))

    def rows(self, event: Event, known: Known) -> Iterator[tuple[str, Row]]:
        op = event.op
        if op.f == APPLY_ID and op.type != "ok":
            yield from _applying(event, known.sets)
            return
        if op.type != "ok":
            return
        begun, _ = begin(op, event.begun)
        if op.f == OBSERVE_CONTROLLER:
            for name, seen in of_sets(sighting(op, event.begun, ControllerView), known.eras):
                yield name, Row(view=seen)
        elif op.f == OBSERVE_REPLICA:
            view = decoded(op, ReplicaView)
            yield view.set, Row(view.node, known.wipes.held(view.node, view.id, begun, op.index))
        elif op.f == JOIN:
            joined = shaped(op.value, _Joined, op.index)
            held = known.wipes.held(joined.node, joined.id, begun, op.index)
            yield joined.set, Row(joined.node, held)
        else:
            reported = shaped(op.value, _Applied, op.index)
            yield (
                reported.set,
                Row(None, Held(f"applicant {reported.code}", 0, 0, reported.id, op.index)),
            )

    def columns(self, rows: "Rows", chosen: "Ints", known: Known) -> "Dealing":
        from maxq.checkers.replication.applicants import elements

        return elements(rows, chosen, known.sets, known.named, lambda e: self.rows(e, known))

    def judge_groups(self, groups: "Groups", known: Known) -> "list[SetIds | Unsure]":
        """Of sets that nothing but applicants named, in which each has an id of its own."""
        from maxq.checkers.core.columnar import UNSURE
        from maxq.checkers.replication.applicants import owners

        counted = zip(groups.keys, *owners(groups), strict=True)
        return [
            UNSURE if own < 0 or key in known.sets else SetIds([], own, seen, seen - own)
            for key, own, seen in counted
        ]

    def judge(self, key: str, rows: Sequence[Row], known: Known, more: object = None) -> SetIds:
        held = [row.held for row in rows if row.held is not None]
        views = [row.view for row in rows if row.view is not None]
        nodes = frozenset(row.node for row in rows if row.node is not None)
        of_nodes = {f"node {node}" for node in nodes}
        return SetIds(
            found=list(judge_set(key, held)),
            owners=len({(h.owner, h.low, h.high) for h in held}),
            sightings=len(held),
            again=len(held) - len({(h.owner, h.low) for h in held}),
            incarnations=frozenset(
                (h.owner, h.low) for h in held if h.low == h.high and h.owner in of_nodes
            ),
            ids=frozenset(h.id for h in held) if key in known.sets else frozenset(),
            nodes=nodes,
            applying=sum(row.applying for row in rows),
            last=views[-1] if views else None,
            healed=_last(views, known.healed),
        )

    def conclude(
        self, history: History, context: Context, known: Known, results: Mapping[str, SetIds]
    ) -> Verdict:
        return rule(self, history, context, _case(history, context, known, results))


def judge_set(name: str, held: Sequence[Held]) -> Iterator[Found]:
    """Find what is wrong with the owners of one set's ids."""
    yield from _changed(name, held)
    yield from _duplicates(name, held)


def _changed(name: str, held: Sequence[Held]) -> Iterator[Found]:
    """S2: one incarnation with two ids; one finding for each further id."""
    ids: dict[tuple[str, int], dict[int, Held]] = defaultdict(dict)
    for h in held:
        if h.low != h.high:
            continue
        before = ids[h.owner, h.low]
        if before and h.id not in before:
            first = next(iter(before.values()))
            said = (
                f"Broker set {name}: {h.owner} held id {first.id} in op {first.at} and id {h.id} "
                f"in op {h.at}, and its store was not removed between. It is now another broker to "
                "the controllers, and the SyncStateSet may keep counting on a replica that is gone."
            )
            detail = {"set": name, "owner": h.owner, "ids": [first.id, h.id]}
            yield Found("S2", "id-changed", (first.at, h.at), said, detail)
        before.setdefault(h.id, h)


def _duplicates(name: str, held: Sequence[Held]) -> Iterator[Found]:
    """S1: one id with two owners; one finding for each further owner."""
    by_id: dict[int, dict[str, Held]] = defaultdict(dict)
    reborn: dict[tuple[int, str], Held] = {}  # the holder whose incarnation ends first
    reported: set[tuple[int, str]] = set()
    for h in held:
        owners = by_id[h.id]
        if owners and h.owner not in owners:
            yield _duplicate(name, next(iter(owners.values())), h)
        owners.setdefault(h.owner, h)
        key = (h.id, h.owner)
        first = reborn.setdefault(key, h)
        if h.high < first.high:
            first = reborn[key] = h
        if first.high < h.low and key not in reported:
            reported.add(key)
            yield _duplicate(name, first, h)


def _duplicate(name: str, a: Held, b: Held) -> Found:
    again = ", whose store had been removed in between," if a.owner == b.owner else ""
    said = (
        f"Broker set {name}: id {a.id} belongs to {a.owner} (op {a.at}) and to {b.owner} "
        f"(op {b.at}){again} although an id is given out once. Controllers cannot distinguish the "
        "two: what one acknowledges counts for the other."
    )
    detail = {"set": name, "id": a.id, "owners": [a.owner, b.owner]}
    return Found("S1", "duplicate-id", (a.at, b.at), said, detail)


# All sets together.


def _case(history: History, context: Context, known: Known, results: Mapping[str, SetIds]) -> Case:
    case = Case(found=[f for of_set in results.values() for f in of_set.found])
    ghosts = _Ghosts(history, context, known.wipes, results)
    judged = 0
    for name in sorted(context.broker_sets):
        of_set = results.get(name)
        excused = None if of_set is None else ghosts.excused(name, of_set)
        if of_set is not None and of_set.healed is not None and excused is not None:
            found = [*_strangers(name, of_set.healed, of_set.ids, excused)]
            judged += bool(found) or not excused
            case.found += found
    again = sum(of_set.again for of_set in results.values())
    owners = [of_set.owners for of_set in results.values() if of_set.owners]
    last = (of_set.last for of_set in results.values())
    case.judged = {"S1": sum(n for n in owners if n > 1), "S2": again + judged}
    case.counts = {
        "sets": len(owners),
        "owners": sum(owners),
        "sightings": sum(of_set.sightings for of_set in results.values()),
        "wipes": known.wipes.count,
        "sets-without-ghosts-proved": judged,
        "addresses-shared": sum(_shared(seen) for seen in last if seen is not None),
    }
    least, ok = context.ok_ops_min.get(APPLY_ID, 0), history.totals[APPLY_ID, "ok"]
    if ok < least:
        case.doubt("S1", f"only {ok} ok {APPLY_ID}, {least} needed", "--time-limit: a longer run")
    if not owners:
        case.doubt("S1", "no broker was seen with an id")
    if not again:
        case.doubt("S2", "no owner of an id was seen twice", "--time-limit: a longer run")
    return case


class _Ghosts:
    """How much of the controllers' table can be compared with everybody who ever had an id."""

    def __init__(
        self, history: History, context: Context, wipes: Wipes, sets: Mapping[str, SetIds]
    ) -> None:
        self._context = context
        self._wipes = wipes
        # Before its identity is durable a broker may forget that it applied for an id.
        self._powerless = power_lost(history)
        known = {n for of_set in sets.values() for n in of_set.nodes}
        known |= {n for names in context.broker_sets.values() for n in names}
        self._strays = {n for n in _joining(history) if n not in known}

    def excused(self, name: str, of_set: SetIds) -> int | None:
        """How many ids of a set may have an owner that no answer showed: an incarnation of a
        node, or an applicant. None: unknown."""
        if self._powerless:
            return None
        seen, count = of_set.incarnations, of_set.applying
        for node in {*self._context.broker_sets[name], *of_set.nodes, *self._strays}:
            wiped = self._wipes.most(node)
            if wiped is None:
                return None
            count += sum((f"node {node}", n) not in seen for n in range(wiped + 1))
        return count


def _joining(history: History) -> Iterator[str]:
    """Nodes that came up, or may have."""
    for op in history.of_f(JOIN):
        if op.is_client and op.type == "invoke":
            yield shaped(op.value, OfNode, op.index).node


def _applying(event: Event, sets: frozenset[str]) -> Iterator[tuple[str, Row]]:
    """The set of the cluster in which an applicant may have an id that no answer showed."""
    op = event.op if event.open else event.begun
    if op is not None and (event.open or event.op.type == "info"):
        name = shaped(op.value, _Applying, op.index).set
        if name in sets:
            yield name, Row(applying=True)


def _named(history: History) -> Iterator[str]:
    """The sets of which brokers and controllers say something."""
    yield from set_sightings(history)
    yield from (s.view.set for s in replica_sightings(history))
    for op in history.of_f(JOIN):
        if op.is_client and op.type == "ok":
            yield shaped(op.value, _Joined, op.index).set


def _last(seen: Sequence[SetSighting], healed: int) -> SetSighting | None:
    return max((s for s in seen if s.begun > healed), key=lambda s: s.at, default=None)


def _strangers(name: str, last: SetSighting, ids: frozenset[int], excused: int) -> Iterator[Found]:
    """Ids that no broker held, if they are more than those may have who were never asked."""
    table = registered(last.view, last.at)
    strange = sorted(set(table) - ids)
    if len(strange) <= excused:
        return
    others = f", and {excused} more may have one of {listed(strange)}" if excused else ""
    for broker_id in strange:
        said = (
            f"Broker set {name}: {last.node} has id {broker_id} registered at "
            f"{table[broker_id]} (op {last.at}), and no broker of the history ever held it. "
            f"Held were {listed(sorted(ids))}{others}. A broker was given an id and forgot it."
        )
        detail = {"set": name, "id": broker_id, "held": sorted(ids), "excused": excused}
        yield Found("S2", "ghost-replica", (last.at,), said, detail)


def _shared(seen: SetSighting) -> int:
    """How many ids have an address that another id has too."""
    addresses = list(seen.view.replicas.values())
    return len(addresses) - len(set(addresses))
