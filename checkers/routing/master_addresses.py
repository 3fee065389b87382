"""Controllers know each broker's address, so that anyone who asks for a master finds it there.

Judged of a broker that answered before and after a controller did, at one address and under one id
that the controller knows, or joined at it and was not touched by its owner since. It must be known
at that address once, for the recovery bound,

1. nothing was done to the broker, no cut parted it from a controller or two controllers from each
   other, and no controller was degraded (`maxq.checkers.evidence.quiescence.Undisturbed`); an
   address change is over at once;
2. a controller answered all the while, with which the broker could register.

Controllers may end and start meanwhile: an address that only the leader knew is forgotten then.

Claim: S2b (docs/spec/controller-ha.md 6.3).
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from maxq.checkers.evidence.faults import Fault
from maxq.checkers.evidence.observations import NEVER, SetSighting, Sighting, registered, shaped
from maxq.checkers.evidence.quiescence import MEMBERSHIP, Interval, Undisturbed, slice_between
from maxq.checkers.evidence.verdicts import Found
from maxq.histories.fault_facts import RESTART
from maxq.histories.history import History
from maxq.histories.observed import JOIN, ReplicaView
from maxq.histories.op import Op

SILENT_NS = 5_000_000_000  # without an answer: there may have been no leader

Replicas = Sequence[Sighting[ReplicaView]]


class Placed(NamedTuple):
    """Where a broker is, from one operation to another; by index. -1: no end is known."""

    node: str
    set: str
    id: int | None
    address: str
    at: int
    then: int


class Known(NamedTuple):
    """What a controller said of a broker while it was at one place."""

    broker: Placed
    reported: SetSighting
    for_ns: int  # that it could have learnt it

    @property
    def address(self) -> str | None:
        """Where the controller believes it to be; None where it knows of no such id."""
        v, id_ = self.reported.view, self.broker.id
        known = None if id_ is None else registered(v, self.reported.at).get(id_)
        wrong = v.master == id_ and v.master_address not in ("", self.broker.address)
        return v.master_address if wrong else known


class Joined(msgspec.Struct):
    """What a join came to. No address in histories of before 2026-11-23."""

    node: str
    set: str
    id: int
    address: str | None = None


class Stay(NamedTuple):
    """A broker that joined, and when it was touched next; indices, and ns of when it had joined."""

    placed: Placed
    joined_ns: int
    until: int


def known(
    acts: Sequence[Fault],
    replicas: Replicas,
    sets: Mapping[str, Sequence[SetSighting]],
    controllers: Sequence[str],
    bound_ns: int,
    joined: Sequence[Stay] = (),
) -> list[Known]:
    """The answers of controllers that must have a broker's address.

    Args:
        acts: everything that the nemesis did, in order.
        replicas: what brokers said of themselves.
        sets: what controllers said, by broker set.
        controllers: all that there are.
        bound_ns: how long a broker may take to be known.
        joined: brokers that come and go.
    """
    # A change of address is over at once, as a restart is.
    over = [
        msgspec.structs.replace(a, f=RESTART) if a.changes_address and a.holds else a for a in acts
    ]
    lives: dict[str, list[Sighting[ReplicaView]]] = {}
    for s in sorted(replicas, key=_end):
        lives.setdefault(s.view.node, []).append(s)
    times, none = Undisturbed(over), Answers(())
    reported = {name: Answers(said) for name, said in sets.items()}
    found: list[Known] = []
    for node, seen in sorted(lives.items()):
        ends = [s.at for s in seen]
        said = reported.get(seen[0].view.set, none)
        for span in times.of([node], controllers):
            found += _due(said, seen, ends, span, bound_ns)
    for stay in joined:
        said = reported.get(stay.placed.set, none)
        for span in times.of([stay.placed.node], controllers).between(stay.placed.at, stay.until):
            found += _at_home(said, stay, span, bound_ns)
    return [one for one in found if one.address is not None]


class Answers:
    """What controllers said of a set, in order of completion."""

    def __init__(self, said: Iterable[SetSighting]) -> None:
        self._said = sorted(said, key=_end)
        self._ends = [s.at for s in self._said]

    def heard(self, span: Interval) -> Iterator[tuple[SetSighting, int]]:
        """Those of a time, each with how long (ns) controllers had answered without a pause."""
        since_ns, last_ns = span.at_ns, NEVER
        for s in self._said[slice_between(self._ends, span)]:
            if s.begun <= span.at:
                continue
            if last_ns + SILENT_NS < s.begun_ns or last_ns == NEVER:
                since_ns = max(span.at_ns, s.at_ns)
            last_ns = s.at_ns
            yield s, s.begun_ns - since_ns


def stays(history: History) -> list[Stay]:
    """Every broker that a client let join, until a client touched it again.

    Raises:
        HistoryError: what a join says has another shape (W9).
    """
    found: list[Stay] = []
    touches = [op for op in history.of_f(*sorted(MEMBERSHIP)) if op.is_client]
    touched: dict[str, list[int]] = defaultdict(list)
    for op in touches:
        touched[_of(op)].append(op.index)
    for op in touches:
        if op.f != JOIN or op.type != "ok":
            continue
        said = shaped(op.value, Joined, op.index)
        if said.address is None:  # of histories that do not say
            continue
        later = min(_after(touched[name], op.index) for name in (said.node, ""))
        placed = Placed(said.node, said.set, said.id, said.address, op.index, -1)
        found.append(Stay(placed, op.time, later))
    return found


def _after(indices: Sequence[int], index: int) -> int:
    at = bisect_right(indices, index)
    return indices[at] if at < len(indices) else NEVER


def _of(op: Op) -> str:
    """Whom an operation on a broker is about; empty where it does not say."""
    return str(op.value.get("node")) if isinstance(op.value, dict) else ""


def _end(s: SetSighting | Sighting[ReplicaView]) -> int:
    return s.at


def _due(
    said: Answers, seen: Replicas, ends: Sequence[int], span: Interval, bound_ns: int
) -> Iterator[Known]:
    for s, for_ns in said.heard(span):
        if for_ns <= bound_ns:
            continue
        around = _around(s, seen, ends, span)
        if around is not None:
            yield Known(around, s, for_ns)


def _at_home(said: Answers, stay: Stay, undisturbed_in: Interval, bound_ns: int) -> Iterator[Known]:
    span = Interval(
        max(undisturbed_in.at, stay.placed.at),
        max(undisturbed_in.at_ns, stay.joined_ns),
        min(undisturbed_in.until, stay.until),
    )
    for s, for_ns in said.heard(span):
        if for_ns > bound_ns:
            yield Known(stay.placed, s, for_ns)


def _around(s: SetSighting, seen: Replicas, ends: Sequence[int], span: Interval) -> Placed | None:
    """What a broker said before and after an answer, if both times it was the same one."""
    at = bisect_left(ends, s.begun) - 1
    then = bisect_right(ends, s.at)
    after = next((b for b in seen[then : then + 4] if b.begun > s.at), None)
    if at < 0 or after is None or not (span.at < seen[at].begun and after.at < span.until):
        return None
    before = seen[at]
    same = (before.view.id, before.view.address) == (after.view.id, after.view.address)
    v = before.view
    return Placed(v.node, v.set, v.id, v.address, before.at, after.at) if same else None


def elsewhere(answers: Sequence[Known]) -> Iterator[Found]:
    """One finding for each broker and address where it is believed to be."""
    reported: set[tuple[str, str | None]] = set()
    for one in answers:
        broker, s = one.broker, one.reported
        if one.address == broker.address or (broker.node, one.address) in reported:
            continue
        reported.add((broker.node, one.address))
        answered = f"answered at {broker.address} in op {broker.at} and in op {broker.then}"
        joined = f"joined at {broker.address} in op {broker.at} and was left there"
        said = (
            f"Broker set {broker.set}: {broker.node} (broker {broker.id}) "
            f"{joined if broker.then < 0 else answered}. Controller "
            f"{s.node} has it at {one.address} (op {s.at}), although it could have learnt the new "
            f"one for {one.for_ns / 1e9:.1f} s. Who asks for it is sent to a wrong address."
        )
        detail = {
            "set": broker.set,
            "node": broker.node,
            "id": broker.id,
            "address": broker.address,
            "told": one.address,
            "controller": s.node,
            "for-ms": one.for_ns // 1_000_000,
        }
        ops = (broker.at, s.at) if broker.then < 0 else (broker.at, s.at, broker.then)
        yield Found("S2b", "known-elsewhere", ops, said, detail)
