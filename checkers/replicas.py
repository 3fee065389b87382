"""Replicas: logs of one epoch agree byte for byte, and members of the set lack nothing.

Judges what was read from the stores at rest (`replica-log`) against one another and against the
acknowledged sends; `replica_logs` compares the stores of one set.

- S8 binds any two replicas, whatever became of them.
- S8b and S9 bind the members of the last SyncStateSet, as a controller told it after the last
  disturbance; only replicas of which every epoch was read. S9 needs a log from its very beginning.

Claims: S8, S8b, S9 (controller-ha 6.3). S9 is not promised where fewer than all members need to
acknowledge, nor where somebody from outside the set may be elected.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from checkers.api import Context, Verdict
from checkers.calm import calm_after
from checkers.durability import LOSSY_PROFILES
from checkers.replica_logs import (
    Parting,
    Records,
    Store,
    first_other_span,
    partings,
    stores_of,
)
from checkers.ruling import Case, Found, rule, unreadable
from checkers.sightings import SetSighting, listed, set_sightings, sightings
from checkers.story import when
from histories.history import History
from histories.observed import REPLICA_LOG, ReplicaLog
from histories.op import HistoryError, Op
from histories.tables import elements_of, epoch_of, node_of

NODES_MIN = 2  # replicas of a set that must have been read


class Acked(NamedTuple):
    """An acknowledged message; `node` is the broker set that answered, where it is known."""

    key: int
    offset: int
    value: object
    op: Op
    node: str | None


class Replicas:
    """The checker. See the module's text."""

    name = "replicas"
    claims = ("S8", "S8b", "S9")

    def check(self, history: History, context: Context) -> Verdict:
        try:
            case = _judge(history, context)
        except HistoryError as error:
            return unreadable(self, error)
        unpromised = ("S9",) if context.profile in LOSSY_PROFILES else ()
        return rule(self, history, context, case, unpromised=unpromised)


class _Count:
    """What was looked at, over all sets."""

    def __init__(self) -> None:
        self.compared = self.bytes = self.lists = self.messages = self.holders = 0


def _judge(history: History, context: Context) -> Case:
    stores: dict[str, list[Store]] = {}
    pieces = defaultdict(list)
    for s in sightings(history, REPLICA_LOG, ReplicaLog):
        pieces[s.view.set].append(s)
    for name in sorted(pieces):
        stores[name] = stores_of(pieces[name])
    members = _members(history)
    acked = _acked_by_set(history, stores)
    count = _Count()
    case = Case()
    for name, of_set in stores.items():
        case.found += _diverged(name, of_set, count)
        still = [s for s in of_set if s.id in members.get(name, ()) and s.complete]
        case.found += _lists_differ(name, still, count)
        case.found += _missing(name, [s for s in still if not s.start], acked[name], count)
    case.judged = {"S8": count.compared, "S8b": count.lists, "S9": count.messages}
    case.counts = {
        "replicas": sum(map(len, stores.values())),
        "pairs-compared": count.compared,
        "bytes-compared": count.bytes,
        "epoch-lists-compared": count.lists,
        "messages-looked-up": count.messages,
        "members-read": count.holders,
    }
    case.doubts += _doubts(stores, context, count)
    sent = any(op.f == "send" and op.type == "ok" for op in history.clients)
    if sent and context.profile not in LOSSY_PROFILES and not count.messages:
        case.doubts.append(
            "S9: no acknowledged message could be looked up in the whole log of a replica that was "
            "in its SyncStateSet after the last fault"
        )
    return case


def _doubts(stores: dict[str, list[Store]], context: Context, count: _Count) -> Iterator[str]:
    if not count.compared:
        yield "no two replicas of a broker set with an epoch in common were read"
    for name, nodes in sorted(context.broker_sets.items()):
        read = len(stores.get(name, ()))
        if len(nodes) >= NODES_MIN and read < NODES_MIN:
            yield f"the stores of {read} replicas of {name} were read, {NODES_MIN} needed"


def _members(history: History) -> dict[str, tuple[int, ...]]:
    """The SyncStateSets that were told after the last disturbance."""
    calm = calm_after(history)
    if calm.doubt:
        return {}
    last: dict[str, SetSighting] = {}
    for name, seen in set_sightings(history).items():
        late = [s for s in seen if s.begun > calm.at]
        if late:
            last[name] = max(late, key=_newest)
    return {name: s.view.sync_state_set for name, s in last.items()}


def _newest(s: SetSighting) -> tuple[int, int, int]:
    return s.view.master_epoch, s.view.sync_state_set_epoch, s.at


# S8.


def _diverged(name: str, stores: Sequence[Store], count: _Count) -> Iterator[Found]:
    found, compared = partings(stores)
    count.bytes += compared
    count.compared += _pairs(stores)
    for parting in found:
        yield _parted(name, parting)


