"""Offsets of pairs: what a slave knows that acts, and its master once it is back.

- P4: an offset that a slave took for its master, and acknowledged, is not gone at the master.
  Counts if the master was away all through the commit: it had been ended, held or cut off before,
  and was not started or healed until after. Nobody promises what a slave takes once its master has
  asked it, as it does of a client with an old route. Counts if from the commit until the master was
  asked that slave was not struck, nor parted from the master or a name server, which may have been
  ended and started; and if the master was online in between: it said that it is not isolated, or,
  of RocketMQ's, which do not say it, a name server listed it.
- P5: nor is an offset that the master had on its disk when it was ended: one that it acknowledged,
  and then was not struck for one and a half of the periods in which offsets are written (two, of
  RocketMQ's).
- P6: nor one that the master acknowledged so long before it was struck that the slave had the time
  to copy and write it, when the slave is asked. Both were neither struck nor parted for that long,
  nor were name servers; after the begin of such a time a slave may first have to find its master.
  Until it was asked the slave was not struck either.

A key of the workload is a group whose commits grow and are each over before the next, so the offset
that counts is the largest. Commits that come later can only hide a loss. Which broker answered an
operation is known by its address. A key is judged until something was done to a store.

Claims: P4, P5, P6 (docs/spec/acting-master.md 8.4), of brokers without controllers.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from maxq.checkers.core.api import Context, Verdict
from maxq.checkers.core.keyed import Event, KeyedChecker
from maxq.checkers.evidence.faults import Fault, faults
from maxq.checkers.evidence.observations import NEVER, Sighting, replica_sightings, sightings
from maxq.checkers.evidence.quiescence import Undisturbed
from maxq.checkers.evidence.verdicts import Case, Found, rule
from maxq.histories.fault_facts import POWER_LOSS, TAMPERS
from maxq.histories.history import History
from maxq.histories.observed import (
    COMMIT_OFFSET,
    COPIED_NS,
    FETCH_OFFSET,
    MASTER_ROLE,
    OBSERVE_ROUTE,
    ReplicaView,
    RouteView,
)
from maxq.histories.op import HistoryError

# Offsets are written each flushConsumerOffsetInterval, 5 s: no run sets another one. The thread
# of RocketMQ that writes them also waits for name servers.
FLUSHED_NS, FLUSHED_SLOWLY_NS = 7_500_000_000, 10_000_000_000
FLUSH_KEY = "broker:flushConsumerOffsetInterval"
REFERENCE = "reference"  # as a target, whose slaves copy as fast as `COPIED_NS` says
COPIED_SLOWLY_NS = 75_000_000_000  # RocketMQ's copy once a minute, and write after 5 s
AWAY = frozenset(("down", "held", "cut"))  # the effects that take a master away
Times = Sequence[tuple[int, int]]  # begins and ends of answers, by index


class Asked(NamedTuple):
    """A commit or fetch that was answered, by which node, of which key."""

    f: str
    begun: int
    at: int
    time: int
    key: int
    offset: int
    node: str


class Pairs(NamedTuple):
    """What every key must know. `online` is when each master was seen to be; `until` an index."""

    masters: Mapping[str, str]  # node -> the master of its set
    namesrvs: tuple[str, ...]
    nodes: Mapping[str, str]  # address -> whose it is
    acts: Sequence[Fault]
    struck: frozenset[str]
    undisturbed: Undisturbed
    online: Mapping[str, Times]
    until: int
    written: bool  # offsets are written as often as by default
    flushed_ns: int
    copied_ns: int
    joined_ns: int


class OfKey(NamedTuple):
    """What was found of one key, and how many answers could have been, by claim."""

    found: list[Found]
    judged: Counter[str]


class PairOffsets(KeyedChecker):
    """The checker. See the module's text."""

    name = "pair-offsets"
    claims = ("P4", "P5", "P6")
    reads = frozenset((COMMIT_OFFSET, FETCH_OFFSET))

    def prepare(self, history: History, context: Context) -> Pairs:
        acts = faults(history)
        views = replica_sightings(history)
        routes = sightings(history, OBSERVE_ROUTE, RouteView)
        ours = context.target == REFERENCE
        return Pairs(
            masters={n: of[0] for of in context.broker_sets.values() for n in of},
            namesrvs=tuple(sorted({s.view.node for s in routes})),
            nodes=_nodes(views),
            acts=acts,
            struck=frozenset(node for act in acts for node in act.nodes),
            undisturbed=Undisturbed(acts),
            online={of[0]: tuple(_online(name, of[0], views, routes))
                    for name, of in context.broker_sets.items()},
            until=_until(history),
            written=FLUSH_KEY not in context.by_hand,
            flushed_ns=FLUSHED_NS if ours else FLUSHED_SLOWLY_NS,
            copied_ns=COPIED_NS if ours else COPIED_SLOWLY_NS,
            joined_ns=context.recovery_ns,
        )  # fmt: skip

    def rows(self, event: Event, known: Pairs) -> Iterator[tuple[int, Asked]]:
        op, begun = event.op, event.begun
        node = known.nodes.get((op.ext or {}).get("broker", ""), "")
        if op.type == "ok" and begun is not None and node in known.masters:
            key, offset = _pair(op.value)
            if op.index <= known.until:
                yield key, Asked(op.f, begun.index, op.index, op.time, key, offset, node)

    def judge(self, key: int, rows: Sequence[Asked], known: Pairs, more: object = None) -> OfKey:
        commits = [row for row in rows if row.f == COMMIT_OFFSET]
        commits.sort(key=lambda commit: -commit.offset)  # the furthest that counts is looked for
        of = OfKey([], Counter())
        for fetch in (row for row in rows if row.f == FETCH_OFFSET):
            for claim in _claims_at(fetch, known):
                kept = _kept(claim, commits, fetch, known)
                if kept is None:
                    continue
                first = not any(f.claim == claim for f in of.found)
                of.judged[claim] += 1
                if fetch.offset < kept.offset and first:
                    of.found.append(_lost(claim, kept, fetch))
        return of

    def evidence(self, results: Mapping[int, OfKey]) -> Iterator[int]:
        yield from (at for of in results.values() for f in of.found for at in f.ops)

    def conclude(
        self, history: History, context: Context, known: Pairs, results: Mapping[int, OfKey]
    ) -> Verdict:
        judged = sum((of.judged for of in results.values()), Counter[str]())
        case = Case(
            found=[f for of in results.values() for f in of.found],
            judged={claim: judged[claim] for claim in self.claims},
            counts={f"answers-{claim}": judged[claim] for claim in self.claims},
        )
        return rule(self, history, context, case)


