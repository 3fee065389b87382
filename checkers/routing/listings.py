"""Listings: who was taken off a name server's table for a while is in it again, and several name
servers come to the same table.

A broker registers again once in a period, by RocketMQ's rule, and with that and a margin the claims
have their bounds, by the run's own keys (`maxq.checkers.core.api.Context.relisting_ns`). The tables
are the raw ones, which no acting master changes.

- N7: the connections between a name server and a broker were reset. Once the bound is over, and if
  nothing was done to either meanwhile, the broker is listed.
- N11: a name server was started, and knows nobody. Once the bound is over it lists each broker that
  runs, if nothing was done to either and no cut parts them; and none that had gone before.
- N9: with everything healed, the tables of any two name servers agree on a broker set, once neither
  has changed for the bound or an eviction, whichever is longer.

A broker counts for N7 and N11 if it answered before and after the name server did, and had
registered: it says that it is in its group, or was listed anywhere since its process began, later
than an eviction after that, by when what was left of its life before was dropped. Of brokers with
controllers only slaves count, as who leads may not be the master any more (N6).

Claims: N7, N9, N11 (docs/spec/acting-master.md 8.1).
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from maxq.checkers.core.api import Context, Verdict, unreadable
from maxq.checkers.core.promises import MODE, PAIR
from maxq.checkers.evidence.faults import HOLDS, Fault, faults, may_start
from maxq.checkers.evidence.observations import Sighting, replica_sightings, sightings
from maxq.checkers.evidence.quiescence import (
    Interval,
    Undisturbed,
    at_rest,
    lulls,
    slice_between,
)
from maxq.checkers.evidence.verdicts import Case, Found, rule
from maxq.checkers.routing.route_completeness import (
    Answers,
    Living,
    around,
    by_broker,
    by_node,
    following,
    unordered,
)
from maxq.histories.fault_facts import RESET_CONNECTIONS
from maxq.histories.history import History
from maxq.histories.observed import OBSERVE_ROUTE, RouteView
from maxq.histories.op import HistoryError

Said = Sighting[RouteView]
CLAIMS = ("N7", "N9", "N11")


class Listings:
    """The checker. See the module's text."""

    name = "listings"
    claims = CLAIMS

    def check(self, history: History, context: Context) -> Verdict:
        try:
            return rule(self, history, context, _case(history, context))
        except HistoryError as error:
            return unreadable(self, error)


def _case(history: History, context: Context) -> Case:
    case = Case(judged=dict.fromkeys(CLAIMS, 0))
    answers = unordered(history, sightings(history, OBSERVE_ROUTE, RouteView))
    reported: set[tuple[object, ...]] = set()
    judged = (
        *_living(history, answers, context),
        *_gone(history, answers, context),
        *_compared(history, answers, context),
    )
    for claim, key, found in judged:
        case.judged[claim] += 1
        if found is not None and (claim, key) not in reported:
            reported.add((claim, key))
            case.found.append(found)
    case.counts = {f"answers-{claim}": n for claim, n in case.judged.items()}
    return case


# A claim, what of it is found once, and what is wrong.
Judged = tuple[str, tuple[object, ...], Found | None]


# N7, N11: who runs.


def _living(history: History, answers: Answers, context: Context) -> Iterator[Judged]:
    """What each answer comes to that must list a broker again."""
    acts = faults(history)
    ended = {act.ended: act for act in acts if act.ended is not None}
    living = [*_relisted(history, answers, context)]
    if (context.settings or {}).get(MODE) != PAIR:
        living = [*following(living, acts, context.recovery_ns)]
    for one in living:
        act, namesrv, node = ended.get(one.span.at), one.answer.view.node, one.broker.view.node
        claim = _claim(act, namesrv, node) if act is not None and one.due else ""
        if act is not None and claim:
            missing = None if one.lists() else _missing(claim, one, act)
            yield claim, (namesrv, node, one.span), missing


def _claim(act: Fault, namesrv: str, node: str) -> str:
    """The claim that an act gives an occasion for, between a name server and a broker."""
    if act.f == RESET_CONNECTIONS:
        return "N7" if _reset(act, namesrv, node) or _reset(act, node, namesrv) else ""
    return "N11" if _starts(act, namesrv) else ""


def _reset(act: Fault, one: str, other: str) -> bool:
    """Whether an act ended connections of two nodes, by the proof of the first."""
    proof = act.result.get(one) if isinstance(act.result, dict) else None
    ends = proof.get("from") if isinstance(proof, dict) and proof.get(HOLDS) is True else None
    return isinstance(ends, dict) and bool(ends.get(other))


