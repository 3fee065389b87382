"""What the store of a replica may lack because it was old: on that broker, or on its master.

A broker deletes what is old in its own log. A slave that was outside the SyncStateSet may also
begin again at the first byte of a master that has deleted more. A member may not: its master keeps
what a member has not copied yet (claim S9). So what got old on another broker excuses a replica
unless it was seen to have got as far before, or afterwards, and was a member all the time between.

Source: docs/spec/controller-ha.md 4.7; offsets are queue offsets, ends bytes of the log.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from maxq.checkers.evidence.faults import faults
from maxq.checkers.evidence.observations import (
    SetSighting,
    Sighting,
    replica_sightings,
    set_sightings,
)
from maxq.checkers.evidence.stores.trims import Trim, trims_of
from maxq.histories.fault_facts import TAMPERS
from maxq.histories.history import History
from maxq.histories.observed import ReplicaView


class MayLack:
    """Of one history, by replica.

    Args:
        history: the whole of it.
        sets: the broker set of each node whose store was read.
    """

    def __init__(self, history: History, sets: Mapping[str, str]) -> None:
        self._sets = sets
        self._trims = [t for t in trims_of(history) if t.node in sets]
        self._seen = set_sightings(history) if self._trims else {}
        self._views: dict[str, list[Sighting[ReplicaView]]] = defaultdict(list)
        for view in replica_sightings(history) if self._trims else ():
            self._views[view.view.node].append(view)
        acts = faults(history) if self._trims else ()
        self._tampered = {node for act in acts if act.f in TAMPERS for node in act.nodes}

    def trimmed(self, broker_set: str) -> bool:
        """Whether a log of the set got old."""
        return any(self._sets[t.node] == broker_set for t in self._trims)

    def first_kept(self, node: str, broker_id: int | None) -> dict[int, int]:
        """The first offset of each key that the replica must hold; 0 of keys that are missing."""
        home = self._sets[node]
        found: dict[int, int] = {}
        for t in self._trims:
            if self._sets[t.node] != home or not self._may_by(t, node, broker_id):
                continue
            for key, offset in t.young.items():
                found[key] = max(offset, found.get(key, 0))
        return found

    def _may_by(self, trim: Trim, node: str, broker_id: int | None) -> bool:
        if trim.node == node or node in self._tampered:
            return True
        seen = self._seen.get(self._sets[node], ())
        there = [v for v in self._views[node] if v.view.end >= trim.aged_to]
        nearest = [v for v in there if v.at < trim.begun][-1:]
        nearest += [v for v in there if v.at >= trim.begun][:1]
        # A deposed master may have come as far with bytes that it has lost since.
        return not any(
            stayed(seen, broker_id, min(v.begun, trim.begun), max(v.at, trim.begun))
            for v in nearest
        )  # fmt: skip


def stayed(seen: Sequence[SetSighting], broker_id: int | None, since: int, until: int) -> bool:
    """Whether a broker was surely in the SyncStateSet all the time between two indices: controllers
    reported every epoch of the set from then to then, and it was in each."""
    sets = {s.set_epoch: s.view.sync_state_set for s in seen}
    before = [s.set_epoch for s in seen if s.at < since]
    after = [s.set_epoch for s in seen if s.begun > until]
    if not before or not after:
        return False
    (era, first), (later, last) = max(before), min(after)
    numbers = range(first, last + 1)
    return era == later and all(broker_id in sets.get((era, e), ()) for e in numbers)
