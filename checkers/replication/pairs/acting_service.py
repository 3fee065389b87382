"""Acting service: the slave that acts for a lost master serves what a slave can.

Judged in the calm times of `maxq.checkers.replication.pairs.acting`, of sets whose master is gone,
from the bound for who acts on, and as much later as clients need to see the route. Who is asked is
the smallest slave that runs, by the address that it said.

- A5: reads go on. In each such time polls of the set's queues succeed; it is broken where of
  several, over some seconds, none did, whomever the route named. And where a poll shows a queue's
  end, that is behind each acknowledged message that the slave held when it was asked before: its
  log ended behind the message's record, which is certain where it reached the next one's. Of a set
  that an operator has given write permission (327) without a master name servers show no slave in
  its place, so polls that find nobody say nothing.
- A6: no request for offsets or locks (14, 15, 41, 42) that the slave answers is refused, but for a
  group that it does not know yet (26). A lock that is not granted is no refusal.

RocketMQ's slaves copy tables a minute after their start, and without them know no topic: they are
judged once they were undisturbed beside their master for that long.

Claims: A5, A6 (docs/spec/acting-master.md 8.3), of brokers without controllers.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from maxq.checkers.core.api import Context, Verdict
from maxq.checkers.core.elements import elements_of
from maxq.checkers.core.keyed import Event, KeyedChecker
from maxq.checkers.core.promises import nobody_is_to_act
from maxq.checkers.evidence.faults import faults
from maxq.checkers.evidence.observations import replica_sightings
from maxq.checkers.evidence.orders import Orders
from maxq.checkers.evidence.quiescence import Interval, Undisturbed, calm, slice_between
from maxq.checkers.evidence.verdicts import Case, Found, rule
from maxq.checkers.replication.pairs.pair_offsets import COPIED_SLOWLY_NS, REFERENCE
from maxq.histories.history import History
from maxq.histories.observed import (
    ACQUIRE,
    BROKER,
    CODE,
    COMMIT_OFFSET,
    FETCH_OFFSET,
    NOT_GRANTED,
    PINNED,
    RELEASE,
    RENEW,
)
from maxq.histories.op import Op

if TYPE_CHECKING:
    from maxq.histories.columns.rows import Rows
    from maxq.histories.columns.scan import Ints

SEEN_NS = 5_000_000_000  # in which clients see a route, and what they had asked before is over
TRIES_MIN, TRIES_NS = 3, 2_000_000_000  # polls that fail, and over how long at least
NAMED_MAX = 6  # polls that prove a broken promise
UNKNOWN_GROUP = 26  # RocketMQ's SUBSCRIPTION_GROUP_NOT_EXIST
SERVED = frozenset((COMMIT_OFFSET, FETCH_OFFSET, ACQUIRE, RENEW, RELEASE))


class Window(NamedTuple):
    """A time in which a slave acts: `since_ns` is when the bounds are over. `ends`: where its log
    ended by its own answers in it, as (index of the answer, byte)."""

    time: Interval
    since_ns: int
    node: str
    master: str
    address: str
    ends: Sequence[tuple[int, int]]
    opened: bool = False  # by an operator, so that name servers show no slave for its master


class Row(NamedTuple):
    """A completed operation: a poll, a message that was sent, or a request for offsets or locks.
    `ends` of a poll: queue -> its end; of a send: queue -> the message's offset."""

    f: str
    begun: int
    at: int
    begun_ns: int
    ok: bool
    broker: str
    code: int | None = None
    byte: int = -1
    ends: tuple[tuple[int, int], ...] = ()


class Furthest(NamedTuple):
    """The message of a queue with the largest offset of those that lie before byte `behind`, where
    another message begins."""

    behind: int
    offset: int
    sent: Row


class OfSet(NamedTuple):
    """What was found of one set, and how many answers could have been, by claim."""

    found: list[Found]
    judged: Counter[str]