def _starts(act: Fault, node: str) -> bool:
    """Whether a node's process began with an act, at the address that it had."""
    return node in act.nodes and act.holds and may_start(act, node) and not act.changes_address


def _relisted(history: History, answers: Answers, context: Context) -> Iterator[Living]:
    """Each answer between two of a broker, nothing being done to it or the name server meanwhile;
    whether the broker must be listed."""
    acts = faults(history)
    undisturbed, listed = Undisturbed(acts), _listed(answers)
    for namesrv, reported in by_node(answers).items():
        for node, seen in sorted(by_broker(replica_sightings(history)).items()):
            spans = undisturbed.of([namesrv, node])
            for span, each in groupby(around(reported, seen, spans), key=lambda one: one.span):
                if span.at >= 0:
                    yield from _due(span, each, _life(acts, node, span.at), listed, context)


def _life(acts: Sequence[Fault], node: str, until: int) -> tuple[int, int]:
    """When a node's process may have begun, up to an index: index and time (ns); -1: with the
    run."""
    before = [a for a in acts if may_start(a, node) and a.ended is not None and a.ended <= until]
    last = max(before, key=lambda act: act.begun, default=None)
    return (-1, 0) if last is None else (last.begun, last.ended_ns or 0)


def _due(
    span: Interval,
    each: Iterable[Living],
    life: tuple[int, int],
    listed: Mapping[str, Sequence[tuple[int, int]]],
    context: Context,
) -> Iterator[Living]:
    born, born_ns = life
    fresh_ns = born_ns + context.eviction_ns if born >= 0 else 0
    since_ns = span.at_ns
    for one in each:
        before, after = one.broker.view, one.after.view
        if before.isolated is True or after.isolated is True:
            since_ns = one.after.at_ns
            continue
        joined = before.isolated is False and after.isolated is False
        known = listed.get(before.address, ())
        joined = joined or _was_listed(known, born, fresh_ns, one.answer.begun)
        yield one._replace(due=joined and one.answer.begun_ns > since_ns + context.relisting_ns)


def _listed(answers: Answers) -> dict[str, list[tuple[int, int]]]:
    """By address the begins, index and time (ns), of all questions whose answers listed it."""
    found: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for s in answers:
        for address in {a for of in s.view.sets.values() for a in of.values()}:
            found[address].append((s.begun, s.begun_ns))
    return {address: sorted(each) for address, each in found.items()}


def _was_listed(listed: Sequence[tuple[int, int]], after: int, since_ns: int, before: int) -> bool:
    """Whether one of them began after an index, not before a time, and before another index."""
    first, last = (bisect_right(listed, (index, 0)) for index in (after + 1, before))
    return any(begun_ns >= since_ns for _, begun_ns in listed[first:last])


# N11: who does not.


def _gone(history: History, answers: Answers, context: Context) -> Iterator[Judged]:
    """What answers come to of name servers that were started when a broker was gone already."""
    acts = faults(history)
    addresses = {s.view.node: s.view for s in replica_sightings(history)}
    ends = [s.at for s in answers]
    since: dict[str, int] = {}
    moved = {node for act in acts if act.changes_address for node in act.nodes}
    namesrvs = {s.view.node for s in answers}
    for lull in lulls(history):
        time, gone = lull.time, lull.state.gone
        since = {node: since.get(node, time.at) for node in gone}
        starts = {n: _last_start(acts, n, time.at) for n in namesrvs} if gone else {}
        for s in answers[slice_between(ends, time)] if gone else ():
            started = starts[s.view.node]
            if started is None or not time.holds(s.begun, s.at):
                continue
            if s.begun_ns <= (started.ended_ns or 0) + context.relisting_ns:
                continue
            for node, at in sorted(since.items()):
                known = addresses.get(node)
                if known is None or at >= started.begun or node in moved:
                    continue
                lists = known.address in s.view.sets.get(known.set, {}).values()
                found = _dead(known.set, node, known.address, s, started) if lists else None
                yield "N11", (s.view.node, node, started.begun), found


def _last_start(acts: Sequence[Fault], node: str, until: int) -> Fault | None:
    """The last act up to an index that started a node."""
    before = (act for act in acts if act.ended is not None and act.ended <= until)
    return max((a for a in before if _starts(a, node)), key=lambda a: a.begun, default=None)


# N9.