# What is known.


def _nodes(views: Sequence[Sighting[ReplicaView]]) -> dict[str, str]:
    """Whose an address is; one that several nodes had is left out."""
    found: dict[str, set[str]] = defaultdict(set)
    for s in views:
        found[s.view.address].add(s.view.node)
    return {address: next(iter(nodes)) for address, nodes in found.items() if len(nodes) == 1}


def _online(
    name: str,
    master: str,
    views: Sequence[Sighting[ReplicaView]],
    routes: Sequence[Sighting[RouteView]],
) -> Iterator[tuple[int, int]]:
    """When a set's master was seen to be online."""
    own = [s for s in views if s.view.node == master]
    if any(isinstance(s.view.isolated, bool) for s in own):
        yield from ((s.begun, s.at) for s in own if s.view.isolated is False)
    else:
        yield from ((r.begun, r.at) for r in routes if MASTER_ROLE in r.view.sets.get(name, {}))


def _until(history: History) -> int:
    """The first index at which something was done to a store, or may have been."""
    until = min((op.index for op in history.ops
                 if op.f in TAMPERS or op.f == POWER_LOSS), default=NEVER)  # fmt: skip
    strange = (o.index for o in history.nemesis if not history.kinds.knows(o.f))
    return min(until, min(strange, default=NEVER))


def _pair(value: Any) -> tuple[int, int]:
    match value:
        case [int(key), int(offset)]:
            return key, offset
    raise HistoryError(f"{value!r} is not [key, offset]")


# Which commits count.


def _claims_at(fetch: Asked, known: Pairs) -> tuple[str, ...]:
    if fetch.node != known.masters[fetch.node]:
        return ("P6",)
    return ("P4", "P5") if fetch.node in known.struck else ()  # nothing took it away


