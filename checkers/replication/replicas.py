"""Replicas: logs of one epoch agree byte for byte, and members of the set lack nothing.

Judges what was read from the stores at rest (`replica-log`) against one another and against the
acknowledged sends; `replica_logs` compares the stores of one set.

- S8 binds any two replicas, whatever happened to them.
- S8b and S9 bind the members of the last SyncStateSet, as a controller reported it after the last
  disturbance; only replicas of which every epoch was read. S9 needs a log from its very beginning,
  or one whose first files got old (`may_lack`).

What the logs show of sends without an answer is counted beside (`settling`).

Claims: S8, S8b, S9 (docs/spec/controller-ha.md 6.3).
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from maxq.checkers.core.api import Context, Verdict
from maxq.checkers.core.elements import elements_of, epoch_of, node_of
from maxq.checkers.core.keyed import Event, KeyedChecker
from maxq.checkers.core.promises import MODE, PAIR
from maxq.checkers.evidence.observations import (
    NEVER,
    Number,
    SetSighting,
    Sighting,
    listed,
    set_sightings,
    sighting,
)
from maxq.checkers.evidence.quiescence import after_last_heal
from maxq.checkers.evidence.stores.lost_stores import copies
from maxq.checkers.evidence.stores.settling import (
    Logs,
    Message,
    ReadLog,
    Unanswered,
    settle,
    unanswered_of,
)
from maxq.checkers.evidence.story import when
from maxq.checkers.evidence.verdicts import Case, Found, rule
from maxq.checkers.replication.may_lack import MayLack
from maxq.checkers.replication.replica_logs import (
    Parting,
    Piece,
    Records,
    Store,
    first_other_span,
    label_of,
    partings,
    stores_of,
)
from maxq.histories.history import History
from maxq.histories.observed import REPLICA_LOG, ReplicaLog, decoded
from maxq.histories.op import ABSENT, COMMITTED, HistoryError, Op

if TYPE_CHECKING:
    from maxq.checkers.core.columnar import Arrays, Dealing, Groups, Unsure
    from maxq.histories.columns.rows import Rows
    from maxq.histories.columns.scan import Ints

NODES_MIN = 2  # replicas of a set that must have been read


class Acked(NamedTuple):
    """An acknowledged message; `node` is the broker set that answered, where it is known."""

    key: int
    offset: int
    value: object
    op: Op
    node: str | None


class Homes(NamedTuple):
    """Whose stores were read, where a queue's messages were found, who was a member, whose
    store is a copy that was never run, and what replicas may have deleted."""

    sets: frozenset[str]
    of_key: dict[int, frozenset[str]]
    members: dict[str, tuple[int, ...]]
    healed: int  # since when nothing was disturbed; NEVER: that is not known
    copies: frozenset[str]
    may_lack: MayLack
    pairs: bool  # there are no controllers, and no epochs

    def logs(
        self, name: str, stores: Sequence[Store], held: Callable[[Store], Collection[Message]]
    ) -> Logs:
        """The stores of a set that were read, and what each has of the messages that are sought."""
        read = [ReadLog(s.id, s.complete, s.start, s.read_at, held(s)) for s in stores]
        undeleted = not self.may_lack.trimmed(name)
        return Logs(read, self.members.get(name, ()), self.healed, undeleted)


class Held(NamedTuple):
    """The store of a member, its records, and the first offset of each key that it must hold."""

    store: Store
    records: Records
    first: Mapping[int, int]


class Count(NamedTuple):
    """What was looked at."""

    replicas: int = 0
    pairs: int = 0
    bytes: int = 0
    lists: int = 0
    messages: int = 0
    holders: int = 0
    unanswered: int = 0
    committed: int = 0
    absent: int = 0


class SetStores(NamedTuple):
    """What was found in the stores of one set."""

    found: list[Found]
    looked: Count
    settled: tuple[tuple[int, str], ...] = ()  # sends without an answer, by index


class Replicas(KeyedChecker):
    """The checker. See the module's text."""

    name = "replicas"
    claims = ("S8", "S8b", "S9")
    reads = frozenset((REPLICA_LOG, "send"))

    def prepare(self, history: History, context: Context) -> Homes:
        sets: set[str] = set()
        of_key: dict[int, set[str]] = defaultdict(set)
        of_node: dict[str, str] = {}
        for op in history.of_f(REPLICA_LOG):
            if op.is_client and op.type == "ok":
                name, keys = keys_of(op)
                sets.add(name)
                of_node[str(op.value.get("node"))] = name  # `rows` names a value without one
                for key in keys:
                    of_key[key].add(name)
        homes = {key: frozenset(names) for key, names in of_key.items()}
        gone = MayLack(history, of_node)
        rest = after_last_heal(history)
        healed = NEVER if rest.doubt else rest.at
        pairs = (context.settings or {}).get(MODE) == PAIR
        members = _members(history)
        return Homes(frozenset(sets), homes, members, healed, copies(history), gone, pairs)

    def rows(self, event: Event, known: Homes) -> Iterator[tuple[str, Piece | Acked | Unanswered]]:
        op = event.op
        for unsure in unanswered_of(event) if known.sets else ():
            home = known.of_key.get(unsure.key, frozenset())
            if len(home) == 1:
                yield str(next(iter(home))), unsure
        if op.type != "ok":
            return
        if op.f == REPLICA_LOG:
            piece = sighting(op, event.begun, ReplicaLog)
            yield piece.view.set, piece
        elif known.sets:
            yield from _acked(op, known)

    def judge(
        self,
        key: str,
        rows: Sequence[Piece | Acked | Unanswered],
        known: Homes,
        more: object = None,
    ) -> SetStores:
        stores = stores_of(
            row for row in rows if isinstance(row, Sighting) and row.view.node not in known.copies
        )
        acked = [row for row in rows if isinstance(row, Acked)]
        still = _still(key, stores, known)
        whole = [Held(s, s.records(), first) for s, first in _whole(key, still, known)]
        parted, compared = partings(stores)
        missing, messages = _missing(key, whole, acked)
        found = [_parted(key, parting, pairs=known.pairs) for parting in parted]
        found += [*_lists_differ(key, still), *missing]
        unsure = [row for row in rows if isinstance(row, Unanswered)]
        logs = known.logs(key, stores, partial(_held, unsure))
        settled = settle(unsure, [row.op.index for row in acked], logs)
        looked = _count(stores, still, compared, messages, len(whole))
        return SetStores(found, _with_settled(looked, unsure, settled), settled)

    def columns(self, rows: "Rows", chosen: "Ints", known: Homes) -> "Dealing":
        from maxq.checkers.replication import replica_columns  # numpy, for those who have columns

        said = partial(self.rows, known=known)
        return replica_columns.elements(rows, chosen, known.sets, known.of_key, said)

    def judge_groups(self, groups: "Groups", known: Homes) -> "list[SetStores | Unsure]":
        return [self._by_arrays(key, arrays, known) for key, arrays in groups.each()]

    def _by_arrays(self, key: str, arrays: "Arrays", known: Homes) -> "SetStores | Unsure":
        from maxq.checkers.core.columnar import UNSURE
        from maxq.checkers.replication import replica_columns

        read = replica_columns.pieces_of(arrays)
        records = {p.piece.at: p.records for p in read}
        try:
            stores = stores_of(p.piece for p in read if p.piece.view.node not in known.copies)
        except HistoryError:
            return UNSURE  # the rows say what is wrong
        still = _still(key, stores, known)
        whole = _whole(key, still, known)
        parted, compared = partings(stores, replica_columns.may_part(records))
        unsure, last = replica_columns.unanswered_of(arrays), replica_columns.sent_at(arrays)
        messages = replica_columns.looked_up(arrays, whole, records)
        if parted or messages is None or any(_lists_differ(key, still)):
            return UNSURE
        logs = known.logs(key, stores, partial(replica_columns.held, unsure, records))
        settled = settle(unsure, last, logs)
        looked = _count(stores, still, compared, messages, len(whole))
        return SetStores([], _with_settled(looked, unsure, settled), settled)

    def conclude(
        self,
        history: History,
        context: Context,
        known: Homes,
        results: Mapping[str, SetStores],
    ) -> Verdict:
        return rule(self, history, context, _case(history, context, results))