class Table(NamedTuple):
    """What a name server says of a broker set, since when (ns), first and last asked by what."""

    group: Mapping[str, str]
    since_ns: int
    first: Said
    last: Said


def _compared(history: History, answers: Answers, context: Context) -> Iterator[Judged]:
    """Two tables of each set, the later one asked for before and after the other was."""
    bound_ns = max(context.relisting_ns, context.eviction_ns)
    ends = [s.at for s in answers]
    for time in _healed(history):
        tables: dict[tuple[str, str], Table] = {}
        for s in answers[slice_between(ends, time)]:
            if not time.holds(s.begun, s.at):
                continue
            for name in sorted(context.broker_sets):
                mine = tables[s.view.node, name] = _table(tables.get((s.view.node, name)), s, name)
                for (node, of), other in sorted(tables.items(), key=lambda each: each[0]):
                    if of != name or node == s.view.node:
                        continue
                    since_ns = max(time.at_ns, mine.since_ns, other.since_ns) + bound_ns
                    at = other.last
                    if at.begun_ns > since_ns and mine.first.at < at.begun and at.at < s.begun:
                        differ = mine.group != other.group
                        found = _differ(name, mine, other, bound_ns) if differ else None
                        yield "N9", (*sorted((node, s.view.node)), name, time), found


def _healed(history: History) -> Iterator[Interval]:
    """The times in which no fault is in force."""
    rest = at_rest(history)
    for lull in lulls(history):
        state, time = lull.state, lull.time
        if not (state.gone or state.doubtful or state.cuts or time.doubt or time.at >= rest.at):
            yield time
    if not rest.doubt:
        yield rest


def _table(before: Table | None, s: Said, name: str) -> Table:
    """The same as before, or another one from now on. The raw group that was asked for last is the
    newest, where it was asked for."""
    group = s.view.groups.get(name, s.view.sets.get(name, {}))
    if before is None or before.group != group or s.view.sets.get(name, {}) != group:
        return Table(group, s.at_ns, s, s)
    return before._replace(last=s)


# Findings.


def _missing(claim: str, one: Living, act: Fault) -> Found:
    broker, s = one.broker.view, one.answer
    for_ns = s.begun_ns - one.span.at_ns
    said = (
        f"Broker set {broker.set}: {broker.node} at {broker.address} answered in op "
        f"{one.broker.at} and in op {one.after.at}. {s.view.node} does not list it (op "
        f"{s.at}), {for_ns / 1e9:.1f} s after "
    )
    detail = {"set": broker.set, "node": broker.node, "namesrv": s.view.node,
              "for-ms": for_ns // 1_000_000}  # fmt: skip
    ops = (one.broker.at, s.at)
    if claim == "N7":
        said += "their connections were reset. Clients do not find it."
        return Found("N7", "reset-broker-not-listed", ops, said, detail)
    said += f"{s.view.node} was started (op {act.ended}). Who asks it does not find it."
    return Found("N11", "restarted-namesrv-differs", ops, said, {**detail, "listed": False})


def _dead(name: str, node: str, address: str, s: Said, started: Fault) -> Found:
    for_ns = s.begun_ns - (started.ended_ns or 0)
    said = (
        f"Broker set {name}: {node} at {address} had gone before {s.view.node} was started (op "
        f"{started.ended}), and {s.view.node} lists it (op {s.at}). It cannot have heard of it."
    )
    detail = {"set": name, "node": node, "namesrv": s.view.node, "for-ms": for_ns // 1_000_000,
              "listed": True}  # fmt: skip
    return Found("N11", "restarted-namesrv-differs", (s.at,), said, detail)


def _differ(name: str, mine: Table, other: Table, bound_ns: int) -> Found:
    one, two = mine.last.view.node, other.last.view.node
    said = (
        f"Broker set {name}: with all faults healed, {one} lists {_plain(mine.group)} and {two} "
        f"{_plain(other.group)} (ops {mine.last.at} and {other.last.at}). Neither table has "
        f"changed for {bound_ns / 1e9:g} s. What clients find depends on whom they ask."
    )
    tables = {t.last.view.node: dict(t.group) for t in (mine, other)}
    ops = (mine.first.at, other.last.at, mine.last.at)
    return Found("N9", "namesrvs-differ", ops, said, {"set": name, "tables": tables})


def _plain(group: Mapping[str, str]) -> str:
    return ", ".join(f"{i} at {address}" for i, address in sorted(group.items())) or "nobody"
