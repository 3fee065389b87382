"""What observers saw of the cluster, as lanes of a timeline: a state and how long it was seen.

An answer is true at one instant between its question and itself. A lane draws a state from the
answer that showed it to the next answer, so a change is drawn late by up to one round of questions.
Where nothing is known for longer than `UNASKED_NS`, it has a gap from the last answer on, which
says whether anybody asked. Answers of another shape are left out here; anyone who judges them has
said so.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Literal

import msgspec

from maxq.histories.history import History
from maxq.histories.observed import (
    OBSERVE_CONTROLLER,
    OBSERVE_REPLICA,
    OBSERVE_ROUTE,
    ControllerView,
    ReplicaView,
    SetView,
    T,
    decoded,
)
from maxq.histories.op import HistoryError, Op

State = Literal[
    "master", "slave", "acting", "isolated", "leader", "follower", "answers", "silent", "set", "gap"
]
NOT_LEADER = "CONTROLLER_NOT_LEADER"
LANES_MAX, SEGMENTS_MAX = 60, 1500
UNASKED_NS = 10_000_000_000  # many rounds of questions
NO_MASTER = "no master"
# Rows of a set without controllers, and the state that each shows.
OWN_WORDS: Mapping[str, State] = {
    "master": "master", "acting master": "acting", "isolated": "isolated",
}  # fmt: skip
NO_ANSWER, NO_LEADER, UNASKED = "nothing answered", "no leader answered", "nobody asked"


class Segment(msgspec.Struct, frozen=True, kw_only=True):
    """A state and when it was seen. `shade` is its strength from 0 to 3, where that says
    something; `op` the answer that showed it first."""

    state: State
    start_ns: int
    end_ns: int
    label: str
    title: str
    op: int
    shade: int = 0


class Lane(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the timeline, of a `node` or a `broker_set`. `gaps` are where nothing is known,
    `dropped` how many states are too short to draw among so many."""

    name: str
    node: str = ""
    broker_set: str = ""
    segments: tuple[Segment, ...]
    gaps: tuple[Segment, ...] = ()
    dropped: int = 0

    def unseen(self) -> Iterator[int]:
        """The times (ns) from which on nothing is drawn."""
        starts = {segment.start_ns for segment in self.segments}
        yield from (s.end_ns for s in self.segments if s.end_ns not in starts)


class Lanes(msgspec.Struct, frozen=True, kw_only=True):
    """The timeline: of each broker set what controllers held, or what its brokers said where no
    controller answered, and what each node was. `ids` are the broker ids that nodes had last."""

    sets: tuple[Lane, ...]
    nodes: tuple[Lane, ...]
    left_out: int
    ids: dict[str, int] = {}


def lanes(history: History, end_ns: int, first: Sequence[str], struck: Iterable[str]) -> Lanes:
    """All lanes of a history.

    Args:
        end_ns: where the last states end.
        first: broker sets that come first: the ones that the run is about.
        struck: nodes that faults hit, which have a lane even if they were never asked.
    """
    names, members = _node_names(history)
    sets = _set_lanes(history, end_ns, names)
    nodes = _node_lanes(history, end_ns)
    for name in members.keys() - sets.keys():
        sets[name] = by_own_words(name, [nodes[node] for node in sorted(members[name])])
    order = sorted(sets, key=lambda name: (name not in first, name))
    drawn = [lane for name in order for lane in sets[name]]
    for node in struck:
        if node and node not in nodes:
            nodes[node] = Lane(name=node, node=node, segments=())
    in_order = [nodes[name] for name in sorted(nodes)]
    left_out = max(0, len(drawn) - LANES_MAX) + max(0, len(in_order) - LANES_MAX)
    return Lanes(
        sets=tuple(drawn[:LANES_MAX]),
        nodes=tuple(in_order[:LANES_MAX]),
        left_out=left_out,
        ids={node: broker_id for (_, broker_id), node in names.items()},
    )


def _node_names(history: History) -> tuple[dict[tuple[str, int], str], dict[str, set[str]]]:
    """Which node an id of a set is, as the nodes said themselves; the last to say so has it. And
    the nodes of each set."""
    names: dict[tuple[str, int], str] = {}
    members: dict[str, set[str]] = {}
    for op in history.clients:
        view = _view(op, OBSERVE_REPLICA, ReplicaView)
        if view is not None and op.time >= 0 and op.value.get("node") == view.node:
            members.setdefault(view.set, set()).add(view.node)
        if view is not None and view.id is not None:
            names[view.set, view.id] = view.node
    return names, members


def _view(op: Op, f: str, kind: type[T]) -> T | None:
    if op.f != f or op.type != "ok":
        return None
    try:
        return decoded(op, kind)
    except HistoryError:
        return None


# Broker sets, by what controllers said.