def _still(name: str, stores: Sequence[Store], known: Homes) -> list[Store]:
    """The stores of the members, of which every epoch was read."""
    members = known.members.get(name, ())
    return [s for s in stores if s.id in members and s.complete]


def _whole(
    name: str, still: Sequence[Store], known: Homes
) -> list[tuple[Store, Mapping[int, int]]]:
    """Those that must hold every message, each with the first offset of each key."""
    old = known.may_lack
    return [
        (s, old.first_kept(s.node, s.id)) for s in still if not s.start or old.trimmed(name)
    ]  # fmt: skip


def _count(
    stores: Sequence[Store], still: Sequence[Store], compared: int, messages: int, holders: int
) -> Count:
    lists = max(len(still) - 1, 0)
    return Count(len(stores), _pairs(stores), compared, lists, messages, holders)


def _held(unsure: Sequence[Unanswered], store: Store) -> set[Message]:
    """Which of those messages a store has."""
    wanted = {(u.key, u.value) for u in unsure}
    records = store.records() if wanted else {}
    return {(key, value) for (key, _), value in records.items() if (key, value) in wanted}


def _with_settled(
    looked: Count, unsure: Sequence[Unanswered], settled: Sequence[tuple[int, str]]
) -> Count:
    became = Counter(what for _, what in settled)
    return looked._replace(
        unanswered=len(unsure), committed=became[COMMITTED], absent=became[ABSENT]
    )