class ActingService(KeyedChecker):
    """The checker. See the module's text."""

    name = "acting-service"
    claims = ("A5", "A6")
    reads = frozenset(("send", "poll", *SERVED))

    def prepare(self, history: History, context: Context) -> dict[str, list[Window]]:
        return windows(history, context)

    def sift(self, rows: "Rows", chosen: "Ints", known: Mapping[str, Sequence[Window]]) -> "Ints":
        return chosen if known else chosen[:0]

    def rows(
        self, event: Event, known: Mapping[str, Sequence[Window]]
    ) -> Iterator[tuple[str, Row]]:
        op, begun = event.op, event.begun
        if not known or op.type == "invoke" or begun is None:
            return
        ext = op.ext or {}
        broker, code = str(ext.get(BROKER, "")), ext.get(CODE)
        row = Row(op.f, begun.index, op.index, begun.time, op.type == "ok", broker, code)
        if op.f in SERVED:
            row = row._replace(ok=row.ok or op.error == NOT_GRANTED)
            yield from ((name, row) for name, of in known.items()
                        if any(w.address == broker for w in of))  # fmt: skip
        elif (name := str(ext.get("node", ""))) in known:
            if op.f == "poll" and (row.ok or not ext.get(PINNED)):
                yield name, row._replace(ends=_ends(op))
            elif op.f == "send" and row.ok and isinstance(ext.get("byte"), int):
                yield name, row._replace(byte=ext["byte"], ends=_sent(op))

    def judge(
        self,
        key: str,
        rows: Sequence[Row],
        known: Mapping[str, Sequence[Window]],
        more: object = None,
    ) -> OfSet:
        of = OfSet([], Counter())
        sends = [r for r in rows if r.f == "send"]
        ends = [r.at for r in rows]
        for window in known[key]:
            inside = [r for r in rows[slice_between(ends, window.time)]
                      if r.begun_ns >= window.since_ns and r.begun > window.time.at]  # fmt: skip
            polls = [r for r in inside if r.f == "poll"]
            served = [r for r in inside if r.f in SERVED]
            for found in (
                _unread(key, window, polls, of.judged),
                _cut_short(key, window, polls, sends, of.judged),
                _refused(key, window, served, of.judged),
            ):
                of.found.extend([found] if found is not None else [])
        return of

    def evidence(self, results: Mapping[str, OfSet]) -> Iterator[int]:
        yield from (at for of in results.values() for f in of.found for at in f.ops)

    def conclude(
        self,
        history: History,
        context: Context,
        known: Mapping[str, Sequence[Window]],
        results: Mapping[str, OfSet],
    ) -> Verdict:
        judged = sum((of.judged for of in results.values()), Counter[str]())
        case = Case(
            found=[f for of in results.values() for f in of.found],
            judged={claim: judged[claim] for claim in self.claims},
            counts={f"answers-{claim}": judged[claim] for claim in self.claims},
        )
        return rule(self, history, context, case)


# What is known.


def windows(history: History, context: Context) -> dict[str, list[Window]]:
    """The times in which a slave of a set certainly acts, by broker set; sets without are left
    out, and all where settings have nobody act."""
    if nobody_is_to_act(context.settings):
        return {}
    said: dict[str, list[tuple[int, int]]] = {}
    addresses: dict[str, set[str]] = {}
    for s in replica_sightings(history):
        addresses.setdefault(s.view.node, set()).add(s.view.address)
        said.setdefault(s.view.node, []).append((s.at, s.view.end))
    undisturbed, orders = Undisturbed(faults(history)), Orders(history)
    found: dict[str, list[Window]] = {}
    for lull in calm(history):
        for name, (master, *slaves) in context.broker_sets.items():
            node = next((n for n in slaves if n not in lull.state.gone), "")
            known = addresses.get(node, set())
            if master not in lull.state.gone or len(known) != 1:
                continue
            if context.target != REFERENCE and not _copied(undisturbed, lull.time, node, master):
                continue
            since_ns = lull.time.at_ns + context.shrink_ns + SEEN_NS
            ends = [(at, end) for at, end in said[node] if lull.time.holds(at, at)]
            opened = orders.opened_without(name, master, lull.time.at, lull.time.until)
            window = Window(lull.time, since_ns, node, master, next(iter(known)), ends, opened)
            found.setdefault(name, []).append(window)
    return found


def _copied(undisturbed: Undisturbed, time: Interval, node: str, master: str) -> bool:
    """Whether a slave was beside its master for as long as RocketMQ's take to copy its tables,
    since it was struck last."""
    own = undisturbed.of((node,)).at(time.at)
    both = undisturbed.of((node, master)).between(own.at, time.at) if own is not None else ()
    return any(s.until_ns - max(s.at_ns, own.at_ns) >= COPIED_SLOWLY_NS for s in both if own)


