"""A member of a SyncStateSet that went silent, and the answers that should not name it any more.

A broker is silent from the completion of a kill, a pause or a loss of power until something that
may bring it back begins. The set's master drops it within a bound, but only if it can: it leads, it
runs, controllers answer it, and nothing else happens meanwhile that would make it begin anew. So an
answer counts only if

1. it began more than the bound after the *last* event of any fault, heal or change of membership;
2. no fault is in effect but nodes that are down or paused, and wall clocks that are wrong: a cut
   may part master and controllers;
3. by an answer of the bound before, the master led in this very epoch;
4. the master said so itself in between;
5. its log was seen to grow, the bound before, while the member was silent, and whoever else of the
   set has not answered since. Where nothing is written nothing lags: then silence is noticed only
   when the connection is given up (haHousekeepingInterval), so much later. The others count, since
   controllers refuse a set with somebody of whom they do not hear: a silent member that has
   everything keeps one in the set that has not.

A master that went silent is replaced within a bound, if another member of its set runs and was not
cut off: of that the first two conditions hold as well, and such a member answered in between.

What is left is provable; whatever is not is not judged. Claims: S13b, S14b
(docs/spec/controller-ha.md 6.3).
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from checkers.acts import QUESTIONS, UNDONE_BY, UNDONE_BY_ITSELF, heals
from checkers.calm import MEMBERSHIP
from checkers.faults import HOLDS, Fault, faults
from checkers.force import HARMLESS
from checkers.sightings import NEVER, SetSighting, Sighting
from histories.history import History
from histories.observed import ReplicaView

IDLE_NS = 20_000_000_000  # haHousekeepingInterval, which no timing changes
SILENCING = frozenset(("kill", "terminate", "pause", "power-loss"))
CUT = "start-partition"
REVIVING = frozenset(("start", "resume"))  # heals of silence, and of nothing else


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
    acts = faults(history)
    back = [a for a in acts if heals(a.f)]
    moved = sorted(op.index for op in history.of_f(*sorted(MEMBERSHIP)) if op.is_client)
    ids: dict[str, list[Sighting[ReplicaView]]] = defaultdict(list)
    for s in sorted(replicas, key=_end):
        if s.view.id is not None:
            ids[s.view.node].append(s)
    found = []
    for act in acts:
        if act.f not in SILENCING or act.ended is None or not isinstance(act.result, dict):
            continue
        after = bisect_left(moved, act.ended)
        still = moved[after] if after < len(moved) else NEVER
        revivers = back[bisect_left(back, act.ended, key=_begin) :]
        for node in act.nodes:
            proof = act.result.get(node)
            known = ids[node][: bisect_left(ids[node], act.begun, key=_end)]
            if not known or not isinstance(proof, dict) or proof.get(HOLDS) is not True:
                continue
            until = next((a.begun for a in revivers if _may_revive(a, node)), NEVER)
            view = known[-1].view
            if view.id is not None:
                until = min(until, still)
                found.append(Silence(act, node, view.set, view.id, act.ended, until))
    return found


def _end(s: Sighting[ReplicaView]) -> int:
    return s.at


def _begin(x: Fault | Sighting[ReplicaView] | SetSighting) -> int:
    return x.begun


def _may_revive(act: Fault, node: str) -> bool:
    return not isinstance(act.result, dict) or node in act.result


class Quiet:
    """When nothing goes on, and no fault is in effect but silences."""

    def __init__(self, history: History) -> None:
        acts = [a for a in faults(history) if a.f not in QUESTIONS]
        events = [(a.begun, a.begun_ns) for a in acts]
        events += [(a.ended, a.ended_ns or 0) for a in acts if a.ended is not None]
        busy = [(a.begun, NEVER if a.ended is None else a.ended) for a in acts]
        busy += [(a.begun, _undone(a, acts)) for a in acts if not _leaves_nothing(a)]
        for op in history.of_f(*sorted(MEMBERSHIP)):
            if op.is_client:
                events.append((op.index, op.time))
                done = history.completion(op)
                if op.type == "invoke":
                    busy.append((op.index, NEVER if done is None else done.index))
        self._events = sorted(events)
        self._begins, self._ends = _merged(busy)

    def since(self, index: int) -> tuple[int, int] | None:
        """The last event (index, ns) before an index; None while it is not quiet."""
        at = bisect_left(self._begins, index) - 1
        if at >= 0 and self._ends[at] > index:
            return None
        last = bisect_left(self._events, (index, -1)) - 1
        return self._events[last] if last >= 0 else None


def _leaves_nothing(act: Fault) -> bool:
    """Whether an act leaves nothing in effect, once it is over, but nodes that are silent. A wall
    clock that is wrong is nothing: nothing of a cluster goes by it."""
    over = act.f in UNDONE_BY_ITSELF and act.ended is not None and act.holds
    return act.f in SILENCING or heals(act.f) or act.f in HARMLESS or over


def _undone(act: Fault, acts: Sequence[Fault]) -> int:
    """When (index) a fault was surely undone."""
    wanted = UNDONE_BY.get(act.f)
    for heal in acts[bisect_left(acts, act.begun + 1, key=_begin) :]:
        of_its_kind = heals(heal.f) and (heal.f == wanted or wanted is None)
        if not of_its_kind or heal.f in REVIVING or not heal.holds:
            continue
        # Several cuts may lie between the same nodes; one that a schedule names ends alone.
        named = heal.of == act.request if heal.of and act.f == CUT else True
        whole = heal.request is None or set(act.nodes) <= set(heal.nodes)
        if named and whole:
            return NEVER if heal.ended is None else heal.ended
    return NEVER


def _merged(spans: Iterable[tuple[int, int]]) -> tuple[list[int], list[int]]:
    begins: list[int] = []
    ends: list[int] = []
    for begin, end in sorted(spans):
        if ends and begin <= ends[-1]:
            ends[-1] = max(ends[-1], end)
        else:
            begins.append(begin)
            ends.append(end)
    return begins, ends


class Watch:
    """What controllers and brokers said of one set, ready to be asked."""

    def __init__(
        self, answers: Sequence[SetSighting], replicas: Sequence[Sighting[ReplicaView]]
    ) -> None:
        self._answers = sorted(answers, key=_begin)
        self._led: dict[tuple[int | None, int], int] = {}  # master and epoch -> first told at (ns)
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

    def judge(self, silence: Silence, quiet: Quiet, shrink_ns: int) -> tuple[Stayed | None, int]:
        """The first answer that names a silent member and should not; and how many were judged."""
        judged = 0
        for v in self._answers[bisect_left(self._answers, silence.since + 1, key=_begin) :]:
            if v.begun >= silence.until:
                break
            since = quiet.since(v.at)
            if since is None or v.at >= silence.until or silence.id == v.view.master:
                continue
            master = -1 if v.view.master is None else v.view.master
            alive = _first(self._leading.get(master, []), since[0], v.at)
            known_ns = self._led.get((v.view.master, v.view.master_epoch), v.begun_ns)
            for_ns = v.begun_ns - max(since[1], known_ns)
            others = set(v.view.sync_state_set) - {master, silence.id}
            told = all(_first(self._said.get(i, []), since[0], v.at) for i in sorted(others))
            silent_at = silence.since if told else since[0]
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

    def judge_master(
        self, silence: Silence, quiet: Quiet, bound_ns: int
    ) -> tuple[Stayed | None, int]:
        """The first answer in which a silent broker leads as before, and should not; and how many
        were judged. None are where it did not lead before."""
        before = [s for s in self._answers if s.at < silence.fault.begun]
        if not before or before[-1].view.master != silence.id:
            return None, 0
        led, judged = (silence.id, before[-1].view.master_epoch), 0
        for v in self._answers[bisect_left(self._answers, silence.since + 1, key=_begin) :]:
            since = quiet.since(v.at)
            if since is None or v.at >= silence.until or v.begun_ns - since[1] <= bound_ns:
                continue
            others = sorted(set(v.view.sync_state_set) - {silence.id})
            said = (_first(self._said.get(i, []), since[0], v.at) for i in others)
            alive = next((s for s in said if s is not None), None)
            if alive is None:
                continue
            judged += 1
            if (v.view.master, v.view.master_epoch) == led:
                return Stayed(silence, v, alive, v.begun_ns - since[1]), judged
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