def _set_lanes(
    history: History, end_ns: int, names: dict[tuple[str, int], str]
) -> dict[str, tuple[Lane, ...]]:
    masters: dict[str, list[Segment]] = defaultdict(list)
    members: dict[str, list[Segment]] = defaultdict(list)
    asked = []
    for op in history.clients:
        if op.f == OBSERVE_CONTROLLER and op.type != "invoke":
            asked.append(op.time)
        view = _view(op, OBSERVE_CONTROLLER, ControllerView)
        if view is not None and op.time >= 0:
            for name, seen in view.sets.items():
                _extend(masters[name], _master(name, seen, names, op, view.node))
                _extend(members[name], _members(name, seen, names, op, view.node))
    return {
        name: (
            _lane(f"{name} master", masters[name], end_ns, asked, broker_set=name),
            _lane(f"{name} SyncStateSet", members[name], end_ns, asked, broker_set=name),
        )
        for name in masters
    }


def _called(name: str, broker_id: int, names: dict[tuple[str, int], str]) -> str:
    return names.get((name, broker_id), f"id {broker_id}")


def _master(
    name: str, seen: SetView, names: dict[tuple[str, int], str], op: Op, who: str
) -> Segment:
    master = NO_MASTER if seen.master is None else _called(name, seen.master, names)
    return Segment(
        state="silent" if seen.master is None else "master",
        start_ns=op.time,
        end_ns=op.time,
        label=f"{seen.master_epoch}: {master}",
        title=f"{name}: {master} in master epoch {seen.master_epoch} (controller {who}, op "
        f"{op.index})",
        op=op.index,
        shade=seen.master_epoch % 2,
    )


def _members(
    name: str, seen: SetView, names: dict[tuple[str, int], str], op: Op, who: str
) -> Segment:
    members = sorted(_called(name, i, names) for i in seen.sync_state_set)
    ordinary = max(1, len(seen.replicas))
    return Segment(
        state="set",
        start_ns=op.time,
        end_ns=op.time,
        label=" ".join(members) or "empty",
        title=f"{name}: SyncStateSet {', '.join(members) or 'empty'} of {len(seen.replicas)} "
        f"replicas, SyncStateSet epoch {seen.sync_state_set_epoch} (controller {who}, op "
        f"{op.index})",
        op=op.index,
        shade=min(3, round(3 * len(members) / ordinary)),
    )


# Nodes, by their own words.


def _node_lanes(history: History, end_ns: int) -> dict[str, Lane]:
    seen: dict[str, list[Segment]] = defaultdict(list)
    for op in history.clients:
        if op.f in (OBSERVE_CONTROLLER, OBSERVE_REPLICA, OBSERVE_ROUTE) and op.type != "invoke":
            node = op.value.get("node") if isinstance(op.value, dict) else None
            if isinstance(node, str) and op.time >= 0:
                _extend(seen[node], _state(op, node))
    return {node: _lane(node, found, end_ns, (), node=node) for node, found in seen.items()}


def _state(op: Op, node: str) -> Segment:
    state: State
    label = more = ""
    if op.type != "ok":
        led = isinstance(op.error, list) and NOT_LEADER in op.error[:1]
        state = "follower" if led else "silent"
        label = "" if led else "no answer"
        more = f": {op.error}" if op.error is not None else ""
    elif op.f == OBSERVE_CONTROLLER:
        state = label = "leader"
    elif op.f == OBSERVE_ROUTE:
        state = "answers"
    else:
        view = _view(op, OBSERVE_REPLICA, ReplicaView)
        state = _role(view)
        if view is not None:
            epoch = view.epochs[-1].epoch if view.epochs else None
            label = "" if epoch is None else f"epoch {epoch}"
            more = "" if epoch is None else f" in epoch {epoch}"
    words = {"silent": "no answer", "acting": "slave, acts for its master"}
    answer = words.get(state, state)
    return Segment(
        state=state,
        start_ns=op.time,
        end_ns=op.time,
        label=label,
        title=f"{node}: {answer}{more} (op {op.index})",
        op=op.index,
    )


def _role(view: ReplicaView | None) -> State:
    if view is None:
        return "slave"
    if view.isolated is True:
        return "isolated"
    if view.acting is True:
        return "acting"
    return "master" if view.leads else "slave"


# Broker sets, by their brokers' own words.


def by_own_words(name: str, nodes: Sequence[Lane]) -> tuple[Lane, ...]:
    """Who of a set called itself master, acted as master, and was not in its group yet."""
    rows: dict[str, list[Segment]] = {title: [] for title in OWN_WORDS}
    gaps: list[Segment] = []
    for start, end, said in _covered(nodes):
        if not said or all(s.state == "silent" for s in said.values()):
            _prolong(gaps, gap(start, end, NO_ANSWER if said else UNASKED))
            continue
        for title, state in OWN_WORDS.items():
            who = [node for node, s in said.items() if s.state == state]
            if who:
                _prolong(rows[title], _self_called(f"{name} {title}", who, said, start, end))
            elif state == "master":
                _prolong(rows[title], _masterless(nodes, said, start, end))
    return tuple(
        Lane(name=f"{name} {title}", broker_set=name, segments=tuple(found), gaps=tuple(gaps))
        for title, found in rows.items()
    )