def keys_of(op: Op) -> tuple[str, frozenset[int]]:
    """The set of a `replica-log`, and the keys of which it holds messages.

    Raises:
        HistoryError: its value has another shape.
    """
    try:
        return str(op.value["set"]), frozenset(record[0] for record in op.value.get("records", ()))
    except (TypeError, KeyError, IndexError, AttributeError):
        log = decoded(op, ReplicaLog)  # says what is wrong
        return log.set, frozenset(key for key, _, _ in log.records)


def _case(history: History, context: Context, results: Mapping[str, SetStores]) -> Case:
    sets = results.values()
    total = Count(*map(sum, zip(*(s.looked for s in sets), strict=True))) if sets else Count()
    case = Case(found=[f for s in sets for f in s.found])
    case.judged = {"S8": total.pairs, "S8b": total.lists, "S9": total.messages}
    case.counts = {
        "replicas": total.replicas,
        "pairs-compared": total.pairs,
        "bytes-compared": total.bytes,
        "epoch-lists-compared": total.lists,
        "messages-looked-up": total.messages,
        "members-read": total.holders,
    }
    if total.unanswered:
        case.counts["unanswered-sends"] = total.unanswered
        case.counts["of-these-in-the-logs"] = total.committed
        case.counts["of-these-in-no-log"] = total.absent
    for name, read in _unread(results, context):
        why = f"the stores of {read} replicas of {name} were read, {NODES_MIN} needed"
        for claim in ("S8", "S8b", "S9"):
            case.doubt(claim, why)
    if history.totals["send", "ok"] and not total.messages:
        case.doubt("S9", "no acknowledged message could be looked up in the whole log of a replica "
                   "that was in its SyncStateSet after the last fault")  # fmt: skip
    if not total.lists and not total.holders:
        case.doubt("S8b", "no member of a SyncStateSet was read after the last fault")
    return case


def _unread(results: Mapping[str, SetStores], context: Context) -> Iterator[tuple[str, int]]:
    """Broker sets of which too few stores were read, and how many were."""
    for name, nodes in sorted(context.broker_sets.items()):
        read = results[name].looked.replicas if name in results else 0
        if len(nodes) >= NODES_MIN and read < NODES_MIN:
            yield name, read


def _members(history: History) -> dict[str, tuple[int, ...]]:
    """The SyncStateSets that were reported after the last disturbance."""
    rest = after_last_heal(history)
    if rest.doubt:
        return {}
    last: dict[str, SetSighting] = {}
    for name, seen in set_sightings(history).items():
        late = [s for s in seen if rest.holds(s.begun, s.at)]
        if late:
            last[name] = max(late, key=_newest)
    return {name: s.view.sync_state_set for name, s in last.items()}


def _newest(s: SetSighting) -> tuple[Number, Number, int]:
    return s.epoch, s.set_epoch, s.at


# S8.