def _pairs(stores: Sequence[Store]) -> int:
    """How many epochs of a replica had another replica's to be compared with."""
    shared: dict[tuple[int, int], int] = defaultdict(int)
    for store in stores:
        for p in store.pieces:
            shared[p.view.epoch, p.view.start] += p.view.end > p.view.start
    return sum(max(n - 1, 0) for n in shared.values())


def _parted(name: str, parting: Parting) -> Found:
    a, b = parting.a.view, parting.b.view
    said = (
        f"Broker set {name}: the logs of {a.node} and {b.node} part in epoch {b.epoch}, which "
        f"begins at byte {b.start} on both: {parting.said} ({a.node} holds it to byte {a.end}, op "
        f"{parting.a.at}; {b.node} to byte {b.end}, op {parting.b.at}). Two brokers wrote under "
        "one epoch, or bytes that had been cut off came back, and no truncation will find it."
    )
    detail = {
        "set": name,
        "epoch": b.epoch,
        "start": b.start,
        "nodes": [a.node, b.node],
        "ends": [a.end, b.end],
        "offset": parting.offset,
    }
    return Found("S8", "log-diverged", (parting.a.at, parting.b.at), said, detail)


# S8b.


def _lists_differ(name: str, still: Sequence[Store], count: _Count) -> Iterator[Found]:
    """Compare each member's epoch list with that of the longest log."""
    ranked = sorted(still, key=lambda s: (-s.end, s.node))
    for b in ranked[1:]:
        a = ranked[0]
        count.lists += 1
        other = first_other_span(a, b)
        if other is None:
            continue
        x, y = (f"epoch {s[0]} in bytes {s[1]}-{s[2]}" if s else "nothing more" for s in other)
        said = (
            f"Broker set {name}: {a.node} and {b.node}, both in the SyncStateSet and at rest, "
            f"disagree on epochs of bytes that both hold: {a.node} has {x}, {b.node} {y}. The next "
            "change of master will cut one of them at the wrong place."
        )
        detail = {
            "set": name,
            "nodes": [a.node, b.node],
            "epochs": [None if s is None else list(s) for s in other],
        }
        yield Found("S8b", "epochs-differ", (a.pieces[-1].at, b.pieces[-1].at), said, detail)


# S9.


def _acked_by_set(history: History, stores: dict[str, list[Store]]) -> dict[str, list[Acked]]:
    """Acknowledged messages with a known place, by the broker set that holds their queue."""
    homes: dict[int, set[str]] = defaultdict(set)
    for name, of_set in stores.items():
        for store in of_set:
            for p in store.pieces:
                for key, _, _ in p.view.records:
                    homes[key].add(name)
    found: dict[str, list[Acked]] = defaultdict(list)
    for op in history.of_f("send"):
        if op.type != "ok" or not op.is_client:
            continue
        node = node_of(op.ext or {})
        for e in elements_of(op):
            home = {node} if node in stores else homes.get(e.key, set())
            if e.offset is not None and len(home) == 1:
                name = str(next(iter(home)))
                found[name].append(Acked(e.key, e.offset, e.value, op, node))
    return found


def _missing(
    name: str, whole: Sequence[Store], acked: Sequence[Acked], count: _Count
) -> Iterator[Found]:
    """One finding for each message that members lack."""
    held: list[tuple[Store, Records]] = [(s, s.records()) for s in whole]
    count.holders += len(held)
    for m in acked:
        lacking = []
        instead = None
        looked = False
        for store, records in held:
            if m.op.index >= store.read_at:
                continue
            looked = True
            there = records.get((m.key, m.offset))
            if there != m.value:
                lacking.append(store)
                instead = there if instead is None else instead
        count.messages += looked
        if lacking:
            yield _lost(name, m, lacking, instead)


def _lost(name: str, m: Acked, lacking: Sequence[Store], instead: object) -> Found:
    nodes = [s.node for s in lacking]
    epoch = epoch_of(m.op.ext or {})
    by = f"{m.node or 'a broker'}{'' if epoch is None else f' in epoch {epoch}'}"
    other = "" if instead is None else f"; value {instead} stands there"
    said = (
        f"Broker set {name}: value {m.value} of queue {m.key} at offset {m.offset}, acknowledged "
        f"by {by} {when(m.op)} (op {m.op.index}), is not in the log of {listed(nodes)}{other}, "
        "although in the SyncStateSet: should it be elected, the message is lost."
    )
    detail = {
        "set": name,
        "key": m.key,
        "offset": m.offset,
        "value": m.value,
        "writer": m.op.index,
        "nodes": nodes,
    }
    if instead is not None:
        detail["instead"] = instead
    ops = (m.op.index, *(s.pieces[-1].at for s in lacking))
    return Found("S9", "missing-in-replica", ops, said, detail)