def _covered(nodes: Sequence[Lane]) -> Iterator[tuple[int, int, dict[str, Segment]]]:
    """Each time between two changes, with what each node was in it, where that is known."""
    changes = sorted({at for lane in nodes for s in lane.segments for at in (s.start_ns, s.end_ns)})
    left = {lane.node: list(reversed(lane.segments)) for lane in nodes}
    for start, end in pairwise(changes):
        said = {}
        for node, segments in left.items():
            while segments and segments[-1].end_ns <= start:
                segments.pop()
            if segments and segments[-1].start_ns <= start:
                said[node] = segments[-1]
        yield start, end, said


def _self_called(
    row: str, who: Sequence[str], said: Mapping[str, Segment], start_ns: int, end_ns: int
) -> Segment:
    first = said[who[0]]
    ops = ", ".join(f"op {said[node].op}" for node in who)
    words = " ".join(who)
    title = f"{row}: {words}, by its own word ({ops})"
    return Segment(state=first.state, start_ns=start_ns, end_ns=end_ns, label=words, title=title,
                   op=first.op)  # fmt: skip


def _masterless(
    nodes: Sequence[Lane], said: Mapping[str, Segment], start_ns: int, end_ns: int
) -> Segment:
    """Nobody called itself master; whether all were asked."""
    unasked = " ".join(lane.node for lane in nodes if lane.node not in said)
    if unasked:
        return gap(start_ns, end_ns, f"{unasked} not asked")
    words = f"{NO_MASTER} answers"
    return Segment(state="silent", start_ns=start_ns, end_ns=end_ns, label=words, title=words,
                   op=-1)  # fmt: skip


def _prolong(found: list[Segment], segment: Segment) -> None:
    """Add a state; one that goes on is made longer."""
    last = found[-1] if found else None
    if last is not None and (last.end_ns, last.state, last.label) == (
        segment.start_ns, segment.state, segment.label,
    ):  # fmt: skip
        found[-1] = msgspec.structs.replace(last, end_ns=segment.end_ns)
    else:
        found.append(segment)


# Runs of equal states.


def _extend(found: list[Segment], segment: Segment) -> None:
    """Add a state, unless it is the one that was seen before. The last one ends where it was seen
    last."""
    if found:
        asked = segment.start_ns - found[-1].end_ns <= UNASKED_NS
        if asked:
            found[-1] = msgspec.structs.replace(found[-1], end_ns=segment.start_ns)
        if asked and (found[-1].state, found[-1].label) == (segment.state, segment.label):
            return
    found.append(segment)


def _lane(
    name: str,
    found: list[Segment],
    end_ns: int,
    asked: Sequence[int],
    *,
    node: str = "",
    broker_set: str = "",
) -> Lane:
    """A lane of what was seen. `asked`: when questions came back, ascending, of which those without
    an answer are no states."""
    if found and 0 < end_ns - found[-1].end_ns <= UNASKED_NS:
        found[-1] = msgspec.structs.replace(found[-1], end_ns=end_ns)
    kept = found
    if len(found) > SEGMENTS_MAX:  # the longest stay, in their order
        lengths = sorted((s.end_ns - s.start_ns for s in found), reverse=True)
        least = lengths[SEGMENTS_MAX]
        kept = [s for s in found if s.end_ns - s.start_ns > least][:SEGMENTS_MAX]
    gaps = _gaps(found, end_ns, asked)
    return Lane(
        name=name, node=node, broker_set=broker_set, segments=tuple(kept), gaps=gaps,
        dropped=len(found) - len(kept),
    )  # fmt: skip


def _gaps(found: Sequence[Segment], end_ns: int, asked: Sequence[int]) -> tuple[Segment, ...]:
    """Where nothing is known, from the first state on; each says whether somebody asked."""
    gaps: list[Segment] = []
    starts = [*(s.start_ns for s in found[1:]), end_ns]
    for hole, until in ((s.end_ns, at) for s, at in zip(found, starts, strict=False)):
        between = asked[bisect_right(asked, hole) : bisect_left(asked, until)]
        for start, end in pairwise((hole, *between, until)):
            if start < end:
                _prolong(gaps, gap(start, end, UNASKED if end - start > UNASKED_NS else NO_LEADER))
    return tuple(gaps)


def gap(start_ns: int, end_ns: int, words: str) -> Segment:
    """A time of which nothing is known."""
    return Segment(state="gap", start_ns=start_ns, end_ns=end_ns, label=words, title=words, op=-1)