def _pairs(stores: Sequence[Store]) -> int:
    """How many epochs of a replica had another replica's to be compared with."""
    shared: dict[tuple[int, ...], int] = defaultdict(int)
    for store in stores:
        for p in store.pieces:
            label = label_of(store, p)
            if label is not None:
                shared[label] += p.view.end > p.view.start
    return sum(max(n - 1, 0) for n in shared.values())


def _parted(name: str, parting: Parting, *, pairs: bool) -> Found:
    a, b = parting.a.view, parting.b.view
    how = f"part in epoch {b.epoch}, which begins at byte {b.start} on both"
    why = (
        "Two brokers wrote under one epoch, or bytes that had been cut off came back, and no "
        "truncation will find it."
    )
    if pairs:
        how = "differ"
        why = "Without epochs the two cannot notice it, and nothing will fix it."
    where = f"{parting.said[0].upper()}{parting.said[1:]}"
    said = (
        f"Broker set {name}: the logs of {a.node} and {b.node} {how}. {where}. "
        f"{a.node} holds it to byte {a.end} (op {parting.a.at}), {b.node} to byte {b.end} (op "
        f"{parting.b.at}). {why}"
    )
    detail = {
        "set": name,
        "epoch": b.epoch,
        "start": b.start,
        "nodes": [a.node, b.node],
        "ends": [a.end, b.end],
        "offset": parting.offset,
        "at-start": parting.at_start,
    }
    return Found("S8", "log-diverged", (parting.a.at, parting.b.at), said, detail)


# S8b.


def _lists_differ(name: str, still: Sequence[Store]) -> Iterator[Found]:
    """Compare each member's epoch list with that of the longest log."""
    ranked = sorted(still, key=lambda s: (-s.end, s.node))
    for b in ranked[1:]:
        a = ranked[0]
        other = first_other_span(a, b)
        if other is None:
            continue
        x, y = (f"epoch {s[0]} in bytes {s[1]}-{s[2]}" if s else "nothing more" for s in other)
        said = (
            f"Broker set {name}: {a.node} and {b.node}, both in the SyncStateSet and at rest, "
            f"disagree on epochs of bytes that both hold. {a.node} has {x}, {b.node} {y}. The next "
            "change of master will cut one of them at the wrong place."
        )
        detail = {
            "set": name,
            "nodes": [a.node, b.node],
            "epochs": [None if s is None else list(s) for s in other],
        }
        yield Found("S8b", "epochs-differ", (a.pieces[-1].at, b.pieces[-1].at), said, detail)


# S9.


def _acked(op: Op, known: Homes) -> Iterator[tuple[str, Acked]]:
    """Acknowledged messages with a known place, and the broker set that holds their queue."""
    node = node_of(op.ext or {})
    for e in elements_of(op):
        home = {node} if node in known.sets else known.of_key.get(e.key, frozenset())
        if e.offset is not None and len(home) == 1:
            yield str(next(iter(home))), Acked(e.key, e.offset, e.value, op, node)


def _missing(name: str, whole: Sequence[Held], acked: Sequence[Acked]) -> tuple[list[Found], int]:
    """One finding for each message that members lack; and how many messages were looked up."""
    found = []
    messages = 0
    read = [(*held, held.store.read_at) for held in whole]
    for m in acked:
        lacking = []
        instead = None
        looked = False
        for store, records, first, read_at in read:
            if m.op.index >= read_at or m.offset < first.get(m.key, 0):
                continue
            looked = True
            there = records.get((m.key, m.offset))
            if there != m.value:
                lacking.append(store)
                instead = there if instead is None else instead
        messages += looked
        if lacking:
            found.append(_lost(name, m, lacking, instead))
    return found, messages


def _lost(name: str, m: Acked, lacking: Sequence[Store], instead: object) -> Found:
    nodes = [s.node for s in lacking]
    epoch = epoch_of(m.op.ext or {})
    by = f"{m.node or 'a broker'}{'' if epoch is None else f' in epoch {epoch}'}"
    other = "" if instead is None else f"; value {instead} stands there"
    said = (
        f"Broker set {name}: {by} acknowledged value {m.value} of queue {m.key} at offset "
        f"{m.offset}, {when(m.op)} (op {m.op.index}). It is not in the log of {listed(nodes)}"
        f"{other}. These are in the SyncStateSet: should one be elected, the message is lost."
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