def _kept(claim: str, commits: Sequence[Asked], fetch: Asked, known: Pairs) -> Asked | None:
    """The furthest commit that a fetch must know of; commits come with the furthest first."""
    counts = partial(_COUNTS[claim], fetch=fetch, known=known)
    of_set = (c for c in commits if known.masters[c.node] == known.masters[fetch.node])
    return next((c for c in of_set if c.at < fetch.begun and counts(c)), None)


def _taken(commit: Asked, fetch: Asked, known: Pairs) -> bool:
    """P4: whether a slave took it while its master was away, which has gone online after that."""
    if commit.node == fetch.node or not _away(fetch.node, commit, known.acts):
        return False
    spans = known.undisturbed.of((commit.node,), (fetch.node, *known.namesrvs))
    span = spans.at(commit.begun)
    if span is None or not span.holds(commit.begun, fetch.at):
        return False
    after = max((a.ended or NEVER for a in known.acts
                 if fetch.node in a.nodes and a.begun < fetch.at), default=-1)  # fmt: skip
    return after >= 0 and any(
        begun > max(after, commit.at) and at < fetch.begun
        for begun, at in known.online.get(fetch.node, ())
    )


def _away(master: str, commit: Asked, acts: Sequence[Fault]) -> bool:
    """Whether a master was away from before a commit until after it."""
    moves = [a for a in acts if master in a.nodes and a.begun < commit.at
             and (a.effect in AWAY or a.ends or a.may_start or not a.known)]  # fmt: skip
    last = moves[-1] if moves else None
    return (
        last is not None
        and last.effect in AWAY
        and not last.passes
        and last.ended is not None
        and last.ended < commit.begun
    )


def _flushed(commit: Asked, fetch: Asked, known: Pairs) -> bool:
    """P5: whether the master took it, wrote it, and has been ended and started since."""
    if commit.node != fetch.node or not known.written:
        return False
    span = known.undisturbed.of((commit.node,)).at(commit.begun)
    if span is None or span.until_ns - commit.time < known.flushed_ns:
        return False
    return any(a.brings_down and fetch.node in a.nodes and span.until <= a.begun
               for a in known.acts if (a.ended or NEVER) < fetch.begun)  # fmt: skip


def _copied(commit: Asked, fetch: Asked, known: Pairs) -> bool:
    """P6: whether the master took it, the slave had the time to copy it, and has kept its store
    since, while something befell the master."""
    master = known.masters[fetch.node]
    if commit.node != master or not known.written:
        return False
    span = known.undisturbed.of((master, fetch.node, *known.namesrvs)).at(commit.begun)
    own = known.undisturbed.of((fetch.node,)).at(commit.begun)
    if span is None or own is None or not own.holds(commit.begun, fetch.at):
        return False
    joined_ns = span.at_ns + known.joined_ns if span.at >= 0 else 0
    copied_ns = max(commit.time, joined_ns) + known.copied_ns
    return copied_ns <= span.until_ns and span.until < fetch.begun


_COUNTS = {"P4": _taken, "P5": _flushed, "P6": _copied}


# In words.


def _lost(claim: str, kept: Asked, fetch: Asked) -> Found:
    taken = f"Group {kept.key} committed offset {kept.offset} to {kept.node} (op {kept.at})"
    got = f"answered {fetch.offset} (op {fetch.at})"
    detail = {
        "key": kept.key, "committed": kept.offset, "fetched": fetch.offset, "node": fetch.node,
    }  # fmt: skip
    ops = (kept.at, fetch.at)
    if claim == "P4":
        away = f"{taken}, a slave, while its master {fetch.node} was away"
        text = f"{away}. That one, online since then, {got}."
        return Found("P4", "acting-offset-lost", ops, text, detail)
    if claim == "P5":
        text = f"{taken}, which had the time to write it. After a restart the same broker {got}."
        return Found("P5", "written-offset-lost", ops, text, detail)
    text = (
        f"{taken}. Its slave {fetch.node}, which had the time to copy it before the fault, {got}."
    )
    return Found("P6", "copied-offset-lost", ops, text, detail)
