"""Who is a member of a SyncStateSet holds what its master has confirmed, at every moment.

A confirmed message is one that any member could be elected with. So a member that has less than the
master had confirmed before it was asked is a loss that waits for an election; there is no need to
wait with it. Judged for each SyncStateSet that was reported twice under one number: between the
end of the first of these answers and the begin of the last one no member joined or left, and no
election took place. In between the master leads and says what it has confirmed, and after that a
member says where its log ends. Offsets are bytes of the commit log, ends exclusive. Sets judged one
by one.

Claim: S9b (docs/spec/controller-ha.md 6.3).
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from maxq.checkers.evidence.observations import NEVER, SetSighting, Sighting, listed
from maxq.checkers.evidence.verdicts import Found
from maxq.histories.observed import ReplicaView

Said = Sighting[ReplicaView]


class Era(NamedTuple):
    """A state of a SyncStateSet, by the first answer that reported it and the last one."""

    first: SetSighting
    last: SetSighting

    def holds(self, s: Said) -> bool:
        """Whether it was the state during the whole answer."""
        return self.first.at < s.begun and s.at < self.last.begun


def unconfirmed(
    name: str, seen: Sequence[SetSighting], replicas: Sequence[Said]
) -> tuple[list[Found], int]:
    """Judge one broker set.

    Args:
        name: the set's.
        seen: what controllers said of it.
        replicas: what its brokers said of themselves.

    Returns:
        One finding for each member of a state of the set, and how many answers were judged.
    """
    found: dict[tuple[int, int, int | None], Found] = {}
    judged = 0
    ordered = sorted(replicas, key=_begin)
    for era in _eras(seen):
        for reported, member in _pairs(era, ordered):
            judged += 1
            v = era.first.view
            key = (v.master_epoch, v.sync_state_set_epoch, member.view.id)
            if member.view.end < (reported.view.confirmed or 0) and key not in found:
                found[key] = _behind(name, era, reported, member)
    return list(found.values()), judged


def _eras(seen: Sequence[SetSighting]) -> Iterator[Era]:
    eras: dict[tuple[int, int], list[SetSighting]] = defaultdict(list)
    for s in seen:
        if s.view.master is not None:
            eras[s.view.master_epoch, s.view.sync_state_set_epoch].append(s)
    for _, reported in sorted(eras.items()):
        states = {(s.view.master, s.view.sync_state_set) for s in reported}
        first, last = min(reported, key=_end), max(reported, key=_begin)
        if len(states) == 1 and first.at < last.begun:  # a fork is another claim's
            yield Era(first, last)


def _end(s: SetSighting | Said) -> int:
    return s.at


def _begin(s: SetSighting | Said) -> int:
    return s.begun


def _pairs(era: Era, replicas: Sequence[Said]) -> Iterator[tuple[Said, Said]]:
    """Each answer of a member, with the most that the master had confirmed before; `replicas` are
    in order of their begins."""
    v = era.first.view
    low = bisect_right(replicas, era.first.at, key=_begin)
    high = bisect_left(replicas, era.last.begun, key=_begin)
    inside = [s for s in replicas[low:high] if era.holds(s)]
    reported = sorted((s for s in inside if s.view.id == v.master and _confirms(s, era)), key=_end)
    at, most = 0, None
    for member in inside:
        while at < len(reported) and reported[at].at < member.begun:
            if most is None or (reported[at].view.confirmed or 0) > (most.view.confirmed or 0):
                most = reported[at]
            at += 1
        if most is not None and member.view.id != v.master and member.view.id in v.sync_state_set:
            yield most, member


def _confirms(s: Said, era: Era) -> bool:
    """Whether a broker leads in the epoch of this state, and says what it has confirmed."""
    v = s.view
    epoch = v.epochs[-1].epoch if v.epochs else NEVER
    return v.leads and v.confirmed is not None and epoch == era.first.view.master_epoch


def _behind(name: str, era: Era, reported: Said, member: Said) -> Found:
    v, first, last = era.first.view, era.first, era.last
    said = (
        f"Broker set {name}: {member.view.node} (broker {member.view.id}) has its log to byte "
        f"{member.view.end} (op {member.at}). Master {reported.view.node} had confirmed all to "
        f"byte {reported.view.confirmed} before (op {reported.at}). The SyncStateSet was "
        f"{listed(v.sync_state_set)} all the while (epoch {v.sync_state_set_epoch}: {first.node}, "
        f"op {first.at}; {last.node}, op {last.at}). Should {member.view.node} be elected, what "
        "was acknowledged is lost."
    )
    detail = {
        "set": name,
        "node": member.view.node,
        "id": member.view.id,
        "end": member.view.end,
        "confirmed": reported.view.confirmed,
        "master": reported.view.node,
        "sync-state-set": list(v.sync_state_set),
        "sync-state-set-epoch": v.sync_state_set_epoch,
    }
    ops = (era.first.at, reported.at, member.at, era.last.at)
    return Found("S9b", "member-behind-confirmed", ops, said, detail)
