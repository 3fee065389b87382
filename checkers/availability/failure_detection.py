"""A member of a SyncStateSet that went silent, and the answers that should not name it any more.

A broker is silent from the completion of a kill, a pause or a loss of power until something that
may bring it back begins. The set's master drops it within a bound, but only if it can: it leads, it
runs, controllers answer it, and nothing else happens meanwhile that would make it begin again. So
an answer counts only if

1. it began more than the bound after the *last* event of any fault, heal or change of membership;
2. no fault is in effect but nodes that are down or paused, and wall clocks that are wrong: a cut
   may part master and controllers;
3. by an answer of the bound before, the master led in this very epoch;
4. the master said so itself in between;
5. its log was seen to grow, the bound before, while the member was silent, and every other member
   of the set has not answered since. Where nothing is written nothing lags: then silence is noticed
   only when the connection is given up (haHousekeepingInterval), so much later. The others count,
   since controllers refuse a set with a member that they do not hear: a silent member that has
   everything keeps one in the set that has not.

A master that went silent is replaced within a bound, if another member of its set runs and was not
cut off: of that the first two conditions hold as well, and such a member answered in between.

What is left is provable; whatever is not is not judged. Claims: S13b, S14b
(docs/spec/controller-ha.md 6.3).
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from maxq.checkers.evidence.eras import eras_of
from maxq.checkers.evidence.faults import HOLDS, Fault, faults
from maxq.checkers.evidence.observations import NEVER, SetSighting, Sighting
from maxq.checkers.evidence.quiescence import MEMBERSHIP, Standstills
from maxq.histories.history import History
from maxq.histories.observed import ReplicaView

IDLE_NS = 20_000_000_000  # haHousekeepingInterval, which no timing changes


class Silence(NamedTuple):
    """A broker that says nothing; indices."""

    fault: Fault
    node: str
    set: str
    id: int
    since: int
    until: int


class Stayed(NamedTuple):
    """An answer that still names a silent broker, as a member or as the master; `alive` is what the
    master said meanwhile, or another member."""

    silence: Silence
    answer: SetSighting
    alive: Sighting[ReplicaView]
    for_ns: int  # that it could have been dropped


def silences(history: History, replicas: Sequence[Sighting[ReplicaView]]) -> list[Silence]:
    """Every broker that was surely silenced, and whose id was known."""
    acts, eras = faults(history), eras_of(history)
    back = [a for a in acts if a.kind == "heal" or not a.known]
    moved = sorted(op.index for op in history.of_f(*sorted(MEMBERSHIP)) if op.is_client)
    ids: dict[str, list[Sighting[ReplicaView]]] = defaultdict(list)
    for s in sorted(replicas, key=_end):
        if s.view.id is not None:
            ids[s.view.node].append(s)
    found = []
    for act in acts:
        if not act.silences or act.ended is None or not isinstance(act.result, dict):
            continue
        after = bisect_left(moved, act.ended)
        still = moved[after] if after < len(moved) else NEVER
        revivers = back[bisect_left(back, act.ended, key=_begin) :]
        for node in act.nodes:
            proof = act.result.get(node)
            known = ids[node][: bisect_left(ids[node], act.begun, key=_end)]
            known = [s for s in known[-1:] if eras.of(s.begun) == eras.of(act.begun)]
            if not known or not isinstance(proof, dict) or proof.get(HOLDS) is not True:
                continue
            until = next((a.begun for a in revivers if _may_revive(a, node)), NEVER)
            view = known[-1].view
            if view.id is not None:
                until = min(until, still, eras.end(act.begun))  # from then on ids are others
                found.append(Silence(act, node, view.set, view.id, act.ended, until))
    return found


def _end(s: Sighting[ReplicaView]) -> int:
    return s.at


def _begin(x: Fault | Sighting[ReplicaView] | SetSighting) -> int:
    return x.begun


def _may_revive(act: Fault, node: str) -> bool:
    return not isinstance(act.result, dict) or node in act.result


class Watch:
    """What controllers and brokers said of one set, ready to be asked."""

    def __init__(
        self, answers: Sequence[SetSighting], replicas: Sequence[Sighting[ReplicaView]]
    ) -> None:
        self._answers = sorted(answers, key=_begin)
        self._led: dict[tuple[int | None, int], int] = {}  # master, epoch -> first seen at (ns)
        for s in sorted(answers, key=lambda s: s.at):
            if s.at_ns >= 0:
                self._led.setdefault((s.view.master, s.view.master_epoch), s.at_ns)
        self._said: dict[int, list[Sighting[ReplicaView]]] = defaultdict(list)
        self._leading: dict[int, list[Sighting[ReplicaView]]] = defaultdict(list)
        for r in sorted(replicas, key=_begin):
            if r.view.id is not None:
                self._said[r.view.id].append(r)
                if r.view.leads:
                    self._leading[r.view.id].append(r)

    def judge(
        self, silence: Silence, still: Standstills, shrink_ns: int
    ) -> tuple[Stayed | None, int]:
        """The first answer that names a silent member and should not; and how many were judged."""
        judged = 0
        for v in self._answers[bisect_left(self._answers, silence.since + 1, key=_begin) :]:
            if v.begun >= silence.until:
                break
            time = still.around(v.at)
            if time is None or v.at >= silence.until or silence.id == v.view.master:
                continue
            master = -1 if v.view.master is None else v.view.master
            alive = _first(self._leading.get(master, []), time.at, v.at)
            known_ns = self._led.get((v.view.master, v.view.master_epoch), v.begun_ns)
            for_ns = v.begun_ns - max(time.at_ns, known_ns)
            others = set(v.view.sync_state_set) - {master, silence.id}
            answered = all(_first(self._said.get(i, []), time.at, v.at) for i in sorted(others))
            silent_at = silence.since if answered else time.at
            grown_ns = self._grown(silent_at, master, v.view.master_epoch, v.begun)
            if grown_ns is not None:
                for_ns = min(for_ns, max(v.begun_ns - grown_ns, for_ns - IDLE_NS))
            else:
                for_ns -= IDLE_NS
            if alive is None or for_ns <= shrink_ns:
                continue
            judged += 1
            members = v.view.sync_state_set
            if silence.id in members and len(members) > 1:
                return Stayed(silence, v, alive, for_ns), judged
        return None, judged

    def _grown(self, since: int, master: int, epoch: int, before: int) -> int | None:
        """By when (ns) a master had more than when it was first asked after an index."""
        first: int | None = None
        for s in _after(self._leading.get(master, []), since):
            if s.at >= before:
                break
            if s.view.epochs and s.view.epochs[-1].epoch == epoch:
                if first is not None and s.view.end > first:
                    return s.at_ns
                first = s.view.end if first is None else first
        return None

    def _last_before(self, index: int) -> SetSighting | None:
        """Of the answers that were there before an index the one that was asked for last."""
        for at in range(bisect_left(self._answers, index, key=_begin) - 1, -1, -1):
            if self._answers[at].at < index:
                return self._answers[at]
        return None

    def judge_master(
        self, silence: Silence, still: Standstills, bound_ns: int
    ) -> tuple[Stayed | None, int]:
        """The first answer in which a silent broker leads as before, and should not; and how many
        were judged. None are where it did not lead before."""
        before = self._last_before(silence.fault.begun)
        if before is None or before.view.master != silence.id:
            return None, 0
        led, judged = (silence.id, before.view.master_epoch), 0
        for v in self._answers[bisect_left(self._answers, silence.since + 1, key=_begin) :]:
            if v.begun >= silence.until:
                break
            time = still.around(v.at)
            if time is None or v.at >= silence.until or v.begun_ns - time.at_ns <= bound_ns:
                continue
            others = sorted(set(v.view.sync_state_set) - {silence.id})
            said = (_first(self._said.get(i, []), time.at, v.at) for i in others)
            alive = next((s for s in said if s is not None), None)
            if alive is None:
                continue
            judged += 1
            if (v.view.master, v.view.master_epoch) == led:
                return Stayed(silence, v, alive, v.begun_ns - time.at_ns), judged
        return None, judged


def _first(
    said: Sequence[Sighting[ReplicaView]], after: int, before: int
) -> Sighting[ReplicaView] | None:
    """The first of a broker's answers that lies between two indices."""
    for s in _after(said, after):
        if s.at < before:
            return s
        if s.begun >= before:
            break
    return None


def _after(said: Sequence[Sighting[ReplicaView]], index: int) -> Sequence[Sighting[ReplicaView]]:
    """A broker's answers to what was asked after an index."""
    return said[bisect_left(said, index + 1, key=_begin) :]