def _ends(op: Op) -> tuple[tuple[int, int], ...]:
    ends = (op.ext or {}).get("end")
    pairs = ends.items() if isinstance(ends, dict) else ()
    return tuple((k, end) for k, end in pairs if isinstance(k, int) and isinstance(end, int))


def _sent(op: Op) -> tuple[tuple[int, int], ...]:
    return tuple((e.key, e.offset) for e in elements_of(op) if e.offset is not None)


# A5.


def _unread(name: str, w: Window, polls: Sequence[Row], judged: Counter[str]) -> Found | None:
    """Whether nobody could read."""
    served = [r for r in polls if r.ok and r.broker == w.address]
    failed = [r for r in polls if not r.ok]
    judged["A5"] += len(served)
    enough = len(failed) >= TRIES_MIN and failed[-1].begun_ns - failed[0].begun_ns >= TRIES_NS
    if served or not enough or w.opened:
        return None
    judged["A5"] += 1
    ops = tuple(r.at for r in failed[:NAMED_MAX])
    said = (
        f"Broker set {name}: {w.master}, its master, is gone, and {w.node} acts for it. For "
        f"{(failed[-1].begun_ns - failed[0].begun_ns) / 1e9:.1f} s each of {len(failed)} polls of "
        f"its queues failed (the first is op {ops[0]})."
    )
    return Found("A5", "acting-not-readable", ops, said, {"set": name, "node": w.node})


def _cut_short(
    name: str, w: Window, polls: Sequence[Row], sends: Sequence[Row], judged: Counter[str]
) -> Found | None:
    """Whether a queue ended before a message that the slave held."""
    shown = [r for r in polls if r.ok and r.broker == w.address and r.ends]
    furthest = _furthest([r for r in sends if r.at < w.time.at]) if shown else {}
    for poll in shown:
        asked = bisect_left(w.ends, (poll.begun, 0))
        held = w.ends[asked - 1][1] if asked else 0
        for key, end in poll.ends:
            of_key = furthest.get(key, ())
            place = bisect_right(of_key, held, key=lambda f: f.behind)
            if place:
                judged["A5"] += 1
                if of_key[place - 1].offset >= end:
                    return _short(name, w, of_key[place - 1], poll, key)
    return None


def _furthest(sends: Sequence[Row]) -> dict[int, list[Furthest]]:
    """By queue, which message of it was the furthest up to which place of the log."""
    found: dict[int, list[Furthest]] = {}
    for sent, following in pairwise(sorted(sends, key=lambda r: r.byte)):
        for key, offset in sent.ends:
            of_key = found.setdefault(key, [])
            before = of_key[-1] if of_key else None
            if before is not None and before.offset > offset:
                of_key.append(before._replace(behind=following.byte))
            else:
                of_key.append(Furthest(following.byte, offset, sent))
    return found


def _short(name: str, w: Window, last: Furthest, poll: Row, key: int) -> Found:
    sent = last.sent
    said = (
        f"Broker set {name}: {w.node}, which acts for {w.master}, says that queue {key} ends at "
        f"{dict(poll.ends)[key]} (op {poll.at}). Its log had the message at "
        f"{last.offset}, acknowledged before (op {sent.at})."
    )
    detail = {"set": name, "node": w.node, "key": key}
    return Found("A5", "acting-lacks-message", (sent.at, poll.at), said, detail)


# A6.


def _refused(name: str, w: Window, asked: Sequence[Row], judged: Counter[str]) -> Found | None:
    here = [r for r in asked if r.broker == w.address]
    answered = [r for r in here if r.ok or r.code is not None]
    judged["A6"] += len(answered)
    wrong = next((r for r in answered if not r.ok and r.code != UNKNOWN_GROUP), None)
    if wrong is None:
        return None
    said = (
        f"Broker set {name}: {w.node}, which acts for {w.master}, refused {wrong.f} with code "
        f"{wrong.code} (op {wrong.at})."
    )
    detail = {"set": name, "node": w.node, "code": wrong.code}
    return Found("A6", "acting-refuses", (wrong.at,), said, detail)
