"""Controllers know where a broker is: who asks them for a master is sent to somebody who is there.

Judged of a broker that answered before and after a controller did, at one address and under one id
that the controller knows. It must be known at that address once, for the bound for recovery,

1. nothing was done to the broker, no cut parted it from a controller or two controllers from each
   other, and no controller was half alive (`checkers.force.calms`); to be moved is over at once;
2. a controller answered all the while, so that the broker had somebody to tell.

Controllers may end and start meanwhile: an address that only the leader knew is forgotten then.

Claim: S2b (controller-ha 6.3).
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from checkers.faults import Fault
from checkers.force import Span, calms
from checkers.ruling import Found
from checkers.sightings import NEVER, SetSighting, Sighting, registered
from histories.observed import ReplicaView

MOVES = frozenset(("change-ip", "restore-ip"))
SILENT_NS = 5_000_000_000  # without an answer: nobody may have led

Replicas = Sequence[Sighting[ReplicaView]]


class Known(NamedTuple):
    """What a controller said of a broker that was asked before and after."""

    before: Sighting[ReplicaView]
    after: Sighting[ReplicaView]
    told: SetSighting
    for_ns: int  # that it could have been told

    @property
    def address(self) -> str | None:
        """Where the controller believes it to be; None where it knows of no such id."""
        v, id_ = self.told.view, self.before.view.id
        known = None if id_ is None else registered(v, self.told.at).get(id_)
        wrong = v.master == id_ and v.master_address not in ("", self.before.view.address)
        return v.master_address if wrong else known


def known(
    acts: Sequence[Fault],
    replicas: Replicas,
    sets: Mapping[str, Sequence[SetSighting]],
    controllers: Sequence[str],
    bound_ns: int,
) -> list[Known]:
    """The answers of controllers that must tell where a broker is.

    Args:
        acts: everything that the nemesis did, in order.
        replicas: what brokers said of themselves.
        sets: what controllers said, by broker set.
        controllers: all that there are.
        bound_ns: how long a broker may take to be known.
    """
    over = [msgspec.structs.replace(a, f="restart") if a.f in MOVES and a.holds else a
            for a in acts]  # fmt: skip
    lives: dict[str, list[Sighting[ReplicaView]]] = {}
    for s in replicas:
        lives.setdefault(s.view.node, []).append(s)
    found: list[Known] = []
    for node, seen in sorted(lives.items()):
        told = sorted(sets.get(seen[0].view.set, ()), key=_end)
        for calm in calms(over, [node], controllers):
            found += _due(told, sorted(seen, key=_end), calm, bound_ns)
    return [one for one in found if one.address is not None]


def _end(s: SetSighting | Sighting[ReplicaView]) -> int:
    return s.at


def _due(told: Sequence[SetSighting], seen: Replicas, calm: Span, bound_ns: int) -> Iterator[Known]:
    ends = [s.at for s in seen]
    since_ns, last_ns = calm.since_ns, NEVER
    for s in told:
        if s.begun <= calm.at or s.at >= calm.until:
            continue
        if last_ns + SILENT_NS < s.begun_ns or last_ns == NEVER:
            since_ns = max(calm.since_ns, s.at_ns)
        last_ns = s.at_ns
        around = _around(s, seen, ends, calm)
        if around is not None and s.begun_ns - since_ns > bound_ns:
            yield Known(*around, s, s.begun_ns - since_ns)


def _around(
    s: SetSighting, seen: Replicas, ends: Sequence[int], calm: Span
) -> tuple[Sighting[ReplicaView], Sighting[ReplicaView]] | None:
    """What a broker said before and after an answer, if both times it was the same one."""
    at = bisect_left(ends, s.begun) - 1
    then = bisect_right(ends, s.at)
    after = next((b for b in seen[then : then + 4] if b.begun > s.at), None)
    if at < 0 or after is None or not (calm.at < seen[at].begun and after.at < calm.until):
        return None
    before = seen[at]
    same = (before.view.id, before.view.address) == (after.view.id, after.view.address)
    return (before, after) if same else None


def elsewhere(answers: Sequence[Known]) -> Iterator[Found]:
    """One finding for each broker and address where it is believed to be."""
    told: set[tuple[str, str | None]] = set()
    for one in answers:
        broker, s = one.before.view, one.told
        if one.address == broker.address or (broker.node, one.address) in told:
            continue
        told.add((broker.node, one.address))
        said = (
            f"Broker set {broker.set}: {broker.node} (broker {broker.id}) answered at "
            f"{broker.address} in op {one.before.at} and in op {one.after.at}, and controller "
            f"{s.node} has it at {one.address} (op {s.at}), although it could have been told for "
            f"{one.for_ns / 1e9:.1f} s. Who asks for it is sent where nobody is."
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
        yield Found("S2b", "known-elsewhere", (one.before.at, s.at, one.after.at), said, detail)
